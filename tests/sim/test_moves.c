/*
 * Shards move: after a death one server has those of two, until the one that
 * came in its place has caught up, and gets some of them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_members.h"
#include "server/server_state.h"
#include "tests/sim/moving.h"

static struct cluster cluster;

/* ---- all is well ---- */

/* Behind the move of shard 0, too: it is there where its server died. */
static void each_server_has_a_shard_again(void **state)
{
    char hex[65];
    (void)state;
    for (size_t i = 0; i < MOVING_ROWS; i++) {
        moving_calm(&cluster, moving_rows[i].more, moving_rows[i].most, hex);
        for (size_t who = 0; who < 2; who++) {
            moving_open(&cluster, "cluster.copies=2", moving_rows[i].more,
                        moving_rows[i].most);
            moving_replace(&cluster, who);
            assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                          MOVING_LIMIT_US));
            assert_false(moving_has_copies(&cluster));
            assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                          MOVING_LIMIT_US));
            for (uint32_t s = 0; s < cluster.servers; s++)
                assert_int_equal(gw_roster_shards_of(cluster.coordinator, s),
                                 1);
            cluster_assert_told(&cluster, "which has fewer");
            moving_comes_to(&cluster, hex);
        }
    }
}

/* What a death leaves is moved back each time. */
static void servers_die_in_turn(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "train.steps=400", NULL, hex);
    moving_open(&cluster, "cluster.copies=2", "train.steps=400", NULL);
    for (size_t death = 0; death < 4; death++) {
        moving_replace(&cluster, death % 2);
        assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                      MOVING_LIMIT_US));
    }
    moving_comes_to(&cluster, hex);
}

/* ---- all that may happen meanwhile ---- */

static struct gw_server *moving(void)
{
    const struct gw_seat *who = moving_seat(&cluster);
    for (size_t i = 0; i < cluster.servers; i++) {
        const struct gw_world_server *one = &cluster.server[i];
        if (gw_peer_is_up(who->peer, 0) && one->server->number == who->id &&
            !one->server->stands_by)
            return one->server;
        if (one->standby->number == who->id && !one->standby->stands_by)
            return one->standby;
    }
    fail();
    return NULL;
}

static int it_has_left(void *server)
{
    return gw_server_is_over(server);
}

/* The link breaks under its good-bye, and it is faster than that. */
static void it_joins_before_its_good_bye_is_heard(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "train.seed=1", NULL, hex);
    moving_open(&cluster, "cluster.copies=2", "train.seed=1", NULL);
    moving_replace(&cluster, 1);
    assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                  MOVING_LIMIT_US));
    struct gw_server *server = moving();
    assert_true(
        cluster_run_until(&cluster, it_has_left, server, MOVING_LIMIT_US));
    gw_peer_reject(server->coordinator, 0, "a test");
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    assert_int_equal(gw_roster_shards_of(cluster.coordinator, 0), 1);
    moving_comes_to(&cluster, hex);
}

/* There is no other copy then. A launcher notices at once. */
static void the_server_that_it_moves_to_dies(void **state)
{
    (void)state;
    moving_open(&cluster, "cluster.copies=2", "checkpoint.dir=ck",
                "checkpoint.every=2 steps");
    assert_true(cluster_run_until(&cluster, moving_has_saved, &cluster,
                                  MOVING_LIMIT_US));
    moving_replace(&cluster, 1);
    assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                  MOVING_LIMIT_US));
    gw_world_end_server(&cluster.world, 1);
    gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + 1, "killed");
    assert_true(cluster_run(&cluster, MOVING_LIMIT_US));
    assert_int_equal(cluster.final.status, GW_ERESUMABLE);
    assert_non_null(strstr(cluster.text, "the server died to which shard"));
    assert_non_null(strstr(cluster.text, "; --resume goes on from step "));
    cluster_close(&cluster);
}

static int begins_anew(void *world_server)
{
    const struct gw_world_server *one = world_server;
    return !one->server->has_config || !one->standby->has_config;
}

