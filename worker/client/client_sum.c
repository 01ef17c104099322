/*
 * The sum of a chunk over the workers of a host, and its weights to them. Each
 * member tells a chunk's owner when its gradient is made; with all of them the
 * owner sums them, over its own, and pushes the sum. It shares the weights that
 * come back with the others, once with each, by the way of client_reduce.h.
 */
#include "config.h"

#include "worker/client/client_host_group_state.h"

#include <stdlib.h>

/* ---- the sum ---- */

static uint64_t samples_of(const struct gw_host_group *group, uint32_t index)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < group->ranks.n; i++)
        samples += group->chunk[index].part[i].samples;
    return samples;
}

/* Nobody has a gradient of the chunk. */
static int is_empty(const struct gw_host_group *group, uint32_t index)
{
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (!gw_sum_part_is_empty(&group->chunk[index].part[i]))
            return 0;
    return 1;
}

void gw_host_group_summed(struct gw_host_group *group, uint32_t index)
{
    const struct gw_client_chunk *ours = &group->client->chunk[index];
    gw_client_chunk_summed(group->client, index,
                           (uint32_t)samples_of(group, index),
                           is_empty(group, index));
    group->chunk[index].summed = ours->pushed;
    group->chunk[index].apart = ours->apart;
    gw_client_send_chunk(group->client, index);
}

/* Everybody's part is there, and the sum is not. */
static int is_due(const struct gw_host_group *group, uint32_t index)
{
    const struct gw_client_chunk *ours = &group->client->chunk[index];
    const struct gw_sum_chunk *chunk = &group->chunk[index];
    if (!ours->pushed || ours->via != GW_CHUNK_OWNED ||
        chunk->summed == ours->pushed)
        return 0;
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (chunk->part[i].clock != ours->pushed)
            return 0;
    return 1;
}

static void make_sum(void *owner, uint32_t index)
{
    struct gw_host_group *group = owner;
    struct gw_client *client = group->client;
    if (!is_due(group, index))
        return;
    if (!is_empty(group, index) && !client->job->payload_free) {
        group->ops->sum(group, index);
    } else {
        gw_client_set_on_device(client, index, 0);
        gw_host_group_summed(group, index);
    }
    gw_loop_worked(client->loop, (uint64_t)(group->ranks.n + 1) *
                                     client->map->chunk[index].elems *
                                     sizeof(float));
}

/* Parts are a few bytes, and 64 MiB may be to be summed for each. */
static void maybe_sum(struct gw_host_group *group, uint32_t index)
{
    if (!is_due(group, index))
        return;
    if (gw_loop_turn_is_over(group->client->loop))
        gw_backlog_add(&group->due, index);
    else
        make_sum(group, index);
}

int gw_host_group_has_sum(const struct gw_host_group *group, uint32_t index)
{
    return group->chunk[index].summed == group->client->chunk[index].pushed;
}

/* The note that tells parts: all of them, or ours. */
static struct gw_send *
note_of(struct gw_host_group *group, uint32_t index, uint8_t *bytes, uint32_t n)
{
    const struct gw_client *client = group->client;
    struct gw_send *note = &group->chunk[index].note;
    *note = (struct gw_send){
        .frame = {.kind = GW_FRAME_PARTS,
                  .clock = client->chunk[index].pushed - 1,
                  .chunk = index,
                  .length = n * GW_PART_BYTES,
                  .decision = (uint32_t)gw_client_decided(client)},
        .payload = bytes,
        .priority = GW_CLIENT_PRIORITY,
        .owner = group->client,
    };
    return note;
}

struct gw_send *gw_host_group_parts(struct gw_host_group *group,
                                    uint32_t index,
                                    void (*done)(struct gw_send *send,
                                                 enum gw_status status))
{
    struct gw_sum_chunk *chunk = &group->chunk[index];
    struct gw_part part[GW_GROUP_MAX];
    for (uint32_t i = 0; i < group->ranks.n; i++)
        part[i] = (struct gw_part){.rank = group->ranks.first + i,
                                   .samples = chunk->part[i].samples,
                                   .gradient = chunk->part[i].gradient,
                                   .terms = chunk->part[i].terms};
    gw_parts_encode(part, group->ranks.n, chunk->parts);
    struct gw_send *note = note_of(group, index, chunk->parts, group->ranks.n);
    note->done = done;
    return note;
}

/* ---- ours, to the owner ---- */

