/*
 * Hyperparameters that programs set while they train, in simulation: each
 * update has those of its step, on every shard, under every policy and commit,
 * over links that break, in jobs that go on, and from one policy to the next.
 *
 * Two measures. AdamW in fp64, of which each hyperparameter changes. And steps
 * of plain SGD with gradients that do not depend on the weights: whatever the
 * policy, the way of a weight is the sum, over all steps of all ranks, of rate
 * times gradient over the number of ranks, and exact in fp32.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/terms.h"
#include "server/server_state.h"
#include "tests/sim/grouped.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define LIMIT_US 600000000
#define SEEDS    100

enum {
    STEPS = 24
};

static struct cluster cluster;
static float weights[GROUPED_KEYS][GROUPED_ELEMS];

static void open_job(const char *const *settings, const char *resume)
{
    cluster.work = grouped_work;
    cluster_open(&cluster, &grouped_lines, settings, resume);
}

/* ---- AdamW in fp64 ---- */

/* Group 1 has none before step 5, and the job's until then. */
static int has_terms(uint32_t group, uint64_t step)
{
    return group == 0 || step >= 5;
}

static struct gw_terms terms_at(uint32_t group, uint64_t step)
{
    double t = (double)step;
    if (!has_terms(group, step))
        return (struct gw_terms){.lr = 0.02,
                                 .weight_decay = 0.1,
                                 .momentum = 0.9,
                                 .beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .eps = 1e-6};
    return (struct gw_terms){.lr = 0.05 / (1 + t / 8 + 3 * group),
                             .weight_decay = step / 4 % 3 == 1 ? 0.1 : 0,
                             .momentum = 0.5,
                             .beta1 = step < 12 ? 0.8 : 0.6,
                             .beta2 = 0.95 + 0.001 * t,
                             .eps = step < 10 ? 1e-6 : 1e-3};
}

static enum gw_status set_all(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = GW_OK;
    for (uint32_t group = 0; group < 2 && status == GW_OK; group++) {
        const struct gw_terms terms = terms_at(group, step);
        if (has_terms(group, step))
            status = gw_rank_terms(rank, group, &terms);
    }
    return status;
}

static struct plain {
    double w[GROUPED_ELEMS], m[GROUPED_ELEMS], v[GROUPED_ELEMS];
} server[GROUPED_KEYS], inner[GROUPED_RANKS][GROUPED_KEYS];

static void adamw(struct plain *of,
                  size_t key,
                  uint64_t step,
                  double (*gradient)(const struct plain *of,
                                     size_t key,
                                     size_t i,
                                     uint32_t rank),
                  uint32_t rank)
{
    const struct gw_terms terms = terms_at(grouped_keys[key].group, step);
    double t = (double)step + 1;
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = gradient(of, key, i, rank);
        of->m[i] = terms.beta1 * of->m[i] + (1 - terms.beta1) * g;
        of->v[i] = terms.beta2 * of->v[i] + (1 - terms.beta2) * g * g;
        double m = of->m[i] / (1 - pow(terms.beta1, t));
        double v = of->v[i] / (1 - pow(terms.beta2, t));
        of->w[i] -= terms.lr *
                    (terms.weight_decay * of->w[i] + m / (sqrt(v) + terms.eps));
    }
}

static double
own_gradient(const struct plain *of, size_t key, size_t i, uint32_t rank)
{
    return of->w[i] - grouped_target(key, i, rank);
}

static double
mean_gradient(const struct plain *of, size_t key, size_t i, uint32_t rank)
{
    double mean = 0;
    for (rank = 0; rank < GROUPED_RANKS; rank++)
        mean += own_gradient(of, key, i, rank) / GROUPED_RANKS;
    return mean;
}

static void plain_begin(void)
{
    memset(server, 0, sizeof server);
    memset(inner, 0, sizeof inner);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < GROUPED_ELEMS; i++)
            server[key].w[i] = grouped_first(key, i);
}

/* `round` steps of each rank from the servers' weights, whose mean they are
   then. */
static void plain_round(uint64_t first, uint64_t round)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++) {
        static double mean[GROUPED_ELEMS];
        memset(mean, 0, sizeof mean);
        for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++) {
            struct plain *own = &inner[rank][key];
            memcpy(own->w, server[key].w, sizeof own->w);
            for (uint64_t step = first; step < first + round; step++)
                adamw(own, key, step, own_gradient, rank);
            for (size_t i = 0; i < GROUPED_ELEMS; i++)
                mean[i] += own->w[i] / GROUPED_RANKS;
        }
        memcpy(server[key].w, mean, sizeof mean);
    }
}