/* The thread that is asked has not joined. */
static void a_stop_reaches_the_job_meanwhile(void **state)
{
    (void)state;
    moving_open(&cluster, "cluster.copies=2", "train.steps=4000", NULL);
    moving_replace(&cluster, 1);
    assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                  MOVING_LIMIT_US));
    struct gw_world_server *one = &cluster.server[0];
    assert_true(cluster_run_until(&cluster, begins_anew, one, MOVING_LIMIT_US));
    gw_server_stop(one->server->has_config ? one->standby : one->server,
                   "a test");
    assert_true(cluster_run(&cluster, MOVING_LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
    cluster_close(&cluster);
}

static int some_steps_are_made(void *owner)
{
    (void)owner;
    return moving_has_copies(&cluster) && cluster.steps > 5;
}

static int it_has_joined(void *owner)
{
    const struct gw_seat *one = gw_roster_first(cluster.coordinator);
    (void)owner;
    while (one && !(one->again && one->telling.waits))
        one = one->next;
    return one != NULL;
}

/* It has not begun, and gives up the coordinator, which only stood still. */
static void it_joins_a_coordinator_that_was_silent(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "train.steps=4000", NULL, hex);
    moving_open(&cluster, "cluster.copies=2", "train.steps=4000", NULL);
    moving_slow(&cluster);
    moving_replace(&cluster, 1);
    assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                  MOVING_LIMIT_US));
    assert_true(
        cluster_run_until(&cluster, it_has_joined, NULL, MOVING_LIMIT_US));
    gw_sim_pause(cluster.loop, 1500000);
    cluster_pass(&cluster, 2000000);
    for (size_t i = 0; i < 2; i++)
        assert_false(cluster.server[i].finished);
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    moving_comes_to(&cluster, hex);
}

static int a_worker_may_come(void *owner)
{
    (void)owner;
    return cluster.running && gw_vacant_is_open(cluster.coordinator);
}

/* Shard 0 is at a server that came while the job ran, and still knows where it
   began. */
static void a_late_leader_knows_when_the_job_began(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "checkpoint.dir=ck", "train.steps=400", hex);
    moving_open(&cluster, "cluster.copies=2", "checkpoint.dir=ck",
                "train.steps=400");
    assert_true(cluster_run_until(&cluster, some_steps_are_made, NULL,
                                  MOVING_LIMIT_US));
    moving_slow(&cluster);
    for (size_t who = 0; who < 2; who++) {
        moving_replace(&cluster, who);
        assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                      MOVING_LIMIT_US));
    }
    assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                  MOVING_LIMIT_US));
    cluster_pass(&cluster, 10000);
    assert_int_equal(gw_roster_leader(cluster.coordinator)->pid,
                     GW_WORLD_PID + 0);
    cluster_kill_coordinator(&cluster);
    gw_world_end_worker(&cluster.world, 1);
    cluster_pass(&cluster, 2000000);
    cluster_replace_coordinator(&cluster);
    assert_true(
        cluster_run_until(&cluster, a_worker_may_come, NULL, MOVING_LIMIT_US));
    cluster_replace_worker(&cluster, 1);
    moving_comes_to(&cluster, hex);
}

/* ---- deaths beside a move ---- */

static int none_moves(void *owner)
{
    return !moving_one_moves(owner);
}

static void let_one_move(size_t dies)
{
    moving_replace(&cluster, dies);
    assert_true(cluster_run_until(&cluster, moving_one_moves, &cluster,
                                  MOVING_LIMIT_US));
}

/* Its good-bye is heard. */
static void let_one_be_away(size_t dies)
{
    let_one_move(dies);
    assert_true(
        cluster_run_until(&cluster, none_moves, &cluster, MOVING_LIMIT_US));
}

static void assert_apart(void)
{
    for (uint32_t i = 0; i < gw_roster_shards(cluster.coordinator); i++) {
        const struct gw_seat *one =
            gw_roster_find(cluster.coordinator, GW_ROLE_SERVER, i);
        const struct gw_seat *other =
            gw_roster_find(cluster.coordinator, GW_ROLE_STANDBY, i);
        assert_true(one && other && one->process != other->process);
    }
}

static struct gw_seat *find_thread_of(size_t server)
{
    struct gw_seat *one = gw_roster_first(cluster.coordinator);
    while (one && one->pid != GW_WORLD_PID + server)
        one = one->next;
    return one;
}

