#include "config.h"

#include "tests/sim/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/digest.h"
#include "server/server_state.h"

static const char *const default_job[] = {
    "data.format=idx",
    "data.normalize=[0.286, 0.353]",
    "model.kind=mlp",
    "model.layers=[784, 32, 10]",
    "train.batch=10",
    "train.steps=10",
    "train.seed=7",
    "train.eval_every=never",
    "optimizer.kind=momentum",
    "optimizer.lr=0.05",
    "optimizer.momentum=0.9",
    "cluster.workers=3",
    "cluster.servers=2",
    "cluster.transport=sim",
    "checkpoint.dir=\"\"",
    "log.every=1",
    NULL,
};

static void set(struct gw_config *config, const char *assignment)
{
    struct gw_error error = {.text = ""};
    if (gw_config_set(config, assignment, &error) != GW_OK)
        fail_msg("%s", error.text);
}

static void set_data(struct gw_config *config)
{
    char text[512];
    snprintf(text, sizeof text, "data.train=\"%s/train\"", cluster_data_dir());
    set(config, text);
    snprintf(text, sizeof text, "data.test=\"%s/t10k\"", cluster_data_dir());
    set(config, text);
}

void cluster_data_open(struct gw_dataset **train, struct gw_dataset **test)
{
    struct gw_config config;
    struct gw_error error = {.text = ""};
    gw_config_default(&config);
    set(&config, "data.normalize=[0.286, 0.353]");
    set_data(&config);
    if (gw_dataset_open(&config, GW_DATASET_TRAIN, train, &error) != GW_OK ||
        gw_dataset_open(&config, GW_DATASET_TEST, test, &error) != GW_OK)
        fail_msg("%s", error.text);
}

/* ---- what the coordinator tells ---- */

static void on_running(void *owner)
{
    ((struct cluster *)owner)->running = 1;
}

static void on_step(void *owner, const struct gw_step_report *report)
{
    struct cluster *cluster = owner;
    if (report->step < sizeof cluster->loss / sizeof *cluster->loss) {
        cluster->loss[report->step] = report->loss;
        cluster->lr[report->step] = report->lr;
        for (size_t i = 0; report->split && i < report->workers; i++)
            cluster->split_samples[report->step][i] = report->split[i];
    }
    cluster->steps++;
    for (size_t i = 0; report->staleness && i < report->workers; i++)
        cluster->staleness[i] = report->staleness[i];
}

static void on_score(void *owner, const struct gw_score_report *report)
{
    struct cluster *cluster = owner;
    if (cluster->scores < sizeof cluster->score / sizeof *cluster->score)
        cluster->score[cluster->scores++] = *report;
}

static void on_split(void *owner, const struct gw_split_report *report)
{
    struct cluster *cluster = owner;
    size_t n = cluster->splits++;
    assert_true(n < sizeof cluster->split / sizeof *cluster->split);
    cluster->split[n].step = report->step;
    for (size_t i = 0; i < report->workers; i++)
        cluster->split[n].weight[i] = report->weight[i];
}

static void on_note(void *owner, const char *text)
{
    struct cluster *cluster = owner;
    cluster->notes++;
    snprintf(cluster->note, sizeof cluster->note, "%s", text);
    if (getenv("GW_TEST_LOG"))
        fprintf(stderr, "note: %s\n", text);
}

static void on_finished(void *owner, const struct gw_final_report *report)
{
    struct cluster *cluster = owner;
    cluster->finished = 1;
    cluster->final = *report;
    snprintf(cluster->text, sizeof cluster->text, "%s", report->text);
    cluster->final.text = cluster->text;
}

static const struct gw_coordinator_events events = {
    .running = on_running,
    .step = on_step,
    .score = on_score,
    .split = on_split,
    .note = on_note,
    .warning = on_note,
    .finished = on_finished,
};

/* ---- processes ---- */

static uint64_t log_clock(void *clock)
{
    return gw_sim_now(clock);
}

static void log_sink(void *context, const char *line, size_t bytes)
{
    (void)context;
    if (getenv("GW_TEST_LOG"))
        fwrite(line, 1, bytes, stderr);
}

static struct gw_loop *process(struct cluster *cluster, const char *host)
{
    struct gw_loop *loop;
    struct gw_error error = {.text = ""};
    assert_int_equal(gw_sim_process(cluster->sim, host, &loop, &error), GW_OK);
    return loop;
}

