/*
 * The path of a push through a server, to be read downward: each function below
 * is one step, and is called by the one above it.
 *
 *   frame --> judge --> take --> hold --> commit --> answer
 *               |         |        |
 *           duplicate  deferred   due
 *            or late
 *
 *   judge    the policy compares the push's clock with the chunk's
 *   take     the push fills the slot of its rank; a sum fills those of all its
 *            ranks (sum.c)
 *   hold     the push counts for the clock
 *   commit   all pushes that are held make the next version (commit.h)
 *   answer   wants for that version are answered (session_answer.c)
 *
 * Entry. The member hands frames to server.c, and session_frame.c picks pushes
 * among them: PUSH with bytes that were sent, EXPORTED with bytes that a worker
 * exports. A push of several ranks follows its PARTS frame on the same link.
 *
 * Bytes. They arrive before the frame does: in the landing slot of the rank, or
 * in memory that the worker exports (imports.c). They stay there until the
 * commit has read them, so nothing is copied on this path, and nothing is
 * allocated. The rank does not write to them meanwhile: it has no newer
 * weights.
 *
 * Judging. A chunk has room for one push of each rank: of the clock that is its
 * version or, if ranks may be at different clocks, of the rank's next clock.
 * policy/policy.c says which, from gw_session_view.
 *
 *   push of an earlier clock                  duplicate
 *   push of this clock                        hold
 *   push of this clock, while one is held     duplicate
 *   push of this clock, decided without it    late
 *   push of a later clock                     violation
 *
 * Every duplicate is caused by a link that broke and came back: the worker
 * sends again the pushes for which it has not seen newer weights. It changes
 * nothing but a counter. A late push is one that its clock goes on without,
 * since other ranks were faster; its rank takes the new weights and goes on
 * with them. A violation is sent by no member that follows the protocol, and is
 * rejected with a line that says why.
 *
 * Trust. No number of a frame is used before it is checked: gw_push_read checks
 * its chunk, window and length, gw_push_parts its ranks and their samples,
 * which results are divided by. Values that are not finite are found by the
 * commit.
 *
 * Sums. The owner's slot has the bytes; the slots of the other ranks of the sum
 * have their samples and no bytes. From here on each counts like any push, so
 * no later step knows about sums.
 *
 * No gradient. A push may have samples and no bytes: its rank has no gradient
 * of the key in this step. Its samples divide the sum, or do not. A chunk that
 * no rank has bytes for goes to its next version as it is (gw_shard_skip_*).
 *
 * States of a slot, one rank's place in one chunk:
 *
 *                 push
 *        +-----------------> held -----------+
 *        |                     ^             |  the version is made,
 *      free                    | decision    |  or the link broke and the
 *        |        push         |             |  push comes again
 *        +---------------> deferred          |
 *        ^                                   |
 *        +-----------------------------------+
 *
 * A push is deferred if its sender knew a decision that has not come to this
 * shard: by that decision the push may not count. So all shards act at the same
 * clock, however slow one of them is. A part of a sum is deferred, too, until
 * terms that its rank has set at that clock are here (terms.c).
 *
 * Turns. The loop gives a turn some time, for frames, sums and answers together
 * (docs/design.md), so that peers hear of this process. A chunk that is
 * complete when the turn is over becomes due: gw_session_look goes on with it
 * in a later turn, in the order in which chunks became due. So does a chunk
 * with deferred pushes when decisions come.
 *
 * Broken links. session_open.c takes back pushes that came over the link and
 * are held, but not reduced: the worker sends them again, whole.
 *
 * All of it runs on the thread of the shard, which shares nothing with others.
 */
#include "config.h"

#include "server/commit.h"
#include "server/push.h"

static const char *judge(struct gw_server *server, struct gw_push *push);
static const char *take(struct gw_server *server, struct gw_push *push);
static void hold(struct gw_server *server, uint32_t rank, uint32_t chunk);
static void commit(struct gw_server *server, uint32_t chunk);

/* Step 1: a worker pushes a chunk. A push that no member sends is rejected,
   which closes its link. */
void gw_session_push(struct gw_server *server,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame)
{
    struct gw_push push;
    const char *fault = gw_push_read(server, peer, frame, &push);
    if (!fault)
        fault = judge(server, &push);
    if (fault)
        gw_peer_reject(peer, link, fault);
}

/*
 * Step 2: the policy's verdict. Returns the reason for which no member sends
 * the push, or NULL.
 */
static const char *judge(struct gw_server *server, struct gw_push *push)
{
    switch (gw_push_judge(server, push)) {
    case GW_PUSH_HOLD:
        return take(server, push);
    case GW_PUSH_LATE:
        gw_push_late(server, push->rank, push->chunk, push->clock);
        return NULL;
    case GW_PUSH_DUPLICATE:
        gw_metrics_add(server->metrics, GW_METRIC_PUSHES_DUPLICATE, 1);
        return NULL;
    default:
        return "push of a clock that cannot be yet";
    }
}

/*
 * Step 3: each part of a sum counts as a push of its rank; any other push has
 * one part. A part that is deferred goes on in gw_session_look. Returns the
 * reason for which no member sends the push, or NULL.
 */
static const char *take(struct gw_server *server, struct gw_push *push)
{
    const char *fault = gw_push_parts(server, push);
    for (uint32_t i = 0; i < push->n && !fault; i++)
        if (gw_push_land(server, push, &push->part[i]))
            hold(server, push->part[i].rank, push->chunk);
    return fault;
}

/*
 * Step 4: the push counts for its clock. The last one that a chunk waits for
 * commits it, unless the turn is over: then the chunk is due, so that peers
 * hear of this process before it adds up any more.
 */
static void hold(struct gw_server *server, uint32_t rank, uint32_t chunk)
{
    uint64_t held_us = gw_push_hold(server, rank, chunk);
    if (gw_commit_is_due(server, chunk) &&
        !gw_due_later(&server->due, held_us, chunk))
        commit(server, chunk);
}

/*
 * Step 5: the regime's commit makes the next version, at once or after a vote
 * of all shards, and answers the wants that this version satisfies. If a
 * snapshot has yet to copy the chunk, the commit returns, and comes again when
 * the snapshot has.
 */
static void commit(struct gw_server *server, uint32_t chunk)
{
    gw_commit_of(server)->reduce(server, chunk);
}

/*
 * A chunk that is due, in a later turn. Deferred pushes are held if their
 * decision or terms have come; a chunk that is complete by now is committed;
 * wants that waited for a decision are answered.
 */
void gw_session_look(void *owner, uint32_t chunk)
{
    struct gw_server *server = owner;
    if (gw_server_is_over(server))
        return;
    if (server->stands_by) {
        gw_standby_look(server, chunk);
        return;
    }
    for (uint32_t rank = 0; gw_push_next_deferred(server, chunk, &rank); rank++)
        gw_push_hold(server, rank, chunk);
    if (gw_commit_is_due(server, chunk))
        commit(server, chunk);
    gw_session_answer(server, chunk);
}
