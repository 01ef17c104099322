/*
 * Checkpoints in simulation: a job that was interrupted, or lost its power at
 * any operation of the disk, goes on to the bits of one that was not.
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

#define LIMIT_US 60000000
#define SETTINGS 8

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* Runs the job that is open; the status, and the digest where it is done. */
static enum gw_status run_on(char hex[65])
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    cluster_digest(&cluster, hex);
    return cluster.final.status;
}

static enum gw_status run(const char *const *settings, char hex[65])
{
    cluster_open(&cluster, &calm, settings, NULL);
    return run_on(hex);
}

static enum gw_status resume(const char *const *settings, char hex[65])
{
    cluster_open(&cluster, &calm, settings, "ck");
    return run_on(hex);
}

/* Settings with one more, and the checkpoint directory. */
static void
with(const char *const *settings, const char *more, const char *out[SETTINGS])
{
    size_t n = 0;
    out[n++] = "checkpoint.dir=ck";
    out[n++] = "checkpoint.every=3 steps";
    for (size_t i = 0; settings[i]; i++)
        out[n++] = settings[i];
    out[n++] = more;
    out[n] = NULL;
}

static void interrupted_jobs_go_on_to_the_same_bits(void **state)
{
    const char *const *job = *state;
    const char *servers[] = {"cluster.servers=1", "cluster.servers=2",
                             "cluster.servers=3"};
    char whole[65], again[65];
    assert_int_equal(run(job, whole), GW_OK);
    cluster_close(&cluster);
    for (uint64_t delay = 100; delay < 3000; delay += 400) {
        const char *settings[SETTINGS];
        with(job, servers[delay / 400 % 3], settings);
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        gw_sim_at(cluster.sim, delay, cluster_stop, &cluster);
        enum gw_status status = run_on(again);
        uint64_t at = cluster.final.checkpoint;
        cluster_end(&cluster);
        if (status == GW_OK) { /* it was done before it was stopped */
            assert_string_equal(again, whole);
            cluster_close(&cluster);
            continue;
        }
        assert_int_equal(status, GW_EINTERRUPTED);
        with(job, servers[(delay / 400 + 1) % 3], settings);
        assert_int_equal(resume(settings, again), GW_OK);
        assert_true(cluster.final.checkpoint > at || at == 10);
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
}

/* Stopped before, between and right at the clocks whose weights are scored, a
   job scores each of them once and stops early where it would have. */
static void interrupted_jobs_miss_no_score(void **state)
{
    (void)state;
    const char *settings[] = {"checkpoint.dir=ck",
                              "checkpoint.every=2 steps",
                              "train.eval_every=2 steps",
                              "train.early_stop=3",
                              "optimizer.lr=0.9",
                              "train.steps=40",
                              NULL};
    char whole[65], again[65];
    assert_int_equal(run(settings, whole), GW_OK);
    assert_true(cluster.final.checkpoint > 6 && cluster.final.checkpoint < 40);
    uint64_t scores = cluster.scores;
    cluster_close(&cluster);
    for (uint64_t delay = 100; delay < 10000; delay += 300) {
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        gw_sim_at(cluster.sim, delay, cluster_stop, &cluster);
        int stopped = run_on(again) == GW_EINTERRUPTED;
        uint64_t before = cluster.scores;
        if (stopped) {
            cluster_end(&cluster);
            assert_int_equal(resume(settings, again), GW_OK);
            assert_int_equal(before + cluster.scores, scores);
        }
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
}

static void cut_a_link(void *owner)
{
    (void)owner;
    gw_sim_cut(cluster.sim);
}

/* Some links break while files are on their way. */
static void cut_links(uint64_t delay)
{
    for (uint64_t i = 1; i < 6; i++)
        gw_sim_at(cluster.sim, delay + 3000 * i, cut_a_link, NULL);
}

/* The files go to the coordinator and come back from it. */
static void servers_need_no_shared_disk(void **state)
{
    const char *const *job = *state;
    const char *servers[] = {"cluster.servers=1", "cluster.servers=3"};
    char whole[65], again[65];
    struct gw_disk apart;
    assert_int_equal(run(job, whole), GW_OK);
    cluster_close(&cluster);
    cluster.disks_apart = 1;
    for (uint64_t delay = 0; delay < 12; delay++) {
        const char *settings[SETTINGS];
        with(job, servers[delay % 2], settings);
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        gw_sim_at(cluster.sim, 300 + 100 * delay, cluster_stop, &cluster);
        cut_links(100 * delay);
        run_on(again);
        if (!cluster.final.has_checkpoint || strstr(cluster.note, "failed"))
            fail_msg("%s; %s", cluster.text, cluster.note);
        assert_int_equal(gw_store_enter(cluster.server[0].loop->disk, "ck",
                                        GW_ACCESS_PRIVATE, &apart, NULL),
                         GW_ENOENT);
        cluster_end(&cluster);
        with(job, servers[(delay + 1) % 2], settings);
        cluster_open(&cluster, &calm, settings, "ck");
        cut_links(100 * delay);
        if (run_on(again) != GW_OK)
            fail_msg("%s", cluster.text);
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    cluster.disks_apart = 0;
}

/* The only checkpoints are whole ones, at most keep + the best of them. */
static void count_checkpoints(size_t at_most)
{
    uint64_t clocks[64];
    struct gw_error error;
    size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
    assert_in_range(n, 1, at_most);
    uint64_t newest;
    assert_int_equal(gw_store_list(cluster_checkpoints(&cluster), &newest, 1),
                     1);
    assert_int_equal(newest, clocks[0]);
    for (size_t i = 0; i < n; i++) {
        struct gw_manifest manifest;
        assert_int_equal(gw_store_manifest(cluster_checkpoints(&cluster),
                                           clocks[i], &manifest, &error),
                         GW_OK);
        assert_int_equal(
            gw_store_verify(cluster_checkpoints(&cluster), &manifest, &error),
            GW_OK);
        gw_manifest_free(&manifest);
    }
}

static void old_checkpoints_are_removed(void **state)
{
    (void)state;
    char hex[65];
    const char *settings[] = {"checkpoint.dir=ck", "checkpoint.every=2 steps",
                              "checkpoint.keep=2", "train.steps=11", NULL};
    assert_int_equal(run(settings, hex), GW_OK);
    assert_int_equal(cluster.final.checkpoint, 11);
    count_checkpoints(2);
    cluster_close(&cluster);
}

static void the_best_is_kept(void **state)
{
    (void)state;
    char hex[65];
    const char *settings[] = {"checkpoint.dir=ck",  "checkpoint.every=1 steps",
                              "checkpoint.keep=1",  "train.eval_every=2 steps",
                              "train.early_stop=2", "optimizer.lr=2.5",
                              "train.steps=20",     NULL};
    assert_int_equal(run(settings, hex), GW_OK);
    assert_true(cluster.scores > 1);
    count_checkpoints(2);
    uint64_t best = 0;
    for (uint64_t i = 0; i < cluster.scores; i++)
        if (cluster.score[i].best)
            best = cluster.score[i].step;
    struct gw_manifest manifest;
    assert_int_equal(
        gw_store_manifest(cluster_checkpoints(&cluster), best, &manifest, NULL),
        GW_OK);
    assert_int_equal(manifest.best, 1);
    gw_manifest_free(&manifest);
    cluster_close(&cluster);
}

static void a_used_directory_is_not_overwritten(void **state)
{
    (void)state;
    char hex[65];
    const char *settings[] = {"checkpoint.dir=ck", NULL};
    struct gw_error error;
    struct gw_coordinator *second;
    assert_int_equal(run(settings, hex), GW_OK);
    cluster_end(&cluster);
    struct gw_loop *loop;
    assert_int_equal(gw_sim_process(cluster.sim, "disk", &loop, &error), GW_OK);
    struct gw_coordinator_options options = {
        .loop = loop,
        .transport = gw_transport_find("sim", &error),
        .listen = "any:0",
        .config = &cluster.config,
    };
    assert_int_equal(gw_coordinator_open(&options, &second, &error), GW_EEXIST);
    assert_non_null(strstr(error.text, "--resume"));
    gw_loop_close(loop);
    gw_sim_destroy(cluster.sim);
    cluster.sim = NULL;
}

static void write_at(const char *path, uint64_t offset, uint8_t byte)
{
    struct gw_disk *disk = cluster_checkpoints(&cluster);
    struct gw_file *file;
    struct gw_error error;
    uint8_t *bytes;
    size_t n;
    assert_int_equal(gw_store_read(disk, path, UINT64_MAX, &bytes, &n, &error),
                     GW_OK);
    bytes[offset % n] ^= byte;
    assert_int_equal(disk->ops->open(disk, path, GW_FILE_CREATE, &file, &error),
                     GW_OK);
    assert_int_equal(disk->ops->write(file, 0, bytes, n, &error), GW_OK);
    disk->ops->close(file, &error);
    free(bytes);
}

/* The one before the checkpoint of step 7, in words. */
static void step_before(char *text, size_t room)
{
    uint64_t clocks[64];
    size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
    assert_in_range(n, 2, 64);
    assert_int_equal(clocks[0], 7);
    snprintf(text, room, "checkpoint of step %d", (int)clocks[1]);
}

/* The newest is damaged: it is named, and the one before is used. */
static void damaged_checkpoints_are_passed_over(void **state)
{
    (void)state;
    const char *files[] = {GW_MANIFEST_NAME, "shard-0-of-2.safetensors",
                           "shard-1-of-2.safetensors"};
    const char *settings[] = {"checkpoint.dir=ck", "checkpoint.every=1 steps",
                              "train.steps=7", NULL};
    const char *longer[] = {"checkpoint.dir=ck", "train.steps=10", NULL};
    const char *plain[] = {NULL};
    char whole[65], again[65], path[GW_PATH_MAX];
    assert_int_equal(run(plain, whole), GW_OK);
    cluster_close(&cluster);
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t offset = 0; offset < 100000; offset += 33331) {
            assert_int_equal(run(settings, again), GW_OK);
            char before[32];
            step_before(before, sizeof before);
            gw_store_path(7, files[i], path);
            write_at(path, offset, 0x10);
            cluster_end(&cluster);
            cluster_open(&cluster, &calm, longer, "ck");
            if (!strstr(cluster.note, before))
                fail_msg("%s at %d: %s", files[i], (int)offset, cluster.note);
            assert_int_equal(run_on(again), GW_OK);
            assert_string_equal(again, whole);
            cluster_close(&cluster);
        }
    }
}

/*
 * The power goes at every single operation of the disk: what is there after
 * the restart is a whole checkpoint, and it leads to the same bits.
 */
static void power_may_go_at_any_operation(void **state)
{
    (void)state;
    const char *settings[] = {"checkpoint.dir=ck", "checkpoint.every=4 steps",
                              "checkpoint.keep=1", NULL};
    const char *plain[] = {NULL};
    char whole[65], again[65];
    assert_int_equal(run(plain, whole), GW_OK);
    cluster_close(&cluster);
    assert_int_equal(run(settings, again), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    assert_true(operations > 50);
    size_t resumed = 0;
    for (uint64_t op = 3; op <= operations; op++) {
        cluster_open(&cluster, &calm, settings, NULL);
        gw_sim_disk_fail(cluster.loop, op - 2, GW_OK);
        cluster_run(&cluster, LIMIT_US);
        gw_sim_disk_restart(cluster.loop);
        uint64_t clocks[64];
        size_t n = gw_store_list(cluster_checkpoints(&cluster), clocks, 64);
        int whole_ones = 0;
        for (size_t i = 0; i < n; i++) {
            struct gw_manifest manifest;
            if (gw_store_manifest(cluster_checkpoints(&cluster), clocks[i],
                                  &manifest, NULL) != GW_OK)
                continue;
            whole_ones++;
            gw_manifest_free(&manifest);
        }
        cluster_end(&cluster);
        if (whole_ones > 0) {
            assert_int_equal(resume(settings, again), GW_OK);
            assert_string_equal(again, whole);
            resumed++;
            cluster_end(&cluster);
        }
        gw_sim_destroy(cluster.sim);
        cluster.sim = NULL;
    }
    if (resumed * 3 < operations)
        fail_msg("%zu of %zu could go on", resumed, (size_t)operations);
}

static const char *const stopped[] = {NULL};
static const char *const early[] = {
    "train.eval_every=2 steps", "train.early_stop=2", "optimizer.lr=2.5", NULL};

/* Checkpoints that were begun and are not there. */
static size_t leftovers(void)
{
    struct gw_disk *disk = cluster_checkpoints(&cluster);
    uint64_t clocks[64];
    size_t n = gw_store_list(disk, clocks, 64), found = 0;
    for (size_t i = 0; i < n; i++) {
        struct gw_manifest manifest;
        if (gw_store_manifest(disk, clocks[i], &manifest, NULL) == GW_OK)
            gw_manifest_free(&manifest);
        else
            found++;
    }
    return found;
}

/* A disk that is full once: one line, the job goes on and tries again. */
static void a_full_disk_is_tried_again(void **state)
{
    (void)state;
    const char *settings[] = {"checkpoint.dir=ck", "checkpoint.every=3 steps",
                              NULL};
    char hex[65];
    assert_int_equal(run(settings, hex), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 1; op + 2 <= operations; op += 7) {
        cluster_open(&cluster, &calm, settings, NULL);
        gw_sim_disk_fail(cluster.loop, op, GW_ENOSPC);
        enum gw_status status = run_on(hex);
        if (cluster.final.checkpoint == 10) {
            assert_int_equal(status, GW_OK);
        } else {
            assert_int_equal(status, GW_EIO);
            assert_non_null(strstr(cluster.note, "no space left"));
        }
        if (strstr(cluster.note, "failed"))
            assert_int_equal(leftovers(), 0);
        cluster_close(&cluster);
    }
}

static void open_early(const char *const *settings, int stops)
{
    cluster_open(&cluster, &calm, settings, NULL);
    if (stops)
        gw_sim_at(cluster.sim, 3000, cluster_stop, &cluster);
}

/* The same for jobs that end before their last step. */
static void a_full_disk_is_told_at_every_end(void **state)
{
    const char *const *more = *state;
    const char *settings[SETTINGS];
    char hex[65];
    size_t failed = 0;
    with(more, "train.steps=60", settings);
    open_early(settings, more == stopped);
    enum gw_status calmly = run_on(hex);
    assert_int_equal(calmly, more == stopped ? GW_EINTERRUPTED : GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 1; op + 2 <= operations; op += 3) {
        open_early(settings, more == stopped);
        gw_sim_disk_fail(cluster.loop, op, GW_ENOSPC);
        enum gw_status status = run_on(hex);
        assert_true(cluster.final.step < 60);
        if (cluster.final.has_checkpoint &&
            cluster.final.checkpoint == cluster.final.step) {
            assert_int_equal(status, calmly);
        } else {
            assert_int_equal(status, GW_EIO);
            assert_non_null(strstr(cluster.text, "could not be written"));
            assert_int_equal(cluster.final.has_checkpoint,
                             strstr(cluster.text, "goes on from step") != NULL);
            failed++;
        }
        cluster_close(&cluster);
    }
    assert_true(failed > 0);
}

static const char *const momentum[] = {"train.commit=streaming", NULL};
static const char *const whole_adam[] = {
    "train.commit=whole", "optimizer.kind=adam", "optimizer.lr=0.001",
    "train.clip=1", NULL};
static const char *const lamb[] = {"optimizer.kind=lamb", "optimizer.lr=0.01",
                                   NULL};

/* files of several windows */
static const char *const large[] = {"model.layers=[784, 1000, 10]",
                                    "train.steps=2", NULL};

#define APART(job)                                                             \
    {                                                                          \
        "servers_need_no_shared_disk/" #job, servers_need_no_shared_disk,      \
            NULL, NULL, (void *)(uintptr_t)job                                 \
    }
#define FULL(job)                                                              \
    {                                                                          \
        "a_full_disk_is_told_at_every_end/" #job,                              \
            a_full_disk_is_told_at_every_end, NULL, NULL,                      \
            (void *)(uintptr_t)job                                             \
    }
#define GO_ON(job)                                                             \
    {                                                                          \
        "interrupted_jobs_go_on_to_the_same_bits/" #job,                       \
            interrupted_jobs_go_on_to_the_same_bits, NULL, NULL,               \
            (void *)(uintptr_t)job                                             \
    }

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        GO_ON(momentum),
        GO_ON(whole_adam),
        GO_ON(lamb),
        cmocka_unit_test(interrupted_jobs_miss_no_score),
        APART(momentum),
        APART(whole_adam),
        APART(large),
        cmocka_unit_test(old_checkpoints_are_removed),
        cmocka_unit_test(the_best_is_kept),
        cmocka_unit_test(a_used_directory_is_not_overwritten),
        cmocka_unit_test(damaged_checkpoints_are_passed_over),
        cmocka_unit_test(power_may_go_at_any_operation),
        cmocka_unit_test(a_full_disk_is_tried_again),
        FULL(stopped),
        FULL(early),
    };
    int failed = cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