static void
server_finished(void *owner, enum gw_status status, const char *text)
{
    struct cluster_server *server = owner;
    server->finished = 1;
    server->status = status;
    snprintf(server->text, sizeof server->text, "%s", text);
}

static void open_server(struct cluster *cluster, size_t i)
{
    struct cluster_server *server = &cluster->server[i];
    struct gw_error error = {.text = ""};
    server->cluster = cluster;
    server->loop = process(cluster, cluster->disks_apart ? "other" : "disk");
    struct gw_server_options options = {
        .loop = server->loop,
        .transport = gw_transport_find("sim", &error),
        .interface = "",
        .coordinator = gw_coordinator_address(cluster->coordinator),
        .listen = "any:0",
        .host = "s",
        .machine = CLUSTER_MACHINE + i,
        .process = 200 + i,
        .pid = (uint32_t)(CLUSTER_PID + i),
        .threads = 1,
        .log = &cluster->log,
        .metrics = &server->metrics,
        .finished = server_finished,
        .owner = server,
    };
    if (gw_server_open(&options, &server->server, &error) != GW_OK)
        fail_msg("%s", error.text);
}

static void worker_main(void *argument)
{
    struct cluster_worker *worker = argument;
    worker->status = gw_worker_run(&worker->options, &worker->error);
}

static void worker_finished(void *argument)
{
    ((struct cluster_worker *)argument)->finished = 1;
}

static void open_worker(struct cluster *cluster, size_t i)
{
    struct cluster_worker *worker = &cluster->worker[i];
    struct gw_error error = {.text = ""};
    char host[24];
    snprintf(host, sizeof host, "w%zu", i);
    worker->cluster = cluster;
    worker->loop = process(cluster, host);
    worker->options = (struct gw_worker_options){
        .client = {.loop = worker->loop,
                   .transport = gw_transport_find("sim", &error),
                   .interface = "",
                   .coordinator = gw_coordinator_address(cluster->coordinator),
                   .host = "w",
                   .machine = 400 + i,
                   .pid = (uint32_t)(500 + i),
                   .rank = (uint32_t)i,
                   .log = &cluster->log,
                   .metrics = &worker->metrics},
        .train = cluster->train,
        .test = cluster->test,
    };
    assert_int_equal(gw_sim_spawn(worker->loop, worker_main, worker_finished,
                                  worker, &error),
                     GW_OK);
}

void cluster_config(struct gw_config *config, const char *const *settings)
{
    struct gw_error error = {.text = ""};
    gw_config_default(config);
    for (size_t i = 0; default_job[i]; i++)
        set(config, default_job[i]);
    set_data(config);
    for (size_t i = 0; settings && settings[i]; i++)
        set(config, settings[i]);
    if (gw_config_check(config, &error) != GW_OK)
        fail_msg("%s", error.text);
}

static void open_coordinator(struct cluster *cluster, const char *resume)
{
    struct gw_error error = {.text = ""};
    cluster->loop = process(cluster, "disk");
    struct gw_coordinator_options options = {
        .loop = cluster->loop,
        .transport = gw_transport_find("sim", &error),
        .interface = "",
        .listen = "any:0",
        .machine = CLUSTER_MACHINE + 1,
        .config = &cluster->config,
        .resume = resume,
        .log = &cluster->log,
        .events = &events,
        .owner = cluster,
    };
    if (gw_coordinator_open(&options, &cluster->coordinator, &error) != GW_OK)
        fail_msg("%s", error.text);
}

void cluster_open(struct cluster *cluster,
                  const struct gw_sim_options *options,
                  const char *const *settings,
                  const char *resume)
{
    struct gw_error error = {.text = ""};
    struct cluster before = *cluster;
    memset(cluster, 0, sizeof *cluster);
    cluster->train = before.train;
    cluster->test = before.test;
    cluster->disks_apart = before.disks_apart;
    cluster->sim = before.sim;
    cluster_config(&cluster->config, settings);
    if (!cluster->sim)
        assert_int_equal(gw_sim_create(options, &cluster->sim, &error), GW_OK);
    cluster->log.level = GW_LOG_DEBUG;
    cluster->log.rank = -1;
    cluster->log.role = "test";
    cluster->log.now_us = log_clock;
    cluster->log.clock = cluster->sim;
    cluster->log.sink = log_sink;
    open_coordinator(cluster, resume);
    cluster->workers = cluster->config.cluster.workers;
    cluster->servers = cluster->config.cluster.servers;
    for (size_t i = 0; i < cluster->servers; i++)
        open_server(cluster, i);
    for (size_t i = 0; i < cluster->workers; i++)
        open_worker(cluster, i);
}

