/*
 * Policies under which each push makes a version (async, ssp, ..): a push is
 * applied as it arrives, and whoever sent it is given the weights as they then
 * are.
 *
 * Ranks are at different clocks here. Where all chunks must stand still, for a
 * checkpoint, an evaluation or the end, shard 0 decides a drain:
 *
 *   drain --> wants are kept open --> ranks finish their clock, push it whole,
 *   wait --> every shard says where each rank stands (settled) --> what is to
 *   happen there is decided, with the ranks' clocks --> resume: wants are
 *   answered again
 *
 * A rank whose want is kept open by any shard pushes nothing more, so when all
 * shards name the same clock of it, nothing of it is on its way.
 *
 * Under stale-lr a chunk gathers pushes until they are as many as make an
 * update. A rank is answered all the same as soon as its own is in. A group
 * that is not full where all stand still is applied before anything is decided
 * there, so none is ever saved; all chunks have had the same pushes then, so
 * all do the same. For that, pushes without samples belong to no group.
 *
 * Under downpour a push is the way that a worker has gone in T steps, which the
 * outer optimizer takes for a gradient.
 *
 * Under easgd a push is a worker's own weights after T steps. They and the
 * centre, which is what the servers keep, approach each other, and the answer
 * is what became of the worker's, not the centre.
 */
#include "config.h"

#include "server/server_state.h"

#include "proto/schedule.h"

/* ---- pushes ---- */

/* Samples of all ranks in a clock; the last of an epoch may have fewer. */
static uint64_t clock_samples(const struct gw_server *server, uint64_t clock)
{
    const struct gw_course_step step =
        gw_course_at(&server->start.course, clock);
    return step.n > 0 ? step.n : gw_schedule_batch(&server->config);
}

/* The rank's clock is over when all of its chunks here are in. */
static void count_push(struct gw_server *server, uint32_t rank)
{
    struct gw_session *session = &server->session[rank];
    const struct gw_shard_chunk *chunk = &server->shard->chunk[0];
    if (++session->pushed < server->shard->chunks)
        return;
    session->pushed = 0;
    session->clock = gw_shard_slot(server->shard, rank, 0)->mark;
    if (server->leader)
        gw_leader_pushed(server->leader, chunk->updates + (chunk->group > 0),
                         chunk->pushes);
    if (server->draining)
        gw_each_settle(server);
}

/* The pushes that a chunk has gathered make its next weights. */
static void apply_group(struct gw_server *server, uint32_t index)
{
    struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    struct gw_update update;
    gw_session_fill_update(server, index, chunk->group_samples, 1, 1, &update);
    update.lr = chunk->group_lr;
    gw_shard_update_group(server->shard, index, &update);
}

static enum gw_status
gather(struct gw_server *server, uint32_t rank, uint32_t index, double lr)
{
    struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
    slot->source.weight =
        (float)gw_policy_weight(server->regime.word.kind, slot->staleness);
    enum gw_status status = gw_shard_gather(server->shard, rank, index, lr);
    if (status == GW_OK &&
        server->shard->chunk[index].group == server->regime.group)
        apply_group(server, index);
    return status;
}

static enum gw_status update_delayed(struct gw_server *server,
                                     uint32_t rank,
                                     uint32_t index,
                                     struct gw_update update)
{
    const struct gw_compensation compensation = {
        .scale = update.scale, /* it is the mean that is compensated */
        .lambda = server->regime.terms.lambda,
        .decay = server->config.policy.decay,
        .eps = server->config.policy.eps,
    };
    update.scale = 1;
    return gw_shard_update_delayed(server->shard, rank, index, &compensation,
                                   &update);
}

/* What a push does to its chunk. */
static enum gw_status
take_in(struct gw_server *server, uint32_t rank, uint32_t index)
{
    struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    int gathers = server->regime.group > 1;
    struct gw_update update;
    slot->staleness = (uint32_t)(chunk->updates - slot->given);
    if (server->regime.word.kind == GW_POLICY_EASGD)
        return gw_shard_update_elastic(server->shard, rank, index,
                                       server->regime.terms.alpha);
    double factor = gw_policy_lr_factor(
        server->regime.word.kind, server->regime.terms.scale, server->ranks,
        slot->samples, clock_samples(server, slot->mark),
        gathers ? 1 : slot->staleness);
    gw_session_fill_update(server, index, slot->samples, 1, factor, &update);
    if (server->regime.word.kind == GW_POLICY_DOWNPOUR)
        update.lr *= server->regime.terms.scale;
    if (gathers)
        return gather(server, rank, index, update.lr);
    if (server->regime.word.kind == GW_POLICY_DC_ASYNC)
        return update_delayed(server, rank, index, update);
    return gw_shard_update_each(server->shard, rank, index, &update);
}

