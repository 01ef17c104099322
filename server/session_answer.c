/*
 * The way of weights out, to be read downward: wants that a chunk's version
 * satisfies are answered, straight from the new weights.
 *
 *   want --> open --> due? --> decide --> fill --> sent
 *
 *   open     each chunk has room for one want of each rank (want.h)
 *   due      the policy says whether the version satisfies the want; while
 *            ranks are quiesced, none does
 *   decide   decisions that precede the version are made first
 *   fill     the weights of the chunk, or a copy if they may change before
 *            they have left
 *
 * All of it runs on the thread of the shard, like the path of a push.
 */
#include "config.h"

#include "server/commit.h"

#include <assert.h>

static void want_opened(void *owner, uint32_t rank, uint32_t index);
static void answer_one(struct gw_server *server, uint32_t rank, uint32_t index);
static int is_due(struct gw_server *server, uint32_t rank, uint32_t index);
static void decide_before(const struct gw_server *server, uint32_t index);
static int answer(struct gw_server *server, uint32_t rank, uint32_t index);
static void
fill_answer(struct gw_server *server, struct gw_want_slot *slot, int checked);
static void on_answered(struct gw_send *send, enum gw_status status);

/* ---- wants come in ---- */

/* The want was on its way when all stood still. Its sender asks again, and
   waits for one answer. */
static int is_void(const struct gw_server *server,
                   const struct gw_frame *frame,
                   const struct gw_want *want)
{
    return gw_quiesce_voids(server, gw_session_decision(server, frame)) &&
           want->condition != GW_WANT_NOW;
}

/* One frame may ask for all chunks of a shard: if the turn is over, its wants
   are answered in another one. */
void gw_session_want(struct gw_server *server,
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
                                   want_opened, server);
        if (status != GW_OK) {
            gw_peer_reject(peer, link, "want that makes no sense");
            return;
        }
    }
    gw_quiesce_changed(server);
}

static void want_opened(void *owner, uint32_t rank, uint32_t index)
{
    struct gw_server *server = owner;
    if (gw_loop_turn_is_over(server->loop))
        gw_due_add(&server->due, index);
    else
        answer_one(server, rank, index);
}

static void answer_one(struct gw_server *server, uint32_t rank, uint32_t index)
{
    if (!is_due(server, rank, index))
        return;
    decide_before(server, index);
    answer(server, rank, index);
}

/* ---- a version is there ---- */

/* A thousand peers do not fit into a cache: the next ones are prefetched,
   each in so many steps. */
#define AHEAD 4

static void
look_ahead(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    unsigned link = server->shard->chunk[index].global;
    for (int times = GW_PEER_PREFETCHES; times > 0; times--) {
        uint64_t next = (uint64_t)rank + AHEAD * (unsigned)times;
        if (next < server->ranks && server->session[next].peer)
            gw_peer_prefetch(server->session[next].peer, link, times);
    }
}

/* An answer costs a checksum, or a copy: of a thousand ranks some have theirs
   in another turn. */
void gw_session_answer(struct gw_server *server, uint32_t index)
{
    uint32_t rank = 0;
    while (rank < server->ranks && !is_due(server, rank, index))
        look_ahead(server, rank++, index);
    if (rank < server->ranks)
        decide_before(server, index);
    for (; rank < server->ranks; rank++) {
        look_ahead(server, rank, index);
        if (answer(server, rank, index) && rank + 1 < server->ranks &&
            gw_loop_turn_is_over(server->loop)) {
            gw_due_add(&server->due, index);
            return;
        }
    }
}

/* ---- is a want due? ---- */

struct gw_policy_view
gw_session_view(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    return (struct gw_policy_view){
        .version = server->shard->chunk[index].version,
        .mark = slot->mark,
        .least = server->shard->chunk[index].least,
        .most = server->shard->chunk[index].most,
        .idle = slot->idle == GW_SHARD_IDLE,
        .held = slot->held || slot->landed,
        .left_out = gw_commit_of(server)->leaves_out(server, rank, index),
    };
}

static int is_answerable(const struct gw_server *server,
                         const struct gw_want *want,
                         const struct gw_policy_view *view)
{
    if (want->condition == GW_WANT_NOW)
        return 1;
    if (want->condition == GW_WANT_EXACT)
        return view->version == want->value ||
               (view->version > want->value &&
                view->version - want->value == 1);
    return !gw_quiesce_goes_on(server) &&
           server->regime.policy->answerable(want, view);
}

/* The sender knows a decision that has not come here: weights may yet change
   by it. */
static int is_ahead(struct gw_server *server, const struct gw_want_slot *slot)
{
    if (slot->decision <= server->decision)
        return 0;
    assert(!server->leader); /* the leader knows all decisions */
    gw_due_want_waits(&server->due);
    return 1;
}

