/*
 * One job of a study: its virtual time is what laws and networks make of it,
 * and it is the same whenever it is run.
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

#include "cli/lab/network.h"
#include "cli/lab/simulate.h"
#include "tests/sim/cluster.h"

#define STEPS   20
#define STEP_US 1000.0
#define BATCH   4
#define PLAIN_S (STEPS * (STEP_US + 50.0 * BATCH) / 1e6)
#define BYTES   ((784 * 10 + 10) * 4.0) /* of the model */

#define NEVER "train.eval_every=never"

static struct gw_dataset *train, *test;
static char dir[] = "/tmp/gradweir-simulate-XXXXXX";
static char record[64], spans[64];
static unsigned threads;

#define TEXT_BYTES (1 << 20)

static char *read_text(const char *path)
{
    char *text = calloc(1, TEXT_BYTES);
    FILE *file = fopen(path, "r");
    assert_true(file && text);
    assert_true(fread(text, 1, TEXT_BYTES - 1, file) > 0);
    fclose(file);
    return text;
}

static enum gw_status run(const char *const *settings,
                          const char *law,
                          const char *network,
                          double limit_s,
                          struct gw_error *error)
{
    struct gw_config *config = calloc(1, sizeof *config);
    struct gw_straggle *straggle;
    assert_non_null(config);
    cluster_config(config, settings);
    assert_int_equal(gw_straggle_parse(law, "", &straggle, error), GW_OK);
    struct gw_simulate_options options = {
        .config = config,
        .seed = 3,
        .step_us = STEP_US,
        .sample_us = 50,
        .straggle = straggle,
        .train = train,
        .test = test,
        .record = record,
        .spans = spans,
        .limit_us = (uint64_t)(limit_s * 1e6),
        .threads = threads,
    };
    assert_int_equal(gw_network_parse(network, &options.network, error), GW_OK);
    enum gw_status status = gw_simulate(&options, error);
    gw_straggle_free(straggle);
    free(config);
    return status;
}

/* From the first computation to the end, in seconds: what comes before are
   logins and first weights. */
static double time_of_run(void)
{
    char *text = read_text(record), *first = read_text(spans);
    json_t *object =
        json_loads(strstr(text, "{\"final\""), JSON_DISABLE_EOF_CHECK, NULL);
    double seconds = json_number_value(json_object_get(object, "wall_s")) -
                     strtod(strchr(first, ' '), NULL) / 1e6;
    json_decref(object);
    free(first);
    free(text);
    return seconds;
}

static double time_of(const char *evaluations,
                      const char *policy,
                      const char *workers,
                      const char *law,
                      const char *network)
{
    const char *settings[] = {policy,
                              workers,
                              "cluster.servers=1",
                              "train.batch=4",
                              "train.steps=20",
                              evaluations,
                              "model.layers=[784, 10]",
                              NULL};
    struct gw_error error;
    if (run(settings, law, network, 1000, &error) != GW_OK)
        fail_msg("%s", error.text);
    return time_of_run();
}

static void assert_near(double is, double wanted, double within)
{
    if (!(fabs(is - wanted) <= within * wanted))
        fail_msg("%g, not %g", is, wanted);
}

/* ---- time ---- */

static void steps_take_their_plain_time(void **state)
{
    static const char *const evaluations[] = {NEVER,
                                              "train.eval_every=5 steps"};
    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_near(time_of(evaluations[i], "cluster.policy=sync",
                            "cluster.workers=3", "none", "unlimited"),
                    PLAIN_S, 0.001);
}

/* sync goes at the pace of the slowest; async is done when as many steps have
   been made as all of them would have: 1 + 1 + 1/4 of a worker's pace. */
static void a_slow_worker_is_waited_for_or_not(void **state)
{
    (void)state;
    assert_near(time_of(NEVER, "cluster.policy=sync", "cluster.workers=3",
                        "factor 4 of 1", "unlimited"),
                4 * PLAIN_S, 0.001);
    assert_near(time_of(NEVER, "cluster.policy=async", "cluster.workers=3",
                        "factor 4 of 1", "unlimited"),
                PLAIN_S * 3 / 2.25, 0.1);
}

/* The server's interface is shared evenly, so four gradients are in after four
   times one's, and weights are out after as long. The model is one chunk, but
   for its bias. */
static void a_network_takes_its_time(void **state)
{
    (void)state;
    double bytes_per_s = 1e7 / 8, model_s = BYTES / bytes_per_s;
    double seconds = time_of(NEVER, "cluster.policy=sync", "cluster.workers=4",
                             "none", "10 Mbit/s");
    assert_near(seconds, PLAIN_S + STEPS * 8 * model_s, 0.05);
    /* only there and back */
    seconds = time_of(NEVER, "cluster.policy=sync", "cluster.workers=1", "none",
                      "10 ms");
    assert_near(seconds, PLAIN_S + STEPS * 0.020, 0.1);
}

