/*
 * From one step to the next. A phase is a piece of the rank's work before it
 * can give the trainer the next task; begin goes through phases until it can.
 *
 *   clock    to the next clock, under the policy that holds there;
 *            scores, if the plan has that before the step
 *   step     the step itself; the next phase is the next clock
 *   meet     ranks that go through clocks of their own stand still: another
 *            policy is taken up, or all score the same weights, and go on
 *   end      the weights with which the job ends, scored once more
 *
 * Evaluations come before the gradients of their clock, so that the best
 * checkpoint is the cut at that clock.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

/* ---- policies ---- */

/* Another policy holds from this clock on. */
static enum gw_status change_policy(struct gw_rank *rank)
{
    gw_rank_forget_steps(rank);
    /* evaluations that were due under per-push policies have been made */
    if (rank->was_per_push)
        gw_rank_skip_dues(rank);
    rank->was_per_push = gw_client_is_per_push(rank->client);
    rank->is_new_policy = 1;
    return gw_local_switch(rank);
}

/* Takes up the policy that holds by now. */
static enum gw_status take_policy(struct gw_rank *rank)
{
    return gw_client_switch(rank->client, &rank->clock) ? change_policy(rank)
                                                        : GW_OK;
}

/* ---- phases; *comes_p: the trainer's task is next ---- */

/* Goes to the next clock, which may be further on if others did not wait, and
   is another one if clocks are renumbered. */
static enum gw_status next_clock(struct gw_rank *rank)
{
    uint64_t last = rank->clock - 1;
    enum gw_status status = gw_client_catch_up(rank->client, &rank->clock);
    gw_rank_count_samples(rank, last);
    if (status == GW_OK)
        status = gw_local_meet(rank);
    if (status == GW_EAGAIN && !gw_client_is_scored(rank->client))
        status = GW_OK; /* clocks are renumbered: missing weights are void */
    return status == GW_OK ? take_policy(rank) : status;
}

static enum gw_status score(struct gw_rank *rank, int *comes_p)
{
    *comes_p = 1;
    return gw_rank_begin_score(rank);
}

static enum gw_status phase_clock(struct gw_rank *rank, int *comes_p)
{
    enum gw_status status = next_clock(rank);
    rank->phase = GW_RANK_PHASE_STEP;
    if (status != GW_OK || !gw_rank_is_due(rank))
        return status;
    gw_local_begin(rank);
    status = rank->local
                 ? gw_local_need(rank, 0, rank->keys)
                 : gw_client_wait(rank->client, 0, rank->keys, rank->clock);
    if (status != GW_OK)
        return status;
    gw_rank_note_scored(rank);
    return score(rank, comes_p);
}

/* With per-push policies the end of the job is decided on the way. */
static int has_steps(const struct gw_rank *rank)
{
    return gw_client_is_per_push(rank->client) ||
           rank->clock < rank->plan.steps;
}

/* Non-zero where the job can end at this clock, and no rank goes further. */
static int is_last(const struct gw_rank *rank)
{
    return rank->number == 0 && gw_client_is_waited_for(rank->client) &&
           gw_local_is_together(rank);
}

/* Rank 0 asks for the end, and once more where it waits for that: a round may
   have ended before the first question was there. */
static enum gw_status leave(struct gw_rank *rank)
{
    enum gw_status status = GW_OK;
    int waits = is_last(rank);
    if (rank->number == 0 && (waits || !rank->left))
        status = gw_client_finished(rank->client, rank->clock);
    rank->left = 1;
    if (status != GW_OK || !waits)
        return status;
    return gw_client_await_end(rank->client, rank->clock);
}

static enum gw_status phase_step(struct gw_rank *rank, int *comes_p)
{
    rank->phase = GW_RANK_PHASE_CLOCK;
    if (rank->leaves) {
        enum gw_status status = leave(rank);
        if (status != GW_OK)
            return status;
    }
    if (has_steps(rank)) {
        *comes_p = 1;
        return gw_rank_begin_step(rank);
    }
    enum gw_status status =
        gw_client_wait(rank->client, 0, rank->keys, rank->clock);
    rank->clock += status == GW_OK;
    return status;
}

