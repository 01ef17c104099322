/*
 * The path of a push through a server, to be read downward.
 *
 *   frame --> judge --> take --> hold --> commit --> answer
 *               |         |        |
 *           duplicate  deferred   due
 *            or late
 *
 *   judge    the policy says whether the chunk's clock has room for the push
 *   take     the push fills the slot of its rank; a sum fills those of all its
 *            ranks (sum.c)
 *   hold     the push counts for the clock
 *   commit   the pushes that are held make the next version: commit.h
 *   answer   wants for that version are answered: session_answer.c
 *
 * The bytes have come before the frame is seen here: they lie in the landing
 * slot of the rank, or where the worker shows them (shown.c), and stay there
 * until the commit has read them. Nothing is copied on this path.
 *
 * States of a slot, which is one rank's place in one chunk:
 *
 *               push                push
 *   free ------------------> held <------- deferred <------- free
 *    ^    decision is known    |    decision comes   decision is not known
 *    |                         |
 *    +-------------------------+
 *     the version is made, or the link broke: the push comes again
 *
 * A push is deferred if its sender knew a decision that has not come to this
 * shard: the decision may say that the push does not count. A chunk is due if
 * the turn is over before its commit, or if a decision has let deferred pushes
 * count: the loop then looks at it in a later turn, in the order in which
 * chunks became due.
 */
#include "config.h"

#include "server/commit.h"
#include "server/push.h"

static const char *judge(struct gw_server *server, struct gw_push *push);
static const char *take(struct gw_server *server, struct gw_push *push);
static void hold(struct gw_server *server, uint32_t rank, uint32_t index);
static void commit(struct gw_server *server, uint32_t index);

/* A worker pushes a chunk. A push that no member sends closes its link. */
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
 * A duplicate comes where a link broke after its push was in: it changes
 * nothing. A late push is one that its clock goes on without. Returns why no
 * member sends the push, or NULL.
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

/* Each part of a sum counts as a push of its rank; a push that is no sum is one
   part. Deferred parts go on in gw_session_look. */
static const char *take(struct gw_server *server, struct gw_push *push)
{
    const char *fault = gw_push_parts(server, push);
    for (uint32_t i = 0; i < push->n && !fault; i++)
        if (gw_push_land(server, push, &push->part[i]))
            hold(server, push->part[i].rank, push->chunk);
    return fault;
}

/* The last push of a chunk commits it, unless the turn is over: then the loop
   hears of its peers first. */
static void hold(struct gw_server *server, uint32_t rank, uint32_t index)
{
    uint64_t now = gw_push_hold(server, rank, index);
    if (gw_commit_is_due(server, index) &&
        !gw_due_later(&server->due, now, index))
        commit(server, index);
}

/*
 * The regime's commit makes the next version, at once or after a vote of all
 * shards, and answers the wants that the version satisfies. Where a snapshot is
 * in the way the chunk is looked at again.
 */
static void commit(struct gw_server *server, uint32_t index)
{
    gw_commit_of(server)->reduce(server, index);
}

/*
 * A chunk that is due, in a later turn: deferred pushes whose decision has come
 * are held, then the chunk is committed if that makes it complete, and wants
 * that may be answered by now are.
 */
void gw_session_look(void *owner, uint32_t index)
{
    struct gw_server *server = owner;
    if (gw_server_is_over(server))
        return;
    for (uint32_t rank = 0; gw_push_next_deferred(server, index, &rank); rank++)
        gw_push_hold(server, rank, index);
    if (gw_commit_is_due(server, index))
        commit(server, index);
    gw_session_answer(server, index);
}
