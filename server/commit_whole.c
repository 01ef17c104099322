/*
 * Whole-step commits: every shard reduces, one decision for all, then every
 * shard applies or skips.
 *
 *   chunks reduced --> vote --> decision --> [lamb: directions --> vote -->
 *   trust ratios] --> apply or skip, chunk by chunk --> answers
 *
 * Applying is cut into turns, so that the loop stays free for heartbeats.
 */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

static void send_vote(struct gw_server *server, uint8_t phase)
{
    struct gw_whole_step *step = &server->step;
    uint32_t total = phase * server->shard->chunks;
    struct gw_vote vote = {
        .clock = server->shard->chunk[0].version,
        .phase = phase,
        .total = total,
        .samples = server->shard->chunk[0].samples, /* as of each */
        .nonfinite_ranks = step->nonfinite,
        .nonfinite_ranks_n = step->nonfinite_n,
    };
    for (uint32_t at = 0; at < total; at += vote.values_n) {
        uint32_t left = total - at;
        vote.first = at;
        vote.values = step->votes + at;
        vote.values_n = left < GW_VALUES_PER_PART ? left : GW_VALUES_PER_PART;
        gw_vote_step(server, NULL, &vote);
    }
}

static void find_nonfinite(struct gw_server *server, uint32_t index)
{
    struct gw_whole_step *step = &server->step;
    for (uint32_t rank = 0; rank < server->ranks; rank++) {
        uint32_t at = 0;
        while (at < step->nonfinite_n && step->nonfinite[at] != rank)
            at++;
        if (at == step->nonfinite_n &&
            gw_shard_slot(server->shard, rank, index)->held &&
            gw_shard_is_nonfinite(server->shard, rank, index))
            step->nonfinite[step->nonfinite_n++] = rank;
    }
}

/* Votes are about sums over all samples. A chunk that is divided by fewer has
   as much more weight; values are no part of the gradient. */
static double vote_of(const struct gw_shard_chunk *chunk)
{
    if (chunk->mean)
        return 0;
    uint64_t divisor = gw_shard_divisor(chunk);
    double ratio = divisor > 0 ? (double)chunk->samples / (double)divisor : 0;
    return chunk->square_sum * ratio * ratio;
}

void gw_whole_reduce(struct gw_server *server, uint32_t index)
{
    struct gw_shard *shard = server->shard;
    if (!gw_copy_may_change(server, index) ||
        !gw_imports_find_all(server, index) || !gw_terms_agree(server, index))
        return;
    gw_metrics_add(server->metrics, GW_METRIC_PUSHES_APPLIED,
                   shard->chunk[index].held);
    gw_commit_worked(server, index, shard->chunk[index].held + 1);
    if (!gw_shard_reduce(shard, index) &&
        !gw_commit_passes_nonfinite(server, index))
        find_nonfinite(server, index);
    server->step.votes[index] = vote_of(&shard->chunk[index]);
    if (gw_copy_is_followed(server, index))
        gw_copy_sum(server, index);
    else
        gw_commit_reduced(server, GW_RANK_NONE, index);
}

/* A standby has all sums before they count, so that every copy can make a step
   that is decided. */
void gw_whole_stored(struct gw_server *server, uint32_t rank, uint32_t index)
{
    uint64_t clock = server->shard->chunk[index].version;
    (void)rank;
    if (server->shard->chunks_reduced < server->shard->chunks ||
        gw_copy_waits(server) || server->step.voted == clock + 1)
        return;
    server->step.voted = clock + 1;
    send_vote(server, 1);
}

/* A sum that came from the primary came with its terms. */
static struct gw_terms terms_of(const struct gw_server *server, uint32_t index)
{
    struct gw_terms terms;
    return gw_standby_find_terms(server, index, &terms)
               ? terms
               : gw_terms_of_step(server, index);
}

/* A standby that is still catching up has not all sums, or those of a later
   step already. */
static int has_part(const struct gw_server *server, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    return chunk->reduced && chunk->version == server->step.clock;
}

static void fill_update(const struct gw_server *server,
                        uint32_t index,
                        struct gw_update *update)
{
    const struct gw_commit_size size = {
        .samples = gw_shard_divisor(&server->shard->chunk[index]),
        .clip = server->step.clip,
        .loss_scale = server->step.loss_scale,
        .lr_factor = 1,
        .terms = terms_of(server, index)};
    gw_commit_fill_update(server, index, &size, update);
}

