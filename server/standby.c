#include "config.h"

#include "server/standby.h"

#include <inttypes.h>
#include <stdlib.h>

#include "server/server_state.h"

/* Before anything else: the primary waits for it. */
#define PRIORITY 0

struct gw_followed {
    struct gw_server *server;
    uint32_t index;
    int waits; /* the note, for the decision that its sender knew, or for the
                  step before */
    struct gw_copy_note note;
    uint64_t decision;
    uint8_t kind; /* of the note that is answered; 0: none is */
    struct gw_send ack;
    int sending, again;
};

/* ---- answers ---- */

static void send_ack(struct gw_followed *chunk, uint8_t kind);

static void on_ack_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_followed *chunk = send->owner;
    int again = chunk->again;
    chunk->sending = chunk->again = 0;
    if (again && status == GW_OK)
        send_ack(chunk, chunk->kind);
}

/* If the link breaks the note comes again, and is answered then. */
static void send_ack(struct gw_followed *chunk, uint8_t kind)
{
    struct gw_server *server = chunk->server;
    const struct gw_shard_chunk *at = &server->shard->chunk[chunk->index];
    if (kind || !chunk->again)
        chunk->kind = kind;
    chunk->again = chunk->sending;
    if (chunk->sending || !gw_peer_is_up(server->standby.primary, 0))
        return;
    chunk->sending = 1;
    chunk->ack =
        (struct gw_send){.frame = {.kind = GW_FRAME_ACK,
                                   .chunk = at->global,
                                   .clock = at->version,
                                   .count = chunk->kind,
                                   .decision = (uint32_t)server->decision},
                         .priority = PRIORITY,
                         .done = on_ack_sent,
                         .owner = chunk};
    gw_peer_send(server->standby.primary, 0, &chunk->ack);
}

static void on_decided_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_server *server = send->owner;
    server->standby.is_telling = 0;
    if (status == GW_OK && server->standby.told < server->decision)
        gw_standby_decided(server);
}

void gw_standby_decided(struct gw_server *server)
{
    struct gw_standby *standby = &server->standby;
    if (!standby->primary || server->number != 0 || standby->is_telling ||
        !gw_peer_is_up(standby->primary, 0))
        return;
    standby->is_telling = 1;
    standby->told = server->decision;
    standby->decided =
        (struct gw_send){.frame = {.kind = GW_FRAME_ACK,
                                   .chunk = GW_CHUNK_NONE,
                                   .decision = (uint32_t)server->decision},
                         .priority = PRIORITY,
                         .done = on_decided_sent,
                         .owner = server};
    gw_peer_send(standby->primary, 0, &standby->decided);
}

/* ---- notes ---- */

static struct gw_update update_of(const struct gw_copy_note *note)
{
    struct gw_update update = {.scale = note->scale,
                               .lr = note->terms.lr,
                               .weight_decay = note->terms.weight_decay,
                               .momentum = note->terms.momentum,
                               .beta1 = note->terms.beta1,
                               .beta2 = note->terms.beta2,
                               .eps = note->terms.eps,
                               .t = note->t,
                               .trust_ratio = 1};
    gw_update_prepare(&update);
    return update;
}

/* Both have made the same steps of the same sums. */
static int agrees(const struct gw_followed *chunk)
{
    struct gw_server *server = chunk->server;
    const struct gw_shard_chunk *at = &server->shard->chunk[chunk->index];
    if (!chunk->note.has_digest || chunk->note.kind == GW_COPY_WHOLE ||
        chunk->note.digest ==
            gw_shard_crc(server->shard, chunk->index, GW_ENCODING_RAW))
        return 1;
    gw_server_finish(server, GW_EPROTO,
                     "the copy of key %s is not what the server of shard %u "
                     "has at version %" PRIu64,
                     server->map->key[server->map->chunk[at->global].key].name,
                     server->number, at->version);
    return 0;
}

