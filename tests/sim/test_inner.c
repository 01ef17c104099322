/*
 * Workers' own optimizers in checkpoints: a job that was stopped goes on to the
 * bits of one that was not, through every disturbance of the files' exchange.
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

#include "server/store.h"
#include "server/tensors.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "worker/client_state.h"

#define LIMIT_US 120000000
#define SETTINGS 16
#define SEEDS    250
#define STEPS    20

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* Settings of a job, those that come later being over the others. */
struct job {
    const char *setting[SETTINGS];
    size_t n;
};

static void add(struct job *job, const char *setting)
{
    assert_true(job->n + 1 < SETTINGS);
    job->setting[job->n++] = setting;
}

static void drop(struct job *job)
{
    job->setting[--job->n] = NULL;
}

static struct job job_of(const char *const *settings)
{
    struct job job = {.n = 0};
    add(&job, "checkpoint.dir=ck");
    add(&job, "checkpoint.every=3 steps");
    add(&job, "train.steps=20");
    for (size_t i = 0; settings[i]; i++)
        add(&job, settings[i]);
    return job;
}

/* Time enough for checkpoints within a job. */
static uint64_t step_us(void *owner)
{
    (void)owner;
    return 400;
}

static void
open_job(const struct job *job, const struct gw_sim_options *lines, int resumes)
{
    cluster_open(&cluster, lines, job->setting, resumes ? "ck" : NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, NULL);
}

static enum gw_status run_on(char hex[65])
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    cluster_digest(&cluster, hex);
    return cluster.final.status;
}

static void await_running(void)
{
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
}

/* Runs until it is told to stop, delay_us after its beginning. */
static void run_until_stopped(const struct job *job, uint64_t delay_us)
{
    char hex[65];
    open_job(job, &calm, 0);
    await_running();
    gw_sim_at(cluster.sim, delay_us, cluster_stop, &cluster);
    if (run_on(hex) != GW_EINTERRUPTED)
        fail_msg("it is not stopped: %s", cluster.text);
}

/* The updates that a worker's file of the last checkpoint tells of. */
static uint64_t updates_of(uint32_t rank)
{
    struct gw_tensors tensors;
    struct gw_error error;
    char name[GW_FILE_NAME_MAX], path[GW_PATH_MAX];
    gw_worker_file_name(rank, (uint32_t)cluster.workers, name);
    gw_store_path("ck", cluster.final.checkpoint, name, path);
    if (gw_tensors_open(cluster.loop->disk, path, &tensors, &error) != GW_OK)
        fail_msg("%s", error.text);
    const char *text = gw_safetensors_metadata(tensors.header, "updates");
    assert_non_null(text);
    uint64_t updates = strtoull(text, NULL, 10);
    gw_tensors_close(&tensors);
    return updates;
}

/* Files of workers in the checkpoint of `clock`, which must be whole. */
static size_t count_worker_files(uint64_t clock)
{
    struct gw_manifest manifest;
    struct gw_error error;
    size_t n = 0;
    if (gw_store_whole(cluster.loop->disk, "ck", clock, &manifest, &error) !=
        GW_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < manifest.n_files; i++)
        n += gw_is_worker_file(manifest.files[i].name) != 0;
    gw_manifest_free(&manifest);
    return n;
}

/* ---- the same bits ---- */

static const char *const local_momentum[] = {"cluster.policy=\"local:3\"",
                                             NULL};
/* scores are the best again and again, and the last steps of an epoch are
   short: a rank without a sample makes no update */
static const char *const diloco_adamw[] = {
    "cluster.policy=\"diloco:4\"", "policy.inner=adamw", "optimizer.lr=0.002",
    "train.eval_every=5 steps",    "train.batch=7",      NULL};
/* in turn, merged late, and met at 5, 6, 10, .. */
static const char *const diloco_in_parts[] = {"cluster.policy=\"diloco:4\"",
                                              "policy.inner=momentum",
                                              "policy.fragments=2",
                                              "policy.overlap=2",
                                              "train.eval_every=5 steps",
                                              "checkpoint.every=6 steps",
                                              NULL};