static void direct_chunk(struct gw_server *server, uint32_t index)
{
    double *square_sums = server->step.votes + 2 * index;
    struct gw_update update;
    square_sums[0] = square_sums[1] = 0;
    if (server->shard->chunk[index].mean || !has_part(server, index) ||
        !gw_shard_has_gradient(server->shard, index))
        return;
    fill_update(server, index, &update);
    gw_shard_direction(server->shard, index, &update, square_sums);
}

static void apply_chunk(struct gw_server *server, uint32_t index)
{
    struct gw_shard *shard = server->shard;
    uint32_t key = server->map->chunk[shard->chunk[index].global].key;
    struct gw_update update;
    fill_update(server, index, &update);
    update.trust_ratio = server->step.trust[key];
    gw_shard_apply(shard, index, &update);
    gw_commit_worked(server, index, 3 + 2 * shard->optimizer->states);
}

/* Returns 0 when a snapshot is in the way. */
static int finish_chunk(struct gw_server *server, uint32_t index)
{
    if (!has_part(server, index))
        return 1;
    if (!server->stands_by && !gw_save_before_update(server, index))
        return 0;
    if (server->step.skip && !server->shard->chunk[index].mean)
        gw_shard_skip(server->shard, index);
    else if (gw_shard_has_gradient(server->shard, index))
        apply_chunk(server, index);
    else
        gw_shard_skip_update(server->shard, index);
    gw_commit_applied(server, GW_RANK_NONE, index);
    if (server->stands_by)
        gw_standby_applied(server, index);
    return 1;
}

static void work(struct gw_task *task)
{
    struct gw_server *server = task->owner;
    struct gw_whole_step *step = &server->step;
    if (gw_server_is_over(server))
        return;
    while (step->next < server->shard->chunks) {
        if (step->phase == GW_WHOLE_DIRECTING)
            direct_chunk(server, step->next);
        else if (!finish_chunk(server, step->next))
            return; /* gw_whole_resume */
        step->next++;
        if (step->next < server->shard->chunks &&
            gw_loop_turn_is_over(server->loop)) {
            gw_loop_post(server->loop, task);
            return;
        }
    }
    int directed = step->phase == GW_WHOLE_DIRECTING;
    step->phase = directed ? GW_WHOLE_TRUSTING : GW_WHOLE_GATHERING;
    if (directed && !server->stands_by)
        send_vote(server, 2);
}

static void begin(struct gw_server *server, enum gw_whole_phase phase)
{
    server->step.phase = phase;
    server->step.next = 0;
    gw_loop_post(server->loop, &server->step.task);
}

void gw_whole_resume(struct gw_server *server)
{
    if (server->step.phase == GW_WHOLE_APPLYING)
        gw_loop_post(server->loop, &server->step.task);
}

static void decided_step(struct gw_server *server,
                         const struct gw_decision *decision)
{
    struct gw_whole_step *step = &server->step;
    double clip = decision->values_n > 0 ? decision->values[0] : 1;
    double scale =
        decision->values_n > 1 ? decision->values[1] : server->loss_scale;
    if (!(clip >= 0 && clip <= 1) || !gw_schedule_is_scale(scale)) {
        gw_server_finish(server, GW_EPROTO,
                         "shard 0 decides a clip factor of %g and a loss scale "
                         "of %g",
                         clip, scale);
        return;
    }
    step->clock = decision->clock;
    step->skip = !decision->apply;
    step->nonfinite_n = 0;
    step->clip = clip;
    step->loss_scale = server->loss_scale;
    if (!decision->apply)
        gw_metrics_add(server->metrics, GW_METRIC_STEPS_SKIPPED, 1);
    server->loss_scale = scale;
    if (server->shard->chunks == 0)
        return;
    int direct = decision->apply && server->shard->optimizer->two_phase;
    begin(server, direct ? GW_WHOLE_DIRECTING : GW_WHOLE_APPLYING);
}

/* A standby, for which nobody waits, may not be done with the directions. */
static void direct_rest(struct gw_server *server)
{
    struct gw_whole_step *step = &server->step;
    for (; step->phase == GW_WHOLE_DIRECTING &&
           step->next < server->shard->chunks;
         step->next++)
        direct_chunk(server, step->next);
}

static int are_factors(const double *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return 0;
    return 1;
}

static void decided_trust(struct gw_server *server,
                          const struct gw_decision *decision)
{
    if (!are_factors(decision->values, decision->values_n)) {
        gw_server_finish(server, GW_EPROTO,
                         "shard 0 decides trust ratios that are none");
        return;
    }
    if (decision->values_n != server->map->keys) {
        gw_server_finish(server, GW_EPROTO,
                         "trust ratios for %u keys, the model has %zu",
                         decision->values_n, server->map->keys);
        return;
    }
    memcpy(server->step.trust, decision->values,
           decision->values_n * sizeof *server->step.trust);
    direct_rest(server);
    if (server->shard->chunks > 0)
        begin(server, GW_WHOLE_APPLYING);
}