/* ---- parts of a step ---- */

#define SPANS_MAX 200
#define STEP_3_US 2200 /* of 24 samples */
#define SYNC      "cluster.policy=sync"

/* Three layers, a worker and a server; returns the time as time_of does. */
static double
time_of_3(const char *policy, unsigned batches, const char *network)
{
    char accumulate[32], batch[32];
    const char *settings[] = {policy,
                              accumulate,
                              batch,
                              "cluster.workers=1",
                              "cluster.servers=1",
                              "train.steps=20",
                              "model.layers=[784, 64, 784, 10]",
                              "optimizer.lr=0.001",
                              NEVER,
                              NULL};
    snprintf(accumulate, sizeof accumulate, "train.accumulate=%u", batches);
    snprintf(batch, sizeof batch, "train.batch=%u", 24 / batches);
    struct gw_error error;
    if (run(settings, "none", network, 1000, &error) != GW_OK)
        fail_msg("%s", error.text);
    return time_of_run();
}

/* Lengths of the spans of worker 0. */
static size_t read_lengths(uint64_t length[SPANS_MAX])
{
    char *text = read_text(spans), *line = strtok(text, "\n");
    size_t n = 0;
    for (; line; line = strtok(NULL, "\n")) {
        char *at;
        assert_true(n < SPANS_MAX && strtoul(line, &at, 10) == 0);
        uint64_t begin = strtoull(at, &at, 10);
        length[n++] = strtoull(at, NULL, 10) - begin;
    }
    free(text);
    return n;
}

/* To the microsecond, also where a part of them is made at a time. */
static void parts_of_a_step_come_to_its_whole(void **state)
{
    uint64_t length[SPANS_MAX];
    (void)state;
    for (unsigned batches = 1; batches <= 4; batches *= 4) {
        time_of_3(SYNC, batches, "unlimited");
        size_t n = read_lengths(length), short_ones = 0;
        assert_int_equal(n, STEPS);
        for (size_t k = 0; k < n; k++)
            short_ones += length[k] != STEP_3_US;
        /* the last of an epoch of 300 */
        assert_int_equal(short_ones, STEPS / 13);
    }
}

/* Of a sample: forward and two gradients, or one for the lowest. */
#define FLOP_3 (2 * 784 * 64 + 3 * 64 * 784 + 3 * 784 * 10.0)

/* While the lowest layer's gradient is made, what is above it leaves, and only
   its own way takes time: the last chunk's back as well. */
static void gradients_leave_while_others_are_made(void **state)
{
    const double bytes_per_us = 5e3 / 8, chunk_us = 65536 / bytes_per_us;
    const double lowest_us = (784 * 64 + 64) * 4 / bytes_per_us;
    (void)state;
    assert_true((64 * 784 + 784) * 4 / bytes_per_us <
                STEP_3_US * 784 * 64 / FLOP_3);
    double step_us = 1e6 / STEPS * time_of_3(SYNC, 1, "5 Gbit/s");
    printf("# %.1f us over computing, of which %.1f are the lowest layer's\n",
           step_us - STEP_3_US, lowest_us);
    assert_in_range((uint64_t)(step_us - STEP_3_US), (uint64_t)lowest_us,
                    (uint64_t)(lowest_us + 2 * chunk_us));
}

/* Where the middle layer's weights are the last to come, the lowest layer has
   been computed by then. */
static void forward_waits_for_the_layer_that_it_needs(void **state)
{
    const uint64_t lowest_us = (uint64_t)(STEP_3_US * 784 * 64 / FLOP_3);
    uint64_t length[SPANS_MAX];
    (void)state;
    time_of_3(SYNC, 1, "1 Gbit/s");
    size_t n = read_lengths(length);
    assert_true(n > STEPS);
    assert_int_equal(length[0], lowest_us);
    uint64_t sum = 0;
    for (size_t i = 0; i < n && sum < STEP_3_US; i++)
        sum += length[i];
    assert_int_equal(sum, STEP_3_US);
}

/* A single push is answered when it is in, while other keys' leave: after all
   gradients the last key's weights are still to come, and no more, but that
   chunks are not parted. */
static void single_pushes_are_answered_while_others_leave(void **state)
{
    const double bytes_per_us = 1e2 / 8, chunk_us = 65536 / bytes_per_us;
    const double all_us = (784 * 64 + 64 * 784 + 784 * 10) * 4 / bytes_per_us;
    const double largest_us = 64 * 784 * 4 / bytes_per_us;
    (void)state;
    double step_us =
        1e6 / STEPS * time_of_3("cluster.policy=async", 1, "100 Mbit/s");
    printf("# %.0f us, of which gradients take %.0f\n", step_us, all_us);
    assert_in_range((uint64_t)step_us, (uint64_t)all_us,
                    (uint64_t)(all_us + largest_us + 2 * chunk_us + STEP_3_US));
}