/* files of several windows */
static const char *const large_adam[] = {
    "cluster.policy=\"local:2\"",  "policy.inner=adam", "optimizer.lr=0.001",
    "model.layers=[784, 800, 10]", "train.steps=6",     NULL};

static void run_calmly(const struct job *job, char hex[65])
{
    open_job(job, &calm, 0);
    if (run_on(hex) != GW_OK)
        fail_msg("%s", cluster.text);
    cluster_close(&cluster);
}

static void stopped_jobs_go_on_to_the_same_bits(void **state)
{
    const char *const *settings = *state;
    const char *servers[] = {"cluster.servers=1", "cluster.servers=2",
                             "cluster.servers=3"};
    char whole[65], again[65];
    size_t stops = 0;
    struct job job = job_of(settings);
    run_calmly(&job, whole);
    for (uint64_t i = 0; i < 24; i++) {
        add(&job, servers[i % 3]);
        open_job(&job, &calm, 0);
        await_running();
        gw_sim_at(cluster.sim, 100 + 350 * i, cluster_stop, &cluster);
        enum gw_status status = run_on(again);
        uint64_t at = cluster.final.checkpoint;
        assert_int_equal(count_worker_files(at), cluster.workers);
        cluster_end(&cluster);
        drop(&job);
        if (status == GW_EINTERRUPTED) {
            stops++;
            add(&job, servers[(i + 1) % 3]);
            open_job(&job, &calm, 1);
            assert_int_equal(run_on(again), GW_OK);
            assert_null(strstr(cluster.note, "zero"));
            assert_true(cluster.final.checkpoint > at || at == STEPS);
            drop(&job);
        }
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    print_message("# %zu of 24 were stopped\n", stops);
    assert_true(stops > 8);
}

/* ---- in every weather ---- */

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_STOPPED,
    COUNT_CHECKPOINTS,
};

static struct job stormy;
static char undisturbed[65];

/* 0: it has not ended, or not as it should. */
static int end_storm(struct storm *storm, struct sweep_outcome *outcome)
{
    if (!cluster_run(&cluster, LIMIT_US)) {
        snprintf(outcome->why, sizeof outcome->why,
                 "it does not end (step %u, last note: %s)",
                 (unsigned)cluster.steps, cluster.note);
        return 0;
    }
    outcome->count[COUNT_CUTS] += storm->cuts;
    outcome->count[COUNT_PAUSES] += storm->pauses + storm->stops;
    for (size_t i = 0; i < cluster.workers; i++)
        outcome->count[COUNT_CHECKPOINTS] +=
            gw_metrics_get(&cluster.worker[i].metrics, GW_METRIC_CHECKPOINTS);
    if (cluster.final.status == GW_OK ||
        cluster.final.status == GW_EINTERRUPTED)
        return 1;
    snprintf(outcome->why, sizeof outcome->why, "it ends with: %s",
             cluster.text);
    return 0;
}

/* Stopped in a storm, gone on with in another one, in which what is left of
   the first only cuts: the pauses of two may come too close. */
static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm[2];
    struct gw_sim_options lines;
    char hex[65] = "";
    storm_begin(&storm[0], seed, &lines);
    open_job(&stormy, &lines, 0);
    storm_blow(&storm[0], &cluster);
    await_running();
    gw_sim_at(cluster.sim, storm_draw(&storm[0], 40000), cluster_stop,
              &cluster);
    int ended = end_storm(&storm[0], outcome);
    if (ended && cluster.final.status == GW_EINTERRUPTED &&
        cluster.final.has_checkpoint) {
        outcome->count[COUNT_STOPPED]++;
        cluster_end(&cluster);
        storm[0].calm_until_us = UINT64_MAX;
        storm_begin(&storm[1], seed + 1000000, &lines);
        open_job(&stormy, &lines, 1);
        storm_blow(&storm[1], &cluster);
        ended = end_storm(&storm[1], outcome);
    }
    if (ended && cluster.final.status == GW_OK) {
        cluster_digest(&cluster, hex);
        if (strcmp(hex, undisturbed) != 0)
            snprintf(outcome->why, sizeof outcome->why, "other weights");
        else if (count_worker_files(cluster.final.checkpoint) !=
                 cluster.workers)
            snprintf(outcome->why, sizeof outcome->why, "not all files");
    }
    cluster_close(&cluster);
}

