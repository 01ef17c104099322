/*
 * Reports of steps: the logged ones, which all ranks report, and any other that
 * the coordinator polls, so that slow steps are reported by time. If ranks are
 * at clocks of their own, a report is of all steps since the last one.
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

#include <sys/resource.h>

uint64_t gw_rank_rss_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static void tell(struct gw_rank *rank, struct gw_told_step *step)
{
    gw_client_report(rank->client, step->clock - 1, step->sum.loss,
                     step->sum.correct, step->sum.samples, gw_rank_rss_bytes(),
                     step->has_lr ? &step->lr : NULL);
    step->told = 1;
    rank->told_us = gw_loop_now(rank->options.client.loop);
}

/* A step with scored weights is logged, as is the last step. */
static int is_logged(const struct gw_rank *rank)
{
    return rank->clock % rank->cadence.steps == 0 ||
           rank->clock == rank->scored_clock;
}

/* Rank 0 tells the rate of group 0, if the trainer has set it. */
static void note_lr(const struct gw_rank *rank, struct gw_told_step *step)
{
    const struct gw_terms *terms =
        rank->number == 0 ? gw_rank_terms_of(rank, 0) : NULL;
    step->has_lr = terms != NULL;
    step->lr = terms ? terms->lr : 0;
}

static void report_each(struct gw_rank *rank, const struct gw_rank_sum *result)
{
    struct gw_told_step *sum = &rank->recent[0];
    uint64_t now = gw_loop_now(rank->options.client.loop);
    sum->clock = rank->clock + 1;
    sum->sum.loss += result->loss;
    sum->sum.correct += result->correct;
    sum->sum.samples += result->samples;
    note_lr(rank, sum);
    if (!is_logged(rank) &&
        (rank->cadence.seconds == 0 ||
         now - rank->told_us < rank->cadence.seconds * 1000000))
        return;
    tell(rank, sum);
    *sum = (struct gw_told_step){0};
}

/* The polled step may be behind us, or to come. */
static void answer_poll(struct gw_rank *rank)
{
    uint64_t polled = gw_client_polled(rank->client); /* + 1 */
    if (polled == 0 || polled == rank->answered || polled > rank->clock + 1)
        return;
    struct gw_told_step *step = &rank->recent[polled % GW_TOLD_STEPS];
    rank->answered = polled;
    if (step->clock == polled && !step->told)
        tell(rank, step);
}

void gw_rank_report(struct gw_rank *rank, const struct gw_rank_sum *sum)
{
    if (gw_client_is_per_push(rank->client)) {
        report_each(rank, sum);
        return;
    }
    struct gw_told_step *step =
        &rank->recent[(rank->clock + 1) % GW_TOLD_STEPS];
    *step = (struct gw_told_step){.clock = rank->clock + 1, .sum = *sum};
    note_lr(rank, step);
    answer_poll(rank); /* first: it may be of a step before this one */
    if (!step->told && (is_logged(rank) || rank->clock + 1 == rank->plan.steps))
        tell(rank, step);
}

void gw_rank_forget_steps(struct gw_rank *rank)
{
    for (size_t i = 0; i < GW_TOLD_STEPS; i++)
        rank->recent[i] = (struct gw_told_step){0};
    rank->told_us = gw_loop_now(rank->options.client.loop);
}
