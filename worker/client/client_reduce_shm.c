/*
 * Sums in shared memory: the owner of a chunk reads the others' gradients where
 * they lie, and writes the weights where the others compute.
 */
#include "config.h"

#include "worker/client/client_node_state.h"

#include "kernels/update/reduce.h"

_Static_assert(GW_GROUP_MAX <= GW_REDUCE_OVER_MAX, "a group is one sum");

/* What a link shows; where it shows nothing the job ends (client_node.c). */
static enum gw_status
probe_shm(struct gw_client_node *node, char *why, size_t why_bytes)
{
    (void)node, (void)why, (void)why_bytes;
    return GW_OK;
}

static enum gw_status open_shm(struct gw_client_node *node, void **state_p)
{
    (void)node;
    *state_p = NULL;
    return GW_OK;
}

static void keep_nothing(void *state)
{
    (void)state;
}

/* Where the gradients of a member begin; NULL: they are not seen now. */
static const float *arena_of(struct gw_client_node *node, uint32_t i)
{
    const struct gw_client *client = node->client;
    const struct gw_neighbour *who = gw_node_at(node, i);
    if (!who)
        return gw_client_gradients(client);
    if (!who->peer || who->gradients == GW_WINDOW_NONE)
        return NULL;
    return gw_peer_see(who->peer, GW_NODE_LINK, who->gradients,
                       client->map->arena_bytes);
}

/* 0: one of them is not seen now; it tells again when it is. */
static int find_sources(struct gw_client_node *node,
                        const struct gw_sum_chunk *chunk,
                        const float **source)
{
    for (uint32_t i = 0; i < node->group.n; i++) {
        source[i] = chunk->part[i].samples > 0 ? arena_of(node, i) : NULL;
        if (chunk->part[i].samples > 0 && !source[i])
            return 0;
    }
    return 1;
}

/* Over our own part, by the tree of the servers: the same bits. */
static void sum(struct gw_client_node *node, uint32_t index)
{
    const float *source[GW_GROUP_MAX];
    struct gw_sum_chunk *chunk = &node->chunk[index];
    const struct gw_chunk *place = &node->client->map->chunk[index];
    size_t first = place->arena_offset / sizeof(float);
    if (!find_sources(node, chunk, source))
        return;
    gw_client_set_on_device(node->client, index, 0);
    uint64_t spoilers =
        gw_reduce_over(source, node->group.n, first, place->elems,
                       gw_client_gradients(node->client) + first);
    for (uint32_t i = 0; i < node->group.n; i++)
        if (spoilers >> i & 1)
            chunk->part[i].bad = 1;
    gw_node_summed(node, index);
}

static void land(struct gw_client_node *node, uint32_t index)
{
    gw_client_put(node->client, &node->chunk[index].had, NULL);
}

static void give(const struct gw_client_node *node,
                 uint32_t index,
                 const struct gw_neighbour *to,
                 struct gw_send *gift)
{
    const struct gw_client *client = node->client;
    const struct gw_frame *had = &node->chunk[index].had;
    const struct gw_chunk *place = &client->map->chunk[index];
    enum gw_encoding encoding = gw_client_encoding(client);
    gift->frame.window = to->weights;
    gift->frame.length = gw_encoded_bytes(encoding, place->elems);
    gift->frame.payload_crc = had->payload_crc;
    gift->crc_known = !(had->flags & GW_FLAG_NO_CRC);
    if (!client->job->payload_free)
        gift->payload =
            gw_client_landing(client, encoding, place->arena_offset);
}

static const void *given(const struct gw_neighbour *from, uint32_t *window_p)
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