static int is_due(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, index);
    if (!slot->open || slot->sending || !server->session[rank].peer ||
        !server->shard->chunk[index].ready || !gw_members_are_present(server) ||
        gw_recent_waits(server))
        return 0;
    const struct gw_policy_view view = gw_session_view(server, rank, index);
    return is_answerable(server, &slot->want, &view) && !is_ahead(server, slot);
}

/* Decisions that precede a version are made before its first answer. They
   may answer wants or make them void, so no answer is begun yet and every
   want is looked at again. */
static void decide_before(const struct gw_server *server, uint32_t index)
{
    if (server->leader)
        gw_leader_before(server->leader,
                         gw_commit_of(server)->decided(server, index));
}

/* ---- one answer ---- */

/* Non-zero if the rank is given weights. Decides nothing: a decision within it
   would find the want half answered. */
static int answer(struct gw_server *server, uint32_t rank, uint32_t index)
{
    if (!is_due(server, rank, index))
        return 0;
    struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, index);
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    struct gw_peer *peer = server->session[rank].peer;
    unsigned link = chunk->global % peer->links;
    slot->open = 0;
    slot->sending = 1;
    slot->answer = (struct gw_send){
        .frame = {.kind = GW_FRAME_WEIGHTS,
                  .offset = slot->want.offset,
                  .window = slot->want.window,
                  .chunk = chunk->global,
                  .length = gw_encoded_bytes(slot->want.encoding, chunk->elems),
                  .encoding = slot->want.encoding,
                  .dtype = GW_DTYPE_F32,
                  .decision = (uint32_t)server->decision},
        .priority = slot->want.priority,
        .done = on_answered,
        .owner = slot,
    };
    fill_answer(server, slot, !gw_peer_is_within_host(peer, link));
    gw_divide_answered(server, rank, index);
    gw_metrics_add(server->metrics, GW_METRIC_WANTS_ANSWERED, 1);
    gw_metrics_add(server->metrics, GW_METRIC_BYTES_PULLED,
                   slot->answer.frame.length);
    gw_peer_send(peer, link, &slot->answer);
    return 1;
}

/* Answers are copies if updates do not wait until they have left: two
   further versions, or with bf16 one, would overwrite the weights that are
   sent. */
static int gives_copies(const struct gw_server *server)
{
    const struct gw_regime *next = gw_switch_next(server);
    return gw_commit_of(server)->copies ||
           (next && gw_commit_find(next)->copies);
}

/* For a worker in the place of another, which has pushed to some chunks. */
static void fill_exact(struct gw_server *server, struct gw_want_slot *slot)
{
    uint64_t version = slot->want.value;
    slot->answer.frame.clock = version;
    slot->answer.frame.count = (uint32_t)version;
    slot->answer.payload =
        gw_shard_exact(server->shard, slot->rank, slot->chunk, version,
                       (enum gw_encoding)slot->want.encoding);
    gw_commit_worked(server, slot->chunk, 1);
}

/* The answer's parts: its clock, its count, and the weights; their checksum
   too where it is looked at. */
static void
fill_answer(struct gw_server *server, struct gw_want_slot *slot, int checked)
{
    struct gw_shard *shard = server->shard;
    const struct gw_shard_slot *push =
        gw_shard_slot(shard, slot->rank, slot->chunk);
    struct gw_send *send = &slot->answer;
    struct gw_frame *frame = &send->frame;
    enum gw_encoding encoding = (enum gw_encoding)slot->want.encoding;
    uint64_t version = shard->chunk[slot->chunk].version;
    int pulls = slot->want.condition == GW_WANT_NOW;
    if (slot->want.condition == GW_WANT_EXACT) {
        fill_exact(server, slot);
        return;
    }
    frame->clock = version;
    frame->count = (uint32_t)version;
    if (pulls) {
        frame->flags |= GW_FLAG_NOW;
        frame->clock = slot->want.value;
    } else {
        gw_commit_of(server)->label(push, frame);
    }
    send->payload =
        !pulls && gives_copies(server)
            ? gw_shard_give(shard, slot->rank, slot->chunk, encoding)
            : gw_shard_encoded(shard, slot->chunk, encoding);
    /* a rank's own weights have no checksum here */
    send->crc_known = checked && (pulls || !shard->own);
    if (send->crc_known || (!pulls && gives_copies(server)))
        gw_commit_worked(server, slot->chunk, 1);
    if (send->crc_known)
        frame->payload_crc = gw_shard_crc(shard, slot->chunk, encoding);
}

static void on_answered(struct gw_send *send, enum gw_status status)
{
    struct gw_want_slot *slot = send->owner;
    (void)status; /* a worker asks again if it did not arrive */
    struct gw_server *server = slot->owner;
    slot->sending = 0;
    answer_one(server, slot->rank, slot->chunk); /* it may want more by now */
    gw_quiesce_changed(server);
}
