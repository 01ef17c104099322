/*
 * Chunks between the arenas and the shards.
 *
 *   pushed --> (link breaks: again) --> weights of clock + 1 arrive: done
 *   wanted --> (link breaks: again) --> weights arrive in the arena
 *
 * A version's arrival acknowledges the push it was made of, so a chunk needs no
 * other acknowledgement. Everything here runs on the loop's thread, but for
 * gw_client_has.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <stdio.h>
#include <stdlib.h>

static struct gw_client_shard *shard_of(struct gw_client *client,
                                        uint32_t chunk)
{
    return &client->shard[client->map->chunk[chunk].shard];
}

/* ---- out ---- */

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_client *client = send->owner;
    struct gw_client_chunk *chunk = &client->chunk[send->frame.chunk];
    (void)status; /* a broken link has what it lost sent again */
    chunk->sending--;
    if (chunk->sending || !chunk->due)
        return;
    chunk->due = 0;
    gw_client_send_chunk(client, send->frame.chunk);
}

static int is_empty(const struct gw_client_chunk *chunk)
{
    return !chunk->seeding && chunk->samples == 0;
}

/* Where what is to be sent of a chunk is: NULL for what has no bytes or, in a
   hollow job, no memory. 0: it cannot be had, and the client has failed. */
static int
find_payload(struct gw_client *client, uint32_t index, const void **payload_p)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_client_chunk *chunk = &client->chunk[index];
    *payload_p = NULL;
    if (client->hollow || is_empty(chunk))
        return 1;
    *payload_p = chunk->seeding
                     ? client->weights + place->arena_offset / sizeof(float)
                     : gw_client_gradient(client, index);
    return *payload_p != NULL;
}

static struct gw_frame frame_of(struct gw_client *client, uint32_t index)
{
    const struct gw_chunk *place = &client->map->chunk[index];
    const struct gw_client_chunk *chunk = &client->chunk[index];
    const struct gw_client_shard *shard = shard_of(client, index);
    int seed = chunk->seeding, empty = is_empty(chunk);
    int sum = !seed && chunk->via == GW_CHUNK_OWNED;
    int far = !seed && !empty && chunk->stays;
    return (struct gw_frame){
        .kind = seed ? GW_FRAME_SEED : GW_FRAME_PUSH,
        .flags =
            (uint16_t)((sum ? GW_FLAG_SUM : 0) | (far ? GW_FLAG_NO_CRC : 0)),
        .clock = seed ? 0 : chunk->pushed - 1,
        .offset = empty ? 0 : place->shard_offset,
        .window = empty  ? GW_WINDOW_NONE
                  : seed ? shard->seeds
                         : shard->landing,
        .chunk = index,
        .count = chunk->samples,
        .length = empty ? 0 : place->elems * (uint32_t)sizeof(float),
        .dtype = GW_DTYPE_F32,
        .decision = (uint32_t)atomic_load(&client->decision),
    };
}

/* A chunk's gradient, the sum of several, or its seed. */
void gw_client_send_chunk(struct gw_client *client, uint32_t index)
{
    struct gw_client_chunk *chunk = &client->chunk[index];
    struct gw_peer *peer = shard_of(client, index)->peer;
    unsigned link = gw_client_link_of(client, index);
    int sum = !chunk->seeding && chunk->via == GW_CHUNK_OWNED;
    const void *payload;
    /* an answer may be here before the news that what it answers has left */
    chunk->due = chunk->sending > 0;
    if ((!chunk->pushed && !chunk->seeding) || chunk->sending ||
        !gw_peer_is_up(peer, link) || !find_payload(client, index, &payload))
        return;
    chunk->sending = sum ? 2 : 1;
    if (sum)
        gw_peer_send(peer, link, gw_node_parts(client->node, index, on_sent));
    chunk->send = (struct gw_send){
        .frame = frame_of(client, index),
        .payload = payload,
        .priority = GW_CLIENT_PRIORITY,
        .done = on_sent,
        .owner = client,
    };
    gw_metrics_add(client->metrics, GW_METRIC_BYTES_PUSHED,
                   chunk->send.frame.length);
    if (gw_client_is_shown(client, index))
        gw_client_show(client, index);
    gw_peer_send(peer, link, &chunk->send);
}

