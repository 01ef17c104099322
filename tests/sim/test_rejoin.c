/*
 * The coordinator dies while the job runs: the others go on, and another one
 * takes its place at the same address, if it may.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/checkpoint/membership.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/rejoin.h"
#include "tests/sim/stranger.h"

#define LIMIT_US 120000000
#define VICTIM   1

static struct cluster cluster;

#define SAVES "checkpoint.dir=ck", "checkpoint.every=50 steps"

static const char *const long_job[] = {SAVES, "train.steps=4000",
                                       "cluster.patience=5", NULL};

/* ---- it comes back ---- */

static void steps_are_made_without_it(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=2000", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, settings, expected);
    rejoin_open(&cluster, settings);
    cluster_kill_coordinator(&cluster);
    uint64_t before = rejoin_version(&cluster), told = cluster.steps;
    cluster_pass(&cluster, 500000);
    assert_true(rejoin_version(&cluster) > before + 2);
    cluster_replace_coordinator(&cluster);
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_REJOINING);
    cluster_pass(&cluster, 1000000);
    assert_true(cluster.steps > told);
    assert_non_null(strstr(cluster.note, "takes the place of the one before"));
    rejoin_comes_to(&cluster, expected);
    assert_int_equal(cluster_refused(&cluster), 0);
    assert_int_equal(cluster.final.checkpoint, 2000);
    assert_false(cluster_has_register(&cluster));
    cluster_close(&cluster);
}

/* All steps are done, and nobody can be told. */
static void the_end_waits_for_it(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=400", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, settings, expected);
    rejoin_open(&cluster, settings);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 20000000);
    assert_int_equal(rejoin_version(&cluster), 400);
    for (size_t i = 0; i < cluster.workers; i++)
        assert_false(cluster.worker[i].finished);
    cluster_replace_coordinator(&cluster);
    rejoin_comes_to(&cluster, expected);
    assert_int_equal(cluster.final.checkpoint, 400);
    cluster_close(&cluster);
}

/* A request of its user's that nobody has heard. */
static void it_can_be_asked_to_stop(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 100000);
    cluster_replace_coordinator(&cluster);
    cluster_stop(&cluster);
    rejoin_ends(&cluster, GW_EINTERRUPTED, "stopped at step ");
}

/* A member's signal, while there is nobody to tell. */
static void a_member_asks_it_to_stop(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 1500000);
    gw_server_stop(cluster.server[1].server, "a test");
    cluster_pass(&cluster, 100000);
    cluster_replace_coordinator(&cluster);
    rejoin_ends(&cluster, GW_EINTERRUPTED, "stopped at step ");
}

/* ---- it does not ---- */

static void members_do_not_wait_for_ever(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=1000",
                                           "cluster.patience=5", NULL};
    (void)state;
    rejoin_open(&cluster, settings);
    cluster_kill_coordinator(&cluster);
    uint64_t since_us = gw_sim_now(cluster.sim);
    while (!gw_world_is_over(&cluster.world) &&
           gw_sim_now(cluster.sim) - since_us < LIMIT_US)
        cluster_pass(&cluster, 100000);
    assert_in_range(gw_sim_now(cluster.sim) - since_us, 5000000, 25000000);
    assert_int_equal(rejoin_version(&cluster), 1000);
    for (size_t i = 0; i < cluster.workers; i++) {
        assert_int_equal(cluster.worker[i].status, GW_EDEAD);
        assert_non_null(strstr(cluster.worker[i].error.text,
                               "the coordinator (disk:50000) died at step "));
    }
    for (size_t i = 0; i < cluster.servers; i++)
        assert_int_equal(cluster.server[i].status, GW_EDEAD);
    cluster_close(&cluster);
}

