/*
 * Per-push policies in every weather: reordered arrival, cut
 * connections and pauses, with checkpoints, evaluations and stops. Every push
 * counts exactly once, every job ends, and nobody is ever further ahead than
 * the policy lets him.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS    1000
#define STEPS    12
#define WORKERS  3
#define CHUNKS   5 /* of the model: its 784 x 32 weights are two */
#define LIMIT_US 120000000

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_DUPLICATES,
    COUNT_SCORES,
    COUNT_RESUMED,
};

static const char *const happened[SWEEP_COUNTS] = {
    [COUNT_CUTS] = "cuts",
    [COUNT_PAUSES] = "pauses",
    [COUNT_DUPLICATES] = "pushes twice",
    [COUNT_SCORES] = "scores",
    [COUNT_RESUMED] = "resumed",
};

static struct cluster cluster;

/* What a seed is about. */
static struct trial {
    struct storm storm, again; /* the second blows when the job goes on */
    struct sweep_outcome *outcome;
    uint64_t slack;  /* UINT64_MAX: none */
    uint64_t stride; /* steps that a push is of */
    uint64_t first[WORKERS];
    uint64_t done[WORKERS];  /* steps when it last computed, */
    uint64_t least[WORKERS]; /* and who was furthest behind then */
    char policy[40];
    const char *weights;
} trial;

#define FAILS(...)                                                             \
    snprintf(trial.outcome->why, sizeof trial.outcome->why, __VA_ARGS__)

static uint64_t steps_of(size_t worker)
{
    return gw_metrics_get(&cluster.worker[worker].metrics, GW_METRIC_STEPS);
}

/*
 * A worker has computed a step, from weights that must hold every push of
 * clocks that are `slack` and more behind it, or a part of an evaluation, which
 * may be of anything: what was computed last before a step was done is judged.
 */
static uint64_t computed(void *owner, uint64_t samples)
{
    (void)samples;
    size_t me = (size_t)((struct gw_world_worker *)owner - cluster.worker);
    uint64_t done = steps_of(me), clock = trial.first[me] + trial.done[me];
    if (trial.slack != UINT64_MAX && done > trial.done[me] &&
        trial.least[me] + trial.slack < clock)
        FAILS("%s: worker %zu computed clock %u, another stood at %u",
              trial.policy, me, (unsigned)clock, (unsigned)trial.least[me]);
    trial.done[me] = done;
    trial.least[me] = UINT64_MAX;
    for (size_t i = 0; i < WORKERS; i++)
        if (trial.first[i] + steps_of(i) < trial.least[me])
            trial.least[me] = trial.first[i] + steps_of(i);
    return trial.storm.compute_us
               ? storm_draw(&trial.storm, trial.storm.compute_us)
               : 0;
}

static void judge(enum gw_status wanted)
{
    uint64_t steps = cluster_at_workers(&cluster, GW_METRIC_STEPS);
    uint64_t applied = cluster_at_servers(&cluster, GW_METRIC_PUSHES_APPLIED);
    if (storm_ends_with(&cluster, wanted, trial.outcome) &&
        applied * trial.stride != steps * CHUNKS)
        FAILS("%s: %u steps of %d chunks, but %u pushes applied", trial.policy,
              (unsigned)steps, CHUNKS, (unsigned)applied);
    if (cluster_refused(&cluster) > 0)
        FAILS("%s: %u frames or messages were refused", trial.policy,
              (unsigned)cluster_refused(&cluster));
}

static void open_job(struct storm *storm,
                     const struct gw_sim_options *lines,
                     const char *servers,
                     const char *resume)
{
    const char *settings[] = {trial.policy,
                              trial.weights,
                              servers,
                              "train.batch=2",
                              "train.steps=12",
                              "train.eval_every=5 steps",
                              "checkpoint.dir=ck",
                              "checkpoint.every=4 steps",
                              "policy.inner=sgd",
                              NULL};
    cluster_open(&cluster, lines, settings, resume);
    storm_blow(storm, &cluster);
    for (size_t i = 0; i < WORKERS; i++)
        gw_sim_compute_model(cluster.worker[i].loop, computed,
                             &cluster.worker[i]);
}

