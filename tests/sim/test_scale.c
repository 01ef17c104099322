/*
 * Large clusters, of whose payloads there is only the length: how long a step
 * takes is what the interfaces can do, by the closed forms of parameter servers
 * (Jiang et al., OSDI 2020, section 4.1), n workers, k hosts for servers alone,
 * M bytes of model, B bytes per second of each interface in each direction:
 *
 *   servers apart                 max(1, n/k) M / B
 *   servers on workers' hosts     2 (n-1) M / (n B)
 *   on both, by parts             2n (n-1) M / ((n^2 + kn - 2k) B)
 *
 * where all that is pushed is answered at the same time but for the last round
 * of chunks, one of each server, which can only be answered behind it.
 */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/lab/simulate.h"
#include "tests/sim/cluster.h"

#define STEPS       6
#define STEP_US     2000.0
#define CHUNK       1048576.0
#define RATE_US     12500.0 /* bytes: 100 Gbit/s */
#define HIDDEN_1_GB 315000  /* 784 x this x 10: 1.0 GB */
#define WITHIN      0.05

static struct gw_dataset *train;
static char record[] = "/tmp/gradweir-scale-XXXXXX";

struct scale {
    uint64_t workers, servers, hidden;
    struct gw_placement placement;
    const char *policy, *set; /* NULL: sync, and nothing */
};

static double model_bytes(const struct scale *scale)
{
    double hidden = (double)scale->hidden;
    return 4 * (784 * hidden + hidden + 10 * hidden + 10);
}

static void simulate(const struct scale *scale)
{
    char workers[40], servers[40], layers[60], steps[40], policy[60];
    const char *settings[] = {"train.arithmetic=none",
                              "train.eval_every=never",
                              "train.epochs=0",
                              "train.global_batch=0",
                              "train.batch=1",
                              "log.every=1",
                              policy,
                              workers,
                              servers,
                              layers,
                              steps,
                              scale->set,
                              NULL};
    struct gw_config *config = calloc(1, sizeof *config);
    struct gw_straggle *straggle;
    struct gw_error error;
    assert_non_null(config);
    snprintf(workers, sizeof workers, "cluster.workers=%ju",
             (uintmax_t)scale->workers);
    snprintf(servers, sizeof servers, "cluster.servers=%ju",
             (uintmax_t)scale->servers);
    snprintf(layers, sizeof layers, "model.layers=[784, %ju, 10]",
             (uintmax_t)scale->hidden);
    snprintf(policy, sizeof policy, "cluster.policy=%s",
             scale->policy ? scale->policy : "sync");
    snprintf(steps, sizeof steps, "train.steps=%d", STEPS);
    cluster_config(config, settings);
    assert_int_equal(gw_straggle_parse("none", "", &straggle, &error), GW_OK);
    const struct gw_simulate_options options = {
        .config = config,
        .seed = 1,
        .step_us = STEP_US,
        .straggle = straggle,
        .network = {.bytes_per_us = RATE_US, .latency_us = 2},
        .placement = scale->placement,
        .train = train,
        .record = record,
        .limit_us = 1000000000,
    };
    if (gw_simulate(&options, &error) != GW_OK)
        fail_msg("%s", error.text);
    gw_straggle_free(straggle);
    free(config);
}

/* From step to step, in seconds; the first comes behind the first weights. */
static double step_s(void)
{
    char line[65536];
    double first = NAN, last = NAN;
    int steps = 0;
    FILE *file = fopen(record, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        if (json_object_get(object, "step") && steps++ < STEPS) {
            last = json_number_value(json_object_get(object, "wall_s"));
            first = steps == 1 ? last : first;
            assert_true(json_is_null(json_object_get(object, "loss")));
        }
        json_decref(object);
    }
    fclose(file);
    assert_int_equal(steps, STEPS);
    return (last - first) / (STEPS - 1);
}

static void assert_takes(const struct scale *scale, double exchange_s)
{
    double wanted = STEP_US / 1e6 + exchange_s;
    simulate(scale);
    double is = step_s();
    print_message("%ju workers, %ju servers: %.4f s, the closed form %.4f\n",
                  (uintmax_t)scale->workers, (uintmax_t)scale->servers, is,
                  wanted);
    if (!(fabs(is - wanted) <= WITHIN * wanted))
        fail_msg("%g s, not %g", is, wanted);
}