static enum gw_part_gradient gradient_of(const struct gw_client_chunk *ours)
{
    if (!ours->empty || ours->samples == 0)
        return GW_GRADIENT_MADE;
    return ours->uncounted ? GW_GRADIENT_UNCOUNTED : GW_GRADIENT_COUNTED;
}

static uint8_t sets_terms(const struct gw_client *client, uint32_t index)
{
    return gw_client_sets_terms(client, client->chunk[index].pushed - 1) != 0;
}

static void tell_owner(struct gw_host_group *group, uint32_t index);

static void on_told(struct gw_send *send, enum gw_status status)
{
    struct gw_client *client = send->owner;
    struct gw_sum_chunk *chunk = &client->group->chunk[send->frame.chunk];
    int again = chunk->tell_again && status == GW_OK;
    chunk->telling = 0;
    chunk->tell_again = 0;
    if (!again)
        return; /* a broken link has it told again */
    tell_owner(client->group, send->frame.chunk);
}

static void tell_owner(struct gw_host_group *group, uint32_t index)
{
    const struct gw_client *client = group->client;
    struct gw_sum_chunk *chunk = &group->chunk[index];
    struct gw_group_peer *owner =
        gw_host_group_peer(group, gw_group_owner(group->ranks, index));
    const struct gw_part part = {.rank = client->job->rank,
                                 .samples = client->chunk[index].samples,
                                 .gradient = gradient_of(&client->chunk[index]),
                                 .terms = sets_terms(client, index)};
    chunk->tell_again = chunk->telling;
    if (chunk->telling || !gw_peer_is_up(owner->peer, GW_HOST_GROUP_LINK))
        return;
    chunk->telling = 1;
    gw_parts_encode(&part, 1, chunk->bytes);
    struct gw_send *note = note_of(group, index, chunk->bytes, 1);
    note->done = on_told;
    gw_peer_send(owner->peer, GW_HOST_GROUP_LINK, note);
}

void gw_host_group_push(struct gw_host_group *group, uint32_t index)
{
    const struct gw_client_chunk *ours = &group->client->chunk[index];
    if (!gw_host_group_owns(group, index)) {
        gw_client_chunk_set_via(group->client, index, GW_CHUNK_GIVEN);
        tell_owner(group, index);
        return;
    }
    gw_client_chunk_set_via(group->client, index, GW_CHUNK_OWNED);
    group->chunk[index].part[group->client->job->rank - group->ranks.first] =
        (struct gw_sum_part){.clock = ours->pushed,
                             .samples = ours->samples,
                             .gradient = gradient_of(ours),
                             .terms = sets_terms(group->client, index)};
    maybe_sum(group, index);
}

/* ---- weights, to the others ---- */

static void on_given(struct gw_send *send, enum gw_status status)
{
    struct gw_group_share *share = send->owner;
    share->sending = 0;
    if (status != GW_OK)
        share->given = 0; /* asked for again, if it is missing */
}

/* Once to each, for it lies where they compute. */
static void
give(struct gw_host_group *group, uint32_t index, struct gw_group_peer *to)
{
    const struct gw_client *client = group->client;
    const struct gw_chunk *place = &client->map->chunk[index];
    enum gw_encoding encoding = gw_client_encoding(client);
    struct gw_sum_chunk *chunk = &group->chunk[index];
    struct gw_group_share *share = &chunk->share[to->rank - group->ranks.first];
    uint64_t version = atomic_load(&client->chunk[index].have);
    if (share->given == version || share->sending ||
        !gw_peer_is_up(to->peer, GW_HOST_GROUP_LINK))
        return;
    share->given = version;
    share->sending = 1;
    share->send = (struct gw_send){
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
        .owner = share,
    };
    group->ops->give(group, index, to, &share->send);
    gw_peer_send(to->peer, GW_HOST_GROUP_LINK, &share->send);
}

void gw_host_group_arrived(struct gw_host_group *group,
                           const struct gw_frame *frame)
{
    group->chunk[frame->chunk].had = *frame;
    group->ops->land(group, frame->chunk);
}

void gw_host_group_give(struct gw_host_group *group, uint32_t index)
{
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (gw_host_group_at(group, i))
            give(group, index, gw_host_group_at(group, i));
}

const struct gw_peer *gw_host_group_owner_of(const struct gw_host_group *group,
                                             uint32_t index)
{
    uint32_t owner = gw_group_owner(group->ranks, index);
    return group->peers[owner % GW_GROUP_MAX].peer;
}

