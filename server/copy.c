#include "config.h"

#include "server/copy.h"

#include <stdlib.h>

#include "server/recent.h"
#include "server/server_state.h"

/* Chunks that are copied at a time: a few keep a link busy. */
#define COPYING_MAX 4

/* Behind control messages, with weights. */
#define PRIORITY 1

/* More silence, in times that of a dead process, which the coordinator
   notices. */
#define OUT_OF_SIGHT 2

enum copied_state {
    BARE,
    COPYING,
    FOLLOWED
};

struct gw_copied {
    struct gw_server *server;
    uint32_t index;
    uint8_t state;     /* enum copied_state */
    uint8_t waits;     /* for the answer to a note, and holds */
    uint8_t has_bytes; /* a sum, beside the note */
    uint8_t unsent;    /* as soon as its frames of before have left */
    uint64_t has;      /* the version that the standby is at */
    unsigned array;    /* copying: the one that leaves */
    unsigned sending;  /* frames */
    struct gw_copy_note said;
    uint8_t bytes[GW_COPY_NOTE_BYTES];
    struct gw_send put, note;
};

_Static_assert(GW_COPY_STATES + GW_STATE_MAX == GW_COPY_ARRAYS,
               "all states of an optimizer");

static unsigned arrays_of(const struct gw_server *server)
{
    return GW_COPY_STATES + server->shard->optimizer->states;
}

static int is_open(const struct gw_server *server)
{
    const struct gw_copy *copy = &server->copy;
    return copy->peer && copy->windows == 1 + arrays_of(server) &&
           gw_peer_is_up(copy->peer, 0);
}

/* ---- frames out ---- */

static void send_next(struct gw_copied *chunk);
static void send_due(struct gw_copied *chunk);

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_copied *chunk = send->owner;
    chunk->sending--;
    if (status == GW_OK && send == &chunk->put && chunk->state == COPYING &&
        !chunk->unsent)
        send_next(chunk);
    else
        send_due(chunk);
}

static void send(struct gw_copied *chunk,
                 struct gw_send *send,
                 const struct gw_frame *frame,
                 const void *payload)
{
    *send = (struct gw_send){.frame = *frame,
                             .payload = payload,
                             .priority = PRIORITY,
                             .done = on_sent,
                             .owner = chunk};
    send->frame.chunk = chunk->server->shard->chunk[chunk->index].global;
    send->frame.clock = chunk->said.version;
    send->frame.decision = (uint32_t)chunk->server->decision;
    chunk->sending++;
    gw_peer_send(chunk->server->copy.peer, 0, send);
}

static void
send_put(struct gw_copied *chunk, uint8_t kind, uint32_t window, float *array)
{
    const struct gw_shard *shard = chunk->server->shard;
    const struct gw_shard_chunk *at = &shard->chunk[chunk->index];
    const struct gw_frame frame = {.kind = kind,
                                   .window = window,
                                   .offset = at->first * sizeof(float),
                                   .length = at->elems * sizeof(float),
                                   .dtype = GW_DTYPE_F32};
    send(chunk, &chunk->put, &frame,
         shard->payload_free ? NULL : array + at->first);
}

static void send_note(struct gw_copied *chunk)
{
    const struct gw_frame frame = {.kind = GW_FRAME_NOTE,
                                   .length = GW_COPY_NOTE_BYTES};
    gw_copy_note_encode(&chunk->said, chunk->bytes);
    send(chunk, &chunk->note, &frame, chunk->bytes);
}

static struct gw_copy_note note_of(const struct gw_shard_chunk *chunk)
{
    return (struct gw_copy_note){.kind = GW_COPY_WHOLE,
                                 .version = chunk->version,
                                 .updates = chunk->updates,
                                 .skipped = chunk->skipped,
                                 .pushes = chunk->pushes};
}

