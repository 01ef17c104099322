/*
 * The same bits in every weather: 2,000 seeds of reordered arrival, cut
 * connections and pauses, with both ways to commit, against a job that was
 * left alone.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS    2000
#define STEPS    10
#define LIMIT_US 120000000

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_STOPS,
    COUNT_RECONNECTS,
    COUNT_DUPLICATES,
};

static struct cluster cluster;
static const char *commit;

/* What the job that was left alone came to. */
static struct {
    char hex[65];
    double loss[STEPS];
} calm;

static void open_job(const struct gw_sim_options *lines, uint64_t connections)
{
    char links[32];
    snprintf(links, sizeof links, "cluster.connections=%u",
             (unsigned)connections);
    const char *settings[] = {commit, links, NULL};
    cluster_open(&cluster, lines, settings, NULL);
}

static void run_calm_job(void)
{
    const struct gw_sim_options lines = {
        .seed = 1, .latency_us = 50, .bytes_per_us = 1000};
    open_job(&lines, 1);
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("the undisturbed job fails: %s", cluster.text);
    cluster_digest(&cluster, calm.hex);
    memcpy(calm.loss, cluster.loss, sizeof calm.loss);
    cluster_close(&cluster);
}

/* Where the job that was disturbed differs from the one that was not. */
static void compare(struct sweep_outcome *outcome)
{
    char hex[65];
    if (cluster.final.status != GW_OK || !cluster.final.has_weights) {
        snprintf(outcome->why, sizeof outcome->why, "it ends with: %s",
                 cluster.text);
        return;
    }
    cluster_digest(&cluster, hex);
    if (strcmp(hex, calm.hex) != 0)
        snprintf(outcome->why, sizeof outcome->why, "other weights");
    else if (cluster.steps != STEPS)
        snprintf(outcome->why, sizeof outcome->why, "%u steps reported",
                 (unsigned)cluster.steps);
    else if (memcmp(cluster.loss, calm.loss, sizeof calm.loss) != 0)
        snprintf(outcome->why, sizeof outcome->why, "other losses");
    for (size_t i = 0; i < cluster.workers; i++)
        if (cluster.worker[i].status != GW_OK)
            snprintf(outcome->why, sizeof outcome->why, "worker %zu: %s", i,
                     cluster.worker[i].error.text);
    for (size_t i = 0; i < cluster.servers; i++)
        if (cluster.server[i].status != GW_OK)
            snprintf(outcome->why, sizeof outcome->why, "server %zu: %s", i,
                     cluster.server[i].text);
}

static uint64_t counted(const struct gw_metrics *metrics, enum gw_metric which)
{
    struct gw_metrics_snapshot all = {0};
    gw_metrics_collect(metrics, &all);
    return all.value[which];
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    storm_begin(&storm, seed, &lines);
    open_job(&lines, 1 + storm_draw(&storm, 3));
    storm_blow(&storm, &cluster);
    if (cluster_run(&cluster, LIMIT_US))
        compare(outcome);
    else
        snprintf(outcome->why, sizeof outcome->why,
                 "it does not end (step %u, last note: %s)",
                 (unsigned)cluster.steps, cluster.note);
    outcome->count[COUNT_CUTS] = storm.cuts;
    outcome->count[COUNT_PAUSES] = storm.pauses;
    outcome->count[COUNT_STOPS] = storm.stops;
    for (size_t i = 0; i < cluster.workers; i++)
        outcome->count[COUNT_RECONNECTS] +=
            counted(&cluster.worker[i].metrics, GW_METRIC_RECONNECTS);
    for (size_t i = 0; i < cluster.servers; i++)
        outcome->count[COUNT_DUPLICATES] +=
            counted(&cluster.server[i].metrics, GW_METRIC_PUSHES_DUPLICATE);
    cluster_close(&cluster);
}

static void same_bits_in_every_weather(void **state)
{
    uint64_t sum[SWEEP_COUNTS];
    commit = *state;
    run_calm_job();
    uint64_t failed = sweep(commit, SEEDS, one, sum);
    printf("# %s: %u cuts, %u pauses of one, %u of all, %u reconnects, "
           "%u pushes twice\n",
           commit, (unsigned)sum[COUNT_CUTS], (unsigned)sum[COUNT_PAUSES],
           (unsigned)sum[COUNT_STOPS], (unsigned)sum[COUNT_RECONNECTS],
           (unsigned)sum[COUNT_DUPLICATES]);
    assert_int_equal(failed, 0);
    if (sweep_is_replay())
        return;
    for (size_t i = COUNT_CUTS; i <= COUNT_DUPLICATES; i++)
        assert_true(sum[i] > 0);
}

#define WEATHER(name, setting)                                                 \
    {                                                                          \
        "same_bits_in_every_weather/" name, same_bits_in_every_weather, NULL,  \
            NULL, (void *)(uintptr_t)setting                                   \
    }
#define COMMIT(how)  WEATHER(how, "train.commit=" how)
#define POLICY(word) WEATHER(word, "cluster.policy=\"" word "\"")

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        COMMIT("streaming"),
        COMMIT("whole"),
        POLICY("local:3"),
        POLICY("diloco:4"),
    };
    int failed = cmocka_run_group_tests_name("seeds", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
