/*
 * Copies of shards: a server dies, and the job goes on with the standbys of its
 * shards, as if nothing had been.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/checkpoint/store.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"

#define LIMIT_US 120000000
#define SECOND   UINT64_C(1000000)

static struct cluster cluster;
static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

static void open_job(const char *copies, const char *more, const char *most)
{
    const char *const settings[] = {copies, "train.steps=12", more, most, NULL};
    cluster_open(&cluster, &calm, settings, NULL);
}

static int all_have_caught_up(void *owner)
{
    const struct gw_coordinator *self = cluster.coordinator;
    (void)owner;
    return cluster.running &&
           gw_copies_caught_up(self) == gw_roster_shards(self);
}

/* The bits of a job without copies, which nobody disturbs. */
static void find_calm(const char *more, const char *most, char hex[65])
{
    open_job("cluster.copies=1", more, most);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

static void assert_came_to(const char *hex)
{
    char own[65];
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, own);
    assert_string_equal(own, hex);
    assert_true(cluster_agrees(&cluster));
    assert_int_equal(cluster_refused(&cluster), 0);
}

static const struct {
    const char *more, *most;
} rows[] = {
    {"optimizer.kind=momentum", NULL},
    {"optimizer.kind=adam", "train.weights=bf16"},
    {"optimizer.kind=adamw", "train.eval_every=3 steps"},
    {"checkpoint.dir=ck", "checkpoint.every=2 steps"},
    {"cluster.servers=3", "cluster.workers=2"},
    {"train.clip=0.1", "checkpoint.dir=ck"},
    {"optimizer.kind=lamb", "train.eval_every=2 steps"},
    {"train.loss_scale=dynamic", "train.nonfinite=skip"},
};
#define ROWS (sizeof rows / sizeof *rows)

static void assert_same(const struct gw_shard *one,
                        const struct gw_shard *other)
{
    for (uint32_t i = 0; i < one->chunks; i++) {
        const struct gw_shard_chunk *a = &one->chunk[i], *b = &other->chunk[i];
        size_t bytes = a->elems * sizeof(float);
        assert_int_equal(a->version, b->version);
        assert_int_equal(a->updates, b->updates);
        assert_int_equal(a->pushes, b->pushes);
        assert_memory_equal(gw_shard_weights(one, i),
                            gw_shard_weights(other, i), bytes);
        for (unsigned s = 0; s < one->optimizer->states; s++)
            assert_memory_equal(one->state[s] + a->first,
                                other->state[s] + b->first, bytes);
    }
}

static void both_copies_are_the_same(void **state)
{
    char hex[65];
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        find_calm(rows[i].more, rows[i].most, hex);
        open_job("cluster.copies=2", rows[i].more, rows[i].most);
        assert_came_to(hex);
        for (size_t s = 0; s < cluster.servers; s++) {
            const struct gw_server *standby = cluster.server[s].standby;
            const struct gw_server *primary =
                cluster_server(&cluster, standby->number);
            assert_true(standby->stands_by);
            assert_true(primary != cluster.server[s].server);
            assert_same(primary->shard, standby->shard);
        }
        cluster_close(&cluster);
    }
}

static int was_told(const char *words)
{
    int told = 0;
    for (size_t i = 0; i < CLUSTER_TOLD; i++)
        told |= strstr(cluster.told[i], words) != NULL;
    return told;
}

static void a_server_dies_and_nothing_is_lost(void **state)
{
    char hex[65];
    unsigned told = 0;
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        find_calm(rows[i].more, rows[i].most, hex);
        for (uint64_t when = 0; when < 24; when++) {
            open_job("cluster.copies=2", rows[i].more, rows[i].most);
            assert_true(cluster_run_until(&cluster, all_have_caught_up, NULL,
                                          LIMIT_US));
            cluster_pass(&cluster, when * 200);
            gw_world_end_server(&cluster.world, when % cluster.servers);
            assert_came_to(hex);
            told += was_told("and nothing is lost") != 0;
            cluster_close(&cluster);
        }
    }
    assert_true(told > ROWS * 24 / 2); /* others came behind the end */
}

