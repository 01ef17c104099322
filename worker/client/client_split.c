/*
 * This rank's part of each step, where parts go by speed. A division is decided
 * at least one exchange before it holds: a worker that pushes a clock has
 * weights of it from shard 0, and with them the decision on the next one. So
 * two are kept, the one in force and the one to come.
 *
 * The caller reads while the loop may write the next one: not the one that is
 * in force, except for a worker that is late, and its step does not count.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <inttypes.h>
#include <stdlib.h>

/* The part in force and the one to come, in any order. */
struct gw_client_split {
    uint32_t *weight; /* [ranks] scratch */
    struct {
        _Atomic uint64_t clock; /* from which it holds */
        _Atomic uint64_t range; /* begin << 32 | end */
    } entry[2];
};

static void keep(struct gw_client *client, size_t at, uint64_t clock)
{
    struct gw_client_split *split = client->split;
    struct gw_split_range range =
        gw_split_range_of(split->weight, client->job->rank);
    atomic_store(&split->entry[at].range,
                 (uint64_t)range.begin << 32 | range.end);
    atomic_store(&split->entry[at].clock, clock);
}

enum gw_status gw_client_split_begin(struct gw_client *client,
                                     const struct gw_start *start)
{
    uint32_t ranks = client->job->ranks;
    if (!gw_config_splits_by_speed(&client->job->config))
        return GW_OK;
    struct gw_client_split *split = calloc(1, sizeof *split);
    client->split = split;
    if (!split)
        return GW_ENOMEM;
    split->weight = calloc(ranks, sizeof *split->weight);
    if (!split->weight)
        return GW_ENOMEM;
    gw_split_even(ranks, split->weight);
    if (start->split_n > 0) {
        if (start->split_n != ranks || !gw_split_is_whole(start->split, ranks))
            return GW_EPROTO;
        for (uint32_t rank = 0; rank < ranks; rank++)
            split->weight[rank] = start->split[rank];
    }
    for (size_t at = 0; at < 2; at++)
        keep(client, at, 0);
    return GW_OK;
}

void gw_client_split_close(struct gw_client *client)
{
    if (client->split)
        free(client->split->weight);
    free(client->split);
}

void gw_client_split_decided(struct gw_client *client,
                             const struct gw_decision *decision)
{
    struct gw_client_split *split = client->split;
    uint32_t ranks = client->job->ranks;
    if (!split || decision->values_n != ranks ||
        !gw_split_from_values(decision->values, ranks, split->weight)) {
        gw_client_fail(client, GW_EPROTO,
                       "the decision on how step %" PRIu64 " is divided makes "
                       "no sense",
                       decision->clock);
        return;
    }
    size_t older = atomic_load(&split->entry[1].clock) <=
                   atomic_load(&split->entry[0].clock);
    keep(client, older, decision->clock);
}

struct gw_client_share gw_client_share(const struct gw_client *client,
                                       uint64_t clock)
{
    const struct gw_client_split *split = client->split;
    size_t at = 0;
    uint64_t since[2];
    for (size_t i = 0; i < 2; i++)
        since[i] = atomic_load(&split->entry[i].clock);
    if (since[0] > clock || (since[1] <= clock && since[1] > since[0]))
        at = 1;
    uint64_t range = atomic_load(&split->entry[at].range);
    return (struct gw_client_share){
        .since = since[at],
        .range = {.begin = (uint32_t)(range >> 32), .end = (uint32_t)range}};
}

void gw_client_tell_speed(struct gw_client *client,
                          uint64_t clock,
                          double samples_per_s)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_SPEED,
        .speed = {.clock = clock, .samples_per_s = samples_per_s}};
    gw_loop_enter(client->loop);
    /* one that is lost is measured again */
    gw_peer_tell(gw_client_shard_peer(client, 0), &message);
    gw_loop_leave(client->loop);
}
