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
#include "server/checkpoint/membership.h"
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
    "cluster.silence=1",
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
        if (cluster->scores > 0)
            cluster->scored[report->step] =
                cluster->score[cluster->scores - 1].step;
        snprintf(cluster->policy[report->step], sizeof *cluster->policy, "%s",
                 report->policy);
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
    snprintf(cluster->told[cluster->notes++ % CLUSTER_TOLD],
             sizeof *cluster->told, "%s", text);
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

static void log_sink(void *context, const char *line, size_t bytes)
{
    (void)context;
    if (getenv("GW_TEST_LOG"))
        fwrite(line, 1, bytes, stderr);
}

/* Servers share the coordinator's disk, unless they are to have another. */
static void
host(void *owner, uint8_t role, size_t rank, char *name, size_t room)
{
    const struct cluster *cluster = owner;
    if (role == GW_ROLE_WORKER && cluster->houses &&
        cluster->houses[rank] == CLUSTER_AT_SERVERS)
        snprintf(name, room, "disk");
    else if (role == GW_ROLE_WORKER && cluster->houses)
        snprintf(name, room, "house-%c", cluster->houses[rank]);
    else if (role == GW_ROLE_WORKER)
        snprintf(name, room, "w%zu", rank);
    else
        snprintf(name, room, "%s",
                 role == GW_ROLE_SERVER && cluster->disks_apart ? "other"
                                                                : "disk");
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

void cluster_open(struct cluster *cluster,
                  const struct gw_sim_options *options,
                  const char *const *settings,
                  const char *resume)
{
    struct gw_error error = {.text = ""};
    struct cluster before = *cluster;
    gw_store_leave(&before.checkpoints);
    memset(cluster, 0, sizeof *cluster);
    cluster->train = before.train;
    cluster->test = before.test;
    cluster->disks_apart = before.disks_apart;
    cluster->secret = before.secret;
    cluster->fixed_ports = before.fixed_ports;
    cluster->houses = before.houses;
    cluster->backend = before.backend;
    cluster->work = before.work;
    cluster->sim = before.sim;
    cluster_config(&cluster->config, settings);
    if (!cluster->sim)
        assert_int_equal(gw_sim_create(options, &cluster->sim, &error), GW_OK);
    const struct gw_world_options world = {
        .sim = cluster->sim,
        .config = &cluster->config,
        .train = cluster->train,
        .test = cluster->test,
        .resume = resume,
        .secret = cluster->secret,
        .work = cluster->work,
        .host = host,
        .shards = (uint32_t)cluster->config.server.threads,
        .fixed_ports = cluster->fixed_ports,
        .events = &events,
        .sink = log_sink,
        .level = GW_LOG_DEBUG,
        .owner = cluster,
    };
    if (gw_world_open(&world, &cluster->world, &error) != GW_OK)
        fail_msg("%s", error.text);
    cluster->loop = cluster->world.loop;
    cluster->coordinator = cluster->world.coordinator;
    cluster->worker = cluster->world.worker;
    cluster->server = cluster->world.server;
    cluster->workers = cluster->world.workers;
    cluster->servers = cluster->world.servers;
    for (size_t i = 0; i < cluster->workers; i++) /* before they run */
        cluster->worker[i].options.backend = cluster->backend;
}

static int everyone_finished(void *owner)
{
    struct cluster *cluster = owner;
    return cluster->finished && gw_world_is_over(&cluster->world);
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

void cluster_finish(struct cluster *cluster, uint64_t limit_us)
{
    if (!cluster_run(cluster, limit_us))
        fail_msg("the job does not end: %s", cluster->note);
    if (cluster->final.status != GW_OK)
        fail_msg("%s", cluster->text);
    for (size_t i = 0; i < cluster->workers; i++)
        if (cluster->worker[i].status != GW_OK)
            fail_msg("worker %zu: %s", i, cluster->worker[i].error.text);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

void cluster_pass(struct cluster *cluster, uint64_t us)
{
    cluster_run_until(cluster, never, NULL, us);
}

int cluster_is_running(void *cluster)
{
    const struct cluster *self = cluster;
    return self->running;
}

int cluster_has_stepped(void *cluster)
{
    const struct cluster *self = cluster;
    return self->steps >= 3;
}

int cluster_is_over(void *cluster)
{
    const struct cluster *self = cluster;
    return self->finished;
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

void cluster_assert_told(const struct cluster *cluster, const char *words)
{
    for (size_t i = 0; i < CLUSTER_TOLD; i++)
        if (strstr(cluster->told[i], words))
            return;
    fail_msg("\"%s\" was not told; the last note: \"%s\"", words,
             cluster->note);
}

void cluster_replace_worker(struct cluster *cluster, size_t i)
{
    struct gw_error error;
    if (gw_world_replace_worker(&cluster->world, i, &error) != GW_OK)
        fail_msg("%s", error.text);
    cluster->worker[i].options.backend = cluster->backend;
}

void cluster_replace_server(struct cluster *cluster, size_t i)
{
    struct gw_error error;
    if (gw_world_replace_server(&cluster->world, i, &error) != GW_OK)
        fail_msg("%s", error.text);
}

void cluster_kill_coordinator(struct cluster *cluster)
{
    struct gw_error error;
    if (gw_world_end_coordinator(&cluster->world, &error) != GW_OK)
        fail_msg("%s", error.text);
}

void cluster_replace_coordinator(struct cluster *cluster)
{
    struct gw_error error;
    if (gw_world_replace_coordinator(&cluster->world, &error) != GW_OK)
        fail_msg("%s", error.text);
    cluster->loop = cluster->world.loop;
    cluster->coordinator = cluster->world.coordinator;
}

int cluster_has_register(struct cluster *cluster)
{
    struct gw_membership membership;
    if (gw_membership_read(cluster_checkpoints(cluster), &membership, NULL) !=
        GW_OK)
        return 0;
    gw_membership_free(&membership);
    return 1;
}

void cluster_end(struct cluster *cluster)
{
    gw_world_close(&cluster->world);
    cluster->loop = NULL;
    cluster->worker = NULL;
    cluster->server = NULL;
}

void cluster_close(struct cluster *cluster)
{
    gw_store_leave(&cluster->checkpoints);
    cluster_end(cluster);
    gw_sim_destroy(cluster->sim);
    cluster->sim = NULL;
}

struct gw_disk *cluster_checkpoints(struct cluster *cluster)
{
    gw_store_leave(&cluster->checkpoints);
    if (gw_store_enter(cluster->loop->disk, "ck", GW_ACCESS_PRIVATE,
                       &cluster->checkpoints, NULL) != GW_OK)
        return cluster->loop->disk;
    return &cluster->checkpoints;
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

/* One whose thread joins again has left. */
static int answers_for(const struct gw_server *server, uint32_t shard)
{
    return server && server->number == shard && !server->stands_by &&
           server->end.status != GW_EAGAIN;
}

static const struct gw_server *
find_server(const struct cluster *cluster, uint32_t shard, int killed)
{
    for (size_t i = 0; i < cluster->servers; i++) {
        const struct gw_world_server *one = &cluster->server[i];
        if (one->killed != killed)
            continue;
        if (answers_for(one->server, shard))
            return one->server;
        if (answers_for(one->standby, shard))
            return one->standby;
        for (size_t t = 0; t < GW_WORLD_MORE; t++)
            if (answers_for(one->more[t], shard))
                return one->more[t];
    }
    return NULL;
}

const struct gw_server *cluster_server(const struct cluster *cluster,
                                       uint32_t shard)
{
    const struct gw_server *alive = find_server(cluster, shard, 0);
    return alive ? alive : find_server(cluster, shard, 1);
}

void cluster_gather(const struct cluster *cluster, void *arena)
{
    const struct gw_map *map = cluster_server(cluster, 0)->map;
    for (uint32_t i = 0; i < map->shards; i++) {
        const struct gw_server *server = cluster_server(cluster, i);
        assert_non_null(server);
        const struct gw_shard *shard = server->shard;
        for (uint32_t c = 0; c < shard->chunks; c++)
            memcpy((uint8_t *)arena +
                       map->chunk[shard->chunk[c].global].arena_offset,
                   gw_shard_weights(shard, c),
                   shard->chunk[c].elems * sizeof(float));
    }
}

int cluster_agrees(const struct cluster *cluster)
{
    const struct gw_map *map = cluster_server(cluster, 0)->map;
    uint8_t digest[GW_DIGEST_BYTES];
    uint8_t *arena = malloc(map->arena_bytes);
    float **weight = malloc(map->keys * sizeof *weight);
    assert_true(arena && weight);
    cluster_gather(cluster, arena);
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
