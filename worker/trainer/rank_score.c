/* When the test set is scored, and how. */
#include "config.h"

#include "worker/trainer/rank_state.h"

#define NEVER_SCORED UINT64_MAX

/* Evaluations that the job has asked for by now. */
static uint64_t dues_of(const struct gw_rank *rank)
{
    return gw_course_dues(&rank->plan.course, &rank->config.train.eval_every,
                          rank->clock);
}

/* The weights of the first clock have been scored. A worker in the place of
   another knows the last score; else the number of scores tells. */
static int was_scored(const struct gw_rank *rank, uint64_t made, uint64_t dues)
{
    if (gw_client_begins_again(rank->client, rank->clock))
        return gw_client_was_scored(rank->client, rank->clock);
    return !gw_client_is_per_push(rank->client) && made >= dues;
}

/*
 * A job may have been stopped just before an evaluation that was due; and its
 * weights may have been scored more often than they are from here on.
 */
void gw_rank_begin_dues(struct gw_rank *rank)
{
    uint64_t made = gw_client_evaluations(rank->client);
    uint64_t dues = dues_of(rank);
    int scored = was_scored(rank, made, dues);
    rank->scored_clock = scored ? rank->clock : NEVER_SCORED;
    rank->dues_done = scored || made > dues ? dues : made;
}

void gw_rank_skip_dues(struct gw_rank *rank)
{
    rank->dues_done = dues_of(rank);
}

void gw_rank_note_scored(struct gw_rank *rank)
{
    rank->scored_clock = rank->clock;
    rank->dues_done = dues_of(rank);
}

int gw_rank_is_due(const struct gw_rank *rank)
{
    if (rank->test_samples == 0 || rank->clock == rank->scored_clock ||
        gw_client_is_per_push(rank->client) || !gw_local_is_together(rank))
        return 0;
    /* if ranks step alone, at the next clock at which all have the same
       weights */
    return dues_of(rank) > rank->dues_done;
}

enum gw_status gw_rank_begin_score(struct gw_rank *rank)
{
    const struct gw_plan_run all = {.n = rank->test_samples};
    struct gw_plan_run part = {.n = 0}; /* the trainer's own, or nobody's */
    if (!gw_config_is_external(&rank->config))
        part = gw_plan_part(all, rank->ranks, rank->number);
    rank->step = (struct gw_rank_step){.task = GW_RANK_SCORE,
                                       .number = rank->clock,
                                       .run = part,
                                       .offset = part.first};
    enum gw_status status = gw_rank_begin_weights(rank);
    rank->whole = 1;
    return status;
}

enum gw_status gw_rank_end_score(struct gw_rank *rank,
                                 enum gw_status status,
                                 const struct gw_rank_sum *sum)
{
    struct gw_client_score score;
    rank->whole = 0;
    if (status != GW_OK)
        return status;
    gw_client_computed(rank->client,
                       &(const struct gw_computed){.of = 1, .to = 1});
    /* the score may wait for checkpoints */
    status = gw_local_cut(rank);
    if (status != GW_OK)
        return status;
    return gw_client_score(rank->client, rank->clock, sum->loss, sum->correct,
                           sum->samples ? sum->samples : rank->step.run.n,
                           &score);
}
