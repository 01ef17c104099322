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
#include "tests/sim/stranger.h"

#define LIMIT_US 120000000
#define VICTIM   1

static struct cluster cluster;
static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

/* The least version of shard 0's chunks. */
static uint64_t version(void)
{
    const struct gw_shard *shard = cluster.server[0].server->shard;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < shard->chunks; i++)
        if (shard->chunk[i].version < least)
            least = shard->chunk[i].version;
    return least;
}

#define SAVES "checkpoint.dir=ck", "checkpoint.every=50 steps"

static const char *const long_job[] = {SAVES, "train.steps=4000",
                                       "cluster.patience=5", NULL};

static void open_job(const char *const *settings)
{
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_slow(cluster.worker[i].loop, 100); /* so that it takes time */
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
    cluster_pass(&cluster, 300000);
}

/* The job ends, with that status and these words. */
static void ends(enum gw_status status, const char *words)
{
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, status);
    if (!strstr(cluster.text, words))
        fail_msg("\"%s\" is not in \"%s\"", words, cluster.text);
    cluster_close(&cluster);
}

static void undisturbed(const char *const *settings, char hex[65])
{
    cluster_open(&cluster, &calm, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

/* ---- it comes back ---- */

static void steps_are_made_without_it(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=2000", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(settings, expected);
    open_job(settings);
    cluster_kill_coordinator(&cluster);
    uint64_t before = version(), told = cluster.steps;
    cluster_pass(&cluster, 500000);
    assert_true(version() > before + 2);
    cluster_replace_coordinator(&cluster);
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_REJOINING);
    cluster_pass(&cluster, 1000000);
    assert_true(cluster.steps > told);
    assert_non_null(strstr(cluster.note, "takes the place of the one before"));
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    assert_int_equal(cluster_refused(&cluster), 0);
    assert_int_equal(cluster.final.checkpoint, 2000);
    assert_false(cluster_has_register(&cluster));
    cluster_close(&cluster);
}

/* All steps are done, and nobody can be told. */
static void the_end_waits_for_it(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=400", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(settings, expected);
    open_job(settings);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 20000000);
    assert_int_equal(version(), 400);
    for (size_t i = 0; i < cluster.workers; i++)
        assert_false(cluster.worker[i].finished);
    cluster_replace_coordinator(&cluster);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    assert_int_equal(cluster.final.checkpoint, 400);
    cluster_close(&cluster);
}

/* A request of its user's that nobody has heard. */
static void it_can_be_asked_to_stop(void **state)
{
    (void)state;
    open_job(long_job);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 100000);
    cluster_replace_coordinator(&cluster);
    cluster_stop(&cluster);
    ends(GW_EINTERRUPTED, "stopped at step ");
}

/* A member's signal, while there is nobody to tell. */
static void a_member_asks_it_to_stop(void **state)
{
    (void)state;
    open_job(long_job);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 1500000);
    gw_server_stop(cluster.server[1].server, "a test");
    cluster_pass(&cluster, 100000);
    cluster_replace_coordinator(&cluster);
    ends(GW_EINTERRUPTED, "stopped at step ");
}

/* ---- it does not ---- */

static void members_do_not_wait_for_ever(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=1000",
                                           "cluster.patience=5", NULL};
    (void)state;
    open_job(settings);
    cluster_kill_coordinator(&cluster);
    uint64_t since_us = gw_sim_now(cluster.sim);
    while (!gw_world_is_over(&cluster.world) &&
           gw_sim_now(cluster.sim) - since_us < LIMIT_US)
        cluster_pass(&cluster, 100000);
    assert_in_range(gw_sim_now(cluster.sim) - since_us, 5000000, 25000000);
    assert_int_equal(version(), 1000);
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
        open_job(rows[i]);
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
    open_job(long_job);
    cluster_kill_coordinator(&cluster);
    gw_sim_kill(cluster.server[1].loop);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    uint64_t since_us = gw_sim_now(cluster.sim);
    assert_true(
        cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
    assert_in_range(gw_sim_now(cluster.sim) - since_us, 4900000, 6500000);
    ends(GW_ERESUMABLE,
         "died while the job had no coordinator; --resume goes on from step ");
}

