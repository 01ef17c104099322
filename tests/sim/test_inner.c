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
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define LIMIT_US 120000000
#define SETTINGS 16

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

static void
open_job(const struct job *job, const struct gw_sim_options *lines, int resumes)
{
    cluster_open(&cluster, lines, job->setting, resumes ? "ck" : NULL);
}

static enum gw_status run_on(char hex[65])
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    cluster_digest(&cluster, hex);
    return cluster.final.status;
}

static void stop_job(void *owner)
{
    (void)owner;
    gw_coordinator_stop(cluster.coordinator, "test");
}

static int is_running(void *owner)
{
    (void)owner;
    return cluster.running;
}

static void await_running(void)
{
    assert_true(cluster_run_until(&cluster, is_running, NULL, LIMIT_US));
}

/* Runs until it is told to stop, delay_us after its beginning. */
static void run_until_stopped(const struct job *job, uint64_t delay_us)
{
    char hex[65];
    open_job(job, &calm, 0);
    await_running();
    gw_sim_at(cluster.sim, delay_us, stop_job, NULL);
    if (run_on(hex) != GW_EINTERRUPTED)
        fail_msg("it is not stopped: %s", cluster.text);
}

/* ---- the same bits ---- */

/* Every file of the newest checkpoint that is one of a worker. */
static size_t count_worker_files(uint64_t *bytes_p)
{
    struct gw_manifest manifest;
    struct gw_error error;
    size_t n = 0;
    if (gw_store_whole(cluster.loop->disk, "ck", cluster.final.checkpoint,
                       &manifest, &error) != GW_OK)
        fail_msg("%s", error.text);
    *bytes_p = 0;
    for (size_t i = 0; i < manifest.n_files; i++) {
        if (!gw_is_worker_file(manifest.files[i].name))
            continue;
        n++;
        *bytes_p += manifest.files[i].bytes;
    }
    gw_manifest_free(&manifest);
    return n;
}

static void stopped_jobs_go_on_to_the_same_bits(void **state)
{
    const char *const *settings = *state;
    const char *servers[] = {"cluster.servers=1", "cluster.servers=2",
                             "cluster.servers=3"};
    char whole[65], again[65];
    size_t stops = 0;
    struct job job = job_of(settings);
    open_job(&job, &calm, 0);
    assert_int_equal(run_on(whole), GW_OK);
    cluster_close(&cluster);
    for (uint64_t delay = 100; delay < 6000; delay += 300) {
        add(&job, servers[delay / 300 % 3]);
        open_job(&job, &calm, 0);
        await_running();
        gw_sim_at(cluster.sim, delay, stop_job, NULL);
        enum gw_status status = run_on(again);
        uint64_t bytes, at = cluster.final.checkpoint;
        assert_int_equal(count_worker_files(&bytes), cluster.workers);
        cluster_end(&cluster);
        job.n--;
        if (status == GW_EINTERRUPTED) {
            stops++;
            add(&job, servers[(delay / 300 + 1) % 3]);
            open_job(&job, &calm, 1);
            assert_int_equal(run_on(again), GW_OK);
            assert_null(strstr(cluster.note, "begins at zero"));
            assert_true(cluster.final.checkpoint > at || at == 20);
            job.n--;
        }
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    print_message("# %zu of 20 were stopped\n", stops);
    assert_true(stops > 5);
}

static const char *const local_momentum[] = {"cluster.policy=\"local:3\"",
                                             NULL};
static const char *const diloco_adamw[] = {
    "cluster.policy=\"diloco:4\"", "policy.inner=adamw",
    "optimizer.lr=0.002",          "train.eval_every=5 steps",
    "train.batch=7",               NULL};

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
#define GO_ON(job)                                                             \
    {                                                                          \
        "stopped_jobs_go_on_to_the_same_bits/" #job,                           \
            stopped_jobs_go_on_to_the_same_bits, NULL, NULL,                   \
            (void *)(uintptr_t)job                                             \
    }
    const struct CMUnitTest tests[] = {
        GO_ON(local_momentum),
        GO_ON(diloco_adamw),
    };
    (void)run_until_stopped;
    int failed = cmocka_run_group_tests_name("inner", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