/* Where a want leaves among the pushes of its key. The answer lies where those
   land, so that one which may come at once must not come before they have left,
   above all when they are sent again. */
enum order {
    BEHIND_PUSHES,
    WITH_PUSHES, /* it is answered when they are in, and they are on their way
                    for the first time */
};

static void post_want(struct gw_client_want *want, enum order order);

static void on_want_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_client_want *want = send->owner;
    int again = want->again;
    want->sending = 0;
    want->again = 0;
    /* a link that broke has everything asked again */
    if (again && status == GW_OK)
        post_want(want, BEHIND_PUSHES);
}

static struct gw_want condition_for(const struct gw_client *client,
                                    const struct gw_client_chunk *lacking)
{
    struct gw_want want = {.value = lacking->want - 1,
                           .condition = GW_WANT_VERSION,
                           .encoding = (uint8_t)gw_client_encoding(client)};
    if (lacking->pull) {
        want.condition = GW_WANT_NOW;
        want.value = lacking->pull;
        want.encoding = GW_ENCODING_RAW;
    } else if (client->word.kind == GW_POLICY_SSP) {
        want.condition = GW_WANT_MINIMUM;
        want.slack = (uint32_t)client->word.n;
    } else if (client->each) {
        want.condition = GW_WANT_HELD;
    }
    return want;
}

struct gw_want gw_client_want_for(const struct gw_client *client,
                                  const struct gw_client_chunk *lacking,
                                  uint32_t first,
                                  uint32_t count)
{
    const struct gw_chunk *at = &client->map->chunk[first];
    uint32_t shard = client->map->chunk[lacking - client->chunk].shard;
    struct gw_want want = condition_for(client, lacking);
    enum gw_encoding encoding = (enum gw_encoding)want.encoding;
    want.chunk = first;
    want.count = count;
    want.offset = gw_encoded_size(encoding, at->arena_offset);
    want.window = client->shard[shard].weights[encoding];
    want.priority = GW_CLIENT_PRIORITY;
    return want;
}

/* A chunk of the key that lacks something and comes from there; or none. */
static const struct gw_client_chunk *
find_lacking(const struct gw_client_want *want)
{
    const struct gw_client *client = want->client;
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[want->key];
         c < map->key_chunk[want->key + 1]; c++)
        if (gw_client_asks_for(&client->chunk[c]) &&
            map->chunk[c].shard == want->shard &&
            gw_client_link_of(client, c) == want->link)
            return &client->chunk[c];
    return NULL;
}

/* Wants and their answers share a link, so both are void when it breaks. */
static void post_want(struct gw_client_want *want, enum order order)
{
    struct gw_client *client = want->client;
    const struct gw_map *map = client->map;
    uint32_t first = map->key_chunk[want->key];
    struct gw_peer *peer = client->shard[want->shard].peer;
    const struct gw_client_chunk *lacking = find_lacking(want);
    if (!lacking || !gw_peer_is_up(peer, want->link))
        return; /* asked again when the link is there */
    want->again = want->sending;
    if (want->sending)
        return;
    struct gw_want what = gw_client_want_for(
        client, lacking, first, map->key_chunk[want->key + 1] - first);
    if (lacking->via == GW_CHUNK_OWNED && !lacking->apart && !lacking->pull) {
        /* the others of the key come from those who push them */
        what.of = (uint8_t)gw_node_ranks(client->node);
        what.nth = (uint8_t)(client->rank % what.of);
    }
    gw_want_encode(&what, want->bytes);
    want->sending = 1;
    want->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_WANT,
                  .chunk = order == WITH_PUSHES
                               ? first
                               : map->key_chunk[want->key + 1] - 1,
                  .length = GW_WANT_BYTES,
                  .decision = (uint32_t)atomic_load(&client->decision)},
        .payload = want->bytes,
        .priority = GW_CLIENT_PRIORITY,
        .done = on_want_sent,
        .owner = want,
    };
    gw_peer_send(peer, want->link, &want->send);
}

