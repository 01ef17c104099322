/*
 * The sum of a chunk over the workers of a host, and its weights to them. Each
 * member tells a chunk's owner when its gradient is made; with all of them the
 * owner sums them, over its own, and pushes that. What comes back it gives to
 * the others, once to each. How is client_reduce.h's.
 */
#include "config.h"

#include "worker/client/client_node_state.h"

#include <stdlib.h>

/* ---- the sum ---- */

static uint64_t samples_of(const struct gw_client_node *node, uint32_t index)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < node->group.n; i++)
        samples += node->chunk[index].part[i].samples;
    return samples;
}

void gw_node_summed(struct gw_client_node *node, uint32_t index)
{
    const struct gw_client_chunk *ours = &node->client->chunk[index];
    gw_client_chunk_set_samples(node->client, index,
                                (uint32_t)samples_of(node, index));
    node->chunk[index].summed = ours->pushed;
    node->chunk[index].apart = ours->apart;
    gw_client_send_chunk(node->client, index);
}

/* Everybody's part is there, and the sum is not. */
static int is_due(const struct gw_client_node *node, uint32_t index)
{
    const struct gw_client_chunk *ours = &node->client->chunk[index];
    const struct gw_sum_chunk *chunk = &node->chunk[index];
    if (!ours->pushed || ours->via != GW_CHUNK_OWNED ||
        chunk->summed == ours->pushed)
        return 0;
    for (uint32_t i = 0; i < node->group.n; i++)
        if (chunk->part[i].clock != ours->pushed)
            return 0;
    return 1;
}

static void make_sum(void *owner, uint32_t index)
{
    struct gw_client_node *node = owner;
    struct gw_client *client = node->client;
    if (!is_due(node, index))
        return;
    if (samples_of(node, index) > 0 && !client->job->payload_free) {
        node->way->sum(node, index);
    } else {
        gw_client_set_on_device(client, index, 0);
        gw_node_summed(node, index);
    }
    gw_loop_worked(client->loop, (uint64_t)(node->group.n + 1) *
                                     client->map->chunk[index].elems *
                                     sizeof(float));
}

/* Parts are a few bytes, and 64 MiB may be to be summed for each. */
static void maybe_sum(struct gw_client_node *node, uint32_t index)
{
    if (!is_due(node, index))
        return;
    if (gw_loop_turn_is_over(node->client->loop))
        gw_backlog_add(&node->due, index);
    else
        make_sum(node, index);
}

int gw_node_has_sum(const struct gw_client_node *node, uint32_t index)
{
    return node->chunk[index].summed == node->client->chunk[index].pushed;
}

/* What is told of parts: of all of them, or of ours. */
static struct gw_send *
note_of(struct gw_client_node *node, uint32_t index, uint8_t *bytes, uint32_t n)
{
    const struct gw_client *client = node->client;
    struct gw_send *note = &node->chunk[index].note;
    *note = (struct gw_send){
        .frame = {.kind = GW_FRAME_PARTS,
                  .clock = client->chunk[index].pushed - 1,
                  .chunk = index,
                  .length = n * GW_PART_BYTES,
                  .decision = (uint32_t)gw_client_decided(client)},
        .payload = bytes,
        .priority = GW_CLIENT_PRIORITY,
        .owner = node->client,
    };
    return note;
}

struct gw_send *gw_node_parts(struct gw_client_node *node,
                              uint32_t index,
                              void (*done)(struct gw_send *send,
                                           enum gw_status status))
{
    struct gw_sum_chunk *chunk = &node->chunk[index];
    struct gw_part part[GW_GROUP_MAX];
    for (uint32_t i = 0; i < node->group.n; i++)
        part[i] = (struct gw_part){.rank = node->group.first + i,
                                   .samples = chunk->part[i].samples,
                                   .bad = chunk->part[i].bad};
    gw_parts_encode(part, node->group.n, chunk->parts);
    struct gw_send *note = note_of(node, index, chunk->parts, node->group.n);
    note->done = done;
    return note;
}

/* ---- ours, to the owner ---- */

static void tell_owner(struct gw_client_node *node, uint32_t index);

