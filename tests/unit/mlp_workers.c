#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/mlp_workers.h"
#include "tests/unit/plain_mlp.h"

#define RANKS SINGLE_RANKS

/* ---- the client: what worker/client is elsewhere ---- */

uint64_t gw_client_arena_bytes(const struct gw_client *client)
{
    return client->single->server.map->arena_bytes;
}

const struct gw_policy_word *gw_client_policy(const struct gw_client *client,
                                              uint64_t *until_p)
{
    *until_p = UINT64_MAX;
    return &client->single->server.regime.word;
}

void gw_client_fail_with(struct gw_client *client, const struct gw_error *error)
{
    (void)client;
    fail_msg("%s", error->text);
}

/* These jobs save nothing and go on from nothing. */

int gw_client_cut(struct gw_client *client, uint64_t clock, uint64_t *name_p)
{
    (void)client;
    (void)clock;
    (void)name_p;
    return 0;
}

enum gw_status gw_client_save(struct gw_client *client,
                              uint64_t name,
                              const struct gw_file_part *parts,
                              size_t n)
{
    (void)client;
    (void)name;
    (void)parts;
    (void)n;
    return GW_EUNSUPPORTED;
}

enum gw_status gw_client_saved(struct gw_client *client)
{
    (void)client;
    return GW_OK;
}

int gw_client_has_inner(const struct gw_client *client)
{
    (void)client;
    return 0;
}

enum gw_status gw_client_load_size(struct gw_client *client, uint64_t *bytes_p)
{
    (void)client;
    (void)bytes_p;
    return GW_EUNSUPPORTED;
}

enum gw_status
gw_client_load(struct gw_client *client, uint64_t offset, void *to, size_t n)
{
    (void)client;
    (void)offset;
    (void)to;
    (void)n;
    return GW_EUNSUPPORTED;
}

static int has_weights(const struct gw_client *client,
                       size_t first,
                       size_t n,
                       uint64_t version)
{
    for (size_t key = first; key < first + n; key++)
        if (client->have[key] <= version)
            return 0;
    return 1;
}

enum gw_status gw_client_wait(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t version)
{
    assert_true(has_weights(client, first, n, version));
    return GW_OK;
}

static void want(struct gw_client *client, size_t key, uint64_t version)
{
    const struct gw_map *map = client->single->server.map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
        single_want(client->single, client->rank, map->chunk[c].local, version);
}

static void want_all(struct gw_client *client, uint64_t version)
{
    for (size_t key = 0; key < MLP_KEYS; key++)
        want(client, key, version);
}

static size_t first_elem(size_t key)
{
    return key > 0 ? mlp_key_end[key - 1] : 0;
}

static size_t key_bytes(size_t key)
{
    return (mlp_key_end[key] - first_elem(key)) * sizeof(float);
}

/* Where the worker has told the client that its pushes lie. */
static const float *pushed_at(const struct gw_client *client, size_t key)
{
    const struct gw_map *map = client->single->server.map;
    return client->worker->gradients + map->key_offset[key] / sizeof(float);
}

enum gw_status gw_client_push(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples)
{
    const struct gw_map *map = client->single->server.map;
    if (client->late && first < MLP_KEYS - 2)
        return GW_EAGAIN;
    for (size_t key = first; key < first + n; key++) {
        const float *push = pushed_at(client, key);
        client->is_out[key] = samples > 0;
        memcpy(client->sent + first_elem(key), push, key_bytes(key));
        for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
            single_push(client->single, client->rank, map->chunk[c].local,
                        clock, samples, push + map->chunk[c].key_elem);
        want(client, key, next);
    }
    return GW_OK;
}

/* No worker of these tests has samples and no gradient. */
enum gw_status gw_client_skip(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples,
                              int counts)
{
    (void)counts;
    assert_int_equal(samples, 0);
    return gw_client_push(client, first, n, clock, next, 0);
}

/* ---- workers ---- */

static enum gw_status need(void *context, size_t first, size_t n)
{
    struct gw_rank *worker = context;
    return worker->local
               ? gw_local_need(worker, first, n)
               : gw_client_wait(worker->client, first, n, worker->clock);
}