/* Jobs of which nothing would be left for another one, or that may not wait. */
static void other_jobs_end_with_it(void **state)
{
    static const char *const rows[][8] = {
        {"train.steps=2000", NULL},
        {SAVES, "train.steps=2000", "cluster.patience=0", NULL},
        {SAVES, "train.steps=2000", "cluster.restarts=0", NULL},
        {SAVES, "train.steps=2000", "train.split=speed", "train.batch=0",
         "train.global_batch=30"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rejoin_open(&cluster, rows[i]);
        assert_false(cluster_has_register(&cluster));
        cluster_kill_coordinator(&cluster);
        cluster_pass(&cluster, 3000000);
        assert_true(gw_world_is_over(&cluster.world));
        assert_int_equal(cluster.server[0].status, GW_EDEAD);
        cluster_close(&cluster);
    }
}

/* ---- who comes back ---- */

static void a_server_does_not(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    gw_sim_kill(cluster.server[1].loop);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    uint64_t since_us = gw_sim_now(cluster.sim);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    assert_in_range(gw_sim_now(cluster.sim) - since_us, 4900000, 6500000);
    rejoin_ends(
        &cluster, GW_ERESUMABLE,
        "died while the job had no coordinator; --resume goes on from step ");
}

/* Its launcher knows that the process is gone: nobody waits. */
static void a_server_is_known_to_be_gone(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    gw_sim_kill(cluster.server[1].loop);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    assert_int_equal(
        gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + 1, "killed"),
        0);
    cluster_pass(&cluster, 1000000);
    rejoin_ends(&cluster, GW_ERESUMABLE,
                "server 1 (s, pid 301) died while the job had no "
                "coordinator");
}

static void a_worker_does_not(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=400",
                                           "cluster.patience=9", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, settings, expected);
    rejoin_open(&cluster, settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 3800000);
    assert_non_null(strstr(cluster.note, "this coordinator takes the place"));
    cluster_replace_worker(&cluster, VICTIM);
    rejoin_comes_to(&cluster, expected);
    cluster_close(&cluster);
}

/* A supervisor is quicker than the members of before. */
static void another_worker_comes_early(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=1000",
                                           "cluster.patience=9", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, settings, expected);
    rejoin_open(&cluster, settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_replace_coordinator(&cluster);
    cluster_replace_worker(&cluster, VICTIM);
    cluster_pass(&cluster, 500);
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_REJOINING);
    cluster_pass(&cluster, 1000000); /* nobody waits for the one before */
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_RUNNING);
    rejoin_comes_to(&cluster, expected);
    cluster_close(&cluster);
}

static void nobody_does(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    for (size_t i = 0; i < cluster.servers; i++)
        gw_sim_kill(cluster.server[i].loop);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_world_end_worker(&cluster.world, i);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    rejoin_ends(&cluster, GW_ERESUMABLE,
                "nobody is left of the job that lost its coordinator");
}

/* It knows all of a worker but the secret. */
static void an_impostor_does(void **state)
{
    struct stranger thief;
    (void)state;
    rejoin_open(&cluster, long_job);
    const struct gw_seat *who =
        gw_roster_find(cluster.coordinator, GW_ROLE_WORKER, VICTIM);
    const uint64_t incarnation = who->incarnation,
                   job = cluster.coordinator->job;
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_replace_coordinator(&cluster);
    stranger_open_as(&thief, &cluster, job, cluster.world.address,
                     GW_ROLE_WORKER, VICTIM, incarnation, GW_ROLE_COORDINATOR);
    assert_true(cluster_run_until(&cluster, stranger_is_up, &thief, LIMIT_US));
    const struct gw_message join = {.kind = GW_MESSAGE_JOIN,
                                    .join = {.role = GW_ROLE_WORKER,
                                             .host = "far",
                                             .threads = 1,
                                             .address = "",
                                             .rank = VICTIM,
                                             .epoch = 1}};
    stranger_tell(&thief, &join);
    cluster_pass(&cluster, 300000);
    assert_int_equal(thief.ended, GW_EREFUSED);
    assert_non_null(strstr(thief.text, "no proof that this is the member"));
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_REJOINING);
    stranger_close(&thief);
    rejoin_ends(&cluster, GW_ERESUMABLE,
                "worker 1 (w, pid 501) died while the job had no "
                "coordinator");
}