static void on_told(struct gw_send *send, enum gw_status status)
{
    struct gw_client *client = send->owner;
    struct gw_sum_chunk *chunk = &client->node->chunk[send->frame.chunk];
    int again = chunk->tell_again && status == GW_OK;
    chunk->telling = 0;
    chunk->tell_again = 0;
    if (!again)
        return; /* a broken link has it told again */
    tell_owner(client->node, send->frame.chunk);
}

static void tell_owner(struct gw_client_node *node, uint32_t index)
{
    const struct gw_client *client = node->client;
    struct gw_sum_chunk *chunk = &node->chunk[index];
    struct gw_neighbour *owner =
        gw_node_neighbour(node, gw_group_owner(node->group, index));
    const struct gw_part part = {.rank = client->job->rank,
                                 .samples = client->chunk[index].samples};
    chunk->tell_again = chunk->telling;
    if (chunk->telling || !gw_peer_is_up(owner->peer, GW_NODE_LINK))
        return;
    chunk->telling = 1;
    gw_parts_encode(&part, 1, chunk->bytes);
    struct gw_send *note = note_of(node, index, chunk->bytes, 1);
    note->done = on_told;
    gw_peer_send(owner->peer, GW_NODE_LINK, note);
}

void gw_node_push(struct gw_client_node *node, uint32_t index)
{
    const struct gw_client_chunk *ours = &node->client->chunk[index];
    if (!gw_node_owns(node, index)) {
        gw_client_chunk_set_via(node->client, index, GW_CHUNK_GIVEN);
        tell_owner(node, index);
        return;
    }
    gw_client_chunk_set_via(node->client, index, GW_CHUNK_OWNED);
    node->chunk[index].part[node->client->job->rank - node->group.first] =
        (struct gw_sum_part){.clock = ours->pushed, .samples = ours->samples};
    maybe_sum(node, index);
}

/* ---- weights, to the others ---- */

static void on_given(struct gw_send *send, enum gw_status status)
{
    struct gw_gift *gift = send->owner;
    gift->sending = 0;
    if (status != GW_OK)
        gift->given = 0; /* asked for again, if it is missing */
}

/* Once to each, for it lies where they compute. */
static void
give(struct gw_client_node *node, uint32_t index, struct gw_neighbour *to)
{
    const struct gw_client *client = node->client;
    const struct gw_chunk *place = &client->map->chunk[index];
    enum gw_encoding encoding = gw_client_encoding(client);
    struct gw_sum_chunk *chunk = &node->chunk[index];
    struct gw_gift *gift = &chunk->gift[to->rank - node->group.first];
    uint64_t version = atomic_load(&client->chunk[index].have);
    if (gift->given == version || gift->sending ||
        !gw_peer_is_up(to->peer, GW_NODE_LINK))
        return;
    gift->given = version;
    gift->sending = 1;
    gift->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_WEIGHTS,
                  .clock = version - 1,
                  .offset = gw_encoded_size(encoding, place->arena_offset),
                  .chunk = index,
                  .count = (uint32_t)(version - 1),
                  .encoding = (uint8_t)encoding,
                  .dtype = GW_DTYPE_F32,
                  .decision = chunk->had.decision},
        .priority = GW_CLIENT_PRIORITY,
        .done = on_given,
        .owner = gift,
    };
    node->way->give(node, index, to, &gift->send);
    gw_peer_send(to->peer, GW_NODE_LINK, &gift->send);
}

void gw_node_arrived(struct gw_client_node *node, const struct gw_frame *frame)
{
    node->chunk[frame->chunk].had = *frame;
    node->way->land(node, frame->chunk);
}

void gw_node_give(struct gw_client_node *node, uint32_t index)
{
    for (uint32_t i = 0; i < node->group.n; i++)
        if (gw_node_at(node, i))
            give(node, index, gw_node_at(node, i));
}

const struct gw_peer *gw_node_giver(const struct gw_client_node *node,
                                    uint32_t index)
{
    uint32_t owner = gw_group_owner(node->group, index);
    return node->neighbour[owner % GW_GROUP_MAX].peer;
}

