#include "config.h"

#include "tests/sim/inner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/checkpoint/store.h"

const struct gw_sim_options inner_calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

const char *const inner_local_momentum[] = {"cluster.policy=\"local:3\"", NULL};
/* scores are the best again and again, and the last steps of an epoch are
   short: a rank without a sample makes no update */
const char *const inner_diloco_adamw[] = {
    "cluster.policy=\"diloco:4\"", "policy.inner=adamw", "optimizer.lr=0.002",
    "train.eval_every=5 steps",    "train.batch=7",      NULL};
/* clipped, in turn, merged late, and met at 5, 6, 10, .. */
const char *const inner_diloco_in_parts[] = {"cluster.policy=\"diloco:4\"",
                                             "policy.inner=momentum",
                                             "policy.inner_clip=0.5",
                                             "policy.fragments=2",
                                             "policy.overlap=2",
                                             "train.eval_every=5 steps",
                                             "checkpoint.every=6 steps",
                                             NULL};
/* files of several windows */
const char *const inner_large_adam[] = {
    "cluster.policy=\"local:2\"",  "policy.inner=adam", "optimizer.lr=0.001",
    "model.layers=[784, 800, 10]", "train.steps=6",     NULL};

void inner_add(struct inner_job *job, const char *setting)
{
    assert_true(job->n + 1 < INNER_SETTINGS);
    job->setting[job->n++] = setting;
}

void inner_drop(struct inner_job *job)
{
    job->setting[--job->n] = NULL;
}

struct inner_job inner_job_of(const char *const *settings)
{
    struct inner_job job = {.n = 0};
    inner_add(&job, "checkpoint.dir=ck");
    inner_add(&job, "checkpoint.every=3 steps");
    inner_add(&job, "train.steps=20");
    for (size_t i = 0; settings[i]; i++)
        inner_add(&job, settings[i]);
    return job;
}

/* Time enough for checkpoints within a job. */
static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)samples;
    (void)owner;
    return 400;
}

void inner_open(struct cluster *cluster,
                const struct inner_job *job,
                const struct gw_sim_options *lines,
                int resumes)
{
    cluster_open(cluster, lines, job->setting, resumes ? "ck" : NULL);
    for (size_t i = 0; i < cluster->workers; i++)
        gw_sim_compute_model(cluster->worker[i].loop, step_us, NULL);
}

enum gw_status inner_run(struct cluster *cluster, char hex[65])
{
    if (!cluster_run(cluster, INNER_LIMIT_US))
        fail_msg("the job does not end: %s", cluster->note);
    cluster_digest(cluster, hex);
    return cluster->final.status;
}

void inner_await_running(struct cluster *cluster)
{
    assert_true(cluster_run_until(cluster, cluster_is_running, cluster,
                                  INNER_LIMIT_US));
}

void inner_run_until_stopped(struct cluster *cluster,
                             const struct inner_job *job,
                             uint64_t delay_us)
{
    char hex[65];
    inner_open(cluster, job, &inner_calm, 0);
    inner_await_running(cluster);
    gw_sim_at(cluster->sim, delay_us, cluster_stop, cluster);
    if (inner_run(cluster, hex) != GW_EINTERRUPTED)
        fail_msg("it is not stopped: %s", cluster->text);
}

void inner_run_calmly(struct cluster *cluster,
                      const struct inner_job *job,
                      char hex[65])
{
    inner_open(cluster, job, &inner_calm, 0);
    if (inner_run(cluster, hex) != GW_OK)
        fail_msg("%s", cluster->text);
    cluster_close(cluster);
}

size_t inner_count_files(struct cluster *cluster, uint64_t clock)
{
    struct gw_manifest manifest;
    struct gw_error error;
    size_t n = 0;
    if (gw_store_whole(cluster_checkpoints(cluster), clock, &manifest,
                       &error) != GW_OK)
        fail_msg("%s", error.text);
    for (size_t i = 0; i < manifest.n_files; i++)
        n += gw_is_worker_file(manifest.files[i].name) != 0;
    gw_manifest_free(&manifest);
    return n;
}
