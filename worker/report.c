/*
 * What a worker tells of its steps: those that are logged, which all ranks
 * report, and any other that the coordinator asks for, so that slow steps are
 * told of by time. Where ranks are at clocks of their own, all steps since the
 * last report.
 */
#include "config.h"

#include "worker/worker_state.h"

#include <sys/resource.h>

uint64_t gw_worker_rss_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}

static void tell(struct gw_worker *worker, struct gw_told_step *step)
{
    gw_client_report(worker->client, step->clock - 1, step->sum.loss,
                     step->sum.correct, step->samples, gw_worker_rss_bytes());
    step->told = 1;
    worker->told_us = gw_loop_now(worker->options->client.loop);
}

/* A step whose weights were scored is a logged one, as is the last. */
static int is_logged(const struct gw_worker *worker)
{
    return worker->clock % worker->cadence.steps == 0 ||
           worker->clock == worker->scored_clock;
}

static void report_each(struct gw_worker *worker,
                        const struct gw_model_result *result,
                        uint64_t samples)
{
    struct gw_told_step *sum = &worker->recent[0];
    uint64_t now = gw_loop_now(worker->options->client.loop);
    sum->clock = worker->clock + 1;
    sum->sum.loss += result->loss;
    sum->sum.correct += result->correct;
    sum->samples += samples;
    if (!is_logged(worker) &&
        (worker->cadence.seconds == 0 ||
         now - worker->told_us < worker->cadence.seconds * 1000000))
        return;
    tell(worker, sum);
    *sum = (struct gw_told_step){0};
}

/* The poll may be of a step that is behind us, or of one to come. */
static void answer_poll(struct gw_worker *worker)
{
    uint64_t polled = gw_client_polled(worker->client); /* + 1 */
    if (polled == 0 || polled == worker->answered || polled > worker->clock + 1)
        return;
    struct gw_told_step *step = &worker->recent[polled % GW_TOLD_STEPS];
    worker->answered = polled;
    if (step->clock == polled && !step->told)
        tell(worker, step);
}

void gw_worker_report(struct gw_worker *worker,
                      const struct gw_model_result *result,
                      uint64_t samples)
{
    if (gw_client_is_each(worker->client)) {
        report_each(worker, result, samples);
        return;
    }
    struct gw_told_step *step =
        &worker->recent[(worker->clock + 1) % GW_TOLD_STEPS];
    *step = (struct gw_told_step){
        .clock = worker->clock + 1, .sum = *result, .samples = samples};
    answer_poll(worker); /* first: it may be of a step before this one */
    if (!step->told &&
        (is_logged(worker) || worker->clock + 1 == worker->plan.steps))
        tell(worker, step);
}

void gw_worker_forget_steps(struct gw_worker *worker)
{
    for (size_t i = 0; i < GW_TOLD_STEPS; i++)
        worker->recent[i] = (struct gw_told_step){0};
    worker->told_us = gw_loop_now(worker->options->client.loop);
}