/* Its launcher knows that the process is gone: nobody waits. */
static void a_server_is_known_to_be_gone(void **state)
{
    (void)state;
    open_job(long_job);
    cluster_kill_coordinator(&cluster);
    gw_sim_kill(cluster.server[1].loop);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    assert_int_equal(
        gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + 1, "killed"),
        0);
    cluster_pass(&cluster, 1000000);
    ends(GW_ERESUMABLE, "server 1 (s, pid 301) died while the job had no "
                        "coordinator");
}

static void a_worker_does_not(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=400",
                                           "cluster.patience=9", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(settings, expected);
    open_job(settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 3800000);
    assert_non_null(strstr(cluster.note, "this coordinator takes the place"));
    cluster_replace_worker(&cluster, VICTIM);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    cluster_close(&cluster);
}

/* A supervisor is quicker than the members of before. */
static void another_worker_comes_early(void **state)
{
    static const char *const settings[] = {SAVES, "train.steps=1000",
                                           "cluster.patience=9", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(settings, expected);
    open_job(settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_replace_coordinator(&cluster);
    cluster_replace_worker(&cluster, VICTIM);
    cluster_pass(&cluster, 500);
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_REJOINING);
    cluster_pass(&cluster, 1000000); /* nobody waits for the one before */
    assert_int_equal(cluster.coordinator->phase, GW_PHASE_RUNNING);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    cluster_close(&cluster);
}

/* ---- of a job with copies ---- */

#define COPIES                                                                 \
    SAVES, "cluster.copies=2", "train.steps=2000", "cluster.patience=60"

static int has_copies(void *owner)
{
    const struct gw_coordinator *self = cluster.coordinator;
    (void)owner;
    return cluster.finished ||
           (self->phase == GW_PHASE_RUNNING &&
            gw_copies_caught_up(self) == gw_roster_shards(self));
}

static void open_copies(const char *const *settings)
{
    open_job(settings);
    assert_true(cluster_run_until(&cluster, has_copies, NULL, LIMIT_US));
    cluster_pass(&cluster, 10000); /* and it is registered */
}

static int goes_on(void *owner)
{
    const uint64_t *before = owner;
    return cluster.finished || version() > *before;
}

/* Both copies of half the weights are at one process, and it stands still until
   there is a coordinator; nobody says that the process is gone. */
static void a_server_with_copies_does_not(void **state)
{
    static const char *const settings[] = {COPIES, NULL};
    static const char *const alone[] = {SAVES, "train.steps=2000", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(alone, expected);
    open_copies(settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_server(&cluster.world, 1);
    cluster_pass(&cluster, 10000000);
    uint64_t before = version();
    cluster_pass(&cluster, 10000000);
    assert_true(version() == before);
    cluster_replace_coordinator(&cluster);
    uint64_t begun = gw_loop_now(cluster.loop);
    assert_true(cluster_run_until(&cluster, goes_on, &before, LIMIT_US));
    assert_true(gw_loop_now(cluster.loop) - begun < 3000000);
    cluster_pass(&cluster, 10000);
    cluster_assert_told(&cluster, "died while the job had no coordinator; what "
                                  "it had is at other servers");
    cluster_replace_server(&cluster, 1);
    assert_true(cluster_run_until(&cluster, has_copies, NULL, LIMIT_US));
    cluster_assert_told(&cluster, "have two copies again");
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    cluster_close(&cluster);
}

static int is_asking(void *owner)
{
    const struct gw_coordinator *self = cluster.coordinator;
    (void)owner;
    return self->phase == GW_PHASE_REJOINING && gw_roster_shards(self) > 0;
}

/* Two of three have both copies of a shard; shard 0 has one. */
static void two_servers_do_not(void **state)
{
    static const char *const settings[] = {COPIES, "cluster.servers=3", NULL};
    (void)state;
    open_copies(settings);
    uint32_t first = gw_roster_leader(cluster.coordinator)->pid;
    cluster_kill_coordinator(&cluster);
    for (size_t i = 0; i < 3; i++)
        if (GW_WORLD_PID + i != first)
            gw_world_end_server(&cluster.world, i);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 30000000);
    assert_false(is_asking(NULL));
    cluster_pass(&cluster, 31000000);
    assert_true(cluster.coordinator->phase >= GW_PHASE_ENDING);
    ends(GW_ERESUMABLE, "died while the job had no coordinator");
}

static int has_a_place(void *owner)
{
    (void)owner;
    return gw_places_are_open(cluster.coordinator);
}

static int lists_server(uint32_t server)
{
    struct gw_membership membership;
    int found = 0;
    assert_int_equal(
        gw_membership_read(cluster_checkpoints(&cluster), &membership, NULL),
        GW_OK);
    for (size_t i = 0; i < membership.members; i++)
        found |= membership.member[i].role != GW_ROLE_WORKER &&
                 membership.member[i].server == server;
    gw_membership_free(&membership);
    return found;
}

/* The coordinator has decided who has it, and registered that; nobody has heard
   of it. */
static void who_has_a_shard_is_said_again(void **state)
{
    static const char *const settings[] = {COPIES, NULL};
    static const char *const alone[] = {SAVES, "train.steps=2000", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(alone, expected);
    open_copies(settings);
    gw_world_end_server(&cluster.world, 1);
    while (lists_server(1))
        cluster_pass(&cluster, 20);
    cluster_pass(&cluster, 200); /* it is being written for longer */
    assert_true(cluster.server[0].standby->stands_by);
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 2000000);
    cluster_replace_coordinator(&cluster);
    assert_true(cluster_run_until(&cluster, has_a_place, NULL, LIMIT_US));
    cluster_replace_server(&cluster, 1);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    cluster_close(&cluster);
}

/* Shard 0 has been asked, and is asked once more: by one server less. The one
   that was left meanwhile is refused. */
static void another_server_dies_in_time(void **state)
{
    static const char *const settings[] = {COPIES, "cluster.servers=4", NULL};
    static const char *const alone[] = {SAVES, "train.steps=2000",
                                        "cluster.servers=4", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(alone, expected);
    open_copies(settings);
    cluster_kill_coordinator(&cluster);
    gw_sim_pause(cluster.server[3].loop, 4500000);
    cluster.excused[3] = 1;
    cluster_pass(&cluster, 1500000);
    cluster_replace_coordinator(&cluster);
    assert_true(cluster_run_until(&cluster, is_asking, NULL, LIMIT_US));
    gw_world_end_server(&cluster.world, 1);
    gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + 1, "a test");
    assert_true(is_asking(NULL));
    cluster_pass(&cluster, 3000000);
    cluster.server[3].killed = 1; /* its weights are old */
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    assert_int_equal(cluster.server[3].status, GW_EREFUSED);
    cluster_close(&cluster);
}

static int has_no_place(void *owner)
{
    return !has_a_place(owner);
}

/* The coordinator has died when the standby has all. */
static void a_copy_is_whole_meanwhile(void **state)
{
    static const char *const settings[] = {COPIES, NULL};
    (void)state;
    open_copies(settings);
    gw_world_end_server(&cluster.world, 1);
    assert_true(cluster_run_until(&cluster, has_a_place, NULL, LIMIT_US));
    cluster_replace_server(&cluster, 1);
    assert_true(cluster_run_until(&cluster, has_no_place, NULL, LIMIT_US));
    assert_int_equal(gw_copies_caught_up(cluster.coordinator), 0);
    cluster_pass(&cluster, 150); /* it is told to begin */
    cluster_kill_coordinator(&cluster);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    assert_true(cluster_run_until(&cluster, has_copies, NULL, LIMIT_US));
    assert_false(cluster.finished);
    cluster_assert_told(&cluster, "all 2 shards have two copies again");
    cluster_stop(&cluster);
    ends(GW_EINTERRUPTED, "stopped at step ");
}

static void nobody_does(void **state)
{
    (void)state;
    open_job(long_job);
    cluster_kill_coordinator(&cluster);
    for (size_t i = 0; i < cluster.servers; i++)
        gw_sim_kill(cluster.server[i].loop);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_world_end_worker(&cluster.world, i);
    cluster_pass(&cluster, 500000);
    cluster_replace_coordinator(&cluster);
    ends(GW_ERESUMABLE, "nobody is left of the job that lost its coordinator");
}

/* It knows all of a worker but the secret. */
static void an_impostor_does(void **state)
{
    struct stranger thief;
    (void)state;
    open_job(long_job);
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
    ends(GW_ERESUMABLE, "worker 1 (w, pid 501) died while the job had no "
                        "coordinator");
}

/* One that comes too late has been given up. */
static void late_ones_are_refused(void **state)
{
    (void)state;
    open_job(long_job);
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
    ends(GW_EINTERRUPTED, "stopped at step ");
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
    open_job(long_job);
    cluster_checkpoints(&cluster); /* entered while there is a loop */
    put("{\"format\": 1}");
    fails(GW_ECORRUPT, "ck/.gradweir-members is damaged");
    cluster_close(&cluster);
}

/* While it is being written for a worker that takes a place, a server dies: the
   shard that is asked where it stands has to know that it is one. */
static void a_register_is_written_slowly(void **state)
{
    static const char *const settings[] = {
        "checkpoint.dir=ck", "checkpoint.every=never", "cluster.copies=2",
        "train.steps=1000", NULL};
    static const char *const alone[] = {"train.steps=1000", NULL};
    char expected[65], got[65];
    (void)state;
    undisturbed(alone, expected);
    open_copies(settings);
    gw_sim_disk_slow(cluster.loop, 300000);
    gw_world_end_server(&cluster.world, 1);
    cluster_pass(&cluster, 850000);
    gw_world_end_worker(&cluster.world, VICTIM);
    cluster_pass(&cluster, 1000);
    cluster_replace_worker(&cluster, VICTIM);
    cluster_pass(&cluster, 100000);
    assert_true(gw_vacant_any(cluster.coordinator));
    assert_non_null(gw_roster_find(cluster.coordinator, GW_ROLE_STANDBY, 0));
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, got);
    assert_string_equal(got, expected);
    cluster_close(&cluster);
}

/* One of before would give a shard back to a server that is lost. */
static void a_register_cannot_be_written(void **state)
{
    static const char *const settings[] = {
        "checkpoint.dir=ck", "checkpoint.every=never", "cluster.copies=2",
        "train.steps=2000", NULL};
    (void)state;
    open_copies(settings);
    assert_true(cluster_has_register(&cluster));
    gw_sim_disk_fail(cluster.loop, 1, GW_EIO);
    gw_world_end_server(&cluster.world, 1);
    assert_true(cluster_run_until(&cluster, has_a_place, NULL, LIMIT_US));
    cluster_pass(&cluster, 10000);
    assert_false(cluster_has_register(&cluster));
    assert_false(gw_coordinator_is_outlived(cluster.coordinator));
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

/* It lists as many as the job file does not. */
static void a_register_has_other_servers(void **state)
{
    struct gw_membership membership;
    uint32_t three[] = {1, 1, 1};
    (void)state;
    open_job(long_job);
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
    open_job(long_job);
    gw_config_set(&cluster.config, "optimizer.lr=0.5", &error);
    fails(GW_EMISMATCH, "a job that was begun with another job file runs with "
                        "checkpoint.dir");
    gw_config_set(&cluster.config, "optimizer.lr=0.05", &error);
    cluster_replace_coordinator(&cluster);
    cluster_pass(&cluster, 1000000);
    cluster_stop(&cluster);
    ends(GW_EINTERRUPTED, "stopped at step ");
}

/* Nothing runs: it is as if it were the first one. */
static void there_is_no_register(void **state)
{
    static const char *const settings[] = {SAVES, NULL};
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
        cmocka_unit_test(a_server_with_copies_does_not),
        cmocka_unit_test(two_servers_do_not),
        cmocka_unit_test(who_has_a_shard_is_said_again),
        cmocka_unit_test(another_server_dies_in_time),
        cmocka_unit_test(a_copy_is_whole_meanwhile),
        cmocka_unit_test(nobody_does),
        cmocka_unit_test(an_impostor_does),
        cmocka_unit_test(late_ones_are_refused),
        cmocka_unit_test(a_register_is_damaged),
        cmocka_unit_test(a_register_is_written_slowly),
        cmocka_unit_test(a_register_cannot_be_written),
        cmocka_unit_test(a_register_has_other_servers),
        cmocka_unit_test(a_register_is_of_another_job),
        cmocka_unit_test(there_is_no_register),
    };
    int failed = cmocka_run_group_tests_name("rejoin", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