/* ---- the same ---- */

static void a_run_is_the_same_again(void **state)
{
    (void)state;
    char *once[2], *again[2];
    double first = time_of(NEVER, "cluster.policy=async", "cluster.workers=3",
                           "exponential", "1 Gbit/s, 0.2 ms");
    once[0] = read_text(record);
    once[1] = read_text(spans);
    double second = time_of(NEVER, "cluster.policy=async", "cluster.workers=3",
                            "exponential", "1 Gbit/s, 0.2 ms");
    again[0] = read_text(record);
    again[1] = read_text(spans);
    assert_true(first == second);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(once[i], again[i]);
        free(once[i]);
        free(again[i]);
    }
}

static void compare_threads(const char *policy, unsigned n)
{
    char *one[2], *other[2];
    threads = 1;
    time_of("train.eval_every=5 steps", policy, "cluster.workers=6",
            "exponential", "1 Gbit/s, 0.2 ms");
    one[0] = read_text(record);
    one[1] = read_text(spans);
    threads = n;
    time_of("train.eval_every=5 steps", policy, "cluster.workers=6",
            "exponential", "1 Gbit/s, 0.2 ms");
    other[0] = read_text(record);
    other[1] = read_text(spans);
    threads = 0;
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(one[i], other[i]);
        free(one[i]);
        free(other[i]);
    }
}

/* To the bit: also where clocks are equal, for workers go at one pace until
   they are told apart. */
static void threads_make_no_difference(void **state)
{
    static const char *const policies[] = {
        "cluster.policy=sync", "cluster.policy=backup:2",
        "cluster.policy=async", "cluster.policy=ssp:1",
        "cluster.policy=local:4"};
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (unsigned n = 2; n < 10; n += 3)
            compare_threads(policies[i], n);
}

/* The law decides how long a computation takes, whatever the policy. */
static void policies_meet_the_same_stragglers(void **state)
{
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=async"};
    uint64_t length[2][10] = {{0}};
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        time_of(NEVER, policies[p], "cluster.workers=2", "pareto 1.5",
                "unlimited");
        char *text = read_text(spans), *line = strtok(text, "\n");
        for (size_t n = 0; line && n < 10; line = strtok(NULL, "\n")) {
            char *at;
            if (line[0] != '1')
                continue;
            uint64_t begin = strtoull(line + 1, &at, 10);
            length[p][n++] = strtoull(at, NULL, 10) - begin;
        }
        free(text);
    }
    assert_memory_equal(length[0], length[1], sizeof length[0]);
    assert_true(length[0][9] > 0);
}

/* ---- ends ---- */

static void a_run_that_takes_too_long_is_given_up(void **state)
{
    const char *settings[] = {"train.batch=4", "train.steps=1000", NULL};
    struct gw_error error;
    (void)state;
    assert_int_equal(run(settings, "none", "unlimited", 0.5, &error),
                     GW_ETIMEOUT);
    assert_non_null(strstr(error.text, "after "));
}

static void a_run_that_diverges_says_so(void **state)
{
    const char *settings[] = {"train.batch=4", "train.steps=50",
                              "optimizer.lr=1e6", "optimizer.weight_decay=0.9",
                              NULL};
    struct gw_error error;
    (void)state;
    assert_int_equal(run(settings, "none", "unlimited", 1000, &error),
                     GW_ENONFINITE);
    assert_non_null(strstr(error.text, "not finite"));
}

static int open_all(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(record, sizeof record, "%s/record", dir);
    snprintf(spans, sizeof spans, "%s/spans", dir);
    cluster_data_open(&train, &test);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    gw_dataset_close(train);
    gw_dataset_close(test);
    unlink(record);
    unlink(spans);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_take_their_plain_time),
        cmocka_unit_test(a_slow_worker_is_waited_for_or_not),
        cmocka_unit_test(a_network_takes_its_time),
        cmocka_unit_test(parts_of_a_step_come_to_its_whole),
        cmocka_unit_test(gradients_leave_while_others_are_made),
        cmocka_unit_test(forward_waits_for_the_layer_that_it_needs),
        cmocka_unit_test(single_pushes_are_answered_while_others_leave),
        cmocka_unit_test(a_run_is_the_same_again),
        cmocka_unit_test(threads_make_no_difference),
        cmocka_unit_test(policies_meet_the_same_stragglers),
        cmocka_unit_test(a_run_that_takes_too_long_is_given_up),
        cmocka_unit_test(a_run_that_diverges_says_so),
    };
    return cmocka_run_group_tests_name("simulate", tests, open_all, close_all);
}