/* The arrays of a chunk that is copied, one after the other, then the note. */
static void send_next(struct gw_copied *chunk)
{
    struct gw_shard *shard = chunk->server->shard;
    const struct gw_shard_chunk *at = &shard->chunk[chunk->index];
    const struct gw_copy *copy = &chunk->server->copy;
    unsigned array = chunk->array++;
    float *from = array == GW_COPY_WEIGHTS  ? shard->weights[at->current]
                  : array == GW_COPY_BEFORE ? shard->weights[at->before]
                  : array < arrays_of(chunk->server)
                      ? shard->state[array - GW_COPY_STATES]
                      : NULL;
    if (from)
        send_put(chunk, GW_FRAME_COPY, copy->arrays[array], from);
    else
        send_note(chunk);
}

/* A sum lands where the one of the step before did. */
static int has_room(const struct gw_copied *chunk)
{
    return !gw_copy_is_undecided(chunk->said.kind) ||
           chunk->has >= chunk->said.version;
}

static void send_due(struct gw_copied *chunk)
{
    if (!chunk->unsent || !chunk->waits || chunk->sending || !has_room(chunk) ||
        !is_open(chunk->server))
        return;
    chunk->unsent = 0;
    chunk->array = 0;
    if (chunk->state == COPYING) {
        send_next(chunk);
        return;
    }
    if (chunk->has_bytes)
        send_put(chunk, GW_FRAME_SUM, chunk->server->copy.sums,
                 chunk->server->shard->reduced);
    send_note(chunk);
}

/* ---- copying ---- */

/* Not while the chunk is being summed, or its step is on its way: the chunk is
   at its next version soon, since no standby has to repeat that step. */
static int may_be_copied(const struct gw_copied *chunk)
{
    const struct gw_shard_chunk *at =
        &chunk->server->shard->chunk[chunk->index];
    return chunk->state == BARE && at->ready && !at->reduced && !chunk->sending;
}

static void copy_some(struct gw_server *server)
{
    struct gw_copy *copy = &server->copy;
    uint32_t chunks = server->shard->chunks;
    if (!is_open(server) || copy->followed + copy->copying == chunks)
        return; /* as at each step, but for the first ones */
    for (uint32_t i = 0; i < chunks && copy->copying < COPYING_MAX; i++) {
        struct gw_copied *chunk = &copy->chunk[i];
        if (!may_be_copied(chunk))
            continue;
        chunk->state = COPYING;
        chunk->waits = chunk->unsent = 1;
        chunk->said = note_of(&server->shard->chunk[i]);
        copy->copying++;
        send_due(chunk);
    }
}

static void tell_caught(struct gw_server *server)
{
    struct gw_copy *copy = &server->copy;
    const struct gw_message message = {
        .kind = GW_MESSAGE_CAUGHT,
        .caught = {.incarnation = copy->incarnation}};
    if (copy->is_told || !is_open(server) ||
        !gw_away_is_known(&server->home.away) ||
        copy->followed < server->shard->chunks ||
        (server->leader && copy->decided < gw_leader_number(server->leader)))
        return;
    copy->is_told = 1;
    gw_server_tell(server, server->coordinator, &message);
}

void gw_copy_tell_again(struct gw_server *server)
{
    server->copy.is_told = 0;
    if (server->copy.chunk)
        tell_caught(server);
}

void gw_copy_watch(struct gw_server *server, uint64_t now)
{
    struct gw_copy *copy = &server->copy;
    const struct gw_message message = {
        .kind = GW_MESSAGE_CAUGHT,
        .caught = {.incarnation = copy->incarnation, .lost = 1}};
    if (!copy->peer || !copy->peer->silent ||
        !gw_away_is_here(&server->home.away))
        copy->heard_us = now;
    gw_member_excuse(server->member, now, &copy->paused_us, &copy->heard_us);
    if (copy->is_missed ||
        now - copy->heard_us <
            OUT_OF_SIGHT * gw_member_silence_us(server->member))
        return;
    copy->is_missed = 1;
    gw_server_tell(server, server->coordinator, &message);
}

/* ---- answers ---- */

static void copied(struct gw_copied *chunk)
{
    struct gw_server *server = chunk->server;
    chunk->state = FOLLOWED;
    chunk->has = chunk->said.version;
    server->copy.copying--;
    server->copy.followed++;
    gw_due_add(&server->due, chunk->index);
    copy_some(server);
    tell_caught(server);
}

