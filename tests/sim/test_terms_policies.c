/*
 * Hyperparameters that programs set while they train, in simulation: the rates
 * of each step come to the servers under every policy, over links that break,
 * and from one policy to the next.
 *
 * The measure is plain SGD with gradients that do not depend on the weights:
 * whatever the policy, the way of a weight is the sum, over all steps of all
 * ranks, of rate times gradient over the number of ranks, and exact in fp32.
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

/* ---- rates that add up ---- */

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
    size_t interleaves;
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
        grouped_open(&cluster, row->settings, NULL);
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

#define WEATHER(i)                                                             \
    {                                                                          \
        "rates_come_through_any_weather/" #i, rates_come_through_any_weather,  \
            NULL, NULL, (void *)(uintptr_t)&sgd_rows[i]                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_takes_the_rates_of_the_step),
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
    return cmocka_run_group_tests_name("terms under policies", tests, NULL,
                                       NULL);
}