/* ---- servers on hosts of their own ---- */

static double apart_s(const struct scale *scale)
{
    double n = (double)scale->workers, k = (double)scale->servers;
    double bytes = model_bytes(scale) + k * CHUNK;
    return fmax(1, n / k) * bytes / RATE_US / 1e6;
}

static void servers_apart_are_the_limit_where_they_are_few(void **state)
{
    const struct scale few[] = {
        {16, 4, HIDDEN_1_GB, {0}, NULL, NULL},
        {100, 10, HIDDEN_1_GB, {0}, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        assert_takes(&few[i], apart_s(&few[i]));
}

static void workers_are_the_limit_where_servers_are_many(void **state)
{
    const struct scale many[] = {
        {8, 8, HIDDEN_1_GB, {0}, NULL, NULL},
        {8, 16, HIDDEN_1_GB, {0}, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        assert_takes(&many[i], apart_s(&many[i]));
}

/* ---- servers on workers' hosts, and on spare ones ---- */

static double spare_s(const struct scale *scale)
{
    double n = (double)scale->workers, k = scale->placement.spare;
    double bytes = model_bytes(scale) + (double)scale->servers * CHUNK;
    return 2 * n * (n - 1) * bytes / (n * n + k * n - 2 * k) / RATE_US / 1e6;
}

/* As many servers as divide into the parts of all hosts. */
static void spare_hosts_take_their_part(void **state)
{
    const struct scale spare[] = {
        {8, 8, HIDDEN_1_GB, {.shared = 1}, NULL, NULL},
        {8, 38, 4 * HIDDEN_1_GB, {.shared = 1, .spare = 2}, NULL, NULL},
        {8, 44, 4 * HIDDEN_1_GB, {.shared = 1, .spare = 4}, NULL, NULL},
        {8, 8, HIDDEN_1_GB, {.shared = 1, .spare = 8}, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        assert_takes(&spare[i], spare_s(&spare[i]));
}

/* ---- nothing that there is not is looked at ---- */

/* Whoever reads or writes a payload's memory faults: it has none. */
static void whatever_pushes_gradients_goes(void **state)
{
    static const char *const how[][2] = {
        {"sync", "train.clip=1"},
        {"sync", "optimizer.kind=lamb"},
        {"sync", "train.accumulate=2"},
        {"backup:1", NULL},
        {"ssp:2", "optimizer.kind=adamw"},
        {"stale-lr:2", NULL},
        {"dc-async", "policy.adaptive=true"},
        {"sync until 3, async", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const struct scale scale = {.workers = 4,
                                    .servers = 2,
                                    .hidden = HIDDEN_1_GB / 100,
                                    .policy = how[i][0],
                                    .set = how[i][1]};
        simulate(&scale);
    }
}

/* Where per-push policies come to a stand, each server says of each rank where
   it stands, and again whenever that is another place. */
static void many_single_pushes_come_to_their_end(void **state)
{
    (void)state;
    const struct scale scale = {.workers = 300,
                                .servers = 10,
                                .hidden = HIDDEN_1_GB / 1000,
                                .policy = "async"};
    simulate(&scale);
}

/* ---- the tests ---- */

static int open_all(void **state)
{
    (void)state;
    struct gw_dataset *test;
    int file = mkstemp(record);
    cluster_data_open(&train, &test);
    gw_dataset_close(test);
    return file < 0 ? -1 : close(file);
}

static int close_all(void **state)
{
    (void)state;
    gw_dataset_close(train);
    return unlink(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_apart_are_the_limit_where_they_are_few),
        cmocka_unit_test(workers_are_the_limit_where_servers_are_many),
        cmocka_unit_test(spare_hosts_take_their_part),
        cmocka_unit_test(whatever_pushes_gradients_goes),
        cmocka_unit_test(many_single_pushes_come_to_their_end),
    };
    return cmocka_run_group_tests_name("scale", tests, open_all, close_all);
}