/* ---- all that a server process may meet ---- */

/* More shards than chunks: a copy of nothing is one, too. */
static void a_shard_without_chunks_has_a_copy(void **state)
{
    char hex[65];
    (void)state;
    find_calm("cluster.servers=8", "train.clip=0.1", hex);
    open_job("cluster.copies=2", "cluster.servers=8", "train.clip=0.1");
    assert_true(
        cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
    uint32_t empty = 0;
    while (empty < 8 && cluster_server(&cluster, empty)->shard->chunks > 0)
        empty++;
    assert_true(empty < 8);
    size_t who = 0;
    while (cluster.server[who].server != cluster_server(&cluster, empty))
        who++;
    gw_world_end_server(&cluster.world, who);
    assert_came_to(hex);
    cluster_close(&cluster);
}

static int another_may_come(void *owner)
{
    const struct gw_coordinator *self = cluster.coordinator;
    (void)owner;
    return cluster.finished ||
           (gw_places_are_open(self) && gw_vacant_is_open(self));
}

/* Views of the one and of the other come in any order. */
static void a_server_and_a_worker_are_replaced_together(void **state)
{
    char hex[65];
    (void)state;
    find_calm("train.seed=1", NULL, hex);
    for (uint64_t when = 0; when < 60; when++) {
        open_job("cluster.copies=2", "train.seed=1", NULL);
        assert_true(
            cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
        gw_world_end_server(&cluster.world, 0);
        gw_world_end_worker(&cluster.world, 1);
        assert_true(
            cluster_run_until(&cluster, another_may_come, NULL, LIMIT_US));
        if (when % 2)
            cluster_replace_server(&cluster, 0);
        else
            cluster_replace_worker(&cluster, 1);
        cluster_pass(&cluster, when * 25);
        if (when % 2)
            cluster_replace_worker(&cluster, 1);
        else
            cluster_replace_server(&cluster, 0);
        assert_came_to(hex);
        cluster_close(&cluster);
    }
}

/* A supervisor is faster than the coordinator notices the death. */
static void another_server_takes_the_address_at_once(void **state)
{
    char hex[65];
    (void)state;
    cluster.fixed_ports = 1;
    find_calm("train.clip=0.1", NULL, hex);
    for (size_t who = 0; who < 2; who++) {
        open_job("cluster.copies=2", "train.clip=0.1", NULL);
        cluster.excused[who] = 1; /* it may come too early to be taken */
        assert_true(
            cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
        gw_world_end_server(&cluster.world, who);
        cluster_replace_server(&cluster, who);
        assert_came_to(hex);
        cluster_close(&cluster);
    }
    cluster.fixed_ports = 0;
}

/* The link between the two copies of a shard is gone, and no other one. */
static void a_standby_out_of_sight_is_given_up(void **state)
{
    char hex[65];
    (void)state;
    find_calm("train.seed=1", NULL, hex);
    open_job("cluster.copies=2", "train.seed=1", NULL);
    assert_true(
        cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
    cluster.excused[1] = 1;
    gw_standby_end(cluster.server[1].standby);
    assert_came_to(hex);
    cluster_assert_told(&cluster, "is not heard by server 0");
    cluster_close(&cluster);
}

/* Shard 0 was asked to, and dies with it. */
static void a_stop_outlives_shard_0(void **state)
{
    (void)state;
    for (uint64_t when = 0; when < 10; when++) {
        open_job("cluster.copies=2", "train.steps=2000", NULL);
        assert_true(
            cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
        gw_sim_pause(cluster.server[0].loop, SECOND / 2);
        cluster_stop(&cluster);
        cluster_pass(&cluster, when * 20);
        gw_world_end_server(&cluster.world, 0);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
        assert_true(cluster.final.step < 2000);
        cluster_close(&cluster);
    }
}

static int has_first_checkpoint(void *owner)
{
    return all_have_caught_up(owner) && gw_keeper_has(cluster.coordinator, 0);
}

/* All chunks stand at the step of a checkpoint that is complete: its file,
   which the coordinator writes for the servers, is made once more, and nobody
   waits for it, or keeps it. */
static void a_complete_checkpoint_is_not_made_again(void **state)
{
    static const char *const settings[] = {
        "cluster.copies=2",  "checkpoint.dir=ck", "checkpoint.every=4 steps",
        "checkpoint.keep=1", "train.steps=12",    NULL};
    uint64_t clocks[4];
    (void)state;
    cluster.disks_apart = 1;
    for (size_t who = 0; who < 2; who++) {
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        gw_sim_slow(cluster.worker[0].loop, 0.1);
        assert_true(
            cluster_run_until(&cluster, has_first_checkpoint, NULL, LIMIT_US));
        gw_world_end_server(&cluster.world, who);
        cluster_pass(&cluster, 2 * SECOND);
        gw_sim_slow(cluster.worker[0].loop, 0);
        cluster_finish(&cluster, LIMIT_US);
        assert_int_equal(
            gw_store_list(cluster_checkpoints(&cluster), clocks, 4), 1);
        assert_int_equal(clocks[0], 12);
        cluster_close(&cluster);
    }
    cluster.disks_apart = 0;
}

/* Bits that are wrong in memory: the process that has them is given up. */
static void a_copy_that_differs_is_given_up(void **state)
{
    static const char *const commits[] = {"train.commit=streaming",
                                          "train.commit=whole"};
    char hex[65];
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        find_calm("train.steps=130", commits[i], hex);
        open_job("cluster.copies=2", "train.steps=130", commits[i]);
        assert_true(
            cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
        cluster_pass(&cluster, 500);
        struct gw_shard *shard = cluster.server[1].standby->shard;
        cluster.excused[1] = 1;
        shard->weights[0][0] += 1;
        shard->weights[1][0] += 1;
        assert_came_to(hex);
        cluster_assert_told(&cluster, "is not what the server of shard");
        cluster_close(&cluster);
    }
}

/* It is none that declares, though it came late like a worker that does. */
static void a_late_server_declares_nothing(void **state)
{
    const struct gw_message lie = {
        .kind = GW_MESSAGE_DECLARE,
        .declare = {.device = "", .tuned = "", .note = ""}};
    char hex[65];
    (void)state;
    find_calm("train.seed=1", NULL, hex);
    open_job("cluster.copies=2", "train.seed=1", NULL);
    assert_true(
        cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
    gw_world_end_server(&cluster.world, 1);
    gw_world_end_worker(&cluster.world, 1);
    assert_true(cluster_run_until(&cluster, another_may_come, NULL, LIMIT_US));
    cluster_replace_server(&cluster, 1);
    assert_true(
        cluster_run_until(&cluster, all_have_caught_up, NULL, LIMIT_US));
    gw_peer_tell(cluster.server[1].server->coordinator, &lie);
    cluster_pass(&cluster, SECOND / 10);
    cluster_replace_worker(&cluster, 1);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_copies_are_the_same),
        cmocka_unit_test(a_server_dies_and_nothing_is_lost),
        cmocka_unit_test(a_shard_without_chunks_has_a_copy),
        cmocka_unit_test(a_server_and_a_worker_are_replaced_together),
        cmocka_unit_test(another_server_takes_the_address_at_once),
        cmocka_unit_test(a_standby_out_of_sight_is_given_up),
        cmocka_unit_test(a_stop_outlives_shard_0),
        cmocka_unit_test(a_complete_checkpoint_is_not_made_again),
        cmocka_unit_test(a_copy_that_differs_is_given_up),
        cmocka_unit_test(a_late_server_declares_nothing),
    };
    int failed = cmocka_run_group_tests_name("copies", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