static enum gw_status ready(void *context, size_t first, size_t n)
{
    struct gw_rank *worker = context;
    if (worker->samples > 0)
        gw_local_made(worker, first, n);
    return worker->local
               ? gw_local_ready(worker, first, n)
               : gw_client_push(worker->client, first, n, worker->clock,
                                worker->clock + 1, worker->samples);
}

static void computed(void *context, uint64_t flop)
{
    (void)context;
    (void)flop;
}

/* One step, as worker/trainer/rank_step.c takes it. */
static enum gw_status train(struct mlp_workers *all, uint32_t rank)
{
    struct gw_rank *worker = &all->worker[rank];
    struct gw_feed *feed = &all->feed[rank];
    const struct gw_model_hooks hooks = {worker, need, ready, computed};
    struct mlp_batch batch;
    gw_local_begin(worker);
    mlp_batch(rank, worker->clock, &batch);
    worker->samples = (uint32_t)batch.n;
    if (batch.n == 0) {
        enum gw_status status = need(worker, 0, worker->keys);
        return status == GW_OK ? ready(worker, 0, worker->keys) : status;
    }
    memcpy(feed->x, batch.x, sizeof batch.x);
    const struct gw_model_pass pass = {.x = feed->x,
                                       .labels = batch.labels,
                                       .n = batch.n,
                                       .scale = 1,
                                       .last = 1};
    return gw_model_train(all->model, &pass,
                          (const float *const *)worker->weight,
                          worker->gradient, &hooks);
}

void mlp_workers_step(struct mlp_workers *all, uint32_t rank)
{
    assert_int_equal(train(all, rank), GW_OK);
    all->worker[rank].clock++;
}

void mlp_workers_give_up(struct mlp_workers *all, uint32_t rank, int has_begun)
{
    struct gw_rank *worker = &all->worker[rank];
    worker->client->late = 1;
    if (has_begun && mlp_samples(rank, worker->clock) > 0)
        assert_int_equal(train(all, rank), GW_EAGAIN);
    worker->client->late = 0;
    worker->clock++;
    want_all(worker->client, worker->clock);
}

int mlp_workers_can_step(const struct mlp_workers *all, uint32_t rank)
{
    return has_weights(&all->client[rank], 0, MLP_KEYS,
                       all->worker[rank].clock);
}

/* An answer, into the arena. */
static void answered(void *owner,
                     uint32_t rank,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct mlp_workers *all = owner;
    struct gw_rank *worker = &all->worker[rank];
    const struct gw_chunk *chunk = &all->single.server.map->chunk[frame->chunk];
    struct gw_client *client = &all->client[rank];
    size_t key = chunk->key;
    /* a link may have broken, and all have been sent again */
    if (client->is_out[key])
        assert_memory_equal(pushed_at(client, key),
                            client->sent + first_elem(key), key_bytes(key));
    client->is_out[key] = 0;
    memcpy((char *)worker->weights + chunk->arena_offset, payload,
           frame->length);
    client->have[key] = frame->clock + 1;
}

static void
open_worker(struct mlp_workers *all, uint32_t rank, const struct gw_key *keys)
{
    const struct gw_map *map = all->single.server.map;
    const struct gw_backend_ops *cpu = gw_backend_find("cpu", &all->error);
    struct gw_rank *worker = &all->worker[rank];
    struct gw_client *client = &all->client[rank];
    *client = (struct gw_client){
        .single = &all->single, .rank = rank, .worker = worker};
    *worker = (struct gw_rank){
        .config = all->single.server.config,
        .client = client,
        .error = &all->error,
        .backend = cpu,
        .device = all->device,
        .plan = {.steps = all->single.server.start.total_steps},
        .number = rank,
        .key = keys,
        .keys = MLP_KEYS,
        .weights = cpu->alloc(all->device, map->arena_bytes),
        .gradients = cpu->alloc(all->device, map->arena_bytes),
        .weight = calloc(MLP_KEYS, sizeof(float *)),
        .gradient = calloc(MLP_KEYS, sizeof(float *)),
        .done = calloc(MLP_KEYS, sizeof(struct gw_rank_done)),
    };
    const struct gw_dataset_shape row = {
        .channels = 1, .height = 1, .width = MLP_IN};
    assert_int_equal(gw_feed_open(&all->feed[rank], cpu, all->device, &row,
                                  MLP_BATCH_MAX, &all->error),
                     GW_OK);
    for (size_t key = 0; key < MLP_KEYS; key++) {
        size_t place = map->key_offset[key] / sizeof(float);
        worker->weight[key] = worker->weights + place;
        worker->gradient[key] = worker->gradients + place;
    }
    const struct gw_mirror_of mirror = {.ops = cpu,
                                        .device = all->device,
                                        .key = keys,
                                        .keys = MLP_KEYS,
                                        .arena = worker->weights,
                                        .bytes = map->arena_bytes,
                                        .weight = worker->weight,
                                        .gradient = worker->gradient};
    assert_int_equal(gw_mirror_open(&mirror, &worker->mirror, &all->error),
                     GW_OK);
    assert_int_equal(gw_local_switch(worker), GW_OK);
}