static int everyone_finished(void *owner)
{
    struct cluster *cluster = owner;
    for (size_t i = 0; i < cluster->workers; i++)
        if (!cluster->worker[i].finished)
            return 0;
    for (size_t i = 0; i < cluster->servers; i++)
        if (!cluster->server[i].finished)
            return 0;
    return cluster->finished;
}

int cluster_run_until(struct cluster *cluster,
                      int (*done)(void *owner),
                      void *owner,
                      uint64_t limit_us)
{
    return gw_sim_run(cluster->sim, done, owner,
                      gw_sim_now(cluster->sim) + limit_us);
}

int cluster_run(struct cluster *cluster, uint64_t limit_us)
{
    return cluster_run_until(cluster, everyone_finished, cluster, limit_us);
}

int cluster_is_running(void *cluster)
{
    const struct cluster *self = cluster;
    return self->running;
}

void cluster_stop(void *cluster)
{
    struct cluster *self = cluster;
    gw_coordinator_stop(self->coordinator, "test");
}

uint64_t cluster_refused(const struct cluster *cluster)
{
    uint64_t refused = 0;
    for (size_t i = 0; i < cluster->servers; i++)
        refused += gw_metrics_get(&cluster->server[i].metrics,
                                  GW_METRIC_PROTOCOL_ERRORS);
    for (size_t i = 0; i < cluster->workers; i++)
        refused += gw_metrics_get(&cluster->worker[i].metrics,
                                  GW_METRIC_PROTOCOL_ERRORS);
    return refused;
}

void cluster_end(struct cluster *cluster)
{
    if (!cluster->loop)
        return;
    for (size_t i = 0; i < cluster->workers; i++) {
        if (!cluster->worker[i].finished) {
            gw_sim_kill(cluster->worker[i].loop);
            gw_sim_unwind(cluster->worker[i].loop);
        }
        gw_loop_close(cluster->worker[i].loop);
    }
    for (size_t i = 0; i < cluster->servers; i++) {
        gw_server_close(cluster->server[i].server);
        gw_loop_close(cluster->server[i].loop);
    }
    gw_coordinator_close(cluster->coordinator);
    gw_loop_close(cluster->loop);
    cluster->loop = NULL;
}

void cluster_close(struct cluster *cluster)
{
    cluster_end(cluster);
    gw_sim_destroy(cluster->sim);
    cluster->sim = NULL;
}

uint64_t cluster_at_servers(const struct cluster *cluster, enum gw_metric which)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster->servers; i++)
        sum += gw_metrics_get(&cluster->server[i].metrics, which);
    return sum;
}

uint64_t cluster_at_workers(const struct cluster *cluster, enum gw_metric which)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < cluster->workers; i++)
        sum += gw_metrics_get(&cluster->worker[i].metrics, which);
    return sum;
}

/* All that the shards have, in the arena of a worker. */
static void gather(const struct cluster *cluster, uint8_t *arena)
{
    const struct gw_map *map = cluster->server[0].server->map;
    for (size_t i = 0; i < cluster->servers; i++) {
        const struct gw_shard *shard = cluster->server[i].server->shard;
        for (uint32_t c = 0; c < shard->chunks; c++)
            memcpy(arena + map->chunk[shard->chunk[c].global].arena_offset,
                   gw_shard_weights(shard, c),
                   shard->chunk[c].elems * sizeof(float));
    }
}

int cluster_agrees(const struct cluster *cluster)
{
    const struct gw_map *map = cluster->server[0].server->map;
    uint8_t digest[GW_DIGEST_BYTES];
    uint8_t *arena = malloc(map->arena_bytes);
    float **weight = malloc(map->keys * sizeof *weight);
    assert_true(arena && weight);
    gather(cluster, arena);
    for (size_t k = 0; k < map->keys; k++)
        weight[k] = (float *)(void *)(arena + map->key_offset[k]);
    gw_digest_weights(weight, map->key, map->keys, digest);
    free(weight);
    free(arena);
    return memcmp(digest, cluster->final.weights_sha256, sizeof digest) == 0;
}

void cluster_digest(const struct cluster *cluster, char hex[65])
{
    gw_digest_hex(cluster->final.weights_sha256, hex);
}