/* The chunk is as the primary has it, or will have it. */
static void apply(struct gw_followed *chunk)
{
    if (!agrees(chunk))
        return;
    struct gw_server *server = chunk->server;
    struct gw_shard *shard = server->shard;
    const struct gw_copy_note *note = &chunk->note;
    const struct gw_shard_age age = {note->version, note->updates,
                                     note->skipped, note->pushes};
    struct gw_update update;
    chunk->waits = 0;
    switch (note->kind) {
    case GW_COPY_SUM:
    case GW_COPY_NO_SUM:
        gw_shard_hold_sum(shard, chunk->index, note->samples, note->uncounted,
                          note->kind == GW_COPY_NO_SUM);
        break;
    case GW_COPY_STEP:
        update = update_of(note);
        gw_shard_take_sum(shard, chunk->index);
        gw_shard_apply(shard, chunk->index, &update);
        break;
    case GW_COPY_SKIP:
        gw_shard_take_sum(shard, chunk->index);
        gw_shard_skip_update(shard, chunk->index);
        break;
    default:
        gw_shard_take_copy(shard, chunk->index);
        break;
    }
    if (!gw_copy_is_undecided(note->kind))
        gw_shard_set_age(shard, chunk->index, &age);
    send_ack(chunk, note->kind);
}

/* Why no primary sends the note; NULL: it does. A step needs the version
   before, and a copy that came whole. */
static const char *judge(const struct gw_followed *chunk,
                         const struct gw_copy_note *note)
{
    const struct gw_server *server = chunk->server;
    const struct gw_shard_chunk *at = &server->shard->chunk[chunk->index];
    if (note->kind == GW_COPY_WHOLE)
        return NULL;
    if (gw_copy_is_undecided(note->kind) != (server->regime.whole_step != 0))
        return "a step of another kind";
    if (!at->ready)
        return "a step of a chunk that is not here";
    return note->version > at->version + 1 ? "a step that is not the next"
                                           : NULL;
}

/* The note is about what is here: a copy, or the next step. */
static int is_next(const struct gw_followed *chunk)
{
    const struct gw_server *server = chunk->server;
    uint64_t version = server->shard->chunk[chunk->index].version;
    return chunk->decision <= server->decision &&
           (!gw_copy_is_undecided(chunk->note.kind) ||
            chunk->note.version == version);
}

/* It came over a link that broke, and is done. */
static int is_done(const struct gw_followed *chunk,
                   const struct gw_copy_note *note)
{
    const struct gw_shard_chunk *at =
        &chunk->server->shard->chunk[chunk->index];
    if (note->kind == GW_COPY_WHOLE)
        return 0;
    if (gw_copy_is_undecided(note->kind))
        return note->version < at->version ||
               (note->version == at->version && at->reduced);
    return note->version <= at->version;
}

static void got_note(struct gw_server *server,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_peer *primary = server->standby.primary;
    struct gw_copy_note note;
    uint32_t index;
    if (frame->length != GW_COPY_NOTE_BYTES ||
        gw_copy_note_decode(payload, &note) != GW_OK ||
        !gw_shard_find(server->shard, frame->chunk, &index)) {
        gw_peer_reject(primary, link, "a note of no chunk of this shard");
        return;
    }
    struct gw_followed *chunk = &server->standby.chunk[index];
    const char *fault = judge(chunk, &note);
    if (fault) {
        gw_peer_reject(primary, link, fault);
        return;
    }
    if (is_done(chunk, &note)) {
        send_ack(chunk, note.kind);
        return;
    }
    if (chunk->waits)
        gw_due_undefer(&server->due, 1);
    chunk->note = note;
    chunk->decision = gw_session_decision(server, frame);
    chunk->waits = !is_next(chunk);
    if (chunk->waits)
        gw_due_defer(&server->due);
    else
        apply(chunk);
}

void gw_standby_look(struct gw_server *server, uint32_t index)
{
    struct gw_followed *chunk = &server->standby.chunk[index];
    if (!chunk->waits || !is_next(chunk))
        return;
    gw_due_undefer(&server->due, 1);
    apply(chunk);
}

void gw_standby_applied(struct gw_server *server, uint32_t index)
{
    send_ack(&server->standby.chunk[index], 0);
    gw_standby_look(server, index);
}