const struct gw_peer *gw_node_waits_for(const struct gw_client_node *node,
                                        uint32_t index)
{
    if (!node || node->group.n == 1)
        return NULL;
    const struct gw_client_chunk *ours = &node->client->chunk[index];
    const struct gw_sum_chunk *chunk = &node->chunk[index];
    if (!ours->pushed || ours->via == GW_CHUNK_ALONE)
        return NULL;
    if (ours->via == GW_CHUNK_GIVEN)
        return ours->apart ? NULL : gw_node_giver(node, index);
    for (uint32_t i = 0; i < node->group.n; i++)
        if (chunk->part[i].clock != ours->pushed)
            return node->neighbour[(node->group.first + i) % GW_GROUP_MAX].peer;
    return NULL;
}

/* ---- in ---- */

void gw_node_sum_parts(struct gw_client_node *node,
                       struct gw_neighbour *from,
                       const struct gw_frame *frame,
                       const void *payload)
{
    struct gw_client *client = node->client;
    struct gw_part part;
    if (!client->chunk || frame->chunk >= client->map->chunks ||
        !gw_node_owns(node, frame->chunk) ||
        gw_parts_decode(payload, frame->length, from->rank, 1, &part) !=
            GW_OK) {
        gw_peer_reject(from->peer, GW_NODE_LINK,
                       "parts of no chunk that is ours");
        return;
    }
    struct gw_sum_part *its =
        &node->chunk[frame->chunk].part[from->rank - node->group.first];
    const struct gw_client_chunk *ours = &client->chunk[frame->chunk];
    const struct gw_sum_chunk *sum = &node->chunk[frame->chunk];
    /* told again, for it lacks what has come of the sum, though we may have
       pushed the next one; the number of what we have may be of another policy,
       and tells nothing alone */
    if (sum->summed == frame->clock + 1 && !sum->apart &&
        atomic_load(&ours->have) == frame->clock + 2 &&
        ours->via == GW_CHUNK_OWNED) {
        give(node, frame->chunk, from);
        return;
    }
    if (its->clock != frame->clock + 1) /* else the sum may be made */
        *its = (struct gw_sum_part){.clock = frame->clock + 1,
                                    .samples = part.samples};
    maybe_sum(node, frame->chunk);
}

void gw_node_sum_recheck(struct gw_client_node *node)
{
    for (uint32_t c = 0; c < node->client->map->chunks; c++)
        maybe_sum(node, c);
}

void gw_node_sum_link_up(struct gw_client_node *node,
                         const struct gw_neighbour *to)
{
    const struct gw_client *client = node->client;
    for (uint32_t c = 0; c < client->map->chunks; c++)
        if (client->chunk[c].pushed && client->chunk[c].via == GW_CHUNK_GIVEN &&
            gw_group_owner(node->group, c) == to->rank)
            tell_owner(node, c);
}

void gw_node_sum_link_down(struct gw_client_node *node,
                           const struct gw_neighbour *to)
{
    for (uint32_t c = 0; c < node->client->map->chunks; c++)
        if (node->chunk[c].gift)
            node->chunk[c].gift[to->rank - node->group.first].given = 0;
}

/* ---- tables ---- */

enum gw_status gw_node_sum_open(struct gw_client_node *node)
{
    size_t chunks = node->client->map->chunks, n = node->group.n, owned = 0;
    size_t most = chunks / n + 1;
    node->due.loop = node->client->loop;
    node->due.look = make_sum;
    node->due.owner = node;
    if (gw_backlog_open(&node->due, (uint32_t)chunks) != GW_OK)
        return GW_ENOMEM;
    node->chunk = calloc(chunks, sizeof *node->chunk);
    node->part = calloc(most * n, sizeof *node->part);
    node->gift = calloc(most * n, sizeof *node->gift);
    node->parts = calloc(most * n, GW_PART_BYTES);
    if (!node->chunk || !node->part || !node->gift || !node->parts)
        return GW_ENOMEM;
    for (uint32_t c = 0; c < chunks; c++) {
        if (!gw_node_owns(node, c))
            continue;
        node->chunk[c].part = node->part + owned * n;
        node->chunk[c].gift = node->gift + owned * n;
        node->chunk[c].parts = node->parts + owned * n * GW_PART_BYTES;
        owned++;
    }
    node->owned = most;
    return GW_OK;
}

void gw_node_sum_close(struct gw_client_node *node)
{
    gw_backlog_close(&node->due);
    free(node->chunk);
    free(node->part);
    free(node->gift);
    free(node->parts);
    if (node->way)
        node->way->close(node->reduction);
}