static void got_decided(struct gw_server *server, uint64_t number)
{
    server->copy.decided = number;
    gw_recent_taken(server, number);
    tell_caught(server);
}

static void
got_ack(struct gw_server *server, unsigned link, const struct gw_frame *frame)
{
    uint32_t index;
    if (frame->chunk == GW_CHUNK_NONE) {
        got_decided(server, gw_session_decision(server, frame));
        return;
    }
    if (!gw_shard_find(server->shard, frame->chunk, &index) ||
        frame->clock > server->copy.chunk[index].said.version + 1) {
        gw_peer_reject(server->copy.peer, link, "acknowledges what none sent");
        return;
    }
    struct gw_copied *chunk = &server->copy.chunk[index];
    if (chunk->state == FOLLOWED && frame->clock > chunk->has)
        chunk->has = frame->clock;
    send_due(chunk);
    if (!chunk->waits || frame->clock < chunk->said.version ||
        frame->count != chunk->said.kind)
        return; /* said already, over a link that broke */
    chunk->waits = 0;
    if (chunk->state == COPYING) {
        copied(chunk);
        return;
    }
    server->copy.waiting--;
    server->copy.stored(server, index);
}

void gw_copy_frame(struct gw_server *server,
                   unsigned link,
                   const struct gw_frame *frame)
{
    if (frame->kind == GW_FRAME_ACK && server->copy.chunk)
        got_ack(server, link, frame);
    else
        gw_peer_reject(server->copy.peer, link,
                       "frame that its role does not send");
}

/* ---- the standby ---- */

int gw_copy_is_of(const struct gw_server *server, uint64_t incarnation)
{
    const struct gw_shard_name *standby = server->members.standby;
    return incarnation && standby[server->number].incarnation == incarnation;
}

void gw_copy_admit(struct gw_server *server, struct gw_peer *peer)
{
    server->copy.peer = peer;
    server->copy.incarnation = peer->incarnation;
}

void gw_copy_got_window(void *owner,
                        struct gw_peer *peer,
                        const struct gw_message *message)
{
    struct gw_server *server = owner;
    struct gw_copy *copy = &server->copy;
    const struct gw_window_open *window = &message->window;
    int is_sum = window->kind == GW_FRAME_SUM && window->array == 0;
    int is_array = window->kind == GW_FRAME_COPY && server->shard &&
                   window->array < arrays_of(server);
    if (peer != copy->peer || !copy->chunk || !(is_sum || is_array) ||
        window->bytes < server->shard->elems * sizeof(float) ||
        window->id == GW_WINDOW_NONE) {
        gw_peer_reject(peer, 0, "a window that nobody writes to");
        return;
    }
    uint32_t *place = is_sum ? &copy->sums : &copy->arrays[window->array];
    copy->windows += *place == GW_WINDOW_NONE;
    *place = window->id;
    copy_some(server);
    tell_caught(server);
}

/* All that has no answer is sent once more, whole. */
void gw_copy_link_up(struct gw_server *server)
{
    struct gw_copy *copy = &server->copy;
    copy->is_missed = 0;
    for (uint32_t i = 0; copy->chunk && i < server->shard->chunks; i++) {
        copy->chunk[i].unsent = copy->chunk[i].waits;
        send_due(&copy->chunk[i]);
    }
    if (copy->chunk) {
        copy_some(server);
        tell_caught(server);
    }
}

static void release(struct gw_copied *chunk)
{
    struct gw_server *server = chunk->server;
    int was_step = chunk->state == FOLLOWED && chunk->waits;
    chunk->state = BARE;
    chunk->waits = 0;
    if (was_step)
        server->copy.stored(server, chunk->index);
    else
        gw_due_add(&server->due, chunk->index);
}

void gw_copy_drop(struct gw_server *server)
{
    struct gw_copy *copy = &server->copy;
    struct gw_peer *peer = copy->peer;
    void (*stored)(struct gw_server * server, uint32_t chunk) = copy->stored;
    struct gw_copied *chunk = copy->chunk;
    *copy = (struct gw_copy){.stored = stored, .chunk = chunk};
    if (peer)
        gw_peer_close(peer);
    gw_recent_taken(server, UINT64_MAX);
    for (uint32_t i = 0; chunk && i < server->shard->chunks; i++)
        release(&chunk[i]);
}

