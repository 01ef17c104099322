/*
 * Ranks without samples, in simulation: some steps of each rank have none, some
 * steps of all ranks, and ranks leave before the others. Nobody waits for ever,
 * in any weather; under per-push policies the step of the job is one that a
 * program has come to; and a stop ends the job whatever ranks wait for.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000
#define SEEDS    100

enum {
    RANKS = 4,
    KEYS = 2,
    BIG = 20000, /* two chunks, of two shards */
    STEPS = 30   /* of rank 0 */
};

static const struct gw_key keys[KEYS] = {
    {.name = "one", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "two", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {BIG}}};

static struct cluster cluster;
static uint64_t drawn_by; /* the seed of what trainers do */
static uint64_t begun;    /* the most steps that a program has begun */

static uint32_t draw(uint64_t step, uint32_t rank)
{
    uint32_t bits[4];
    gw_random4(drawn_by, GW_RANDOM_TEST, rank, step, bits);
    return bits[0];
}

/* In four steps of ten nobody has samples, in others one rank of three has
   none. */
static int is_empty(uint64_t step, uint32_t rank)
{
    return draw(step / 10, RANKS) % 10 > step % 10 || draw(step, rank) % 3 == 0;
}

static uint64_t steps_of(uint32_t rank)
{
    return rank == 0 ? STEPS : 1 + draw(UINT64_MAX, rank) % (2 * STEPS);
}

static enum gw_status train(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = gw_rank_need(rank, 0, KEYS);
    int empty = is_empty(step, gw_rank_number(rank));
    if (empty)
        gw_rank_weigh(rank, 0);
    else
        gw_rank_computed(rank, 1000);
    for (size_t key = 0; status == GW_OK && !empty && key < KEYS; key++) {
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            gw_rank_gradients(rank)[key][i] = gw_rank_weights(rank)[key][i] - 1;
        status = gw_rank_ready(rank, key, 1);
    }
    return status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .flop = 1000};
    enum gw_status status = gw_rank_own_data(rank, RANKS, 0);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    return status == GW_OK ? gw_rank_start(rank) : status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    const struct gw_rank_sum sum = {0};
    struct gw_rank_step step = {.number = 0};
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_fail(rank, prepare(rank));
    uint64_t most = steps_of(gw_rank_number(rank));
    for (uint64_t i = 0;
         status == GW_OK && i < most && gw_rank_begin(rank, &step) == GW_OK;
         i++)
        gw_rank_end(rank, train(rank, step.number), &sum);
    begun = step.number + 1 > begun ? step.number + 1 : begun;
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- jobs ---- */

#define COMMON                                                                 \
    "cluster.workers=4", "model.kind=external", "model.layers=",               \
        "data.train=", "data.test=", "data.normalize=", "train.batch=0",       \
        "train.steps=0", "optimizer.kind=sgd", "optimizer.lr=0.1",             \
        "checkpoint.dir=ck", "checkpoint.every=7 steps"

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};
static const char *policy;

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    const char *const settings[] = {COMMON, policy, NULL};
    struct gw_sim_options weather;
    struct storm storm;
    drawn_by = seed;
    begun = 0;
    storm_begin(&storm, seed, &weather);
    /* steps without samples are as fast as messages: not a million a second */
    weather.latency_us += 100;
    cluster.work = work;
    cluster_open(&cluster, &weather, settings, NULL);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        storm_ends_with(&cluster, GW_OK, outcome);
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void nobody_waits_for_ever(void **state)
{
    policy = *state;
    sweep_all(policy, SEEDS, one, happened);
}

static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)owner;
    return samples > 0 ? 3000 : 0;
}

/* From the last program's end to that of the job no rank has samples: some
   steps are taken until rank 0 is heard. */