/* Whether a chunk is the first of its key with this shard and link. */
static int
is_first_there(const struct gw_client *client, uint32_t first, uint32_t chunk)
{
    uint32_t shard = client->map->chunk[chunk].shard;
    for (uint32_t before = first; before < chunk; before++)
        if (client->map->chunk[before].shard == shard &&
            gw_client_link_of(client, before) ==
                gw_client_link_of(client, chunk))
            return 0;
    return 1;
}

static struct gw_client_want *want_of(const struct gw_client *client,
                                      size_t key,
                                      uint32_t shard,
                                      unsigned link)
{
    return &client->want[(key * client->shards + shard) * client->connections +
                         link];
}

/* Asks every shard that holds a part of the key for what its chunks lack. */
static void ask_for_key(struct gw_client *client, size_t key, enum order order)
{
    const struct gw_map *map = client->map;
    uint32_t first = map->key_chunk[key], end = map->key_chunk[key + 1];
    for (uint32_t c = first; c < end; c++)
        if (is_first_there(client, first, c))
            post_want(want_of(client, key, map->chunk[c].shard,
                              gw_client_link_of(client, c)),
                      order);
}

static void want_key(struct gw_client *client,
                     size_t key,
                     uint64_t version,
                     enum order order)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
        client->chunk[c].want = version + 1;
    ask_for_key(client, key, order);
}

/* Not with a push: what others of this host have is not waited for. */
void gw_client_want_key(struct gw_client *client, size_t key, uint64_t version)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++)
        client->chunk[c].via = GW_CHUNK_ALONE;
    want_key(client, key, version, BEHIND_PUSHES);
}

void gw_client_want_all(struct gw_client *client, uint64_t version, int seed)
{
    for (uint32_t c = 0; c < client->map->chunks; c++) {
        client->chunk[c].seeding = seed != 0;
        if (seed)
            gw_client_send_chunk(client, c);
    }
    for (size_t key = 0; key < client->map->keys; key++)
        gw_client_want_key(client, key, version);
}

/*
 * A pull overtakes what is wanted: answers come in the order of their wants, so
 * when it is there nothing older can arrive any more.
 */
void gw_client_pull_all(struct gw_client *client, uint64_t name)
{
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunk[c].pull = name;
    for (size_t key = 0; key < client->map->keys; key++)
        ask_for_key(client, key, BEHIND_PUSHES);
}

/* Clocks are numbered anew: what was pushed is in. */
void gw_client_forget_pushes(struct gw_client *client)
{
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunk[c].pushed = 0;
}

uint64_t gw_client_decision(const struct gw_client *client,
                            const struct gw_frame *frame)
{
    return gw_decision_near(atomic_load(&client->decision), frame->decision);
}

/* Shards drop it too: what is asked for twice would be answered twice. */
void gw_client_void(struct gw_client *client, uint64_t decision)
{
    client->voided = decision;
    for (uint32_t c = 0; c < client->map->chunks; c++)
        client->chunk[c].want = 0;
}

/* What came by other wants than the pull is not there any more. */
void gw_client_forget(struct gw_client *client)
{
    for (uint32_t c = 0; c < client->map->chunks; c++)
        atomic_store(&client->chunk[c].have, 0);
}

uint32_t gw_client_first_pulled(const struct gw_client *client)
{
    uint32_t c = 0;
    while (c < client->map->chunks && !client->chunk[c].pull)
        c++;
    return c < client->map->chunks ? c : GW_CHUNK_NONE;
}

int gw_client_has_pulled(const struct gw_client *client)
{
    return gw_client_first_pulled(client) == GW_CHUNK_NONE;
}

static void
push_key(struct gw_client *client, size_t key, const struct gw_client_run *run)
{
    const struct gw_map *map = client->map;
    for (uint32_t c = map->key_chunk[key]; c < map->key_chunk[key + 1]; c++) {
        struct gw_client_chunk *chunk = &client->chunk[c];
        if (chunk->pushed) {
            /* a shard cannot have the version that this push is a part of */
            gw_client_fail(client, GW_EPROTO,
                           "%s gave out weights of a step to come",
                           client->shard[map->chunk[c].shard].peer->name);
            return;
        }
        chunk->pushed = run->clock + 1;
        chunk->samples = run->samples;
        chunk->apart = run->apart != 0;
        chunk->still = run->still != 0;
        if (run->sums) {
            gw_node_push(client->node, c);
        } else {
            chunk->via = GW_CHUNK_ALONE;
            gw_client_send_chunk(client, c);
        }
    }
    /* backup: whoever is late is answered before its push is in */
    want_key(client, key, run->next,
             client->may_jump ? BEHIND_PUSHES : WITH_PUSHES);
}