const struct gw_peer *gw_host_group_waits_for(const struct gw_host_group *group,
                                              uint32_t index)
{
    if (!group || group->ranks.n == 1)
        return NULL;
    const struct gw_client_chunk *ours = &group->client->chunk[index];
    const struct gw_sum_chunk *chunk = &group->chunk[index];
    if (!ours->pushed || ours->via == GW_CHUNK_ALONE)
        return NULL;
    if (ours->via == GW_CHUNK_GIVEN)
        return ours->apart ? NULL : gw_host_group_owner_of(group, index);
    for (uint32_t i = 0; i < group->ranks.n; i++)
        if (chunk->part[i].clock != ours->pushed)
            return group->peers[(group->ranks.first + i) % GW_GROUP_MAX].peer;
    return NULL;
}

/* ---- in ---- */

void gw_host_group_sum_parts(struct gw_host_group *group,
                             struct gw_group_peer *from,
                             const struct gw_frame *frame,
                             const void *payload)
{
    struct gw_client *client = group->client;
    struct gw_part part;
    if (!client->chunk || frame->chunk >= client->map->chunks ||
        !gw_host_group_owns(group, frame->chunk) ||
        gw_parts_decode(payload, frame->length, from->rank, 1, &part) !=
            GW_OK) {
        gw_peer_reject(from->peer, GW_HOST_GROUP_LINK,
                       "parts of no chunk that is ours");
        return;
    }
    struct gw_sum_part *its =
        &group->chunk[frame->chunk].part[from->rank - group->ranks.first];
    const struct gw_client_chunk *ours = &client->chunk[frame->chunk];
    const struct gw_sum_chunk *sum = &group->chunk[frame->chunk];
    /* told again, for the peer lacks the weights of the sum, though we may have
       pushed the next one; the number of our version may be another policy's,
       and proves nothing alone */
    if (sum->summed == frame->clock + 1 && !sum->apart &&
        atomic_load(&ours->have) == frame->clock + 2 &&
        ours->via == GW_CHUNK_OWNED) {
        give(group, frame->chunk, from);
        return;
    }
    if (its->clock != frame->clock + 1) /* else the sum may be made */
        *its = (struct gw_sum_part){.clock = frame->clock + 1,
                                    .samples = part.samples,
                                    .gradient = part.gradient,
                                    .terms = part.terms};
    maybe_sum(group, frame->chunk);
}

void gw_host_group_sum_recheck(struct gw_host_group *group)
{
    for (uint32_t c = 0; c < group->client->map->chunks; c++)
        maybe_sum(group, c);
}

void gw_host_group_sum_link_up(struct gw_host_group *group,
                               const struct gw_group_peer *to)
{
    const struct gw_client *client = group->client;
    for (uint32_t c = 0; c < client->map->chunks; c++)
        if (client->chunk[c].pushed && client->chunk[c].via == GW_CHUNK_GIVEN &&
            gw_group_owner(group->ranks, c) == to->rank)
            tell_owner(group, c);
}

void gw_host_group_sum_link_down(struct gw_host_group *group,
                                 const struct gw_group_peer *to)
{
    for (uint32_t c = 0; c < group->client->map->chunks; c++)
        if (group->chunk[c].share)
            group->chunk[c].share[to->rank - group->ranks.first].given = 0;
}

/* ---- tables ---- */

enum gw_status gw_host_group_sum_open(struct gw_host_group *group)
{
    size_t chunks = group->client->map->chunks, n = group->ranks.n, owned = 0;
    size_t most = chunks / n + 1;
    group->due.loop = group->client->loop;
    group->due.handle = make_sum;
    group->due.owner = group;
    if (gw_backlog_open(&group->due, (uint32_t)chunks) != GW_OK)
        return GW_ENOMEM;
    group->chunk = calloc(chunks, sizeof *group->chunk);
    group->part = calloc(most * n, sizeof *group->part);
    group->share = calloc(most * n, sizeof *group->share);
    group->parts = calloc(most * n, GW_PART_BYTES);
    if (!group->chunk || !group->part || !group->share || !group->parts)
        return GW_ENOMEM;
    for (uint32_t c = 0; c < chunks; c++) {
        if (!gw_host_group_owns(group, c))
            continue;
        group->chunk[c].part = group->part + owned * n;
        group->chunk[c].share = group->share + owned * n;
        group->chunk[c].parts = group->parts + owned * n * GW_PART_BYTES;
        owned++;
    }
    group->owned = most;
    return GW_OK;
}

void gw_host_group_sum_close(struct gw_host_group *group)
{
    gw_backlog_close(&group->due);
    free(group->chunk);
    free(group->part);
    free(group->share);
    free(group->parts);
    if (group->ops)
        group->ops->close(group->reduction);
}