/*
 * If ranks are at clocks of their own, an evaluation or another policy is
 * decided while they wait for weights, perhaps for the last layer's only.
 * Nothing of the step has left by then: it is given up, and taken after that. A
 * rank that still waits for the last weights of pushes together meets the
 * others there, and scores as they do.
 */
static enum gw_status phase_meet(struct gw_rank *rank, int *comes_p)
{
    rank->phase = GW_RANK_PHASE_CLOCK;
    if (!gw_client_is_scored(rank->client))
        return GW_OK;
    enum gw_status status = take_policy(rank);
    if (status == GW_OK)
        status = gw_client_pull(rank->client);
    rank->phase = GW_RANK_PHASE_GO_ON;
    return status == GW_OK && rank->test_samples > 0 ? score(rank, comes_p)
                                                     : status;
}

static enum gw_status phase_go_on(struct gw_rank *rank, int *comes_p)
{
    (void)comes_p;
    rank->phase = GW_RANK_PHASE_CLOCK;
    return gw_client_go_on(rank->client, rank->clock);
}

static enum gw_status phase_end(struct gw_rank *rank, int *comes_p)
{
    int is_complete = gw_client_end_reason(rank->client) == GW_END_COMPLETE;
    /* the others may have ended it under a policy that this one never came to
     */
    enum gw_status status = take_policy(rank);
    rank->clock = gw_client_end_clock(rank->client);
    if (status == GW_OK)
        status = gw_client_wait_end(rank->client);
    if (status == GW_OK)
        status = gw_local_cut(rank);
    gw_local_end(rank);
    if (status == GW_OK)
        gw_rank_fill_tensors(rank);
    rank->phase = GW_RANK_PHASE_LAST;
    if (status == GW_OK && rank->test_samples > 0 && is_complete &&
        !gw_config_is_external(&rank->config) &&
        rank->clock != rank->scored_clock)
        status = score(rank, comes_p);
    return status;
}

static enum gw_status phase_last(struct gw_rank *rank, int *comes_p)
{
    (void)comes_p;
    enum gw_status status = gw_client_saved(rank->client);
    return status == GW_OK ? GW_EEND : status;
}

static enum gw_status (*const phases[GW_RANK_PHASES])(struct gw_rank *rank,
                                                      int *comes_p) = {
    [GW_RANK_PHASE_CLOCK] = phase_clock, [GW_RANK_PHASE_STEP] = phase_step,
    [GW_RANK_PHASE_MEET] = phase_meet,   [GW_RANK_PHASE_GO_ON] = phase_go_on,
    [GW_RANK_PHASE_END] = phase_end,     [GW_RANK_PHASE_LAST] = phase_last,
};

/* Chooses the next phase by the status of the last one. */
static enum gw_status go_on(struct gw_rank *rank, enum gw_status status)
{
    if (rank->phase >= GW_RANK_PHASE_LAST ||
        (status != GW_EAGAIN && status != GW_EEND))
        return status;
    rank->phase = status == GW_EAGAIN ? GW_RANK_PHASE_MEET : GW_RANK_PHASE_END;
    return GW_OK;
}

enum gw_status gw_rank_begin(struct gw_rank *rank, struct gw_rank_step *step_p)
{
    enum gw_status status = rank->over;
    int comes = 0;
    while (status == GW_OK && !comes) {
        status = phases[rank->phase](rank, &comes);
        comes &= status == GW_OK;
        status = go_on(rank, status);
    }
    rank->over = gw_rank_tell(rank, status);
    if (status == GW_EEND)
        rank->step.number = rank->clock;
    *step_p = rank->step;
    return status;
}

int gw_rank_is_prompt(const struct gw_rank *rank)
{
    return rank->over != GW_OK ||
           (rank->phase == GW_RANK_PHASE_CLOCK && !rank->local &&
            gw_client_is_waited_for(rank->client) &&
            !gw_client_has_next_policy(rank->client) && !gw_rank_is_due(rank) &&
            has_steps(rank));
}

void gw_rank_end(struct gw_rank *rank,
                 enum gw_status status,
                 const struct gw_rank_sum *sum)
{
    status = rank->step.task == GW_RANK_SCORE
                 ? gw_rank_end_score(rank, status, sum)
                 : gw_rank_end_step(rank, status, sum);
    rank->over = gw_rank_tell(rank, go_on(rank, status));
}
