/*
 * Members that do not come, say nothing or take too long: the coordinator and
 * the servers name them, and nobody else, before the job ends or goes on.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_keep.h"
#include "tests/sim/stranger.h"

#define LIMIT_US 20000000

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .bytes_per_us = 1000};

static int is_finished(void *owner)
{
    (void)owner;
    return cluster.finished;
}

static int is_told(void *owner)
{
    return strstr(cluster.note, owner) != NULL;
}

/* Runs until the coordinator notes that it waits for `whom`, then to the end
   that cluster.abort_after makes of it. */
static void wait_for(const char *whom)
{
    if (!cluster_run_until(&cluster, is_told, (void *)(uintptr_t)whom, 2000000))
        fail_msg("\"%s\" is not told: %s", whom, cluster.note);
    assert_false(cluster.finished);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, 3000000));
    assert_int_equal(cluster.final.status, GW_ETIMEOUT);
    assert_non_null(strstr(cluster.text, whom));
    assert_non_null(strstr(cluster.text, "cluster.abort_after"));
}

static const char *const impatient[] = {"cluster.step_deadline=1",
                                        "cluster.abort_after=3", NULL};

static void a_member_that_does_not_come_is_missed(void **state)
{
    (void)state;
    cluster_open(&cluster, &calm, impatient, NULL);
    gw_sim_kill(cluster.worker[1].loop);
    wait_for("2 of 3 workers and 2 of 2 servers");
    cluster_close(&cluster);
}

static void a_member_that_says_nothing_is_named(void **state)
{
    (void)state;
    struct stranger stranger;
    cluster_open(&cluster, &calm, impatient, NULL);
    gw_sim_kill(cluster.worker[1].loop);
    stranger_join(&stranger, &cluster, GW_ROLE_WORKER);
    wait_for("worker 1 (mute, pid 0) to declare");
    stranger_close(&stranger);
    cluster_close(&cluster);
    cluster_open(&cluster, &calm, impatient, NULL);
    gw_sim_kill(cluster.server[1].loop);
    stranger_join(&stranger, &cluster, GW_ROLE_SERVER);
    wait_for("(mute, pid 0) to have its weights");
    stranger_close(&stranger);
    cluster_close(&cluster);
}

/* Shard 1 is ready, it says, but lets nobody in and dials nobody. */
static void a_shard_that_does_not_connect_is_named(void **state)
{
    (void)state;
    struct stranger stranger;
    struct gw_error error;
    cluster_open(&cluster, &calm, impatient, NULL);
    gw_sim_kill(cluster.server[1].loop);
    stranger_join(&stranger, &cluster, GW_ROLE_SERVER);
    stranger.gets_ready = 1;
    assert_int_equal(gw_member_listen(stranger.member, "stranger:1", &error),
                     GW_OK);
    wait_for("step 0: shard 0 waits for shard 1 to connect");
    stranger_close(&stranger);
    cluster_close(&cluster);
}

/* Shard 0 puts the workers off and turns the other shard away. */
static void a_shard_that_is_cut_off_says_so(void **state)
{
    (void)state;
    struct stranger stranger;
    struct gw_error error;
    cluster_open(&cluster, &calm, NULL, NULL);
    gw_sim_kill(cluster.server[0].loop);
    gw_sim_pause(cluster.server[1].loop, 100000);
    stranger_join(&stranger, &cluster, GW_ROLE_SERVER);
    assert_int_equal(gw_member_listen(stranger.member, "stranger:1", &error),
                     GW_OK);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, 2000000));
    assert_int_equal(cluster.final.status, GW_EREFUSED);
    assert_non_null(strstr(cluster.text, "cannot reach shard 0 at stranger:1"));
    stranger_close(&stranger);
    cluster_close(&cluster);
}

static int is_under_way(void *owner)
{
    (void)owner;
    return cluster.steps >= 3;
}

/* A checkpoint is cut, and the file of the second server is not written yet. */
static int awaits_a_file(void *owner)
{
    char text[GW_ERROR_TEXT_BYTES];
    if (!is_under_way(owner) || !gw_keeper_is_busy(cluster.coordinator))
        return 0;
    gw_keeper_awaited(cluster.coordinator, text, sizeof text);
    return strstr(text, "pid 301") != NULL;
}

/* One line, and the job goes on. */
static void a_late_checkpoint_is_told(void **state)
{
    (void)state;
    static char whom[] = ", to be written by server";
    const char *settings[] = {"cluster.step_deadline=0.2", "checkpoint.dir=ck",
                              "checkpoint.every=1 steps", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(cluster_run_until(&cluster, awaits_a_file, NULL, LIMIT_US));
    gw_sim_pause(cluster.server[1].loop, 900000);
    if (!cluster_run_until(&cluster, is_told, whom, 900000))
        fail_msg("not told: %s", cluster.note);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

static uint64_t ten_ms(void *owner, uint64_t samples)
{
    (void)samples;
    (void)owner;
    return 10000;
}

/* Who is late with its part of an evaluation, and nobody else. */
static void a_late_score_is_told(void **state)
{
    (void)state;
    static char culprit[] = ", evaluation: waiting for worker 1 ",
                others[] = ", evaluation: waiting for worker";
    const char *settings[] = {"cluster.step_deadline=0.3", "train.steps=20",
                              "train.eval_every=1 steps", NULL};
    size_t told = 0;
    for (uint64_t after = 0; after < 60000; after += 6000) {
        cluster_open(&cluster, &calm, settings, NULL);
        for (size_t i = 0; i < cluster.workers; i++)
            gw_sim_compute_model(cluster.worker[i].loop, ten_ms, NULL);
        assert_true(cluster_run_until(&cluster, is_under_way, NULL, LIMIT_US));
        cluster_run(&cluster, after);
        gw_sim_pause(cluster.worker[1].loop, 900000);
        if (cluster_run_until(&cluster, is_told, others, 800000)) {
            assert_non_null(strstr(cluster.note, culprit));
            assert_null(strstr(cluster.note, "; "));
            told++;
        }
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_OK);
        cluster_close(&cluster);
    }
    assert_true(told > 0);
}

static uint64_t third_of_a_second(void *owner, uint64_t samples)
{
    (void)samples;
    (void)owner;
    return 333333;
}

static int is_told_or_over(void *owner)
{
    return is_told(owner) || cluster.finished;
}

/* The time of the steps is none of waiting for the end. */
static void a_job_that_moves_is_not_waited_for(void **state)
{
    (void)state;
    static char waiting[] = "waiting for ";
    const char *settings[] = {"cluster.step_deadline=1.5", "train.steps=8",
                              "train.eval_every=never", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, third_of_a_second, NULL);
    if (cluster_run_until(&cluster, is_told_or_over, waiting, 10 * LIMIT_US) &&
        !cluster.finished)
        fail_msg("%s", cluster.note);
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_that_does_not_come_is_missed),
        cmocka_unit_test(a_member_that_says_nothing_is_named),
        cmocka_unit_test(a_shard_that_does_not_connect_is_named),
        cmocka_unit_test(a_shard_that_is_cut_off_says_so),
        cmocka_unit_test(a_late_checkpoint_is_told),
        cmocka_unit_test(a_late_score_is_told),
        cmocka_unit_test(a_job_that_moves_is_not_waited_for),
    };
    int failed = cmocka_run_group_tests_name("late", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