/* Returns 0 when the push must wait, or the job is over. */
static int apply(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    uint64_t clock = slot->mark;
    enum gw_status status = GW_OK;
    if (!gw_save_before_update(server, index))
        return 0; /* looked at again when the snapshot is free */
    if (slot->source.absent)
        gw_shard_pass(server->shard, rank, index);
    else
        status = take_in(server, rank, index);
    if (status != GW_OK) {
        gw_session_blame(server, index, clock);
        return 0;
    }
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_APPLIED, 1);
    gw_session_worked(server, index, 3 + 2 * server->shard->optimizer->states);
    return 1;
}

void gw_each_complete(struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    for (uint32_t rank = 0; rank < server->ranks && !server->finished; rank++) {
        if (!gw_shard_slot(server->shard, rank, index)->held)
            continue;
        if (!apply(server, rank, index))
            return;
        /* what is decided by it comes before the answers that it allows */
        count_push(server, rank);
        gw_session_answer(server, index);
        if (chunk->held > 0 && gw_loop_turn_is_over(server->loop)) {
            gw_due_add(&server->due, index);
            return;
        }
    }
}

/* ---- drains ---- */

uint64_t gw_each_step(const struct gw_server *server, uint64_t version)
{
    uint64_t first = server->base_clock;
    return server->regime.each ? first + (version - first) / server->ranks
                               : version;
}

uint64_t gw_each_version(const struct gw_server *server)
{
    return server->shard->chunks > 0 ? server->shard->chunk[0].version : 0;
}

/* It wants weights for the clock that is its next one here. A want for a later
   one has only overtaken the push. */
int gw_each_is_blocked(const struct gw_server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        const struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, i);
        if (slot->open && slot->want.condition != GW_WANT_NOW &&
            slot->want.value <= server->session[rank].clock)
            return 1;
    }
    return 0;
}

static int is_answering(const struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        for (uint32_t i = 0; i < server->shard->chunks; i++)
            if (gw_wants_slot(server->wants, rank, i)->sending)
                return 1;
    return 0;
}

int gw_each_stands_still(const struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (server->session[rank].pushed > 0)
            return 0;
    return server->draining && !is_answering(server);
}

/* It is said again with every push and want that comes; each time it is as long
   as there are ranks, and only the last counts. So many may be on their way,
   more than are acknowledged at once. */
#define SETTLED_MOST    16
#define SETTLE_LATER_US 1000

static void on_settle_timer(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    if (server->draining)
        gw_each_settle(server);
}

/* Shard 0 does not keep up: what there is to say then is said later. */
static int settles_later(struct gw_server *server)
{
    if (server->leader || gw_peer_untaken(server->leader_peer) < SETTLED_MOST)
        return 0;
    server->settle_timer.fire = on_settle_timer;
    server->settle_timer.owner = server;
    gw_timer_start(server->loop, &server->settle_timer, SETTLE_LATER_US);
    return 1;
}

void gw_each_settle(struct gw_server *server)
{
    struct gw_settled settled = {.decision = server->draining,
                                 .clocks = server->settled_clocks,
                                 .clocks_n = server->ranks,
                                 .blocked = server->settled_blocked};
    if (server->shard->chunks == 0)
        return; /* nothing is pushed here */
    if (is_answering(server))
        return; /* what is on its way must not change */
    if (settles_later(server))
        return;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        const struct gw_session *session = &server->session[rank];
        if (session->pushed > 0)
            return;
        server->settled_clocks[rank] = session->clock;
        if (gw_each_is_blocked(server, rank))
            server->settled_blocked[settled.blocked_n++] = rank;
    }
    gw_vote_settled(server, NULL, &settled);
}

void gw_each_drain(struct gw_server *server)
{
    server->draining = server->decision;
    gw_each_settle(server);
}

/* All stand still: groups are applied as they are, in this turn, however long
   it gets, for what is decided is of the weights that they make. */
void gw_each_meet(struct gw_server *server)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        if (server->shard->chunk[i].group == 0)
            continue;
        apply_group(server, i);
        gw_loop_pulse(server->loop);
    }
}

/* Where ranks pull first, to score or at the end, what they wanted before they
   knew is void: who goes on asks again. */
void gw_each_resume(struct gw_server *server, int pulls)
{
    server->draining = 0;
    if (pulls)
        server->voided = server->decision;
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        for (uint32_t rank = 0; pulls && rank < server->ranks; rank++) {
            struct gw_want_slot *slot = gw_wants_slot(server->wants, rank, i);
            if (slot->want.condition != GW_WANT_NOW &&
                slot->decision < server->decision)
                slot->open = 0;
        }
    }
    gw_due_add_all(&server->due);
}