static void assert_adamw(const char *name)
{
    double far = 0;
    grouped_gather(&cluster, weights);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double is = weights[key][i], should = server[key].w[i];
            if (grouped_is_value(key))
                continue;
            far = fmax(far, fabs(is - should));
            if (!(fabs(is - should) <= 1e-5))
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, is, should);
        }
    print_message("# %s: within %.1e\n", name, far);
}

#define ADAMW                                                                  \
    "optimizer.kind=adamw", "optimizer.lr=0.02", "optimizer.weight_decay=0.1", \
        "optimizer.beta2=0.99", "optimizer.eps=1e-6"

static const struct row {
    const char *name;
    const char *settings[18];
    const char *houses;
    uint64_t round; /* of the ranks' own steps; 0: servers step */
} rows[] = {
    {.name = "streaming", .settings = {GROUPED_JOB, ADAMW}},
    {.name = "one server",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=1"}},
    {.name = "three servers, several connections",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=3",
                  "cluster.connections=3"}},
    {.name = "whole",
     .settings = {GROUPED_JOB, ADAMW, "train.commit=whole",
                  "cluster.servers=3"}},
    {.name = "sums of hosts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on"},
     .houses = "aabb"},
    {.name = "sums of hosts, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on",
                  "train.commit=whole"},
     .houses = "aaaa"},
    {.name = "backup:0",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:0\""}},
    {.name = "local:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\""},
     .round = 4},
    {.name = "local:4, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "train.commit=whole"},
     .round = 4},
};

static void each_update_has_the_terms_of_its_step(void **state)
{
    (void)state;
    grouped.begun = set_all;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        plain_begin();
        for (uint64_t step = 0; step < STEPS;
             step += row->round ? row->round : 1)
            if (row->round > 0)
                plain_round(step, row->round);
            else
                for (size_t key = 0; key < GROUPED_KEYS; key++)
                    adamw(&server[key], key, step, mean_gradient, 0);
        cluster.houses = row->houses;
        open_job(row->settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        assert_adamw(row->name);
        assert_int_equal(cluster_refused(&cluster), 0);
        for (uint64_t step = 0; step < STEPS; step++)
            assert_true(cluster.lr[step] == terms_at(0, step).lr);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
    grouped.begun = NULL;
}

/* ---- steps of SGD that add up ---- */

/* The rates of a job: by the step; of each rank's own, where pushes are not
   applied together; by the number of steps that a rank has made, as schedulers
   of programs count, which no renumbering changes. */
enum schedule {
    OF_THE_STEP,
    APART,
    OF_A_COUNT
};
static enum schedule schedule;
static uint64_t made[GROUPED_RANKS]; /* steps */

/* A power of two. */
static double rate_at(uint32_t group, uint32_t rank, uint64_t step)
{
    if (schedule == OF_A_COUNT)
        return ldexp(1, -3 - (int)(made[rank] / 3 % 2) - (int)group);
    uint64_t turn = step / 2 + group + (schedule == APART ? rank : 0);
    return group == 1 && step < 5 ? 0.125 : ldexp(1, -3 - (int)(turn % 3));
}

static enum gw_status set_rates(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = GW_OK;
    for (uint32_t group = 0; group < 2 && status == GW_OK; group++) {
        const struct gw_terms terms = {
            .lr = rate_at(group, gw_rank_number(rank), step)};
        if (group == 0 || step >= 5 || schedule == OF_A_COUNT)
            status = gw_rank_terms(rank, group, &terms);
    }
    return status;
}

static double gone[GROUPED_RANKS][2]; /* rates of all steps, by group */

static void count_rates(struct gw_rank *rank, uint64_t step)
{
    uint32_t number = gw_rank_number(rank);
    for (uint32_t group = 0; group < 2; group++)
        gone[number][group] += rate_at(group, number, step);
    made[number]++;
}

#define SGD "optimizer.kind=sgd", "optimizer.lr=0.125"

static const struct sgd_row {
    const char *settings[18];
    const char *houses;
    enum schedule schedule;
    int interleaves;
    int drops; /* steps of ranks that are late: the way is not known */
} sgd_rows[] = {
    {.settings = {GROUPED_JOB, SGD}},
    {.settings = {GROUPED_JOB, SGD, "train.commit=whole"}},
    {.settings = {GROUPED_JOB, SGD, "cluster.local_reduction=on"},
     .houses = "aabb"},
    {.settings = {GROUPED_JOB, SGD, "cluster.connections=2"}},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=async"}, .schedule = APART},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"ssp:2\""},
     .schedule = APART},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=dc-async",
                  "policy.lambda=1e-30"},
     .schedule = APART},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"downpour:3\""},
     .schedule = APART},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"local:4\""},
     .schedule = APART},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"diloco:4\"",
                  "policy.outer=sgd", "policy.outer_lr=1"},
     .schedule = APART},
    {.settings = {GROUPED_JOB, SGD,
                  "cluster.policy=\"sync until 6, local:4 until 14, sync\""}},
    {.settings =
         {GROUPED_JOB, SGD,
          "cluster.policy=\"local:3 until 6, sync until 14, local:5\""}},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"async until 8, sync\""}},
    {.settings = {GROUPED_JOB, SGD,
                  "cluster.policy=\"ssp:1 until 7, sync until 15, async\"",
                  "cluster.local_reduction=on"},
     .houses = "aabb"},
    {.settings = {GROUPED_JOB, SGD,
                  "cluster.policy=\"async until 8, local:4 until 16, sync\""}},
    {.settings = {GROUPED_JOB, SGD,
                  "cluster.policy=\"async until 7, ssp:2 until 14, async\""},
     .schedule = OF_A_COUNT},
    {.settings = {GROUPED_JOB, SGD}, .interleaves = 1},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=async"},
     .schedule = APART,
     .interleaves = 1},
    {.settings = {GROUPED_JOB, SGD, "cluster.policy=\"backup:1\""}, .drops = 1},
};
#define SGD_ROWS (sizeof sgd_rows / sizeof *sgd_rows)