static void one_in_calm(uint64_t seed, struct sweep_outcome *outcome)
{
    const char *const settings[] = {COMMON, policy, NULL};
    const struct gw_sim_options lines = {
        .seed = seed, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};
    drawn_by = seed;
    begun = 0;
    cluster.work = work;
    cluster_open(&cluster, &lines, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, NULL);
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome) &&
        cluster.final.step > begun + RANKS)
        snprintf(outcome->why, sizeof outcome->why,
                 "it ends at step %u, and no program has begun step %u",
                 (unsigned)cluster.final.step, (unsigned)begun);
    cluster_close(&cluster);
}

static void the_job_has_the_steps_of_a_program(void **state)
{
    static const char *const nothing[SWEEP_COUNTS] = {NULL};
    policy = *state;
    sweep_all(policy, SEEDS, one_in_calm, nothing);
}

/* A stop comes at any time: also while ranks have left, or wait for an end. */
static void one_stopped(uint64_t seed, struct sweep_outcome *outcome)
{
    const char *const settings[] = {COMMON, policy, NULL};
    struct gw_sim_options lines = {
        .seed = seed, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};
    uint64_t stop_us;
    drawn_by = seed;
    stop_us = draw(1, 77) % 150000;
    if (draw(2, 77) % 3 == 0)
        lines.latency_us = 5000;
    cluster.work = work;
    cluster_open(&cluster, &lines, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, NULL);
    if (!cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US))
        fail_msg("it does not begin");
    uint64_t began = gw_sim_now(cluster.sim);
    gw_sim_at(cluster.sim, stop_us, cluster_stop, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        gw_sim_now(cluster.sim) > began + stop_us + 2000000 &&
        gw_sim_now(cluster.sim) > began + 10000000)
        snprintf(outcome->why, sizeof outcome->why,
                 "stopped after %u ms, it ends after %u ms: %.300s",
                 (unsigned)(stop_us / 1000),
                 (unsigned)((gw_sim_now(cluster.sim) - began) / 1000),
                 cluster.text);
    if (cluster.final.status != GW_OK &&
        cluster.final.status != GW_EINTERRUPTED)
        snprintf(outcome->why, sizeof outcome->why, "%.400s", cluster.text);
    outcome->count[0] += cluster.final.status == GW_OK;
    outcome->count[1] += cluster.final.status == GW_EINTERRUPTED;
    cluster_close(&cluster);
}

static void a_stop_ends_the_job(void **state)
{
    static const char *const ends[SWEEP_COUNTS] = {"complete", "stopped"};
    policy = *state;
    sweep_all(policy, SEEDS, one_stopped, ends);
}

#define STOPPED(word)                                                          \
    {                                                                          \
        "a_stop_ends_the_job/" word, a_stop_ends_the_job, NULL, NULL,          \
            (void *)(uintptr_t)("cluster.policy=\"" word "\"")                 \
    }

#define POLICY(word)                                                           \
    {"nobody_waits_for_ever/" word, nobody_waits_for_ever, NULL, NULL,         \
     (void *)(uintptr_t)("cluster.policy=\"" word "\"")},                      \
    {                                                                          \
        "the_job_has_the_steps_of_a_program/" word,                            \
            the_job_has_the_steps_of_a_program, NULL, NULL,                    \
            (void *)(uintptr_t)("cluster.policy=\"" word "\"")                 \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLICY("async"),
        POLICY("ssp:0"),
        POLICY("ssp:2"),
        POLICY("stale-lr:1"),
        POLICY("downpour:2"),
        POLICY("easgd:2"),
        POLICY("sync until 5, async until 20, ssp:1"),
        STOPPED("sync"),
        STOPPED("backup:0"),
        STOPPED("backup:1"),
        STOPPED("local:4"),
        STOPPED("diloco:4"),
        STOPPED("async"),
        STOPPED("ssp:1"),
        STOPPED("stale-lr:1"),
        STOPPED("easgd:3"),
        STOPPED("sync until 5, async until 20, local:4"),
        STOPPED("backup:1 until 9, local:4 until 20, async"),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}
