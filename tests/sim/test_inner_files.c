/*
 * The files of workers in checkpoints, disturbed: disks that fail or lose what
 * was not synced, damage, a worker that dies or is slow, and one that asks for
 * what is not its own.
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
#include "tests/sim/inner.h"
#include "worker/client/client_state.h"
#include "worker/trainer/rank_state.h"

static struct cluster cluster;

/* ---- disks ---- */

/* Of every third operation of the disk one is its last: what was synced leads
   to the same bits. */
static void power_may_go_while_workers_save(void **state)
{
    (void)state;
    char whole[65], again[65];
    struct inner_job job = inner_job_of(inner_local_momentum);
    size_t resumed = 0, tried = 0;
    inner_run_calmly(&cluster, &job, whole);
    inner_open(&cluster, &job, &inner_calm, 0);
    assert_int_equal(inner_run(&cluster, again), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 3; op <= operations; op += 3) {
        uint64_t clocks[64];
        int is_whole = 0;
        tried++;
        inner_open(&cluster, &job, &inner_calm, 0);
        gw_sim_disk_fail(cluster.loop, op - 2, GW_OK);
        cluster_run(&cluster, INNER_LIMIT_US);
        gw_sim_disk_restart(cluster.loop);
        size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
        for (size_t i = 0; i < n; i++) {
            struct gw_manifest manifest;
            if (gw_store_whole(cluster_checkpoints(&cluster), clocks[i],
                               &manifest, NULL) != GW_OK)
                continue;
            gw_manifest_free(&manifest);
            assert_int_equal(inner_count_files(&cluster, clocks[i]),
                             cluster.workers);
            is_whole = 1;
        }
        cluster_end(&cluster);
        if (is_whole) {
            inner_open(&cluster, &job, &inner_calm, 1);
            assert_int_equal(inner_run(&cluster, again), GW_OK);
            assert_string_equal(again, whole);
            resumed++;
        }
        cluster_close(&cluster);
    }
    print_message("# %zu of %zu went on\n", resumed, tried);
    assert_true(4 * resumed > tried);
}

/* One that is full once fails a checkpoint, and leaves nothing of it. */
static void a_full_disk_does_not_end_the_job(void **state)
{
    (void)state;
    char whole[65], again[65];
    struct inner_job job = inner_job_of(inner_local_momentum);
    size_t named = 0;
    inner_run_calmly(&cluster, &job, whole);
    inner_open(&cluster, &job, &inner_calm, 0);
    assert_int_equal(inner_run(&cluster, again), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 1; op + 2 <= operations; op++) {
        inner_open(&cluster, &job, &inner_calm, 0);
        gw_sim_disk_fail(cluster.loop, op, GW_ENOSPC);
        enum gw_status status = inner_run(&cluster, again);
        assert_int_equal(
            status, cluster.final.checkpoint == INNER_STEPS ? GW_OK : GW_EIO);
        assert_string_equal(again, whole);
        named += strstr(cluster.note, "worker ") != NULL;
        uint64_t clocks[64];
        size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
        for (size_t i = 0; i < n && strstr(cluster.note, "failed"); i++)
            assert_int_equal(inner_count_files(&cluster, clocks[i]),
                             cluster.workers);
        cluster_close(&cluster);
    }
    print_message("# it was a worker's file %zu times\n", named);
    assert_true(named > 0);
}

/* A file that is damaged is named, and the checkpoint before it is used. */
static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    char whole[65], again[65], path[GW_PATH_MAX];
    struct inner_job job = inner_job_of(inner_local_momentum);
    struct gw_error error;
    struct gw_file *file;
    uint8_t byte;
    inner_add(&job, "train.steps=26");
    inner_run_calmly(&cluster, &job, whole);
    inner_drop(&job);
    for (uint64_t offset = 0; offset < 100000; offset += 24999) {
        inner_open(&cluster, &job, &inner_calm, 0);
        assert_int_equal(inner_run(&cluster, again), GW_OK);
        struct gw_disk *disk = cluster_checkpoints(&cluster);
        gw_store_path(INNER_STEPS, "worker-1-of-3.safetensors", path);
        uint8_t *bytes;
        size_t n;
        assert_int_equal(
            gw_store_read(disk, path, UINT64_MAX, &bytes, &n, &error), GW_OK);
        byte = bytes[offset] ^ 0x10;
        bytes[offset] = byte;
        assert_int_equal(
            disk->ops->open(disk, path, GW_FILE_CREATE, &file, &error), GW_OK);
        assert_int_equal(disk->ops->write(file, 0, bytes, n, &error), GW_OK);
        disk->ops->close(file, &error);
        free(bytes);
        cluster_end(&cluster);
        inner_add(&job, "train.steps=26");
        inner_open(&cluster, &job, &inner_calm, 1);
        if (!strstr(cluster.note, "going on from the checkpoint of step 1"))
            fail_msg("%s", cluster.note); /* 10 to 19 */
        assert_int_equal(inner_run(&cluster, again), GW_OK);
        assert_string_equal(again, whole);
        inner_drop(&job);
        cluster_close(&cluster);
    }
}

/* ---- deaths ---- */

static void kill_worker(void *owner)
{
    gw_sim_kill(((struct gw_world_worker *)owner)->loop);
}

static int coordinator_has_finished(void *owner)
{
    (void)owner;
    return cluster.finished;
}