/* `gradients`: weights may come as bf16, and do in a third of the seeds. */
static void draw_policy(uint64_t seed)
{
    static const struct {
        const char *word;
        uint64_t slack, stride;
        int gradients;
    } policies[] = {
        {"ssp:0", 0, 1, 1},
        {"ssp:1", 1, 1, 1},
        {"ssp:4", 4, 1, 1},
        {"async", UINT64_MAX, 1, 1},
        {"dc-async", UINT64_MAX, 1, 1},
        {"stale-lr:1", UINT64_MAX, 1, 1},
        {"stale-lr:3", UINT64_MAX, 1, 1},
        {"downpour:1", UINT64_MAX, 1, 0},
        {"downpour:3", UINT64_MAX, 3, 0},
        {"easgd:1", UINT64_MAX, 1, 0},
        {"easgd:3", UINT64_MAX, 3, 0},
    };
    uint64_t kind =
        storm_draw(&trial.storm, sizeof policies / sizeof *policies);
    trial.slack = policies[kind].slack;
    trial.stride = policies[kind].stride;
    trial.weights = seed % 3 == 2 && policies[kind].gradients
                        ? "train.weights=bf16"
                        : "train.weights=fp32";
    snprintf(trial.policy, sizeof trial.policy, "cluster.policy=\"%s\"",
             policies[kind].word);
}

static void count(struct sweep_outcome *outcome)
{
    outcome->count[COUNT_DUPLICATES] +=
        cluster_at_servers(&cluster, GW_METRIC_PUSHES_DUPLICATE);
    outcome->count[COUNT_SCORES] += cluster.scores;
}

/* A whole job, or one that is stopped on the way and then goes on. */
static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    static const char *const servers[] = {
        "cluster.servers=1", "cluster.servers=2", "cluster.servers=3"};
    struct gw_sim_options lines;
    memset(&trial, 0, sizeof trial);
    trial.outcome = outcome;
    storm_begin(&trial.storm, seed, &lines);
    draw_policy(seed);
    uint64_t n = storm_draw(&trial.storm, 3);
    int stops = storm_draw(&trial.storm, 3) == 0;
    open_job(&trial.storm, &lines, servers[n], NULL);
    if (stops &&
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US))
        gw_sim_at(cluster.sim, storm_draw(&trial.storm, 20000), cluster_stop,
                  &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome)) {
        int stopped = stops && cluster.final.status == GW_EINTERRUPTED;
        judge(stopped ? GW_EINTERRUPTED : GW_OK);
        count(outcome);
        if (stopped && !outcome->why[0]) {
            for (size_t i = 0; i < WORKERS; i++)
                trial.first[i] += steps_of(i);
            memset(trial.done, 0, sizeof trial.done);
            trial.storm.calm_until_us = UINT64_MAX; /* it has blown */
            cluster_end(&cluster);
            storm_begin(&trial.again, seed + 1000000, &lines);
            open_job(&trial.again, &lines, servers[(n + 1) % 3], "ck");
            if (storm_run(&cluster, LIMIT_US, outcome))
                judge(GW_OK);
            count(outcome);
            outcome->count[COUNT_RESUMED]++;
        }
    }
    outcome->count[COUNT_CUTS] = trial.storm.cuts + trial.again.cuts;
    outcome->count[COUNT_PAUSES] = trial.storm.pauses + trial.storm.stops;
    cluster_close(&cluster);
}

static void every_push_counts_once(void **state)
{
    (void)state;
    sweep_all("per-push policies", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_push_counts_once),
    };
    int failed = cmocka_run_group_tests_name("policy seeds", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
