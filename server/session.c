/*
 * The path of a gradient through a server, steps 6 and 7 of DESIGN: a chunk
 * arrives in the landing slot of its rank; when the policy says that its clock
 * is complete it is reduced and updated; then the wants that it satisfies are
 * answered (session_answer.c).
 *
 *   push --> slot --> judge --> hold --> complete --> update --> answer
 *                       |                   |
 *                   duplicate          whole step: vote, decision (step.c)
 *                   or late            backup: who counts, first (quorum.c)
 *
 * One push may be that of several ranks (sum.c).
 */
#include "config.h"

#include "server/server_state.h"

#include <inttypes.h>

/* The pushes that are held make a version. */
void gw_session_complete(struct gw_server *server, uint32_t index)
{
    struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    struct gw_update update;
    if (server->regime.each) {
        gw_each_complete(server, index);
        return;
    }
    if (!server->regime.whole_step && !gw_save_before_update(server, index))
        return; /* looked at again when the snapshot is free */
    if (!gw_shown_find_all(server, index))
        return;
    if (server->regime.whole_step) {
        gw_whole_chunk(server, index);
        return;
    }
    gw_session_fill_update(server, index, chunk->samples, 1, 1, &update);
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_APPLIED, chunk->held);
    gw_session_worked(server, index,
                      chunk->held + 2 + 2 * server->shard->optimizer->states);
    if (gw_shard_update(server->shard, index, &update) != GW_OK) {
        gw_session_blame(server, index, chunk->version - 1);
        return;
    }
    gw_save_reached(server, index);
    gw_session_answer(server, index);
    gw_switch_reached(server);
}

/* Whether the pushes that are held make a version. */
static int is_complete(const struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    if (chunk->reduced)
        return 0;
    return server->regime.quorum > 0
               ? gw_quorum_is_met(server, index)
               : server->regime.policy->complete(chunk->held, server->ranks);
}

static void count_in(struct gw_server *server,
                     uint32_t rank,
                     uint32_t index,
                     uint32_t samples,
                     int empty)
{
    server->progress_us = gw_loop_now(server->loop);
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    if (chunk->fragment == 0)
        gw_divide_took(server, rank, chunk->version, samples);
    gw_shard_hold(server->shard, rank, index, samples, empty);
    if (server->regime.quorum > 0)
        gw_quorum_held(server, rank, index);
}

static void hold(struct gw_server *server,
                 uint32_t rank,
                 uint32_t index,
                 uint32_t samples,
                 int empty)
{
    count_in(server, rank, index, samples, empty);
    if (!is_complete(server, index))
        return;
    if (gw_loop_turn_is_over_at(server->loop, server->progress_us))
        gw_due_add(&server->due, index);
    else
        gw_session_complete(server, index);
}

/* Pushes that were ahead of our knowledge: is it time now? */
static void count_landed(struct gw_server *server, uint32_t index)
{
    for (uint32_t rank = 0;
         rank < server->ranks && gw_due_has_deferred(&server->due); rank++) {
        struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
        if (!slot->landed || slot->decision > server->decision)
            continue;
        slot->landed = 0;
        gw_due_undefer(&server->due, 1);
        count_in(server, rank, index, slot->samples, slot->source.absent);
    }
}

/* All that is due of one chunk. */
void gw_session_look(void *owner, uint32_t index)
{
    struct gw_server *server = owner;
    if (server->finished)
        return;
    count_landed(server, index);
    if (is_complete(server, index))
        gw_session_complete(server, index);
    gw_session_answer(server, index);
}

static int is_plain(const struct gw_frame *frame)
{
    return frame->dtype == GW_DTYPE_F32 && frame->encoding == GW_ENCODING_RAW;
}

/* The payload must have landed exactly in its slot. */
static int fits_slot(const struct gw_server *server,
                     const struct gw_frame *frame,
                     uint32_t index,
                     uint32_t window)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    return frame->window == window && is_plain(frame) &&
           frame->length == chunk->elems * sizeof(float) &&
           frame->offset == chunk->first * sizeof(float);
}

static int fits_push(const struct gw_server *server,
                     uint32_t rank,
                     uint32_t index,
                     const struct gw_frame *frame)
{
    if (frame->length == 0 && frame->count == 0)
        return 1;
    if (frame->count == 0)
        return 0;
    if (frame->kind == GW_FRAME_SHOWN)
        return is_plain(frame);
    return fits_slot(server, frame, index, server->session[rank].landing);
}

