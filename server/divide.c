/*
 * train.split = speed, at a shard: words of members for the leader, which
 * divides steps by them (policy/decision_split.c).
 */
#include "config.h"

#include "server/server_state.h"

#include <stdlib.h>
#include <string.h>

static enum gw_status take_one(struct gw_server *server,
                               const struct gw_decision *splits,
                               uint32_t i,
                               uint32_t *weight)
{
    uint32_t ranks = server->ranks;
    const double *values = splits->values + (size_t)i * ranks;
    if (!gw_split_from_values(values, ranks, weight))
        return GW_EPROTO;
    return gw_splits_add(&server->divide.repeated, splits->clocks[i], weight);
}

void gw_divide_repeat(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_decision *splits)
{
    uint32_t n = splits->clocks_n;
    /* it is too late for it when the leader is there */
    if (!server->has_config || server->number != 0 || server->map ||
        splits->kind != GW_DECIDE_SPLIT || n == 0 ||
        (uint64_t)n * server->ranks != splits->values_n) {
        gw_peer_reject(peer, 0, "splits that nobody waits for");
        return;
    }
    uint32_t *weight = calloc(server->ranks, sizeof *weight);
    enum gw_status status = weight ? GW_OK : GW_ENOMEM;
    server->divide.repeated.ranks = server->ranks;
    for (uint32_t i = 0; i < n && status == GW_OK; i++)
        status = take_one(server, splits, i, weight);
    free(weight);
    if (status != GW_OK)
        gw_server_finish(server, status, "the coordinator's splits: %s",
                         gw_status_text(status));
}

enum gw_status gw_divide_start(struct gw_server *server,
                               const struct gw_start *start,
                               struct gw_error *error)
{
    if (start->split_n == 0)
        return GW_OK;
    if (start->split_n != server->ranks ||
        !gw_split_is_whole(start->split, server->ranks))
        return gw_fail(error, GW_EPROTO,
                       "the start's split does not add up for %u workers",
                       server->ranks);
    server->divide.first = calloc(server->ranks, sizeof *server->divide.first);
    if (!server->divide.first)
        return gw_fail(error, GW_ENOMEM, "no memory for a split");
    memcpy(server->divide.first, start->split,
           server->ranks * sizeof *server->divide.first);
    return GW_OK;
}

void gw_divide_speed(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_speed *speed)
{
    if (gw_leader_speed(server->leader, peer->id, speed) != GW_OK)
        gw_peer_reject(peer, 0, "speed that nobody asked for");
}

/* The leader measures by the fragment that is exchanged first. */
static int is_measured(const struct gw_server *server,
                       const struct gw_shard_chunk *chunk)
{
    return server->leader && chunk->fragment == 0 &&
           gw_config_splits_by_speed(&server->config);
}

void gw_divide_answered(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    if (is_measured(server, chunk))
        gw_leader_answered(server->leader, rank, chunk->version,
                           gw_loop_now(server->loop));
}

void gw_divide_took(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    if (is_measured(server, chunk))
        gw_leader_took(server->leader, rank, chunk->version,
                       gw_shard_slot(server->shard, rank, index)->samples,
                       gw_loop_now(server->loop));
}

void gw_divide_close(struct gw_server *server)
{
    gw_splits_free(&server->divide.repeated);
    free(server->divide.first);
}

const uint32_t *gw_divide_first(const struct gw_server *server)
{
    return server->divide.first;
}

const struct gw_splits *gw_divide_repeated(const struct gw_server *server)
{
    return server->divide.repeated.n > 0 ? &server->divide.repeated : NULL;
}