static void begin_sgd(const struct sgd_row *row)
{
    memset(gone, 0, sizeof gone);
    memset(made, 0, sizeof made);
    schedule = row->schedule;
    grouped.still = 1;
    grouped.interleaves = row->interleaves;
    grouped.begun = set_rates;
    grouped.ready = count_rates;
}

/* The first weight that is not as far as it went; NULL: there is none. */
static const char *find_astray(void)
{
    static char why[200];
    grouped_gather(&cluster, weights);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double should = grouped_first(key, i);
            if (grouped_is_value(key))
                continue;
            for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
                should -= gone[rank][grouped_keys[key].group] *
                          grouped_slope(key, i, rank) / GROUPED_RANKS;
            if ((double)weights[key][i] == should)
                continue;
            snprintf(why, sizeof why, "%.99s[%zu] is %.9g, not %.9g",
                     grouped_keys[key].name, i, (double)weights[key][i],
                     should);
            return why;
        }
    return NULL;
}

static void every_policy_takes_the_rates_of_the_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < SGD_ROWS; i++) {
        const struct sgd_row *row = &sgd_rows[i];
        cluster.houses = row->houses;
        begin_sgd(row);
        open_job(row->settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        const char *astray = row->drops ? NULL : find_astray();
        if (astray)
            fail_msg("%zu: %s", i, astray);
        assert_int_equal(cluster_refused(&cluster), 0);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
    memset(&grouped, 0, sizeof grouped);
}

/* ---- weather ---- */

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};
static const struct sgd_row *stormy;

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options weather;
    begin_sgd(stormy);
    storm_begin(&storm, seed, &weather);
    cluster_open(&cluster, &weather, stormy->settings, NULL);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome)) {
        const char *astray = stormy->drops ? NULL : find_astray();
        if (astray)
            snprintf(outcome->why, sizeof outcome->why, "%s", astray);
    }
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void rates_come_through_any_weather(void **state)
{
    char name[40];
    stormy = *state;
    cluster.work = grouped_work;
    cluster.houses = stormy->houses;
    snprintf(name, sizeof name, "row %zu", (size_t)(stormy - sgd_rows));
    sweep_all(name, SEEDS, one, happened);
    cluster.houses = NULL;
    memset(&grouped, 0, sizeof grouped);
}

/* ---- jobs that go on ---- */

static int is_midway(void *owner)
{
    const struct gw_shard *shard =
        ((struct cluster *)owner)->server[0].server->shard;
    return shard && shard->chunks > 0 && shard->chunk[0].version >= STEPS / 2;
}

/* The program sets them again, and on another number of servers the bits are
   those of a job that did not stop. */
static void a_job_goes_on_with_the_terms_of_its_program(void **state)
{
    static const char *const policies[] = {"train.commit=streaming",
                                           "train.commit=whole",
                                           "cluster.policy=\"local:4\""};
    (void)state;
    grouped.begun = set_all;
    for (size_t i = 0; i < 3; i++) {
        const char *const two[] = {GROUPED_JOB, ADAMW, "checkpoint.dir=ck",
                                   policies[i], NULL};
        const char *const three[] = {GROUPED_JOB,         ADAMW,
                                     "checkpoint.dir=ck", "cluster.servers=3",
                                     policies[i],         NULL};
        char whole[65], again[65];
        open_job(two, NULL);
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, whole);
        cluster_close(&cluster);
        open_job(two, NULL);
        assert_true(cluster_run_until(&cluster, is_midway, &cluster, LIMIT_US));
        cluster_stop(&cluster);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
        assert_in_range(cluster.final.checkpoint, 6, STEPS - 3);
        cluster_end(&cluster);
        open_job(three, "ck");
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, again);
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    grouped.begun = NULL;
}