/* Takes what the caller has handed over since. */
static void take_runs(struct gw_task *task)
{
    struct gw_client *client = task->owner;
    uint32_t out = atomic_load(&client->runs_out);
    if (atomic_load(&client->failed))
        return;
    client->progress_us = gw_loop_now(client->loop);
    while (out != atomic_load(&client->runs_in)) {
        struct gw_client_run run = client->run[out % GW_CLIENT_RUNS];
        for (size_t key = run.first; key < run.first + run.n; key++)
            push_key(client, key, &run);
        atomic_store(&client->runs_out, ++out);
    }
}

/* ---- in ---- */

static int answers_chunk(const struct gw_client_chunk *chunk,
                         const struct gw_frame *frame)
{
    if (frame->flags & GW_FLAG_NOW)
        return chunk->pull != 0 && frame->clock == chunk->pull;
    return chunk->want != 0 && frame->clock + 1 >= chunk->want;
}

/* Weights must be what was asked for, in the place that was given for it; those
   that are on a device have no bytes. */
static int fits_chunk(const struct gw_client *client,
                      const struct gw_frame *frame,
                      const void *device)
{
    const struct gw_chunk *place = &client->map->chunk[frame->chunk];
    enum gw_encoding encoding = frame->flags & GW_FLAG_NOW
                                    ? GW_ENCODING_RAW
                                    : gw_client_encoding(client);
    return frame->encoding == encoding && frame->dtype == GW_DTYPE_F32 &&
           frame->offset == gw_encoded_size(encoding, place->arena_offset) &&
           frame->length ==
               (device ? 0 : gw_encoded_bytes(encoding, place->elems)) &&
           answers_chunk(&client->chunk[frame->chunk], frame);
}

static int is_answer(const struct gw_client *client,
                     const struct gw_peer *peer,
                     const struct gw_frame *frame)
{
    if (frame->kind != GW_FRAME_WEIGHTS || frame->chunk >= client->map->chunks)
        return 0;
    const struct gw_client_shard *shard =
        &client->shard[client->map->chunk[frame->chunk].shard];
    return shard->peer == peer && fits_chunk(client, frame, NULL) &&
           frame->window == shard->weights[frame->encoding] &&
           (client->chunk[frame->chunk].via != GW_CHUNK_GIVEN ||
            client->chunk[frame->chunk].apart || frame->flags & GW_FLAG_NOW);
}

static void count_staleness(struct gw_client *client, uint32_t staleness)
{
    atomic_fetch_add_explicit(
        &client->staleness[gw_staleness_bucket(staleness)], 1,
        memory_order_relaxed);
}

/* The weights of a chunk have arrived, whoever wrote them: nothing is to be
   sent or asked any more. */
static void answered(struct gw_client *client, const struct gw_frame *frame)
{
    struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    uint32_t bytes = gw_encoded_bytes((enum gw_encoding)frame->encoding,
                                      client->map->chunk[frame->chunk].elems);
    client->progress_us = gw_loop_now(client->loop);
    gw_metrics_add(client->metrics, GW_METRIC_BYTES_PULLED, bytes);
    uint64_t decision = gw_client_decision(client, frame);
    if (decision > atomic_load(&client->decision_needed))
        atomic_store(&client->decision_needed, decision);
    if (frame->flags & GW_FLAG_NOW) {
        chunk->pull = 0;
        return;
    }
    if (client->each && chunk->pushed)
        count_staleness(client, frame->count);
    gw_client_was_read(client, frame->chunk);
    chunk->want = 0;
    chunk->pushed = 0;
    chunk->seeding = 0;
}

/* They are where the caller looks for them: in our arena, or on a device. */
static void is_there(struct gw_client *client,
                     const struct gw_frame *frame,
                     const void *device)
{
    struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    if (chunk->device != device) /* it may be looked at, and be as it was */
        chunk->device = device;
    atomic_store_explicit(&chunk->have, frame->clock + 1, memory_order_release);
}