/* Three shards have one copy, and the thread that moved is beside one. */
static void both_copies_are_never_in_one_process(void **state)
{
    char hex[65];
    (void)state;
    moving_calm(&cluster, "cluster.servers=3", "train.steps=2000", hex);
    for (uint64_t later = 0; later < 40000; later += 4000) {
        moving_open(&cluster, "cluster.copies=2", "cluster.servers=3",
                    "train.steps=2000");
        moving_slow(&cluster);
        /* the thread is of server 0, or of server 2 and comes last */
        int is_last = later % 8000 != 0;
        size_t dies = is_last ? 0 : 1;
        let_one_be_away(is_last ? 1 : 2);
        gw_world_end_server(&cluster.world, dies);
        gw_coordinator_give_up(cluster.coordinator, find_thread_of(dies),
                               "killed");
        if (is_last)
            gw_sim_pause(cluster.server[2].loop, 100000);
        cluster_pass(&cluster, later);
        cluster_replace_server(&cluster, dies);
        assert_true(cluster_run_until(&cluster, moving_has_copies, &cluster,
                                      MOVING_LIMIT_US));
        assert_apart();
        moving_comes_to(&cluster, hex);
    }
}

/* The coordinator dies that many microseconds behind the good-bye, when it
   has told what the register may not have; or later, with links so uneven that
   threads come back apart. */
static void another_coordinator_finds_all(const char *threads,
                                          uint64_t from,
                                          uint64_t step,
                                          uint64_t jitter_us)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const struct gw_sim_options lines = {
            .seed = seed, .latency_us = 50, .jitter_us = jitter_us};
        const char *const settings[] = {"cluster.copies=2", "train.steps=600",
                                        threads, "checkpoint.dir=ck", NULL};
        cluster_open(&cluster, &lines, settings, NULL);
        assert_true(cluster_run_until(&cluster, moving_has_saved, &cluster,
                                      MOVING_LIMIT_US));
        let_one_be_away(1);
        cluster_pass(&cluster, from + step * seed);
        cluster_kill_coordinator(&cluster);
        cluster_pass(&cluster, 100000 * seed);
        cluster_replace_coordinator(&cluster);
        cluster_finish(&cluster, MOVING_LIMIT_US);
        assert_true(cluster_agrees(&cluster));
        cluster_close(&cluster);
    }
}

static void the_register_knows_first(void **state)
{
    (void)state;
    another_coordinator_finds_all("server.threads=1", 0, 50, 0);
    another_coordinator_finds_all("server.threads=2", 0, 50, 0);
}

static void threads_that_are_slow_have_not_moved(void **state)
{
    (void)state;
    another_coordinator_finds_all("server.threads=2", 3000, 500, 3000);
}

static int has_ended(void *server)
{
    const struct gw_world_server *one = server;
    return one->finished;
}

/* Nobody is there that it could join. */
static void it_ends_with_its_process(void **state)
{
    (void)state;
    for (uint64_t later = 0; later < 400; later += 40) {
        moving_open(&cluster, "cluster.copies=2", "train.steps=4000", NULL);
        let_one_be_away(0);
        gw_coordinator_stop_now(cluster.coordinator);
        cluster_pass(&cluster, later);
        cluster_kill_coordinator(&cluster);
        assert_true(cluster_run_until(&cluster, has_ended, &cluster.server[1],
                                      10000000));
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_server_has_a_shard_again),
        cmocka_unit_test(servers_die_in_turn),
        cmocka_unit_test(it_joins_before_its_good_bye_is_heard),
        cmocka_unit_test(the_server_that_it_moves_to_dies),
        cmocka_unit_test(a_stop_reaches_the_job_meanwhile),
        cmocka_unit_test(it_joins_a_coordinator_that_was_silent),
        cmocka_unit_test(a_late_leader_knows_when_the_job_began),
        cmocka_unit_test(both_copies_are_never_in_one_process),
        cmocka_unit_test(the_register_knows_first),
        cmocka_unit_test(threads_that_are_slow_have_not_moved),
        cmocka_unit_test(it_ends_with_its_process),
    };
    int failed = cmocka_run_group_tests_name("moves", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
