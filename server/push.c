#include "config.h"

#include "server/push.h"

#include "server/commit.h"

int gw_push_is_plain(const struct gw_frame *frame)
{
    return frame->dtype == GW_DTYPE_F32 && frame->encoding == GW_ENCODING_RAW;
}

int gw_push_fits_slot(const struct gw_server *server,
                      const struct gw_frame *frame,
                      uint32_t index,
                      uint32_t window)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    return frame->window == window && gw_push_is_plain(frame) &&
           frame->length == chunk->elems * sizeof(float) &&
           frame->offset == chunk->first * sizeof(float);
}

static int fits(const struct gw_server *server,
                uint32_t rank,
                uint32_t index,
                const struct gw_frame *frame)
{
    if (frame->kind == GW_FRAME_PUSH && frame->length == 0)
        return 1;
    if (frame->count == 0 || frame->flags & GW_FLAG_UNCOUNTED)
        return 0;
    if (frame->kind == GW_FRAME_EXPORTED)
        return gw_push_is_plain(frame);
    return gw_push_fits_slot(server, frame, index,
                             server->session[rank].landing);
}

const char *gw_push_read(struct gw_server *server,
                         const struct gw_peer *peer,
                         const struct gw_frame *frame,
                         struct gw_push *push)
{
    uint32_t index;
    if (!gw_shard_find(server->shard, frame->chunk, &index) ||
        !server->shard->chunk[index].ready ||
        !fits(server, peer->id, index, frame))
        return "push that fits no chunk of this shard";
    push->rank = peer->id;
    push->chunk = index;
    push->clock = frame->clock;
    push->decision = gw_session_decision(server, frame);
    push->absent = frame->length == 0;
    push->exported = frame->kind == GW_FRAME_EXPORTED;
    push->summed = (frame->flags & GW_FLAG_SUM) != 0;
    push->uncounted = (frame->flags & GW_FLAG_UNCOUNTED) != 0;
    push->samples = frame->count;
    if (!push->absent)
        gw_metrics_add(server->metrics, GW_METRIC_BYTES_PUSHED,
                       server->shard->chunk[index].elems * sizeof(float));
    return NULL;
}

/* A push of before clocks were numbered anew is in. A clock at which another
   policy begins has no push before that policy holds. */
enum gw_push_verdict gw_push_judge(const struct gw_server *server,
                                   const struct gw_push *push)
{
    const struct gw_policy_view view =
        gw_session_view(server, push->rank, push->chunk);
    if (gw_switch_renumbered(server, push->decision))
        return GW_PUSH_DUPLICATE;
    if (gw_switch_forbids(server, push->clock))
        return GW_PUSH_VIOLATION;
    return server->regime.policy->judge(&view, push->clock);
}

void gw_push_late(struct gw_server *server,
                  uint32_t rank,
                  uint32_t index,
                  uint64_t clock)
{
    gw_shard_leave_out(server->shard, rank, index, clock);
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_LATE, 1);
}

/* All parts of a sum are due, as the owner's is. */
static int are_due(const struct gw_server *server, const struct gw_push *push)
{
    for (uint32_t i = 0; i < push->n; i++) {
        const struct gw_policy_view view =
            gw_session_view(server, push->part[i].rank, push->chunk);
        if (server->regime.policy->judge(&view, push->clock) != GW_PUSH_HOLD)
            return 0;
    }
    return 1;
}

const char *gw_push_parts(struct gw_server *server, struct gw_push *push)
{
    push->alone = (struct gw_part){
        .rank = push->rank,
        .samples = push->samples,
        .gradient = push->uncounted ? GW_GRADIENT_UNCOUNTED : GW_GRADIENT_MADE};
    push->part = &push->alone;
    push->n = 1;
    if (push->exported && !server->regime.lockstep)
        return "gradient that may change before it counts";
    if (push->summed) {
        push->part = gw_sum_of(server, push);
        push->n = server->session[push->rank].group.n;
    }
    if (!push->part)
        return "sum of unknown parts";
    if (!are_due(server, push))
        return "sum with a part that is here already";
    if (!gw_measure_push(server, push->chunk, push->part, push->n, push->fault,
                         sizeof push->fault))
        return push->fault;
    if (push->exported)
        gw_metrics_add(server->metrics, GW_METRIC_PUSHES_SHOWN, 1);
    return NULL;
}

/* This shard has what the sender of a push that is in its slot knew: the
   decision, and the terms of the push's clock. Only sums, which come for the
   version of a chunk, say that there are such terms. */
static int counts(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    return slot->decision <= server->decision &&
           (!slot->terms ||
            gw_terms_are_here(server, rank,
                              server->shard->chunk[index].version));
}

int gw_push_land(struct gw_server *server,
                 const struct gw_push *push,
                 const struct gw_part *part)
{
    struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, part->rank, push->chunk);
    slot->sender = push->rank;
    slot->summed = push->summed;
    slot->exported = push->exported;
    slot->nonfinite = part->gradient == GW_GRADIENT_NONFINITE;
    slot->uncounted = part->gradient == GW_GRADIENT_UNCOUNTED;
    slot->samples = part->samples;
    slot->source.absent = push->absent || part->rank != push->rank;
    slot->terms = part->terms;
    slot->decision = push->decision;
    if (counts(server, part->rank, push->chunk))
        return 1;
    slot->landed = 1;
    gw_due_defer(&server->due);
    return 0;
}

uint64_t gw_push_hold(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    uint64_t now = gw_loop_now(server->loop);
    gw_stall_moved(server, now);
    gw_divide_took(server, rank, index);
    gw_shard_hold(server->shard, rank, index, slot->samples,
                  slot->source.absent);
    gw_commit_of(server)->held(server, rank, index);
    return now;
}

int gw_push_next_deferred(struct gw_server *server,
                          uint32_t index,
                          uint32_t *rank_p)
{
    for (uint32_t rank = *rank_p;
         rank < server->ranks && gw_due_has_deferred(&server->due); rank++) {
        struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
        if (!slot->landed || !counts(server, rank, index))
            continue;
        slot->landed = 0;
        gw_due_undefer(&server->due, 1);
        *rank_p = rank;
        return 1;
    }
    return 0;
}
