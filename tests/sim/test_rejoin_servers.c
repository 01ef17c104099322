/*
 * The coordinator of a job with copies dies, and servers do, too, while there
 * is none or as another one comes.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/checkpoint/membership.h"
#include "server/coordinator/coordinator_members.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/rejoin.h"

#define LIMIT_US 120000000
#define VICTIM   1

static struct cluster cluster;

#define SAVES "checkpoint.dir=ck", "checkpoint.every=50 steps"
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
    rejoin_open(&cluster, settings);
    assert_true(cluster_run_until(&cluster, has_copies, NULL, LIMIT_US));
    cluster_pass(&cluster, 10000); /* and it is registered */
}

static int goes_on(void *owner)
{
    const uint64_t *before = owner;
    return cluster.finished || rejoin_version(&cluster) > *before;
}

/* Both copies of half the weights are at one process, and it stands still until
   there is a coordinator; nobody says that the process is gone. */
static void a_server_with_copies_does_not(void **state)
{
    static const char *const settings[] = {COPIES, NULL};
    static const char *const alone[] = {SAVES, "train.steps=2000", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, alone, expected);
    open_copies(settings);
    cluster_kill_coordinator(&cluster);
    gw_world_end_server(&cluster.world, 1);
    cluster_pass(&cluster, 10000000);
    uint64_t before = rejoin_version(&cluster);
    cluster_pass(&cluster, 10000000);
    assert_true(rejoin_version(&cluster) == before);
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
    rejoin_comes_to(&cluster, expected);
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
    rejoin_ends(&cluster, GW_ERESUMABLE,
                "died while the job had no coordinator");
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
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, alone, expected);
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
    rejoin_comes_to(&cluster, expected);
    cluster_close(&cluster);
}

/* Shard 0 has been asked, and is asked once more: by one server less. The one
   that was left meanwhile is refused. */
static void another_server_dies_in_time(void **state)
{
    static const char *const settings[] = {COPIES, "cluster.servers=4", NULL};
    static const char *const alone[] = {SAVES, "train.steps=2000",
                                        "cluster.servers=4", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, alone, expected);
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
    rejoin_comes_to(&cluster, expected);
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
    rejoin_ends(&cluster, GW_EINTERRUPTED, "stopped at step ");
}

/* ---- the register ---- */

/* While it is being written for a worker that takes a place, a server dies: the
   shard that is asked where it stands has to know that it is one. */
static void a_register_is_written_slowly(void **state)
{
    static const char *const settings[] = {
        "checkpoint.dir=ck", "checkpoint.every=never", "cluster.copies=2",
        "train.steps=1000", NULL};
    static const char *const alone[] = {"train.steps=1000", NULL};
    char expected[65];
    (void)state;
    rejoin_undisturbed(&cluster, alone, expected);
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
    rejoin_comes_to(&cluster, expected);
    cluster_close(&cluster);
}

/* A disk that does not answer keeps the job, by name. */
static void a_register_is_not_taken(void **state)
{
    static const char *const settings[] = {
        "checkpoint.dir=ck", "checkpoint.every=never", "cluster.copies=2",
        "train.steps=1000", NULL};
    (void)state;
    open_copies(settings);
    gw_sim_disk_slow(cluster.loop, 20000000);
    gw_world_end_server(&cluster.world, 1);
    cluster_pass(&cluster, 15000000);
    cluster_assert_told(&cluster,
                        "waiting for checkpoint.dir to take the list of "
                        "members, for 10.");
    cluster_finish(&cluster, LIMIT_US);
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

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_with_copies_does_not),
        cmocka_unit_test(two_servers_do_not),
        cmocka_unit_test(who_has_a_shard_is_said_again),
        cmocka_unit_test(another_server_dies_in_time),
        cmocka_unit_test(a_copy_is_whole_meanwhile),
        cmocka_unit_test(a_register_is_written_slowly),
        cmocka_unit_test(a_register_is_not_taken),
        cmocka_unit_test(a_register_cannot_be_written),
    };
    int failed =
        cmocka_run_group_tests_name("rejoin_servers", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