/* One that comes too late has been given up. */
static void late_ones_are_refused(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_kill_coordinator(&cluster);
    gw_sim_pause(cluster.worker[VICTIM].loop, 6000000);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 7000000);
    assert_true(cluster.worker[VICTIM].finished);
    assert_int_equal(cluster.worker[VICTIM].status, GW_EREFUSED);
    assert_non_null(strstr(cluster.worker[VICTIM].error.text,
                           "given up, so that another one"));
    cluster_replace_worker(&cluster, VICTIM);
    cluster_pass(&cluster, 1000000);
    cluster_stop(&cluster);
    rejoin_ends(&cluster, GW_EINTERRUPTED, "stopped at step ");
}

/* ---- the register ---- */

static void put(const char *text)
{
    assert_int_equal(gw_store_replace(cluster_checkpoints(&cluster),
                                      GW_MEMBERSHIP_NAME, text, NULL),
                     GW_OK);
}

static void fails(enum gw_status status, const char *words)
{
    struct gw_error error;
    assert_int_equal(gw_world_replace_coordinator(&cluster.world, &error),
                     status);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, error.text);
}

static void a_register_is_damaged(void **state)
{
    (void)state;
    rejoin_open(&cluster, long_job);
    cluster_checkpoints(&cluster); /* entered while there is a loop */
    put("{\"format\": 1}");
    fails(GW_ECORRUPT, "ck/.gradweir-members is damaged");
    cluster_close(&cluster);
}

/* It lists as many as the job file does not. */
static void a_register_has_other_servers(void **state)
{
    struct gw_membership membership;
    uint32_t three[] = {1, 1, 1};
    (void)state;
    rejoin_open(&cluster, long_job);
    struct gw_disk *dir = cluster_checkpoints(&cluster);
    assert_int_equal(gw_membership_read(dir, &membership, NULL), GW_OK);
    uint32_t *threads = membership.threads;
    membership.threads = three;
    membership.servers = 3;
    assert_int_equal(gw_membership_write(dir, &membership, NULL), GW_OK);
    membership.threads = threads;
    gw_membership_free(&membership);
    fails(GW_ECORRUPT, "ck/.gradweir-members is damaged");
    cluster_close(&cluster);
}

/* Members compute the job that they were given. */
static void a_register_is_of_another_job(void **state)
{
    struct gw_error error;
    (void)state;
    rejoin_open(&cluster, long_job);
    gw_config_set(&cluster.config, "optimizer.lr=0.5", &error);
    fails(GW_EMISMATCH, "a job that was begun with another job file runs with "
                        "checkpoint.dir");
    gw_config_set(&cluster.config, "optimizer.lr=0.05", &error);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 1000000);
    cluster_stop(&cluster);
    rejoin_ends(&cluster, GW_EINTERRUPTED, "stopped at step ");
}

/* Nothing runs: it is as if it were the first one. */
static void there_is_no_register(void **state)
{
    static const char *const settings[] = {SAVES, NULL};
    const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    cluster_replace_coordinator(&cluster); /* before anybody joined */
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_GATHERING);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_made_without_it),
        cmocka_unit_test(the_end_waits_for_it),
        cmocka_unit_test(it_can_be_asked_to_stop),
        cmocka_unit_test(a_member_asks_it_to_stop),
        cmocka_unit_test(members_do_not_wait_for_ever),
        cmocka_unit_test(other_jobs_end_with_it),
        cmocka_unit_test(a_server_does_not),
        cmocka_unit_test(a_server_is_known_to_be_gone),
        cmocka_unit_test(a_worker_does_not),
        cmocka_unit_test(another_worker_comes_early),
        cmocka_unit_test(nobody_does),
        cmocka_unit_test(an_impostor_does),
        cmocka_unit_test(late_ones_are_refused),
        cmocka_unit_test(a_register_is_damaged),
        cmocka_unit_test(a_register_has_other_servers),
        cmocka_unit_test(a_register_is_of_another_job),
        cmocka_unit_test(there_is_no_register),
    };
    int failed = cmocka_run_group_tests_name("rejoin", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