/* Its files are large and its line is slow, so it dies within one of them. */
static void a_worker_may_die_while_it_saves(void **state)
{
    (void)state;
    char whole[65], again[65];
    struct inner_job job = inner_job_of(inner_large_adam);
    size_t within = 0, went_on = 0;
    inner_run_calmly(&cluster, &job, whole);
    for (uint64_t delay = 10000; delay < 400000; delay += 30000) {
        uint64_t clocks[64];
        inner_open(&cluster, &job, &inner_calm, 0);
        gw_sim_slow(cluster.worker[1].loop, 100);
        inner_await_running(&cluster);
        gw_sim_at(cluster.sim, delay, kill_worker, &cluster.worker[1]);
        assert_true(cluster_run_until(&cluster, coordinator_has_finished, NULL,
                                      INNER_LIMIT_US));
        size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
        uint64_t last = cluster.final.checkpoint;
        int had = cluster.final.has_checkpoint;
        within += n > 0 && (!had || clocks[0] > last);
        if (had)
            assert_int_equal(inner_count_files(&cluster, last),
                             cluster.workers);
        cluster_end(&cluster);
        if (had) {
            inner_open(&cluster, &job, &inner_calm, 1);
            assert_int_equal(inner_run(&cluster, again), GW_OK);
            assert_string_equal(again, whole);
            went_on++;
        }
        cluster_close(&cluster);
    }
    print_message("# %zu died within a checkpoint, %zu went on\n", within,
                  went_on);
    assert_true(within > 2 && went_on > 2);
}

/* ---- waits and words ---- */

static int says_that_a_file_waits(void *owner)
{
    (void)owner;
    return cluster.finished ||
           (strstr(cluster.note, "file worker-1-of-3.safetensors: waiting for "
                                 "coordinator") &&
            strstr(cluster.note, "no progress for"));
}

/* The best scores come faster than files leave: the next file waits, with a
   line that says so, and nothing else changes. */
static void a_file_waits_for_the_one_before(void **state)
{
    (void)state;
    char whole[65], again[65];
    struct inner_job job = inner_job_of(inner_diloco_adamw);
    inner_add(&job, "cluster.step_deadline=0.02");
    inner_run_calmly(&cluster, &job, whole);
    inner_open(&cluster, &job, &inner_calm, 0);
    gw_sim_slow(cluster.worker[1].loop, 1);
    assert_true(cluster_run_until(&cluster, says_that_a_file_waits, NULL,
                                  INNER_LIMIT_US));
    if (cluster.finished)
        fail_msg("no file waits: %s", cluster.note);
    print_message("# %s\n", cluster.note);
    assert_int_equal(inner_run(&cluster, again), GW_OK);
    assert_string_equal(again, whole);
    uint64_t clocks[64];
    size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
    assert_true(n > 2);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(inner_count_files(&cluster, clocks[i]),
                         cluster.workers);
    cluster_close(&cluster);
}

/* ---- what is not a worker's to ask for ---- */

static struct gw_client *asking;

static void remember(void *owner, struct gw_rank *rank)
{
    (void)owner;
    asking = rank ? rank->client : NULL;
}

static uint64_t reconnects(void)
{
    return gw_metrics_get(&cluster.worker[1].metrics, GW_METRIC_RECONNECTS);
}

static int has_reconnected(void *owner)
{
    return cluster.finished || reconnects() > *(uint64_t *)owner;
}

static void a_worker_has_one_file(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        struct gw_file_open request;
    } rows[] = {
        {"local:3", {.name = "shard-0-of-2.safetensors", .write = 1}},
        {"local:3", {.name = "worker-0-of-3.safetensors", .write = 1}},
        {"local:3", {.name = "../x", .write = 1}},
        {"local:3",
         {.name = "worker-1-of-3.safetensors",
          .write = 1,
          .bytes = (uint64_t)1 << 40}},
        {"local:3", {.name = "manifest.json"}},
        {"local:3", {.name = "worker-0-of-3.safetensors"}},
        {"sync", {.name = "worker-1-of-3.safetensors", .write = 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char policy[64];
        struct inner_job job = inner_job_of(inner_local_momentum);
        struct gw_message message = {.kind = GW_MESSAGE_FILE_OPEN,
                                     .file_open = rows[i].request};
        snprintf(policy, sizeof policy, "cluster.policy=\"%s\"",
                 rows[i].policy);
        inner_add(&job, policy);
        inner_add(&job, "optimizer.kind=momentum");
        inner_run_until_stopped(&cluster, &job, 3000);
        message.file_open.clock = cluster.final.checkpoint;
        cluster_end(&cluster);
        inner_open(&cluster, &job, &inner_calm, 1);
        cluster.worker[1].options.opened = remember;
        inner_await_running(&cluster);
        uint64_t before = reconnects();
        if (message.file_open.write)
            message.file_open.clock = 1000;
        if (!message.file_open.bytes)
            message.file_open.bytes = 100;
        message.file_open.request = 77;
        gw_client_tell(asking, asking->coordinator, &message);
        assert_true(cluster_run_until(&cluster, has_reconnected, &before,
                                      INNER_LIMIT_US));
        if (cluster.finished)
            fail_msg("row %zu is not refused", i);
        char hex[65];
        assert_int_equal(inner_run(&cluster, hex), GW_OK);
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_may_go_while_workers_save),
        cmocka_unit_test(a_full_disk_does_not_end_the_job),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(a_worker_may_die_while_it_saves),
        cmocka_unit_test(a_file_waits_for_the_one_before),
        cmocka_unit_test(a_worker_has_one_file),
    };
    int failed = cmocka_run_group_tests_name("inner files", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
