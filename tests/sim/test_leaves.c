/*
 * Servers leave in order, as SIGTERM has them do, and the job goes on with the
 * copies of their shards.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_members.h"
#include "server/server_state.h"
#include "tests/sim/moving.h"

static struct cluster cluster;

static int has_left(void *owner)
{
    const struct gw_world_server *one = owner;
    return one->finished;
}

static void a_server_leaves_and_nothing_is_lost(void **state)
{
    char hex[65];
    (void)state;
    for (size_t i = 0; i < MOVING_ROWS; i++) {
        moving_calm(&cluster, moving_rows[i].more, moving_rows[i].most, hex);
        for (size_t who = 0; who < 2; who++) {
            moving_open(&cluster, "cluster.copies=2", moving_rows[i].more,
                        moving_rows[i].most);
            struct gw_world_server *one = &cluster.server[who];
            assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                          MOVING_LIMIT_US));
            gw_sim_slow(cluster.worker[0].loop, 0.2);
            moving_ask_to_leave(&cluster, who);
            assert_true(
                cluster_run_until(&cluster, has_left, one, MOVING_LIMIT_US));
            assert_false(cluster.finished);
            assert_int_equal(one->status, GW_OK);
            one->killed = 1; /* its weights are old */
            gw_sim_slow(cluster.worker[0].loop, 0);
            cluster_assert_told(&cluster, " leaves at step ");
            moving_comes_to(&cluster, hex);
        }
    }
}

/* Both at once: the first one goes, the other one has all then, until another
   process has copies of that. */
static void all_servers_are_restarted_one_by_one(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "train.steps=400", NULL, hex);
    moving_open(&cluster, "cluster.copies=2", "train.steps=400", NULL);
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    for (size_t who = 0; who < 2; who++)
        gw_sim_slow(cluster.worker[who].loop, 20);
    for (size_t turn = 0; turn < 4; turn++) {
        moving_ask_to_leave(&cluster, turn % 2);
        assert_true(cluster_run_until(
            &cluster, has_left, &cluster.server[turn % 2], MOVING_LIMIT_US));
        cluster_replace_server(&cluster, turn % 2);
        assert_false(cluster.finished);
        cluster_pass(&cluster, turn * 3000);
    }
    moving_comes_to(&cluster, hex);
}

/* It has everything, and nobody comes. */
static void the_last_server_stops_the_job(void **state)
{
    (void)state;
    moving_open(&cluster, "cluster.copies=2", "train.steps=4000", NULL);
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    moving_slow(&cluster);
    moving_ask_to_leave(&cluster, 0);
    moving_ask_to_leave(&cluster, 1);
    assert_true(cluster_run(&cluster, MOVING_LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    assert_true(cluster.final.step < 4000);
    cluster_close(&cluster);
}

/* A signal to all processes of a job, the coordinator's among them. */
static void a_stop_of_all_is_no_leave(void **state)
{
    (void)state;
    moving_open(&cluster, "cluster.copies=2", "train.steps=4000", NULL);
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    moving_ask_to_leave(&cluster, 0);
    cluster_pass(&cluster, 100);
    cluster_stop(&cluster);
    assert_true(cluster_run(&cluster, MOVING_LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    for (size_t who = 0; who < 2; who++)
        assert_int_equal(cluster.server[who].status, GW_EINTERRUPTED);
    cluster_close(&cluster);
}

/* As before there were copies. */
static void without_copies_the_job_stops(void **state)
{
    (void)state;
    moving_open(&cluster, "cluster.copies=1", "train.steps=4000", NULL);
    assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                  MOVING_LIMIT_US));
    moving_ask_to_leave(&cluster, 0);
    assert_true(cluster_run(&cluster, MOVING_LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    cluster_close(&cluster);
}

/* ---- and its coordinator dies meanwhile ---- */

static int one_is_told(void *owner)
{
    (void)owner;
    return gw_roster_leaving(cluster.coordinator) != NULL;
}

static int it_runs(void *owner)
{
    (void)owner;
    return cluster.coordinator->phase == GW_PHASE_RUNNING;
}

enum when {
    WHEN_TOLD,
    WHEN_AWAY, /* there is none when it is asked */
    WHEN_ASKED
};

/* Asks at that time; the coordinator dies `us` behind it. */
static void ask_and_kill(size_t who, enum when when, uint64_t us)
{
    if (when != WHEN_AWAY)
        moving_ask_to_leave(&cluster, who);
    if (when == WHEN_TOLD)
        assert_true(
            cluster_run_until(&cluster, one_is_told, NULL, MOVING_LIMIT_US));
    cluster_pass(&cluster, us);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 300000 + 1000 * us);
    if (when == WHEN_AWAY)
        moving_ask_to_leave(&cluster, who);
    cluster_pass(&cluster, 1000);
}

static void another_coordinator_lets_it_go(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "train.steps=4000", "checkpoint.dir=ck", hex);
    for (unsigned i = 0; i < 12; i++) {
        size_t who = i % 2;
        moving_open(&cluster, "cluster.copies=2", "train.steps=4000",
                    "checkpoint.dir=ck");
        assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                      MOVING_LIMIT_US));
        moving_slow(&cluster);
        cluster_pass(&cluster, 100000);
        ask_and_kill(who, (enum when)(i / 2 % 3), 60 * i);
        cluster_replace_coordinator(&cluster);
        assert_true(
            cluster_run_until(&cluster, it_runs, NULL, MOVING_LIMIT_US));
        assert_true(cluster_run_until(&cluster, has_left, &cluster.server[who],
                                      10000000));
        assert_false(cluster.finished);
        cluster.server[who].killed = 1; /* its weights are old */
        cluster.excused[who] = 1;       /* others may have been told of it */
        moving_comes_to(&cluster, hex);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_leaves_and_nothing_is_lost),
        cmocka_unit_test(all_servers_are_restarted_one_by_one),
        cmocka_unit_test(the_last_server_stops_the_job),
        cmocka_unit_test(a_stop_of_all_is_no_leave),
        cmocka_unit_test(without_copies_the_job_stops),
        cmocka_unit_test(another_coordinator_lets_it_go),
    };
    int failed = cmocka_run_group_tests_name("leaves", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
