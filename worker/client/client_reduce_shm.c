/*
 * Sums in shared memory: the owner of a chunk reads the others' gradients where
 * they lie, and writes the weights where the others compute.
 */
#include "config.h"

#include "worker/client/client_host_group_state.h"

#include "kernels/update/reduce.h"

_Static_assert(GW_GROUP_MAX <= GW_REDUCE_OVER_MAX, "a group is one sum");

/* Needs memory that links export; without it the job ends
   (client_host_group.c). */
static enum gw_status
probe_shm(struct gw_host_group *group, char *why, size_t why_bytes)
{
    (void)group, (void)why, (void)why_bytes;
    return GW_OK;
}

static enum gw_status open_shm(struct gw_host_group *group, void **state_p)
{
    (void)group;
    *state_p = NULL;
    return GW_OK;
}

static void keep_nothing(void *state)
{
    (void)state;
}

/* The gradients of a peer; NULL: they cannot be read now. */
static const float *arena_of(struct gw_host_group *group, uint32_t i)
{
    const struct gw_client *client = group->client;
    const struct gw_group_peer *who = gw_host_group_at(group, i);
    if (!who)
        return gw_client_gradients(client);
    if (!who->peer || who->gradients == GW_WINDOW_NONE)
        return NULL;
    return gw_peer_import(who->peer, GW_HOST_GROUP_LINK, who->gradients,
                          client->map->arena_bytes);
}

/* 0: one of them cannot be read now; its peer tells again when it can. */
static int find_sources(struct gw_host_group *group,
                        const struct gw_sum_chunk *chunk,
                        const float **source)
{
    for (uint32_t i = 0; i < group->ranks.n; i++) {
        int empty = gw_sum_part_is_empty(&chunk->part[i]);
        source[i] = empty ? NULL : arena_of(group, i);
        if (!empty && !source[i])
            return 0;
    }
    return 1;
}

/* Over our own part, by the tree of the servers: the same bits. */
static void sum(struct gw_host_group *group, uint32_t index)
{
    const float *source[GW_GROUP_MAX];
    struct gw_sum_chunk *chunk = &group->chunk[index];
    const struct gw_chunk *place = &group->client->map->chunk[index];
    size_t first = place->arena_offset / sizeof(float);
    if (!find_sources(group, chunk, source))
        return;
    gw_client_set_on_device(group->client, index, 0);
    uint64_t spoilers =
        gw_reduce_over(source, group->ranks.n, first, place->elems,
                       gw_client_gradients(group->client) + first);
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (spoilers >> i & 1)
            chunk->part[i].gradient = GW_GRADIENT_NONFINITE;
    gw_host_group_summed(group, index);
}

static void land(struct gw_host_group *group, uint32_t index)
{
    gw_client_put(group->client, &group->chunk[index].had, NULL);
}

static void give(const struct gw_host_group *group,
                 uint32_t index,
                 const struct gw_group_peer *to,
                 struct gw_send *share)
{
    const struct gw_client *client = group->client;
    const struct gw_frame *had = &group->chunk[index].had;
    const struct gw_chunk *place = &client->map->chunk[index];
    enum gw_encoding encoding = gw_client_encoding(client);
    share->frame.window = to->weights;
    share->frame.length = gw_encoded_bytes(encoding, place->elems);
    share->frame.payload_crc = had->payload_crc;
    share->crc_known = !(had->flags & GW_FLAG_NO_CRC);
    if (!client->job->payload_free)
        share->payload =
            gw_client_landing(client, encoding, place->arena_offset);
}

static const void *given(const struct gw_group_peer *from, uint32_t *window_p)
{
    *window_p = from->own_weights;
    return NULL;
}

const struct gw_reduction_ops gw_reduction_shm = {
    .name = "shm",
    .where = "on the host",
    .verdict = GW_SIGHT_BLIND,
    .probe = probe_shm,
    .open = open_shm,
    .stop = keep_nothing,
    .close = keep_nothing,
    .sum = sum,
    .land = land,
    .give = give,
    .given = given,
};