/* It counts, now or when the decision is here that its sender knew. */
static void take_part(struct gw_server *server,
                      uint32_t sender,
                      uint32_t index,
                      const struct gw_frame *frame,
                      const struct gw_part *part,
                      int summed)
{
    struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, part->rank, index);
    int empty = frame->length == 0 || part->rank != sender;
    slot->sender = sender;
    slot->summed = summed != 0;
    slot->bad = part->bad != 0;
    slot->shown = frame->kind == GW_FRAME_SHOWN;
    if (gw_session_decision(server, frame) > server->decision) {
        slot->landed = 1;
        slot->source.absent = empty != 0;
        slot->samples = part->samples;
        slot->decision = gw_session_decision(server, frame);
        gw_due_defer(&server->due);
        return;
    }
    hold(server, part->rank, index, part->samples, empty);
}

/* Of a sum all parts are due, as its owner's is. */
static int are_due(const struct gw_server *server,
                   uint32_t index,
                   uint64_t clock,
                   const struct gw_part *part,
                   uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct gw_policy_view view =
            gw_session_view(server, part[i].rank, index);
        if (server->regime.policy->judge(&view, clock) != GW_PUSH_HOLD)
            return 0;
    }
    return 1;
}

/* Its clock is due. Of what it says of samples all must be as it can be. */
static void take_push(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      uint32_t index,
                      const struct gw_frame *frame)
{
    uint32_t rank = peer->id;
    char why[GW_PEER_FAULT_MAX];
    const struct gw_session *session = &server->session[rank];
    if (frame->kind == GW_FRAME_SHOWN &&
        server->regime.word.kind != GW_POLICY_SYNC) {
        gw_peer_reject(peer, link, "gradient that may change before it counts");
        return;
    }
    const struct gw_part alone = {.rank = rank, .samples = frame->count};
    int summed = frame->flags & GW_FLAG_SUM;
    uint32_t n = summed ? session->group.n : 1;
    const struct gw_part *part =
        summed ? gw_sum_of(server, peer, index, frame) : &alone;
    if (!part || !are_due(server, index, frame->clock, part, n)) {
        gw_peer_reject(peer, link,
                       part ? "sum with a part that is here already"
                            : "sum of unknown parts");
        return;
    }
    if (!gw_measure_push(server, index, part, n, why, sizeof why)) {
        gw_peer_reject(peer, link, why);
        return;
    }
    if (frame->kind == GW_FRAME_SHOWN)
        gw_metrics_add(server->metrics, GW_METRIC_PUSHES_SHOWN, 1);
    for (uint32_t i = 0; i < n; i++)
        take_part(server, rank, index, frame, &part[i], summed);
}

static void got_push(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame)
{
    uint32_t rank = peer->id, index;
    if (!gw_shard_find(server->shard, frame->chunk, &index) ||
        !server->shard->chunk[index].ready ||
        !fits_push(server, rank, index, frame)) {
        gw_peer_reject(peer, link, "push that fits no chunk of this shard");
        return;
    }
    const struct gw_policy_view view = gw_session_view(server, rank, index);
    if (frame->length > 0)
        gw_metrics_add(server->metrics, GW_METRIC_BYTES_PUSHED,
                       server->shard->chunk[index].elems * sizeof(float));
    if (gw_session_decision(server, frame) < server->renumbered) {
        /* in since before clocks were numbered anew */
        gw_metrics_add(server->metrics, GW_METRIC_PUSHES_DUPLICATE, 1);
        return;
    }
    if (server->next.decision && frame->clock >= server->next.clock) {
        gw_peer_reject(peer, link, "push of a clock that cannot be yet");
        return;
    }
    switch (server->regime.policy->judge(&view, frame->clock)) {
    case GW_PUSH_DUPLICATE:
        gw_metrics_add(server->metrics, GW_METRIC_PUSHES_DUPLICATE, 1);
        return;
    case GW_PUSH_LATE:
        gw_quorum_late(server, rank, index, frame->clock);
        return;
    case GW_PUSH_VIOLATION:
        gw_peer_reject(peer, link, "push of a clock that cannot be yet");
        return;
    case GW_PUSH_HOLD:
        break;
    }
    take_push(server, peer, link, index, frame);
}