/* ---- ranks that differ ---- */

static struct {
    uint32_t rank, group;
    uint64_t step;
    double eps; /* what it has instead; negative: a rank without samples */
} odd;

static enum gw_status differ(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = set_all(rank, step);
    struct gw_terms terms = terms_at(odd.group, step);
    if (gw_rank_number(rank) != odd.rank || step != odd.step)
        return status;
    terms.eps = fabs(odd.eps);
    return status == GW_OK ? gw_rank_terms(rank, odd.group, &terms) : status;
}

static void unequal_terms_end_the_job(void **state)
{
    static const char *const how[] = {
        "train.commit=streaming", "train.commit=whole",
        "cluster.policy=\"backup:0\"", "cluster.local_reduction=on"};
    (void)state;
    grouped.begun = differ;
    for (size_t i = 0; i < 4; i++) {
        const char *const settings[] = {GROUPED_JOB, ADAMW, how[i], NULL};
        odd.rank = 2, odd.group = 1, odd.step = 11, odd.eps = 0.5;
        cluster.houses = i == 3 ? "aabb" : NULL;
        open_job(settings, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EMISMATCH);
        if (!strstr(cluster.text,
                    "step 11, group 1: eps is 0.001 on worker 0 ") ||
            !strstr(cluster.text, " and 0.5 on worker 2 "))
            fail_msg("\"%s\"", cluster.text);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
    grouped.begun = NULL;
}

/* Terms that only some ranks set are those of the others if they are equal to
   the job's. */
static enum gw_status set_on_one(struct gw_rank *rank, uint64_t step)
{
    const struct gw_terms terms = terms_at(1, 0);
    return gw_rank_number(rank) == 1 && step == 3
               ? gw_rank_terms(rank, 1, &terms)
               : GW_OK;
}

static enum gw_status set_others(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = set_all(rank, step);
    const struct gw_terms other = {.lr = 7};
    return status == GW_OK && gw_rank_number(rank) == 3 &&
                   step == grouped.sits_out
               ? gw_rank_terms(rank, 0, &other)
               : status;
}

static void ranks_without_samples_may_differ(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
    grouped.begun = set_on_one;
    open_job(settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    grouped.begun = set_others;
    grouped.sits_out = 8;
    open_job(settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    memset(&grouped, 0, sizeof grouped);
}

/* ---- values that no optimizer takes ---- */

static enum gw_status set_wrong(struct gw_rank *rank, uint64_t step)
{
    static const struct {
        struct gw_terms terms;
        const char *name;
    } wrong[] = {
        {{.lr = -1}, "lr"},
        {{.lr = NAN}, "lr"},
        {{.lr = INFINITY}, "lr"},
        {{.weight_decay = -1e-9}, "weight_decay"},
        {{.momentum = 1e31}, "momentum"},
        {{.beta1 = 1}, "beta1"},
        {{.beta2 = 1.5}, "beta2"},
        {{.eps = -0.1}, "eps"},
    };
    double value;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(gw_rank_terms(rank, 1, &wrong[i].terms), GW_ERANGE);
        assert_string_equal(gw_terms_fault(&wrong[i].terms, &value),
                            wrong[i].name);
    }
    return set_all(rank, step);
}

static void a_rank_refuses_values_out_of_range(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
    char whole[65], again[65];
    grouped.begun = set_all;
    open_job(settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, whole);
    cluster_close(&cluster);
    grouped.begun = set_wrong;
    open_job(settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, again);
    assert_string_equal(again, whole);
    cluster_close(&cluster);
    grouped.begun = NULL;
}

#define WEATHER(i)                                                             \
    {                                                                          \
        "rates_come_through_any_weather/" #i, rates_come_through_any_weather,  \
            NULL, NULL, (void *)(uintptr_t)&sgd_rows[i]                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_update_has_the_terms_of_its_step),
        cmocka_unit_test(every_policy_takes_the_rates_of_the_step),
        cmocka_unit_test(a_job_goes_on_with_the_terms_of_its_program),
        cmocka_unit_test(unequal_terms_end_the_job),
        cmocka_unit_test(ranks_without_samples_may_differ),
        cmocka_unit_test(a_rank_refuses_values_out_of_range),
        WEATHER(0),
        WEATHER(1),
        WEATHER(2),
        WEATHER(3),
        WEATHER(4),
        WEATHER(8),
        WEATHER(10),
        WEATHER(13),
        WEATHER(14),
        WEATHER(15),
        WEATHER(16),
        WEATHER(17),
        WEATHER(18),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("terms", tests, NULL, NULL);
}
