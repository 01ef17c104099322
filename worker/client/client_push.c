/*
 * A push, downward: from the caller over a ring to the loop's thread, key by
 * key and chunk by chunk, to the link of the chunk's shard. A chunk that this
 * host sums takes the way by client_sum.c in between.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdlib.h>

#define RUNS 256 /* a power of two; more wait for room */

/* A run of keys handed over by the caller. */
struct run {
    size_t first, n;
    uint64_t clock, next;
    uint32_t samples;
    int empty;     /* without bytes, */
    int uncounted; /* and without effect on the divisor */
    struct gw_push_terms terms;
};

struct outgoing {
    struct gw_send send; /* the push or the seed */
    uint8_t sending;     /* frames */
    uint8_t due;         /* to be sent when the frames have left */
};

struct gw_client_pushes {
    struct run run[RUNS];
    _Atomic uint32_t in, out;
    struct gw_task task;
    struct outgoing *chunk; /* [map->chunks] */
};

/* ---- the caller's thread ---- */

static int has_room(const struct gw_client *client)
{
    const struct gw_client_pushes *pushes = client->pushes;
    return atomic_load(&pushes->in) - atomic_load(&pushes->out) < RUNS;
}

/* Gradients of a local policy are made on the host; there may be none. */
static void set_on_host(struct gw_client *client, size_t first, size_t n)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[first]; c < map->key_chunk[first + n]; c++)
        gw_client_set_on_device(client, c, 0);
}

static enum gw_status push_run(struct gw_client *client, struct run run)
{
    struct gw_client_pushes *pushes = client->pushes;
    gw_member_set_clock(client->member, run.clock);
    if (!has_room(client)) {
        enum gw_status status =
            gw_client_wait_for(client, has_room, GW_WAITING_UNWATCHED);
        if (status != GW_OK)
            return status;
    }
    run.terms = gw_client_push_terms(client, run.next);
    if (run.terms.local || run.empty)
        set_on_host(client, run.first, run.n);
    uint32_t in = atomic_load(&pushes->in);
    pushes->run[in % RUNS] = run;
    atomic_store(&pushes->in, in + 1);
    gw_loop_post(client->loop, &pushes->task);
    return gw_client_is_over(client) ? client->error.status : GW_OK;
}

enum gw_status gw_client_push(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples)
{
    return push_run(client, (struct run){.first = first,
                                         .n = n,
                                         .clock = clock,
                                         .next = next,
                                         .samples = samples,
                                         .empty = samples == 0});
}

enum gw_status gw_client_skip(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples,
                              int counts)
{
    return push_run(client, (struct run){.first = first,
                                         .n = n,
                                         .clock = clock,
                                         .next = next,
                                         .samples = samples,
                                         .empty = 1,
                                         .uncounted = !counts});
}

int gw_client_has_taken_pushes(const struct gw_client *client)
{
    return atomic_load(&client->pushes->out) ==
           atomic_load(&client->pushes->in);
}

/* ---- the loop's thread ---- */

static void
push_key(struct gw_client *client, size_t key, const struct run *run)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++) {
        if (client->chunk[c].pushed) {
            /* a shard cannot have the version that this push is a part of */
            gw_client_fail(
                client, GW_EPROTO, "%s gave out weights of a step to come",
                gw_client_shard_peer(client, map->chunk[c].shard)->name);
            return;
        }
        const struct gw_pushed pushed = {.clock = run->clock,
                                         .samples = run->samples,
                                         .empty = run->empty,
                                         .uncounted = run->uncounted};
        gw_client_chunk_pushed(client, c, &pushed, &run->terms);
        if (run->terms.sums) {
            gw_host_group_push(client->group, c);
        } else {
            gw_client_chunk_set_via(client, c, GW_CHUNK_ALONE);
            gw_client_send_chunk(client, c);
        }
    }
    gw_client_want_pushed(client, key, run->next);
}

/* Takes the runs that the caller has handed over since. */
static void take_runs(struct gw_task *task)
{
    struct gw_client *client = task->owner;
    struct gw_client_pushes *pushes = client->pushes;
    uint32_t out = atomic_load(&pushes->out);
    if (gw_client_is_over(client))
        return;
    client->progress_us = gw_loop_now(client->loop);
    while (out != atomic_load(&pushes->in)) {
        struct run run = pushes->run[out % RUNS];
        for (size_t key = run.first; key < run.first + run.n; key++)
            push_key(client, key, &run);
        atomic_store(&pushes->out, ++out);
    }
}

/* ---- a chunk ---- */

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_client *client = send->owner;
    struct outgoing *outgoing = &client->pushes->chunk[send->frame.chunk];
    (void)status; /* a broken link has its losses sent again */
    outgoing->sending--;
    if (outgoing->sending || !outgoing->due)
        return;
    outgoing->due = 0;
    gw_client_send_chunk(client, send->frame.chunk);
}

