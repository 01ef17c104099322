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

static const char *const happened[SWEEP_COUNTS] = {
    [COUNT_CUTS] = "cuts",
    [COUNT_PAUSES] = "pauses of one",
    [COUNT_STOPS] = "of all",
    [COUNT_RECONNECTS] = "reconnects",
    [COUNT_DUPLICATES] = "pushes twice",
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
    if (!storm_ends_with(&cluster, GW_OK, outcome))
        return;
    cluster_digest(&cluster, hex);
    if (strcmp(hex, calm.hex) != 0)
        snprintf(outcome->why, sizeof outcome->why, "other weights");
    else if (cluster.steps != STEPS)
        snprintf(outcome->why, sizeof outcome->why, "%u steps reported",
                 (unsigned)cluster.steps);
    else if (memcmp(cluster.loss, calm.loss, sizeof calm.loss) != 0)
        snprintf(outcome->why, sizeof outcome->why, "other losses");
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    storm_begin(&storm, seed, &lines);
    open_job(&lines, 1 + storm_draw(&storm, 3));
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        compare(outcome);
    outcome->count[COUNT_CUTS] = storm.cuts;
    outcome->count[COUNT_PAUSES] = storm.pauses;
    outcome->count[COUNT_STOPS] = storm.stops;
    outcome->count[COUNT_RECONNECTS] =
        cluster_at_workers(&cluster, GW_METRIC_RECONNECTS);
    outcome->count[COUNT_DUPLICATES] =
        cluster_at_servers(&cluster, GW_METRIC_PUSHES_DUPLICATE);
    cluster_close(&cluster);
}

static void same_bits_in_every_weather(void **state)
{
    commit = *state;
    run_calm_job();
    sweep_all(commit, SEEDS, one, happened);
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
        WEATHER("weights as bf16", "train.weights=bf16"),
        POLICY("local:3"),
        POLICY("diloco:4"),
    };
    int failed = cmocka_run_group_tests_name("seeds", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