static void same_bits_in_every_weather(void **state)
{
    uint64_t sum[SWEEP_COUNTS];
    const char *const *settings = *state;
    stormy = job_of(settings);
    run_calmly(&stormy, undisturbed);
    uint64_t seeds = settings == large_adam ? SEEDS / 10 : SEEDS;
    uint64_t failed = sweep(settings[0], seeds, one, sum);
    printf("# %u cuts, %u pauses, %u stopped, %u files of workers\n",
           (unsigned)sum[COUNT_CUTS], (unsigned)sum[COUNT_PAUSES],
           (unsigned)sum[COUNT_STOPPED], (unsigned)sum[COUNT_CHECKPOINTS]);
    assert_int_equal(failed, 0);
    for (size_t i = COUNT_CUTS; i <= COUNT_CHECKPOINTS; i++)
        assert_true(sum[i] > 0 || sweep_is_replay());
}

/* ---- disks ---- */

/* Of every third operation of the disk one is its last: what was synced leads
   to the same bits. */
static void power_may_go_while_workers_save(void **state)
{
    (void)state;
    char whole[65], again[65];
    struct job job = job_of(local_momentum);
    size_t resumed = 0, tried = 0;
    run_calmly(&job, whole);
    open_job(&job, &calm, 0);
    assert_int_equal(run_on(again), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 3; op <= operations; op += 3) {
        uint64_t clocks[64];
        int is_whole = 0;
        tried++;
        open_job(&job, &calm, 0);
        gw_sim_disk_fail(cluster.loop, op - 2, GW_OK);
        cluster_run(&cluster, LIMIT_US);
        gw_sim_disk_restart(cluster.loop);
        size_t n = gw_store_list(cluster.loop->disk, "ck", clocks, 64);
        for (size_t i = 0; i < n; i++) {
            struct gw_manifest manifest;
            if (gw_store_whole(cluster.loop->disk, "ck", clocks[i], &manifest,
                               NULL) != GW_OK)
                continue;
            gw_manifest_free(&manifest);
            assert_int_equal(count_worker_files(clocks[i]), cluster.workers);
            is_whole = 1;
        }
        cluster_end(&cluster);
        if (is_whole) {
            open_job(&job, &calm, 1);
            assert_int_equal(run_on(again), GW_OK);
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
    struct job job = job_of(local_momentum);
    size_t named = 0;
    run_calmly(&job, whole);
    open_job(&job, &calm, 0);
    assert_int_equal(run_on(again), GW_OK);
    uint64_t operations = gw_sim_disk_operations(cluster.loop);
    cluster_close(&cluster);
    for (uint64_t op = 1; op + 2 <= operations; op++) {
        open_job(&job, &calm, 0);
        gw_sim_disk_fail(cluster.loop, op, GW_ENOSPC);
        enum gw_status status = run_on(again);
        assert_int_equal(status,
                         cluster.final.checkpoint == STEPS ? GW_OK : GW_EIO);
        assert_string_equal(again, whole);
        named += strstr(cluster.note, "worker ") != NULL;
        uint64_t clocks[64];
        size_t n = gw_store_list(cluster.loop->disk, "ck", clocks, 64);
        for (size_t i = 0; i < n && strstr(cluster.note, "failed"); i++)
            assert_int_equal(count_worker_files(clocks[i]), cluster.workers);
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
    struct job job = job_of(local_momentum);
    struct gw_error error;
    struct gw_file *file;
    uint8_t byte;
    add(&job, "train.steps=26");
    run_calmly(&job, whole);
    drop(&job);
    for (uint64_t offset = 0; offset < 100000; offset += 24999) {
        open_job(&job, &calm, 0);
        assert_int_equal(run_on(again), GW_OK);
        struct gw_disk *disk = cluster.loop->disk;
        gw_store_path("ck", STEPS, "worker-1-of-3.safetensors", path);
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
        add(&job, "train.steps=26");
        open_job(&job, &calm, 1);
        if (!strstr(cluster.note, "going on from the checkpoint of step 1"))
            fail_msg("%s", cluster.note); /* 10 to 19 */
        assert_int_equal(run_on(again), GW_OK);
        assert_string_equal(again, whole);
        drop(&job);
        cluster_close(&cluster);
    }
}

/* ---- deaths ---- */

static void kill_worker(void *owner)
{
    gw_sim_kill(((struct cluster_worker *)owner)->loop);
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
    struct job job = job_of(large_adam);
    size_t within = 0, went_on = 0;
    run_calmly(&job, whole);
    for (uint64_t delay = 10000; delay < 400000; delay += 30000) {
        uint64_t clocks[64];
        open_job(&job, &calm, 0);
        gw_sim_slow(cluster.worker[1].loop, 100);
        await_running();
        gw_sim_at(cluster.sim, delay, kill_worker, &cluster.worker[1]);
        assert_true(cluster_run_until(&cluster, coordinator_has_finished, NULL,
                                      LIMIT_US));
        size_t n = gw_store_list(cluster.loop->disk, "ck", clocks, 64);
        uint64_t last = cluster.final.checkpoint;
        int had = cluster.final.has_checkpoint;
        within += n > 0 && (!had || clocks[0] > last);
        if (had)
            assert_int_equal(count_worker_files(last), cluster.workers);
        cluster_end(&cluster);
        if (had) {
            open_job(&job, &calm, 1);
            assert_int_equal(run_on(again), GW_OK);
            assert_string_equal(again, whole);
            went_on++;
        }
        cluster_close(&cluster);
    }
    print_message("# %zu died within a checkpoint, %zu went on\n", within,
                  went_on);
    assert_true(within > 2 && went_on > 2);
}

/* ---- other jobs ---- */

/* What a checkpoint has is of use for the same optimizer and as many workers;
   else there is a line, and a beginning. */
static void another_job_begins_at_zero(void **state)
{
    (void)state;
    static const struct {
        const char *first, *then, *note;
        int counts; /* updates go on, from zero, or there are none */
    } rows[] = {
        {"policy.inner=momentum", "policy.inner=momentum", NULL, 1},
        {"policy.inner=momentum", "cluster.workers=4",
         "the state of the workers' own momentum is that of 3 workers, this "
         "job has 4: it begins at zero",
         0},
        {"policy.inner=momentum", "cluster.workers=2",
         "is that of 3 workers, this job has 2: it begins at zero", 0},
        {"policy.inner=momentum", "policy.inner=adam",
         "the workers' own optimizer was momentum, now it is adam: its state "
         "begins at zero",
         0},
        {"policy.inner=sgd", "policy.inner=nesterov",
         "the checkpoint has no state of the workers' own nesterov: it begins "
         "at zero",
         0},
        {"policy.inner=momentum", "policy.inner=sgd",
         "the checkpoint's state of the workers' own momentum is not used", -1},
        {"policy.inner=sgd", "policy.inner=sgd", NULL, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char hex[65];
        struct job job = job_of(local_momentum);
        add(&job, rows[i].first);
        run_until_stopped(&job, 3000);
        uint64_t at = cluster.final.checkpoint;
        assert_in_range(at, 3, STEPS - 3);
        cluster_end(&cluster);
        add(&job, rows[i].then);
        open_job(&job, &calm, 1);
        await_running();
        if (rows[i].note && !strstr(cluster.note, rows[i].note))
            fail_msg("row %zu: %s", i, cluster.note);
        if (!rows[i].note && strstr(cluster.note, "own"))
            fail_msg("row %zu: %s", i, cluster.note);
        assert_int_equal(run_on(hex), GW_OK);
        uint64_t files = rows[i].counts < 0 ? 0 : cluster.workers;
        assert_int_equal(count_worker_files(STEPS), files);
        for (uint32_t rank = 0; rank < files; rank++)
            assert_int_equal(updates_of(rank),
                             rows[i].counts ? STEPS : STEPS - at);
        cluster_close(&cluster);
    }
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
    struct job job = job_of(diloco_adamw);
    add(&job, "cluster.step_deadline=0.02");
    run_calmly(&job, whole);
    open_job(&job, &calm, 0);
    gw_sim_slow(cluster.worker[1].loop, 1);
    assert_true(
        cluster_run_until(&cluster, says_that_a_file_waits, NULL, LIMIT_US));
    if (cluster.finished)
        fail_msg("no file waits: %s", cluster.note);
    print_message("# %s\n", cluster.note);
    assert_int_equal(run_on(again), GW_OK);
    assert_string_equal(again, whole);
    uint64_t clocks[64];
    size_t n = gw_store_list(cluster.loop->disk, "ck", clocks, 64);
    assert_true(n > 2);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(count_worker_files(clocks[i]), cluster.workers);
    cluster_close(&cluster);
}

/* ---- what is not a worker's to ask for ---- */

static struct gw_client *asking;

static void remember(void *owner, struct gw_client *client)
{
    (void)owner;
    asking = client;
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
        struct job job = job_of(local_momentum);
        struct gw_message message = {.kind = GW_MESSAGE_FILE_OPEN,
                                     .file_open = rows[i].request};
        snprintf(policy, sizeof policy, "cluster.policy=\"%s\"",
                 rows[i].policy);
        add(&job, policy);
        add(&job, "optimizer.kind=momentum");
        run_until_stopped(&job, 3000);
        message.file_open.clock = cluster.final.checkpoint;
        cluster_end(&cluster);
        open_job(&job, &calm, 1);
        cluster.worker[1].options.opened = remember;
        await_running();
        uint64_t before = reconnects();
        if (message.file_open.write)
            message.file_open.clock = 1000;
        if (!message.file_open.bytes)
            message.file_open.bytes = 100;
        message.file_open.request = 77;
        gw_client_tell(asking, asking->coordinator, &message);
        assert_true(
            cluster_run_until(&cluster, has_reconnected, &before, LIMIT_US));
        if (cluster.finished)
            fail_msg("row %zu is not refused", i);
        char hex[65];
        assert_int_equal(run_on(hex), GW_OK);
        cluster_close(&cluster);
    }
}

#define JOB(test, job)                                                         \
    {                                                                          \
#test "/" #job, test, NULL, NULL, (void *)(uintptr_t)job               \
    }

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        JOB(stopped_jobs_go_on_to_the_same_bits, local_momentum),
        JOB(stopped_jobs_go_on_to_the_same_bits, diloco_adamw),
        JOB(stopped_jobs_go_on_to_the_same_bits, diloco_in_parts),
        JOB(same_bits_in_every_weather, local_momentum),
        JOB(same_bits_in_every_weather, diloco_adamw),
        JOB(same_bits_in_every_weather, diloco_in_parts),
        JOB(same_bits_in_every_weather, large_adam),
        cmocka_unit_test(power_may_go_while_workers_save),
        cmocka_unit_test(a_full_disk_does_not_end_the_job),
        cmocka_unit_test(a_damaged_file_is_refused),
        cmocka_unit_test(a_worker_may_die_while_it_saves),
        cmocka_unit_test(another_job_begins_at_zero),
        cmocka_unit_test(a_file_waits_for_the_one_before),
        cmocka_unit_test(a_worker_has_one_file),
    };
    int failed = cmocka_run_group_tests_name("inner", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
