/*
 * Commits per push (async, ssp, ..): a push is applied as it comes, and its
 * rank is given the weights as they then are.
 *
 * Under stale-lr a chunk gathers pushes until they are as many as make an
 * update. A rank is answered all the same as soon as its own is in. A group
 * that is not full where all stand still is applied before anything is decided
 * there, so none is ever saved; all chunks have had the same pushes then, so
 * all do the same. For that, pushes without samples belong to no group, and
 * pushes of a key without a gradient belong to one.
 *
 * Under downpour a push is the sum of a worker's last T steps, which the outer
 * optimizer takes for a gradient.
 *
 * Under easgd a push is a worker's own weights after T steps. They and the
 * centre, which the servers keep, approach each other. The answer is the
 * worker's weights after that, not the centre.
 */
#include "config.h"

#include "server/commit.h"

#include "proto/schedule.h"

/* Samples of all ranks in a clock; the last of an epoch may have fewer. */
static uint64_t clock_samples(const struct gw_server *server, uint64_t clock)
{
    const struct gw_course_step step =
        gw_course_at(&server->start.course, clock);
    return step.n > 0 ? step.n : gw_schedule_batch(&server->config);
}

/* The rank's clock is over when all of its chunks here are in. */
static void applied(struct gw_server *server, uint32_t rank, uint32_t index)
{
    struct gw_session *session = &server->session[rank];
    const struct gw_shard_chunk *chunk = &server->shard->chunk[0];
    (void)index;
    if (++session->pushed < server->shard->chunks)
        return;
    session->pushed = 0;
    session->clock = gw_shard_slot(server->shard, rank, 0)->mark;
    if (server->leader)
        gw_leader_pushed(server->leader, chunk->updates + (chunk->group > 0),
                         chunk->pushes);
    gw_quiesce_changed(server);
}

/* The pushes that a chunk has gathered make its next weights. */
static void apply_group(struct gw_server *server, uint32_t index)
{
    struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    const struct gw_commit_size size = {.samples = chunk->group_samples,
                                        .clip = 1,
                                        .loss_scale = server->loss_scale,
                                        .lr_factor = 1,
                                        .terms = chunk->group_terms};
    struct gw_update update;
    gw_commit_fill_update(server, index, &size, &update);
    update.lr = chunk->group_lr;
    gw_shard_update_group(server->shard, index, &update);
}