int gw_standby_find_terms(const struct gw_server *server,
                          uint32_t index,
                          struct gw_terms *terms_p)
{
    const struct gw_followed *chunk = &server->standby.chunk[index];
    if (!server->standby.chunk || chunk->waits ||
        !gw_copy_is_undecided(chunk->note.kind) ||
        chunk->note.version != server->shard->chunk[index].version)
        return 0;
    *terms_p = chunk->note.terms;
    return 1;
}

/* The bytes of a put are in place, where the note tells what they are. */
static int fits(const struct gw_server *server, const struct gw_frame *frame)
{
    uint32_t index;
    if (!gw_shard_find(server->shard, frame->chunk, &index))
        return 0;
    const struct gw_shard_chunk *at = &server->shard->chunk[index];
    return frame->dtype == GW_DTYPE_F32 && frame->encoding == GW_ENCODING_RAW &&
           frame->length == at->elems * sizeof(float) &&
           frame->offset == at->first * sizeof(float);
}

void gw_standby_frame(struct gw_server *server,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload)
{
    struct gw_peer *primary = server->standby.primary;
    int is_put = frame->kind == GW_FRAME_SUM || frame->kind == GW_FRAME_COPY;
    if (gw_server_is_over(server))
        return;
    if (frame->kind == GW_FRAME_NOTE)
        got_note(server, link, frame, payload);
    else if (!is_put || !fits(server, frame))
        gw_peer_reject(primary, link, "frame that no primary sends");
}

/* ---- opening and closing ---- */

static enum gw_status open_window(struct gw_server *server,
                                  enum gw_frame_kind kind,
                                  uint32_t array,
                                  float *base)
{
    size_t bytes = server->shard->elems * sizeof(float);
    struct gw_message message = {
        .kind = GW_MESSAGE_WINDOW,
        .window = {.kind = (uint8_t)kind, .bytes = bytes, .array = array}};
    enum gw_status status =
        gw_window_open(&server->standby.primary->windows, (uint8_t)kind, base,
                       bytes, &message.window.id);
    if (status == GW_OK)
        gw_server_tell(server, server->standby.primary, &message);
    return status;
}

static enum gw_status open_windows(struct gw_server *server)
{
    struct gw_shard *shard = server->shard;
    enum gw_status status =
        open_window(server, GW_FRAME_SUM, 0, shard->reduced);
    if (status == GW_OK)
        status = open_window(server, GW_FRAME_COPY, GW_COPY_WEIGHTS,
                             shard->weights[0]);
    if (status == GW_OK)
        status = open_window(server, GW_FRAME_COPY, GW_COPY_BEFORE,
                             shard->weights[1]);
    for (uint32_t s = 0; s < shard->optimizer->states && status == GW_OK; s++)
        status = open_window(server, GW_FRAME_COPY, GW_COPY_STATES + s,
                             shard->state[s]);
    return status;
}

enum gw_status gw_standby_open(struct gw_server *server, struct gw_error *error)
{
    struct gw_standby *standby = &server->standby;
    uint32_t chunks = server->shard->chunks;
    if (!server->stands_by)
        return GW_OK;
    standby->chunk = calloc(chunks + 1, sizeof *standby->chunk);
    if (!standby->chunk)
        return gw_fail(error, GW_ENOMEM, "no memory for a copy of %u chunks",
                       chunks);
    for (uint32_t i = 0; i < chunks; i++) {
        standby->chunk[i].server = server;
        standby->chunk[i].index = i;
    }
    enum gw_status status =
        gw_members_dial_primary(server, &standby->primary, error);
    if (status == GW_OK && open_windows(server) != GW_OK)
        status = gw_fail(error, GW_ENOMEM, "no memory for windows");
    return status;
}

void gw_standby_end(struct gw_server *server)
{
    struct gw_standby *standby = &server->standby;
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (standby->chunk[i].waits)
            gw_due_undefer(&server->due, 1);
    struct gw_peer *primary = standby->primary;
    standby->primary = NULL;
    gw_peer_close(primary);
}

/* The link before may have lost answers: all are told once more. */
void gw_standby_link_up(struct gw_server *server)
{
    gw_standby_decided(server);
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].ready)
            send_ack(&server->standby.chunk[i], 0);
}

void gw_standby_close(struct gw_server *server)
{
    free(server->standby.chunk);
    server->standby.chunk = NULL;
}