static void close_worker(struct gw_rank *worker)
{
    gw_local_close(worker);
    gw_mirror_close(worker->mirror);
    worker->backend->free(worker->device, worker->weights);
    worker->backend->free(worker->device, worker->gradients);
    free(worker->weight);
    free(worker->gradient);
    free(worker->done);
}

/* ---- a job ---- */

static const struct gw_key *open_model(struct mlp_workers *all)
{
    size_t n_keys;
    static struct gw_config config;
    const struct gw_string_list layers = {3, {"12", "10", "4"}};
    const struct gw_dataset_shape shape = {MLP_BATCH_MAX, 1, 3, 4, MLP_OUT};
    const struct gw_device_options options = {.threads = 1};
    const struct gw_backend_ops *cpu = gw_backend_find("cpu", &all->error);
    memset(&config, 0, sizeof config);
    config.model.kind = GW_MODEL_MLP;
    config.model.layers = layers;
    assert_non_null(cpu);
    assert_int_equal(cpu->open(&options, &all->device, &all->error), GW_OK);
    if (gw_model_create(&config, &shape, MLP_BATCH_MAX, cpu, all->device,
                        &all->model, &all->error))
        fail_msg("%s", all->error.text);
    const struct gw_key *keys = gw_model_keys(all->model, &n_keys);
    assert_int_equal(n_keys, MLP_KEYS);
    return keys;
}

static void seed(struct mlp_workers *all)
{
    const struct gw_shard *shard = all->single.server.shard;
    const struct gw_map *map = all->single.server.map;
    double w[MLP_WEIGHTS];
    float rounded[MLP_WEIGHTS];
    mlp_first_weights(w);
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        rounded[i] = (float)w[i];
    for (uint32_t c = 0; c < shard->chunks; c++) {
        const struct gw_chunk *chunk = &map->chunk[shard->chunk[c].global];
        size_t first = first_elem(chunk->key);
        single_seed(&all->single, c, rounded + first + chunk->key_elem);
    }
}

void mlp_workers_open(struct mlp_workers *all,
                      uint64_t total_steps,
                      const char *const *job,
                      const char *const *more)
{
    memset(all, 0, sizeof *all);
    const struct gw_key *keys = open_model(all);
    single_open(&all->single, keys, MLP_KEYS, total_steps, job, more);
    seed(all);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        open_worker(all, rank, keys);
    single_connect(&all->single, answered, all);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        want_all(&all->client[rank], 0);
}

void mlp_workers_close(struct mlp_workers *all)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        close_worker(&all->worker[rank]);
        gw_feed_close(&all->feed[rank]);
    }
    single_close(&all->single);
    gw_model_destroy(all->model);
    gw_backend_find("cpu", &all->error)->close(all->device);
}

/* ---- what they have ---- */

void mlp_workers_read_server(const struct mlp_workers *all,
                             float w[MLP_WEIGHTS])
{
    const struct gw_shard *shard = all->single.server.shard;
    for (uint32_t c = 0; c < shard->chunks; c++) {
        const struct gw_chunk *chunk =
            &all->single.server.map->chunk[shard->chunk[c].global];
        size_t first = first_elem(chunk->key);
        memcpy(w + first + chunk->key_elem, gw_shard_weights(shard, c),
               chunk->elems * sizeof *w);
    }
}

void mlp_workers_read(const struct mlp_workers *all,
                      uint32_t rank,
                      float w[MLP_WEIGHTS])
{
    for (size_t key = 0; key < MLP_KEYS; key++)
        memcpy(w + first_elem(key), all->worker[rank].weight[key],
               key_bytes(key));
}