static enum gw_status gather(struct gw_server *server,
                             uint32_t rank,
                             uint32_t index,
                             const struct gw_commit_size *size,
                             double lr)
{
    struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
    slot->source.weight = server->shard->chunk[index].mean
                              ? 1
                              : (float)gw_policy_weight(
                                    server->regime.word.kind, slot->staleness);
    server->shard->chunk[index].group_terms = size->terms;
    enum gw_status status = gw_shard_gather(server->shard, rank, index, lr);
    if ((status == GW_OK || gw_commit_passes_nonfinite(server, index)) &&
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

/* Applies a push to its chunk. */
static enum gw_status
take_in(struct gw_server *server, uint32_t rank, uint32_t index)
{
    struct gw_shard_slot *slot = gw_shard_slot(server->shard, rank, index);
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    int gathers = server->regime.group > 1;
    struct gw_update update;
    slot->staleness = (uint32_t)(gw_shard_changes(chunk) - slot->given);
    if (server->regime.word.kind == GW_POLICY_EASGD)
        return gw_shard_update_elastic(server->shard, rank, index,
                                       server->regime.terms.alpha);
    double factor = gw_policy_lr_factor(
        server->regime.word.kind, server->regime.terms.scale, server->ranks,
        slot->samples, clock_samples(server, slot->mark),
        gathers ? 1 : slot->staleness);
    const struct gw_commit_size size = {
        .samples = slot->samples,
        .clip = 1,
        .loss_scale = server->loss_scale,
        .lr_factor = factor,
        .terms = gw_terms_of_push(server, rank, index)};
    gw_commit_fill_update(server, index, &size, &update);
    if (server->regime.word.kind == GW_POLICY_DOWNPOUR)
        update.lr *= server->regime.terms.scale;
    if (gathers)
        return gather(server, rank, index, &size, update.lr);
    if (slot->source.absent) {
        gw_shard_skip_push(server->shard, rank, index);
        return GW_OK;
    }
    if (server->regime.word.kind == GW_POLICY_DC_ASYNC && !chunk->mean)
        return update_delayed(server, rank, index, update);
    return gw_shard_update_each(server->shard, rank, index, &update);
}

static void reduce(struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    for (uint32_t rank = 0; rank < server->ranks && !gw_server_is_over(server);
         rank++) {
        if (!gw_shard_slot(server->shard, rank, index)->held)
            continue;
        if (!gw_save_before_update(server, index))
            return;
        gw_commit_reduced(server, rank, index);
        if (!gw_server_is_over(server) && chunk->held > 0 &&
            gw_loop_turn_is_over(server->loop)) {
            gw_due_add(&server->due, index);
            return;
        }
    }
}

/* A push without samples makes no update; under easgd neither does one without
   weights. */
static int is_nothing(const struct gw_server *server,
                      const struct gw_shard_slot *slot)
{
    return slot->samples == 0 ||
           (slot->source.absent && server->regime.word.kind == GW_POLICY_EASGD);
}

static void stored(struct gw_server *server, uint32_t rank, uint32_t index)
{
    const struct gw_shard_slot *slot =
        gw_shard_slot(server->shard, rank, index);
    uint64_t clock = slot->mark;
    enum gw_status status = GW_OK;
    if (is_nothing(server, slot))
        gw_shard_pass(server->shard, rank, index);
    else
        status = take_in(server, rank, index);
    if (status != GW_OK && !gw_commit_passes_nonfinite(server, index)) {
        gw_commit_blame(server, index, clock);
        return;
    }
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_APPLIED, 1);
    gw_commit_worked(server, index, 3 + 2 * server->shard->optimizer->states);
    gw_commit_applied(server, rank, index);
}

static void resume(struct gw_server *server)
{
    gw_due_add_all(&server->due);
}

static int awaits(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    (void)index;
    return !gw_quiesce_is_blocked(server, rank);
}

static int can_miss(const struct gw_server *server, uint32_t index)
{
    (void)server;
    (void)index;
    return 1;
}

/* ---- clocks ---- */

static uint64_t decided(const struct gw_server *server, uint32_t index)
{
    (void)index;
    return gw_switch_base_clock(server);
}

static void label(const struct gw_shard_slot *push, struct gw_frame *answer)
{
    answer->clock = push->mark;
    answer->count = push->staleness;
}

static uint64_t step(const struct gw_server *server, uint64_t version)
{
    uint64_t first = gw_switch_base_clock(server);
    return first + (version - first) / server->ranks;
}

/* Groups are applied as they are, in this turn, however long it gets: the
   decision is of the weights that they make. */
static void quiesce(struct gw_server *server)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        if (server->shard->chunk[i].group == 0)
            continue;
        apply_group(server, i);
        gw_loop_pulse(server->loop);
    }
}

static uint64_t cut(const struct gw_server *server, uint64_t version)
{
    (void)version;
    return server->shard->chunks > 0 ? server->shard->chunk[0].version : 0;
}

static const char *cut_fault(const struct gw_server *server, uint64_t version)
{
    (void)server;
    (void)version;
    return NULL;
}

/* The memory of answers is given back. */
static const char *switch_fault(const struct gw_server *server, uint64_t clock)
{
    (void)clock;
    return gw_quiesce_stands_still(server)
               ? NULL
               : "a switch of policy while members do not stand still";
}

const struct gw_commit_ops gw_commit_per_push = {
    .word = "streaming",
    .copies = 1,
    .quiesces = 1,
    .is_complete = gw_commit_all_held,
    .held = gw_commit_ignore,
    .unheld = gw_commit_ignore,
    .leaves_out = gw_commit_leaves_out_none,
    .awaits = awaits,
    .can_miss = can_miss,
    .reduce = reduce,
    .stored = stored,
    .applied = applied,
    .resume = resume,
    .begin = gw_commit_nothing,
    .decided = decided,
    .label = label,
    .step = step,
    .quiesce = quiesce,
    .cut = cut,
    .cut_fault = cut_fault,
    .switch_fault = switch_fault,
};