/* ---- the path of a push ---- */

void gw_copy_ready(struct gw_server *server)
{
    if (server->copy.chunk)
        copy_some(server);
}

int gw_copy_may_change(const struct gw_server *server, uint32_t index)
{
    return !server->copy.chunk || server->copy.chunk[index].state != COPYING;
}

int gw_copy_is_followed(const struct gw_server *server, uint32_t index)
{
    return server->copy.chunk && server->copy.chunk[index].state == FOLLOWED;
}

static void send_step(struct gw_copied *chunk, int has_bytes)
{
    struct gw_shard *shard = chunk->server->shard;
    struct gw_copy_note *said = &chunk->said;
    uint64_t version = shard->chunk[chunk->index].version;
    said->has_digest =
        !shard->payload_free && version % GW_COPY_DIGEST_EVERY == 0;
    if (said->has_digest)
        said->digest = gw_shard_crc(shard, chunk->index, GW_ENCODING_RAW);
    chunk->has_bytes = has_bytes != 0;
    chunk->waits = chunk->unsent = 1;
    chunk->server->copy.waiting++;
    send_due(chunk);
}

void gw_copy_step(struct gw_server *server,
                  uint32_t index,
                  const struct gw_update *update)
{
    struct gw_copied *chunk = &server->copy.chunk[index];
    const struct gw_shard *shard = server->shard;
    const struct gw_shard_chunk *at = &shard->chunk[index];
    uint64_t next = gw_rounds_next(&shard->rounds, at->fragment, at->version);
    chunk->said = note_of(at);
    chunk->said.kind = update ? GW_COPY_STEP : GW_COPY_SKIP;
    chunk->said.version = next;
    chunk->said.updates++;
    chunk->said.skipped += !update;
    chunk->said.pushes += (next - at->version) * server->ranks;
    if (update) {
        chunk->said.scale = update->scale;
        chunk->said.t = update->t;
        chunk->said.terms =
            (struct gw_terms){.lr = update->lr,
                              .weight_decay = update->weight_decay,
                              .momentum = update->momentum,
                              .beta1 = update->beta1,
                              .beta2 = update->beta2,
                              .eps = update->eps};
    }
    send_step(chunk, update != NULL);
}

void gw_copy_sum(struct gw_server *server, uint32_t index)
{
    struct gw_copied *chunk = &server->copy.chunk[index];
    const struct gw_shard_chunk *at = &server->shard->chunk[index];
    int has_gradient = gw_shard_has_gradient(server->shard, index);
    chunk->said = note_of(at);
    chunk->said.kind = has_gradient ? GW_COPY_SUM : GW_COPY_NO_SUM;
    chunk->said.terms = gw_terms_of_step(server, index);
    chunk->said.samples = at->samples;
    chunk->said.uncounted = at->uncounted;
    send_step(chunk, has_gradient);
}

int gw_copy_waits(const struct gw_server *server)
{
    return server->copy.waiting > 0;
}

/* ---- opening and closing ---- */

enum gw_status gw_copy_open(struct gw_server *server,
                            void (*stored)(struct gw_server *server,
                                           uint32_t chunk),
                            struct gw_error *error)
{
    struct gw_copy *copy = &server->copy;
    uint32_t chunks = server->shard->chunks;
    if (server->config.cluster.copies == 1)
        return GW_OK;
    copy->stored = stored;
    copy->chunk = calloc(chunks + 1, sizeof *copy->chunk);
    if (!copy->chunk)
        return gw_fail(error, GW_ENOMEM,
                       "no memory for the copies of %u chunks", chunks);
    for (uint32_t i = 0; i < chunks; i++) {
        copy->chunk[i].server = server;
        copy->chunk[i].index = i;
    }
    return GW_OK;
}

void gw_copy_close(struct gw_server *server)
{
    free(server->copy.chunk);
    server->copy.chunk = NULL;
}
