#include "config.h"

#include "worker/need.h"

#include <string.h>

#include "kernels/update/update.h"
#include "proto/rounds.h"
#include "worker/client/client.h"
#include "worker/data/feed.h"
#include "worker/model/model.h"
#include "worker/trainer/local.h"
#include "worker/trainer/mirror.h"
#include "worker/trainer/plan.h"

/* Usual sizes, of a worker and of each connection over TCP; the manual's bounds
   are higher. */
#define WORKER_MESSAGES ((uint64_t)1200 << 10)
#define LINK_MESSAGES   ((uint64_t)32 << 10)
/* A link in shared memory: its entries, and the part of its ring that is
   usually used. */
#define NEAR_LINK_MESSAGES ((uint64_t)200 << 10)

static void keep_most(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

enum gw_status gw_worker_map(const struct gw_worker_case *what,
                             struct gw_map **map_p,
                             uint64_t *sample_flop_p,
                             struct gw_error *error)
{
    const struct gw_config *config = what->config;
    uint64_t shards = config->cluster.servers * config->server.threads;
    struct gw_model *model;
    size_t n;
    *sample_flop_p = 0;
    if (what->key)
        return gw_map_create(what->key, what->keys, shards, map_p, error);
    enum gw_status status = gw_model_outline(
        config, gw_dataset_shape(what->train), 1, what->backend, &model, error);
    if (status != GW_OK)
        return status;
    const struct gw_key *keys = gw_model_keys(model, &n);
    status = gw_map_create(keys, n, shards, map_p, error);
    *sample_flop_p = gw_model_flop(model);
    gw_model_destroy(model);
    return status;
}

/* Steps of a program weigh the same, whatever their samples. */
static enum gw_status make_plan(const struct gw_worker_case *what,
                                struct gw_plan *plan,
                                struct gw_error *error)
{
    uint64_t workers = what->config->cluster.workers;
    if (what->train)
        return gw_plan_make(what->config,
                            gw_dataset_shape(what->train)->samples, workers,
                            NULL, plan, error);
    *plan = gw_plan_of_weight(what->config, workers, workers);
    return GW_OK;
}

/* Counts the memory that depends on the batch, on the device or on the host. */
static enum gw_status count_batch(const struct gw_worker_case *what,
                                  const struct gw_plan *plan,
                                  const struct gw_map *map,
                                  struct gw_worker_need *need,
                                  struct gw_error *error)
{
    const struct gw_dataset_shape *shape = gw_dataset_shape(what->train);
    size_t samples = gw_plan_batch_max(plan, what->test != NULL);
    struct gw_feed_bytes batch = gw_feed_bytes(shape, samples);
    struct gw_model *model;
    enum gw_status status = gw_model_outline(what->config, shape, samples,
                                             what->backend, &model, error);
    if (status != GW_OK)
        return status;
    const struct gw_device_parts parts = {
        .model_bytes = gw_model_bytes(model),
        .scratch_bytes = gw_model_scratch_bytes(model),
        .arena_bytes = map->arena_bytes,
        .sample_bytes = batch.x,
        .labels = batch.labels,
    };
    gw_model_destroy(model);
    need->batch = gw_feed_sides(what->backend) * (batch.x + batch.labels);
    if (!what->backend->on_host) {
        need->device = gw_device_need_of(what, &parts);
        return GW_OK;
    }
    need->scratch = parts.scratch_bytes;
    need->activations = parts.model_bytes - parts.scratch_bytes;
    return GW_OK;
}

static void count_data(const struct gw_dataset *data,
                       struct gw_worker_need *need)
{
    const struct gw_dataset_bytes bytes = gw_dataset_bytes(data);
    keep_most(&need->opening, need->data + need->mapped + bytes.opening);
    need->data += bytes.held;
    need->mapped += bytes.mapped;
}

/* Non-zero where a program may take the steps of local policies with an
   optimizer of its own, whose states are then no memory of the rank's. */
static int may_own_steps(const struct gw_config *config)
{
    return gw_config_is_external(config) &&
           strcmp(config->policy.inner, "auto") == 0;
}

/* Counts the arenas and states of the policy's words. */
static void count_local(const struct gw_config *config,
                        const struct gw_policy_plan *policy,
                        const struct gw_plan *steps,
                        const struct gw_map *map,
                        struct gw_worker_need *need)
{
    for (size_t i = 0; i < policy->n; i++) {
        const struct gw_policy_phase *phase = &policy->phase[i];
        const struct gw_rounds rounds = gw_rounds_of(
            config, &phase->word, i > 0 ? policy->phase[i - 1].until : 0,
            phase->until, steps->steps, &steps->course);
        const struct gw_local_arenas arenas =
            gw_local_arenas_of(config, &rounds);
        uint64_t states = arenas.optimizer && !may_own_steps(config)
                              ? arenas.optimizer->states
                              : 0;
        uint64_t n = (uint64_t)(arenas.own + arenas.from + arenas.apart);
        keep_most(&need->local, (n + states) * map->arena_bytes);
        if (config->checkpoint.dir[0])
            keep_most(&need->snapshot, states * map->model_bytes);
    }
}

/* Counts memory that is another process's as well: landing slots, unless
   gradients are only exported. */
static void count_near(const struct gw_config *config,
                       const struct gw_policy_plan *policy,
                       const struct gw_map *map,
                       const struct gw_worker_near *near,
                       struct gw_worker_need *need)
{
    int payload_free = config->train.arithmetic == GW_ARITHMETIC_NONE;
    int writes = !payload_free &&
                 gw_policy_phases_of(policy, GW_POLICY_SYNC) < policy->n;
    uint64_t others = near ? near->grouped : 0;
    for (size_t shard = 0; near && shard < map->shards; shard++) {
        if (!near->shard[shard])
            continue;
        need->messages += gw_config_connections(config) * NEAR_LINK_MESSAGES;
        need->shared += writes ? map->shard_bytes[shard] : 0;
    }
    /* the group's gradients and weights of the chunks that this one owns */
    if (others > 0 && !payload_free)
        need->shared +=
            (map->arena_bytes +
             gw_encoded_size(config->train.weights, map->arena_bytes)) *
            others / (others + 1);
}

enum gw_status gw_worker_need(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_worker_near *near,
                              struct gw_worker_need *need_p,
                              struct gw_error *error)
{
    const struct gw_config *config = what->config;
    int payload_free = config->train.arithmetic == GW_ARITHMETIC_NONE;
    struct gw_worker_need need = {
        .tables = gw_client_table_bytes(map, gw_config_connections(config)) +
                  gw_map_bytes(map),
        .messages = WORKER_MESSAGES +
                    map->shards * gw_config_connections(config) * LINK_MESSAGES,
    };
    struct gw_plan plan;
    struct gw_policy_plan policy;
    enum gw_status status = make_plan(what, &plan, error);
    if (status == GW_OK)
        status = gw_policy_plan_parse(config->cluster.policy, &policy, error);
    if (status != GW_OK)
        return status;
    count_near(config, &policy, map, near, &need);
    if (what->train)
        count_data(what->train, &need);
    if (what->test)
        count_data(what->test, &need);
    if (!payload_free) {
        need.weights = need.gradients = map->arena_bytes;
        if (config->train.weights == GW_ENCODING_BF16)
            need.weights += map->arena_bytes / 2; /* as they arrive */
        if (what->train)
            status = count_batch(what, &plan, map, &need, error);
        if (status == GW_OK)
            count_local(config, &policy, &plan, map, &need);
    }
    if (status == GW_OK)
        *need_p = need;
    return status;
}
