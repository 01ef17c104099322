#include "config.h"

#include "server/need.h"

#include "server/server_state.h"
#include "transport/link/memory.h"

/* Typical memory of a shard, a coordinator and each peer over TCP; the
   manual's bounds are higher. */
#define SHARD_MESSAGES       ((uint64_t)1200 << 10)
#define COORDINATOR_MESSAGES ((uint64_t)1100 << 10)
#define PEER_MESSAGES        ((uint64_t)32 << 10)
/* A link in shared memory: its entries, and the usual use of its ring. */
#define NEAR_LINK_MESSAGES ((uint64_t)200 << 10)

static void keep_most(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

static uint64_t shard_data_bytes(const struct gw_map *map, uint32_t number)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < map->shard_chunks[number]; i++)
        bytes += map->chunk[map->shard_chunk[number][i]].elems * sizeof(float);
    return bytes;
}

/* The arrays while one word of the policy holds. */
static void count_arrays(const struct gw_config *config,
                         const struct gw_map *map,
                         uint32_t number,
                         const struct gw_regime *regime,
                         struct gw_server_need *need)
{
    const struct gw_shard_counts n =
        gw_shard_count(map, number, (uint32_t)config->cluster.workers,
                       regime->arrays, regime->optimizer);
    uint64_t saved = 1 + n.states + n.squares + n.own;
    if (regime->arrays & GW_SHARD_PAYLOAD_FREE)
        return;
    keep_most(&need->weights, n.weights * n.array_bytes + n.bf16_bytes);
    keep_most(&need->states, n.states * n.array_bytes);
    keep_most(&need->landing, n.landing * n.array_bytes);
    keep_most(&need->sums, n.sum * n.array_bytes);
    if (config->cluster.copies > 1)
        keep_most(&need->copies,
                  (n.weights + n.states + n.sum) * n.array_bytes +
                      n.bf16_bytes);
    keep_most(&need->ranks, (n.given + n.squares + n.own) * n.array_bytes);
    if (config->checkpoint.dir[0])
        keep_most(&need->snapshot, saved * shard_data_bytes(map, number));
}

static uint64_t table_bytes(const struct gw_config *config,
                            const struct gw_map *map,
                            uint32_t number)
{
    uint64_t ranks = config->cluster.workers;
    uint64_t chunks = map->shard_chunks[number];
    return chunks * sizeof(struct gw_shard_chunk) +
           chunks * ranks *
               (sizeof(struct gw_shard_slot) + sizeof(struct gw_want_slot)) +
           ranks * sizeof(struct gw_session) + gw_map_bytes(map);
}

/* The part of a worker's arena that a shard writes or reads: the chunks of
   others in the same huge page count with its own. */
static uint64_t
seen_as(const struct gw_map *map, uint32_t number, enum gw_encoding encoding)
{
    uint64_t own = gw_encoded_size(encoding, map->shard_bytes[number]);
    uint64_t all = gw_encoded_size(encoding, map->arena_bytes);
    uint64_t pages = map->shard_chunks[number] * GW_MEMORY_HUGE_BYTES;
    if (all < GW_MEMORY_HUGE_BYTES)
        return own;
    uint64_t seen = pages < all ? pages : all;
    return seen > own ? seen : own;
}

/* The parts of a near worker's arenas: raw weights, with which every job ends;
   weights in the job's encoding as well, if that is another one; and gradients,
   if the worker exports them. */
static uint64_t seen_of_all(const struct gw_config *config,
                            const struct gw_policy_plan *plan,
                            uint64_t raw,
                            uint64_t encoded)
{
    uint64_t seen = raw;
    if (config->train.weights != GW_ENCODING_RAW)
        seen += encoded;
    if (gw_policy_phases_of(plan, GW_POLICY_SYNC) > 0)
        seen += raw;
    return seen;
}

static uint64_t seen_bytes(const struct gw_config *config,
                           const struct gw_map *map,
                           uint32_t number,
                           const struct gw_policy_plan *plan)
{
    return seen_of_all(config, plan, seen_as(map, number, GW_ENCODING_RAW),
                       seen_as(map, number, config->train.weights));
}

enum gw_status gw_server_sees(const struct gw_config *config,
                              const struct gw_map *map,
                              uint64_t *bytes_p,
                              struct gw_error *error)
{
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    if (status == GW_OK)
        *bytes_p = seen_of_all(
            config, &plan, map->arena_bytes,
            gw_encoded_size(config->train.weights, map->arena_bytes));
    return status;
}

enum gw_status gw_server_need(const struct gw_config *config,
                              const struct gw_map *map,
                              uint32_t number,
                              uint32_t near,
                              struct gw_server_need *need_p,
                              struct gw_error *error)
{
    struct gw_server_need need = {
        .tables = table_bytes(config, map, number),
        .messages = config->cluster.copies * SHARD_MESSAGES +
                    config->cluster.workers * PEER_MESSAGES +
                    near * gw_config_connections(config) * NEAR_LINK_MESSAGES,
    };
    struct gw_policy_plan plan;
    enum gw_status status =
        gw_policy_plan_parse(config->cluster.policy, &plan, error);
    for (size_t i = 0; status == GW_OK && i < plan.n; i++) {
        struct gw_regime regime;
        status =
            gw_regime_make(config, &plan.phase[i].word,
                           i > 0 ? plan.phase[i - 1].until : 0, &regime, error);
        if (status == GW_OK)
            count_arrays(config, map, number, &regime, &need);
    }
    if (status == GW_OK && config->train.arithmetic != GW_ARITHMETIC_NONE)
        need.shared = near * seen_bytes(config, map, number, &plan);
    if (status == GW_OK)
        *need_p = need;
    return status;
}

uint64_t gw_coordinator_need(const struct gw_config *config,
                             const struct gw_map *map)
{
    uint64_t members = config->cluster.workers + config->cluster.servers *
                                                     config->cluster.copies *
                                                     config->server.threads;
    return COORDINATOR_MESSAGES + members * PEER_MESSAGES +
           map->keys * sizeof(struct gw_key);
}
