/*
 * Jobs that are asked to stop: they take the time that their step and their
 * checkpoint take, and what does not come on at all ends them by name.
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

#include "server/checkpoint/store.h"
#include "tests/sim/cluster.h"

#define SECOND   1000000ull
#define LIMIT_US (3000 * SECOND)

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* How long a step of each worker takes. */
static uint64_t step_us[CLUSTER_MAX];

static uint64_t compute_us(void *owner, uint64_t samples)
{
    (void)samples;
    return *(const uint64_t *)owner;
}

/* Three steps of so long are done. */
static void open_job(const char *policy, uint64_t each_us)
{
    const char *settings[] = {"checkpoint.dir=ck",
                              "checkpoint.every=1000000",
                              "train.steps=1000000",
                              "train.eval_every=never",
                              "log.every=1",
                              policy,
                              NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++) {
        step_us[i] = each_us;
        gw_sim_compute_model(cluster.worker[i].loop, compute_us, &step_us[i]);
    }
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
}

/* Stops it; the seconds that it took to end. A worker that computes for ever
   may then still be there. */
static double stop(void)
{
    uint64_t begun_us = gw_sim_now(cluster.sim);
    cluster_stop(&cluster);
    if (!cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    return (double)(gw_sim_now(cluster.sim) - begun_us) / 1e6;
}

static void assert_made_a_checkpoint(void)
{
    char expected[96];
    snprintf(expected, sizeof expected,
             "stopped at step %u; --resume goes on from there",
             (unsigned)cluster.final.step);
    assert_string_equal(cluster.text, expected);
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_int_equal(cluster.final.checkpoint, cluster.final.step);
    assert_true(gw_store_is_finished(cluster_checkpoints(&cluster),
                                     cluster.final.step));
}

static void assert_said(const char *what)
{
    if (!strstr(cluster.note, what) ||
        !strstr(cluster.note, "another signal ends the job at once"))
        fail_msg("%s", cluster.note);
}

static void a_slow_disk_is_waited_for(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    gw_sim_disk_slow(cluster.loop, 20 * SECOND);
    double took = stop();
    assert_true(took > 20 && took < 60);
    assert_made_a_checkpoint();
    assert_said("stopping: waiting for the checkpoint of step ");
    cluster_close(&cluster);
}

static void a_slow_step_is_waited_for(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    step_us[1] = 40 * SECOND;
    cluster_pass(&cluster, SECOND);
    double took = stop();
    assert_true(took > 20 && took < 45);
    assert_made_a_checkpoint();
    assert_said("to end, the furthest behind is worker ");
    cluster_close(&cluster);
}

/* They took as long before. */
static void steps_that_are_always_long_are_waited_for(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 300 * SECOND);
    cluster_pass(&cluster, SECOND);
    double took = stop();
    assert_true(took > 60 && took < 310);
    assert_made_a_checkpoint();
    cluster_close(&cluster);
}

/* Workers meet after many steps of their own, each of which is progress. */
static void a_meeting_that_is_far_is_waited_for(void **state)
{
    (void)state;
    open_job("cluster.policy=\"local:200\"", SECOND);
    double took = stop();
    assert_true(took > 150 && took < 210);
    assert_made_a_checkpoint();
    cluster_close(&cluster);
}

static void assert_given_up(double took, const char *who)
{
    if (cluster.final.status != GW_EINTERRUPTED ||
        !strstr(cluster.text, "no progress for 60 s: waiting for ") ||
        !strstr(cluster.text, who) ||
        !strstr(cluster.text, "; --resume goes on from "))
        fail_msg("%s", cluster.text);
    assert_true(took > 59 && took < 65);
}

/* Nothing of a checkpoint that was given up is left. */
static void assert_tidy(void)
{
    struct gw_loop *loop;
    struct gw_disk dir;
    struct gw_error error;
    uint64_t clocks[8];
    gw_store_leave(&cluster.checkpoints);
    cluster_end(&cluster);
    assert_int_equal(gw_sim_process(cluster.sim, "disk", &loop, &error), GW_OK);
    assert_int_equal(
        gw_store_enter(loop->disk, "ck", GW_ACCESS_PRIVATE, &dir, &error),
        GW_OK);
    size_t n = gw_store_list(&dir, clocks, 8);
    assert_int_equal(n, 1);
    assert_true(gw_store_is_finished(&dir, clocks[0]));
    gw_store_leave(&dir);
    gw_loop_close(loop);
    cluster_close(&cluster);
}

static void a_disk_that_stands_is_named(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    gw_sim_disk_slow(cluster.loop, 1000 * SECOND);
    double took = stop();
    assert_given_up(took, "to be written by server ");
    assert_tidy();
}

static void a_step_that_stands_is_named(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    step_us[1] = 100000 * SECOND;
    cluster_pass(&cluster, SECOND);
    double took = stop();
    assert_given_up(took, "worker 1 ");
    assert_tidy();
}

/* A busy host: the coordinator is not on its processor for a moment, again and
   again, which is not the end of its patience. */
static void pause_again(void *owner)
{
    (void)owner;
    if (cluster.finished)
        return;
    gw_sim_pause(cluster.loop, SECOND / 2);
    gw_sim_at(cluster.sim, 10 * SECOND, pause_again, NULL);
}

static void a_coordinator_that_is_often_paused_gives_up_too(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    step_us[1] = 100000 * SECOND;
    cluster_pass(&cluster, SECOND);
    pause_again(NULL);
    double took = stop();
    assert_true(took > 60 && took < 70);
    assert_non_null(strstr(cluster.text, "no progress for 60 s: waiting for "));
    assert_tidy();
}

/* The impatient need not wait for any of that. */
static void a_second_stop_waits_for_nothing(void **state)
{
    (void)state;
    open_job("cluster.policy=sync", 10000);
    gw_sim_disk_slow(cluster.loop, 1000 * SECOND);
    cluster_stop(&cluster);
    cluster_run(&cluster, 10 * SECOND);
    assert_false(cluster.finished);
    gw_coordinator_stop_now(cluster.coordinator);
    assert_true(cluster_run(&cluster, 3 * SECOND));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_non_null(strstr(cluster.text, " at once; --resume goes on from "));
    assert_tidy();
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_disk_is_waited_for),
        cmocka_unit_test(a_slow_step_is_waited_for),
        cmocka_unit_test(steps_that_are_always_long_are_waited_for),
        cmocka_unit_test(a_meeting_that_is_far_is_waited_for),
        cmocka_unit_test(a_disk_that_stands_is_named),
        cmocka_unit_test(a_step_that_stands_is_named),
        cmocka_unit_test(a_coordinator_that_is_often_paused_gives_up_too),
        cmocka_unit_test(a_second_stop_waits_for_nothing),
    };
    int failed = cmocka_run_group_tests_name("stop", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
