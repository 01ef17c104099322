/*
 * The documented maxima of a job, each at its edge, and members that stand
 * still for as long as they may: nobody is told more than it can take, and no
 * job ends for it. Of what is large there is only the length.
 */
#include "config.h"

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

#define LIMIT_US 7200000000
#define PAUSE_US 900000 /* silence is death after a second */

static struct cluster cluster;

static const struct gw_sim_options quick = {.seed = 1, .latency_us = 20};

/* ---- members that stand still ---- */

static void finish(void)
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
    assert_int_equal(cluster_refused(&cluster), 0);
}

static uint64_t told(size_t rank)
{
    return gw_metrics_get(&cluster.worker[rank].metrics,
                          GW_METRIC_CONTROL_MESSAGES);
}

static void pause_worker(void *owner)
{
    (void)owner;
    gw_sim_pause(cluster.worker[2].loop, PAUSE_US);
}

static void pause_coordinator(void *owner)
{
    (void)owner;
    gw_sim_pause(cluster.loop, PAUSE_US);
}

/* Runs the job until it does steps, and then with the pause. */
static void run_with(const char *const *settings, void (*pause)(void *owner))
{
    cluster_open(&cluster, &quick, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    gw_sim_at(cluster.sim, 20000, pause, NULL);
    finish();
}

/* To leave a slow one behind is what backup workers are for: of thousands of
   steps it hears in a few messages, and goes on with the others. */
static void a_paused_worker_is_left_behind(void **state)
{
    const char *settings[] = {"cluster.policy=\"backup:1\"",
                              "train.arithmetic=none",
                              "train.steps=9000",
                              "train.eval_every=never",
                              "log.every=1000",
                              NULL};
    (void)state;
    run_with(settings, pause_worker);
    assert_true(told(0) > 18000 && told(1) > 18000);
    assert_true(told(2) < told(0) - 2000);
    assert_int_equal(cluster.final.step, 9000);
    cluster_close(&cluster);
}

/* It is not on the path: steps go on while it is away. */
static void a_paused_coordinator_is_not_waited_for(void **state)
{
    static const char *const policy[] = {"cluster.policy=sync",
                                         "cluster.policy=\"backup:1\""};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *settings[] = {policy[i],
                                  "train.commit=whole",
                                  "train.arithmetic=none",
                                  "train.steps=9000",
                                  "train.eval_every=never",
                                  "log.every=1000",
                                  NULL};
        run_with(settings, pause_coordinator);
        assert_int_equal(cluster.final.step, 9000);
        cluster_close(&cluster);
    }
}

/* ---- much to do ---- */

/* 58 chunks become due at once where it is decided who counts: 20 ms each, over
   a second together. They are done in turns, and nobody takes the server for
   dead, or looks at a deadline later than a quarter of a heartbeat. */
static void a_server_with_much_to_do_is_heard(void **state)
{
    const char *settings[] = {"cluster.policy=\"backup:0\"",
                              "train.commit=whole",
                              "model.layers=[784, 1200, 10]",
                              "cluster.workers=2",
                              "cluster.servers=1",
                              "train.steps=3",
                              "train.eval_every=never",
                              NULL};
    (void)state;
    cluster_open(&cluster, &quick, settings, NULL);
    gw_sim_work_model(cluster.server[0].loop, 10);
    finish();
    uint64_t longest =
        gw_metrics_get(&cluster.server[0].metrics, GW_METRIC_LONGEST_TURN_US);
    assert_in_range(longest, 10000, 50000);
    cluster_close(&cluster);
}

/* ---- maxima ---- */

static char record[] = "/tmp/gradweir-edges-XXXXXX";

static void simulate(const char *const *settings, uint64_t steps)
{
    struct gw_config *config = calloc(1, sizeof *config);
    struct gw_straggle *straggle;
    struct gw_error error;
    char line[65536];
    uint64_t lines = 0;
    assert_non_null(config);
    cluster_config(config, settings);
    assert_int_equal(gw_straggle_parse("none", "", &straggle, &error), GW_OK);
    const struct gw_simulate_options options = {
        .config = config,
        .seed = 1,
        .step_us = 2000,
        .straggle = straggle,
        .network = {.bytes_per_us = 12500, .latency_us = 5},
        .train = cluster.train,
        .record = record,
        .limit_us = 1000000000,
    };
    if (gw_simulate(&options, &error) != GW_OK)
        fail_msg("%s", error.text);
    gw_straggle_free(straggle);
    free(config);
    FILE *file = fopen(record, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        lines += strstr(line, "\"step\"") != NULL;
    fclose(file);
    assert_int_equal(lines, steps);
}

#define HOLLOW                                                                 \
    "train.arithmetic=none", "train.eval_every=never", "train.epochs=0",       \
        "train.global_batch=0", "train.batch=1", "log.every=1"

static void so_many_workers_as_a_job_may_have(void **state)
{
    const char *settings[] = {HOLLOW,
                              "cluster.workers=4096",
                              "cluster.servers=2",
                              "model.layers=[784, 16, 10]",
                              "train.steps=2",
                              NULL};
    (void)state;
    simulate(settings, 2);
}

/* Each shard tells shard 0 of each worker whose pushes are there. */
static void a_thousand_workers_arrive(void **state)
{
    const char *settings[] = {HOLLOW,
                              "cluster.workers=1000",
                              "cluster.servers=3",
                              "cluster.policy=\"backup:20\"",
                              "model.layers=[784, 64, 10]",
                              "train.steps=3",
                              NULL};
    (void)state;
    simulate(settings, 3);
}

/* 20,000 chunks on each of two shards: 160 kB of votes a step. */
static void so_many_votes_as_chunks(void **state)
{
    const char *settings[] = {HOLLOW,
                              "cluster.workers=1",
                              "cluster.servers=2",
                              "train.commit=whole",
                              "model.layers=[784, 2700000, 790, 2700000, 790, "
                              "2700000, 10]",
                              "train.steps=2",
                              NULL};
    (void)state;
    simulate(settings, 2);
}

#define FOUR(text) text text text text
#define WIDE       "65536, "

/* As many layers as a list has, each as large as one may be: 999,686 chunks of
   the 1,048,576 that a map takes (unit/test_map.c), each pushed and wanted. */
static void so_many_chunks_as_a_model_may_have(void **state)
{
    static const char layers[] =
        "model.layers=[784, " FOUR(FOUR(WIDE)) FOUR(FOUR(WIDE)) FOUR(FOUR(WIDE))
            FOUR(WIDE) FOUR(WIDE) FOUR(WIDE) WIDE WIDE "10]";
    const char *settings[] = {HOLLOW, "cluster.workers=1", "cluster.servers=4",
                              layers, "train.steps=1",     NULL};
    (void)state;
    simulate(settings, 1);
}

int main(void)
{
    int fd = mkstemp(record);
    close(fd);
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_worker_is_left_behind),
        cmocka_unit_test(a_paused_coordinator_is_not_waited_for),
        cmocka_unit_test(a_server_with_much_to_do_is_heard),
        cmocka_unit_test(so_many_workers_as_a_job_may_have),
        cmocka_unit_test(a_thousand_workers_arrive),
        cmocka_unit_test(so_many_votes_as_chunks),
        cmocka_unit_test(so_many_chunks_as_a_model_may_have),
    };
    int failed = cmocka_run_group_tests_name("edges", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    unlink(record);
    return failed;
}