/* Shard 0 decides when all shards have voted, and so have we. */
static int is_awaited(const struct gw_server *server,
                      const struct gw_decision *decision)
{
    const struct gw_shard *shard = server->shard;
    enum gw_whole_phase phase = server->step.phase;
    if (shard->chunks == 0 || (server->stands_by && server->regime.whole_step))
        return 1;
    if (!server->regime.whole_step ||
        decision->clock != shard->chunk[0].version)
        return 0;
    return decision->kind == GW_DECIDE_STEP
               ? phase == GW_WHOLE_GATHERING &&
                     shard->chunks_reduced == shard->chunks
               : phase == GW_WHOLE_TRUSTING;
}

void gw_whole_decided(struct gw_server *server,
                      const struct gw_decision *decision)
{
    if (!is_awaited(server, decision)) {
        gw_server_finish(server, GW_EPROTO,
                         "decision %" PRIu64 " is about step %" PRIu64
                         ", on which this shard has not voted",
                         decision->number, decision->clock);
        return;
    }
    if (decision->kind == GW_DECIDE_STEP)
        decided_step(server, decision);
    else
        decided_trust(server, decision);
}

/* Shard 0 is another process: it has no vote of an undecided step. */
void gw_whole_vote_again(struct gw_server *server)
{
    const struct gw_whole_step *step = &server->step;
    if (!server->regime.whole_step || server->shard->chunks == 0)
        return;
    if (step->phase == GW_WHOLE_TRUSTING)
        send_vote(server, 2);
    else if (step->phase == GW_WHOLE_GATHERING &&
             step->voted == server->shard->chunk[0].version + 1)
        send_vote(server, 1);
}

/* The one before may have voted, and the step be decided: sums that are here
   stay, and others are made of pushes that come once more. Senders of a sum
   that is not finite are not known here. */
void gw_whole_take_over(struct gw_server *server)
{
    struct gw_shard *shard = server->shard;
    int gathers = server->step.phase == GW_WHOLE_GATHERING;
    if (!server->regime.whole_step || shard->chunks == 0)
        return;
    for (uint32_t i = 0; i < shard->chunks && gathers; i++)
        if (shard->chunk[i].reduced) {
            gw_shard_square(shard, i);
            server->step.votes[i] = vote_of(&shard->chunk[i]);
        }
    if (gathers)
        gw_whole_stored(server, GW_RANK_NONE, 0);
    else
        gw_whole_vote_again(server);
}

enum gw_status gw_whole_open(struct gw_server *server, struct gw_error *error)
{
    struct gw_whole_step *step = &server->step;
    step->votes =
        calloc(2 * (size_t)server->shard->chunks + 1, sizeof *step->votes);
    step->nonfinite = calloc(server->ranks, sizeof *step->nonfinite);
    step->trust = calloc(server->map->keys, sizeof *step->trust);
    if (!step->votes || !step->nonfinite || !step->trust)
        return gw_fail(error, GW_ENOMEM, "no memory for whole-step commits");
    for (size_t key = 0; key < server->map->keys; key++)
        step->trust[key] = 1;
    step->task.run = work;
    step->task.owner = server;
    return GW_OK;
}

void gw_whole_close(struct gw_server *server)
{
    gw_loop_unpost(server->loop, &server->step.task);
    free(server->step.votes);
    free(server->step.nonfinite);
    free(server->step.trust);
}

const struct gw_commit_ops gw_commit_whole = {
    .word = "whole-step",
    .is_complete = gw_commit_all_held,
    .held = gw_commit_ignore,
    .unheld = gw_commit_ignore,
    .leaves_out = gw_commit_leaves_out_none,
    .awaits = gw_commit_awaits_unheld,
    .can_miss = gw_commit_holds_any,
    .reduce = gw_whole_reduce,
    .stored = gw_whole_stored,
    .applied = gw_commit_reached,
    .resume = gw_whole_resume,
    .begin = gw_commit_nothing,
    .decided = gw_commit_decided_version,
    .label = gw_commit_label_version,
    .step = gw_commit_step_is_version,
    .quiesce = gw_commit_nothing,
    .cut = gw_commit_cut_at,
    .cut_fault = gw_commit_cut_fault,
    .switch_fault = gw_commit_switch_fault,
};