static int is_sum(const struct gw_client_chunk *chunk)
{
    return !chunk->seeding && chunk->via == GW_CHUNK_OWNED;
}

static uint32_t window_of(const struct gw_client *client, uint32_t index)
{
    uint32_t shard = client->map->chunk[index].shard;
    return client->chunk[index].seeding
               ? gw_client_seeds_window(client, shard)
               : gw_client_landing_window(client, shard);
}

static uint16_t flags_of(const struct gw_client_chunk *chunk)
{
    if (is_sum(chunk))
        return GW_FLAG_SUM;
    return !chunk->seeding && chunk->samples > 0 && chunk->uncounted
               ? GW_FLAG_UNCOUNTED
               : 0;
}

/* The frame of a chunk, for bytes at that kind of place. */
static struct gw_frame frame_of(const struct gw_client *client,
                                uint32_t index,
                                enum gw_client_place_kind bytes)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_client_chunk *chunk = &client->chunk[index];
    struct gw_frame frame = {
        .kind = chunk->seeding ? GW_FRAME_SEED : GW_FRAME_PUSH,
        .flags = flags_of(chunk),
        .clock = chunk->seeding ? 0 : chunk->pushed - 1,
        .window = GW_WINDOW_NONE,
        .chunk = index,
        .count = chunk->samples,
        .dtype = GW_DTYPE_F32,
        .decision = (uint32_t)gw_client_decided(client),
    };
    if (bytes == GW_BYTES_NONE)
        return frame;
    if (bytes == GW_BYTES_EXPORTED) {
        frame.kind = GW_FRAME_EXPORTED;
        frame.length = GW_EXPORTED_BYTES;
        return frame;
    }
    if (bytes == GW_BYTES_DEVICE)
        frame.flags |= GW_FLAG_NO_CRC; /* no code of ours reads them */
    frame.offset = place->shard_offset;
    frame.window = window_of(client, index);
    frame.length = place->elems * (uint32_t)sizeof(float);
    return frame;
}

void gw_client_send_chunk(struct gw_client *client, uint32_t index)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_client_chunk *chunk = &client->chunk[index];
    struct outgoing *outgoing = &client->pushes->chunk[index];
    struct gw_peer *peer = gw_client_shard_peer(client, place->shard);
    unsigned link = gw_client_link_of(client, index);
    struct gw_client_bytes bytes;
    /* an answer may be here before the news that its push has left */
    outgoing->due = outgoing->sending > 0;
    if ((!chunk->pushed && !chunk->seeding) || outgoing->sending ||
        !gw_peer_is_up(peer, link) ||
        !gw_client_shard_is_open(client, place->shard) ||
        !gw_client_out_find(client, index, &bytes))
        return;
    outgoing->sending = is_sum(chunk) ? 2 : 1;
    if (is_sum(chunk))
        gw_peer_send(peer, link,
                     gw_host_group_parts(client->group, index, on_sent));
    outgoing->send = (struct gw_send){
        .frame = frame_of(client, index, bytes.place),
        .payload = bytes.at,
        .priority = GW_CLIENT_PRIORITY,
        .done = on_sent,
        .owner = client,
    };
    if (bytes.place != GW_BYTES_NONE)
        gw_metrics_add(client->metrics, GW_METRIC_BYTES_PUSHED,
                       place->elems * sizeof(float));
    gw_peer_send(peer, link, &outgoing->send);
}

void gw_client_seed_all(struct gw_client *client)
{
    for (uint32_t c = 0; c < client->map->chunks; c++) {
        gw_client_chunk_set_seeding(client, c, 1);
        gw_client_send_chunk(client, c);
    }
}

/* ---- opening and closing ---- */

enum gw_status gw_client_pushes_open(struct gw_client *client)
{
    client->pushes = calloc(1, sizeof *client->pushes);
    if (!client->pushes)
        return GW_ENOMEM;
    client->pushes->task.run = take_runs;
    client->pushes->task.owner = client;
    return GW_OK;
}

uint64_t gw_client_pushes_bytes(const struct gw_map *map)
{
    return map->chunks * sizeof(struct outgoing);
}

enum gw_status gw_client_pushes_make(struct gw_client *client)
{
    client->pushes->chunk =
        calloc(client->map->chunks, sizeof *client->pushes->chunk);
    return client->pushes->chunk ? GW_OK : GW_ENOMEM;
}

/* The client may fail before the task has run. */
void gw_client_pushes_cancel(struct gw_client *client)
{
    gw_loop_unpost(client->loop, &client->pushes->task);
}

void gw_client_pushes_close(struct gw_client *client)
{
    if (client->pushes)
        free(client->pushes->chunk);
    free(client->pushes);
}
