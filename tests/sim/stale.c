#include "config.h"

#include "tests/sim/stale.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "proto/random.h"
#include "server/server_state.h"

const struct gw_sim_options stale_calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

/* ---- what is so at the end of every job ---- */

const struct gw_shard_chunk *stale_chunk(const struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->servers; i++)
        if (cluster->server[i].server->shard->chunks > 0)
            return &cluster->server[i].server->shard->chunk[0];
    fail();
    return NULL;
}

/* A shard agrees with the workers about their clocks, and its chunks agree with
   those of the other shards. */
static const char *shard_is_wrong(const struct cluster *cluster,
                                  const struct gw_server *server)
{
    const struct gw_shard *shard = server->shard;
    const struct gw_shard_chunk *first = stale_chunk(cluster);
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        if (chunk->group > 0)
            return "a group was left over";
        if (chunk->updates != first->updates || chunk->pushes != first->pushes)
            return "chunks differ in updates or pushes";
        for (uint32_t rank = 0; rank < shard->ranks; rank++)
            if (gw_shard_slot(shard, rank, i)->mark !=
                server->clocks[rank] +
                    gw_metrics_get(&cluster->worker[rank].metrics,
                                   GW_METRIC_STEPS))
                return "a mark is not its worker's clock";
    }
    return NULL;
}

/* NULL, or what is wrong with the job that has ended. */
const char *stale_audit(const struct cluster *cluster)
{
    uint64_t pushes = cluster_at_workers(cluster, GW_METRIC_STEPS);
    const struct gw_server *server = cluster->server[0].server;
    pushes *= server->map->chunks;
    uint64_t stride = gw_rounds_next(&server->shard->rounds, 0, 0);
    if (cluster_at_servers(cluster, GW_METRIC_PUSHES_APPLIED) * stride !=
        pushes)
        return "pushes applied are not pushes made";
    for (size_t i = 0; i < cluster->servers; i++) {
        const char *why = shard_is_wrong(cluster, cluster->server[i].server);
        if (why)
            return why;
    }
    if (cluster->final.has_weights && !cluster_agrees(cluster))
        return "the weights that it ends with are not the servers'";
    return NULL;
}

/* ---- jobs ---- */

void stale_add(struct stale_job *job, const char *format, ...)
{
    va_list args;
    assert_true(job->n + 1 < STALE_SETTINGS_MAX);
    va_start(args, format);
    vsnprintf(job->text[job->n], sizeof job->text[0], format, args);
    va_end(args);
    job->setting[job->n] = job->text[job->n];
    job->setting[++job->n] = NULL;
}

void stale_add_policy(struct stale_job *job, unsigned workers, unsigned which)
{
    stale_add(job, "cluster.workers=%u", workers);
    if (which < workers)
        stale_add(job, "cluster.policy=stale-lr:%u", which + 1);
    else if (which < workers + 2)
        stale_add(job, "cluster.policy=dc-async");
    else
        stale_add(job, "cluster.policy=easgd:2");
    if (which == workers + 1)
        stale_add(job, "policy.adaptive=true");
    if (which == workers + 2)
        stale_add(job, "policy.inner=sgd");
}

const char *const stale_kinds[5] = {"sgd", "momentum", "nesterov", "adam",
                                    "adamw"};

void stale_add_optimizer(struct stale_job *job, unsigned which)
{
    stale_add(job, "optimizer.kind=%s", stale_kinds[which]);
    stale_add(job, "optimizer.lr=%s",
              which == 0  ? "0.2"
              : which < 3 ? "0.02"
                          : "0.002");
}

void stale_end_well(struct cluster *cluster)
{
    if (!cluster_run(cluster, STALE_LIMIT_US))
        fail_msg("the job does not end: %s", cluster->note);
    if (cluster->final.status != GW_OK)
        fail_msg("%s", cluster->text);
    const char *why = stale_audit(cluster);
    if (why)
        fail_msg("%s", why);
}

/* Unlike machines: worker r computes for 1 to r + 1 ms. */
static uint64_t unlike_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct gw_world_worker *worker = owner;
    uint32_t bits[4], at = worker->options.client.rank;
    uint64_t steps = gw_metrics_get(&worker->metrics, GW_METRIC_STEPS);
    gw_random4(3, GW_RANDOM_TEST, at, (uint32_t)steps, bits);
    return 1000 + bits[0] % (1000 * (uint64_t)at + 1);
}

void stale_be_unlike(struct cluster *cluster)
{
    for (size_t i = 0; i < cluster->workers; i++)
        gw_sim_compute_model(cluster->worker[i].loop, unlike_us,
                             &cluster->worker[i]);
}