static void arrived(struct gw_client *client,
                    const struct gw_frame *frame,
                    const void *device)
{
    if (!device)
        gw_client_landed(client, frame);
    answered(client, frame);
    if (!(frame->flags & GW_FLAG_NOW))
        is_there(client, frame, device);
}

void gw_client_frame(struct gw_client *client,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame)
{
    if (gw_client_decision(client, frame) < client->voided &&
        !(frame->flags & GW_FLAG_NOW))
        return; /* of a want that is void */
    if (!client->chunk || !is_answer(client, peer, frame)) {
        gw_peer_reject(peer, link, "weights that nobody asked for");
        return;
    }
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    int for_all = chunk->via == GW_CHUNK_OWNED && !chunk->apart &&
                  !(frame->flags & GW_FLAG_NOW);
    if (for_all) {
        answered(client, frame);
        gw_node_arrived(client->node, frame);
    } else {
        arrived(client, frame, NULL);
    }
}

void gw_client_put(struct gw_client *client,
                   const struct gw_frame *frame,
                   const void *device)
{
    if (!device)
        gw_client_landed(client, frame);
    is_there(client, frame, device);
    gw_node_give(client->node, frame->chunk);
}

void gw_client_given(struct gw_client *client,
                     struct gw_peer *peer,
                     const struct gw_frame *frame,
                     const void *device)
{
    const struct gw_client_chunk *chunk = &client->chunk[frame->chunk];
    if (gw_client_decision(client, frame) < client->voided ||
        (chunk->via == GW_CHUNK_GIVEN && chunk->apart))
        return; /* of a want that is void, or is the shard's to answer */
    if (frame->flags & GW_FLAG_NOW || chunk->via != GW_CHUNK_GIVEN ||
        frame->clock + 1 != chunk->want || !fits_chunk(client, frame, device))
        gw_peer_reject(peer, 0, "weights that nobody asked for");
    else
        arrived(client, frame, device);
}

uint32_t gw_client_next_missing(const struct gw_client *client,
                                uint32_t chunk,
                                uint32_t end,
                                uint64_t version)
{
    while (chunk < end && atomic_load_explicit(&client->chunk[chunk].have,
                                               memory_order_acquire) > version)
        chunk++;
    return chunk;
}

int gw_client_has_decisions(const struct gw_client *client)
{
    return atomic_load(&client->decision) >=
           atomic_load(&client->decision_needed);
}

uint32_t gw_client_first_missing(const struct gw_client *client,
                                 size_t first,
                                 size_t n,
                                 uint64_t version)
{
    const struct gw_map *map = client->map;
    uint32_t end = map->key_chunk[first + n];
    uint32_t c =
        gw_client_next_missing(client, map->key_chunk[first], end, version);
    return c < end ? c : GW_CHUNK_NONE;
}

int gw_client_has(const struct gw_client *client,
                  size_t first,
                  size_t n,
                  uint64_t version)
{
    return gw_client_first_missing(client, first, n, version) ==
               GW_CHUNK_NONE &&
           gw_client_has_decisions(client);
}

/* ---- opening and closing ---- */

enum gw_status gw_client_data_open(struct gw_client *client,
                                   struct gw_error *error)
{
    const struct gw_map *map = client->map;
    client->hollow = client->config.train.arithmetic == GW_ARITHMETIC_NONE;
    client->chunk = calloc(map->chunks, sizeof *client->chunk);
    client->want = calloc(map->keys * client->shards * client->connections,
                          sizeof *client->want);
    if (!client->chunk || !client->want)
        return gw_fail(error, GW_ENOMEM, "no memory for %zu chunks",
                       map->chunks);
    for (size_t key = 0; key < map->keys; key++)
        for (uint32_t shard = 0; shard < client->shards; shard++)
            for (unsigned link = 0; link < client->connections; link++)
                *want_of(client, key, shard, link) = (struct gw_client_want){
                    .client = client, .key = key, .shard = shard, .link = link};
    client->runs_task.run = take_runs;
    client->runs_task.owner = client;
    return GW_OK;
}

void gw_client_data_close(struct gw_client *client)
{
    free(client->chunk);
    free(client->want);
}
