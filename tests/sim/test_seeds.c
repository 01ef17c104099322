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

#define COUNT_DUPLICATES STORM_COUNTS

static const char *const happened[SWEEP_COUNTS] = {
    STORM_HAPPENED,
    [COUNT_DUPLICATES] = "pushes twice",
};

static struct cluster cluster;
static const char *commit;

static struct storm_calm calm;

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
    storm_stay_calm(&cluster, LIMIT_US, &calm);
    assert_int_equal(calm.steps, STEPS);
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    storm_begin(&storm, seed, &lines);
    open_job(&lines, 1 + storm_draw(&storm, 3));
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        storm_came_to(&cluster, &calm, outcome);
    storm_count(&storm, outcome);
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