/* It was on its way when all stood still. Who posted it asks again, and waits
   for one answer. */
static int is_void(const struct gw_server *server,
                   const struct gw_frame *frame,
                   const struct gw_want *want)
{
    return gw_session_decision(server, frame) < server->voided &&
           want->condition != GW_WANT_NOW;
}

static void got_want(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const uint8_t *payload)
{
    if (frame->length % GW_WANT_BYTES != 0) {
        gw_peer_reject(peer, link, "want of a strange size");
        return;
    }
    for (uint32_t at = 0; at < frame->length; at += GW_WANT_BYTES) {
        struct gw_want want;
        enum gw_status status = gw_want_decode(payload + at, &want);
        if (status == GW_OK && is_void(server, frame, &want))
            continue;
        if (status == GW_OK && !gw_shard_encodes(server->shard, want.encoding))
            status = GW_EPROTO;
        if (status == GW_OK)
            status = gw_wants_post(server->wants, peer->id, link, peer->links,
                                   &want, gw_session_decision(server, frame),
                                   gw_session_want_opened, server);
        if (status != GW_OK) {
            gw_peer_reject(peer, link, "want that makes no sense");
            return;
        }
    }
    if (server->draining)
        gw_each_settle(server);
}

/* Rank 0's first weights; the job runs when the last chunk is here. `shown`:
   where they are, NULL: in its slot. */
static void got_seed(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const struct gw_shown *shown)
{
    struct gw_shard *shard = server->shard;
    uint32_t index;
    if (peer->id != 0 || !gw_shard_find(server->shard, frame->chunk, &index) ||
        (shown ? !is_plain(frame)
               : !fits_slot(server, frame, index, server->session[0].seeds))) {
        gw_peer_reject(peer, link, "seed that fits no chunk of this shard");
        return;
    }
    if (shard->chunk[index].ready)
        return; /* sent again after a broken connection */
    const float *from = shown
                            ? gw_shown_find(server, peer, shown->window, index)
                            : shard->landing[0] + shard->chunk[index].first;
    if (!from)
        return;
    gw_shard_seed(shard, index, from);
    gw_save_reached(server, index);
    gw_session_answer(server, index);
}

static void got_shown(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const uint8_t *payload)
{
    struct gw_session *session = &server->session[peer->id];
    struct gw_shown shown;
    int fits = gw_shown_decode(payload, &shown) == GW_OK &&
               frame->chunk % peer->links == link;
    /* one window has all gradients of a worker, as long as it lives */
    if (fits && shown.kind == GW_FRAME_PUSH)
        fits = session->gradients == GW_WINDOW_NONE ||
               session->gradients == shown.window;
    if (!fits) {
        gw_peer_reject(peer, link, "shows what no shard reads");
    } else if (shown.kind == GW_FRAME_SEED) {
        got_seed(server, peer, link, frame, &shown);
    } else {
        session->gradients = shown.window;
        got_push(server, peer, link, frame);
    }
}

void gw_session_frame(struct gw_server *server,
                      struct gw_peer *peer,
                      unsigned link,
                      const struct gw_frame *frame,
                      const void *payload)
{
    if (server->finished)
        return; /* who sent it will hear */
    if (peer->role != GW_ROLE_WORKER || !server->running) {
        gw_peer_reject(peer, link, "frame that its role does not send");
        return;
    }
    if (server->leader &&
        gw_session_decision(server, frame) > server->decision) {
        gw_peer_reject(peer, link, "frame of a decision that nobody has made");
        return;
    }
    switch (frame->kind) {
    case GW_FRAME_PUSH:
        got_push(server, peer, link, frame);
        break;
    case GW_FRAME_SHOWN:
        got_shown(server, peer, link, frame, payload);
        break;
    case GW_FRAME_PARTS:
        gw_sum_parts(server, peer, link, frame, payload);
        break;
    case GW_FRAME_WANT:
        got_want(server, peer, link, frame, payload);
        break;
    case GW_FRAME_SEED:
        got_seed(server, peer, link, frame, NULL);
        break;
    default:
        gw_peer_reject(peer, link, "frame that its role does not send");
    }
}
