/*
 * The path of a gradient through a worker, steps 1 to 5, 8 and 9 of DESIGN.
 *
 *   for every clock (with backup workers: that comes in time)
 *       batch                 the next samples of this rank
 *       forward               each layer waits for its weights, no more
 *       backward              each layer's gradient leaves when it is done,
 *                             and with it the want for the next version
 *   end
 *
 * Evaluations come before the gradients of their clock, so that the best
 * checkpoint is the cut at that clock.
 */
#include "config.h"

#include "worker/worker_state.h"

#include <string.h>

#include "proto/digest.h"

#define NEVER_SCORED UINT64_MAX

/* Time so far in which the worker did not wait. */
static uint64_t busy_us(const struct gw_worker *worker)
{
    const struct gw_client_options *options = &worker->options->client;
    return gw_loop_now(options->loop) -
           gw_metrics_get(options->metrics, GW_METRIC_WAIT_US);
}

/* ---- the hooks between the model and the network ---- */

/* The step goes on without us: give it up, between two layers. */
static enum gw_status look_late(const struct gw_worker *worker)
{
    return gw_client_is_late(worker->client, worker->clock) ? GW_EAGAIN : GW_OK;
}

static enum gw_status
await_weights(struct gw_worker *worker, size_t first, size_t n)
{
    if (worker->whole)
        return GW_OK;
    if (worker->local)
        return gw_local_need(worker, first, n);
    if (look_late(worker) != GW_OK)
        return GW_EAGAIN;
    return gw_client_wait(worker->client, first, n, worker->clock);
}

/* To the device, from wherever they are. */
static enum gw_status need_weights(void *context, size_t first, size_t n)
{
    struct gw_worker *worker = context;
    enum gw_status status = await_weights(worker, first, n);
    enum gw_encoding as = gw_client_weights_as(worker->client);
    for (size_t key = first; status == GW_OK && key < first + n; key++) {
        struct gw_client_place part = {0};
        while (!gw_mirror_has(worker->mirror, key) &&
               gw_client_next_place(worker->client, key, &part))
            gw_mirror_show_part(worker->mirror, key, part.at, part.bytes, as,
                                part.device);
        gw_mirror_shown(worker->mirror, key, as);
    }
    return status;
}

static enum gw_status
push_gradients(struct gw_worker *worker, size_t first, size_t n)
{
    if (worker->local)
        return gw_local_ready(worker, first, n);
    if (look_late(worker) != GW_OK)
        return GW_EAGAIN;
    return gw_client_push(worker->client, first, n, worker->clock,
                          worker->clock + 1, worker->samples);
}

/* What of the gradients has come from the device; with `wait`, all of it. */
static enum gw_status hand_over(struct gw_worker *worker, int wait)
{
    enum gw_status status = GW_OK;
    size_t first, n;
    while (status == GW_OK) {
        status =
            gw_mirror_next(worker->mirror, wait, &first, &n, worker->error);
        if (status == GW_EAGAIN)
            return GW_OK;
        if (status == GW_EIO)
            gw_client_fail_with(worker->client, worker->error);
        if (status == GW_OK)
            status = push_gradients(worker, first, n);
    }
    return status;
}

/* To the host goes what is read there, and the rest stays on the device. */
static enum gw_status gradients_ready(void *context, size_t first, size_t n)
{
    struct gw_worker *worker = context;
    gw_local_made(worker, first, n);
    for (size_t key = first; key < first + n; key++)
        for (struct gw_client_part part = {0};
             gw_client_next_on_host(worker->client, key, &part);
             part.at += part.bytes)
            gw_mirror_fetch_part(worker->mirror, key, part.at, part.bytes);
    gw_mirror_hand_over(worker->mirror, first, n);
    return hand_over(worker, 0);
}

static void computed(void *context, uint64_t flop)
{
    struct gw_worker *worker = context;
    const struct gw_computed part = {.samples = worker->samples,
                                     .from = worker->flop_done,
                                     .to = worker->flop_done + flop,
                                     .of = worker->flop};
    worker->flop_done = part.to;
    gw_client_computed(worker->client, &part);
}

static struct gw_model_hooks hooks_of(struct gw_worker *worker)
{
    return (struct gw_model_hooks){.context = worker,
                                   .need = need_weights,
                                   .ready = gradients_ready,
                                   .computed = computed};
}

/* ---- one step ---- */

static void load_batch(struct gw_worker *worker,
                       const struct gw_dataset *data,
                       const struct gw_batch_site *site)
{
    if (!worker->hollow)
        gw_feed_load(&worker->feed, data, site);
}

static struct gw_batch_site site_of(const struct gw_worker *worker,
                                    const struct gw_plan_step *step,
                                    struct gw_plan_run run)
{
    return (struct gw_batch_site){.seed = worker->config.train.seed,
                                  .epoch = step->epoch,
                                  .first = run.first,
                                  .n = run.n,
                                  .train = 1};
}

/* The next batch of this step, or the first of the next one; returns 0 where
   there is none, or none that can be known. */
static int next_batch(const struct gw_worker *worker,
                      const struct gw_plan_step *step,
                      struct gw_plan_run part,
                      uint64_t next,
                      struct gw_batch_site *site_p)
{
    const struct gw_plan *plan = &worker->plan;
    struct gw_plan_step from = *step;
    if (next == gw_plan_batches(part, plan->max_batch)) {
        if (gw_config_splits_by_speed(&worker->config))
            return 0;
        from = gw_plan_step(plan, worker->clock + 1);
        part = gw_plan_part(from.run, worker->ranks, worker->rank);
        next = 0;
    }
    if (part.n == 0)
        return 0;
    *site_p =
        site_of(worker, &from, gw_plan_batch(part, plan->max_batch, next));
    return 1;
}

/* While the device computes: gradients as they come from it, and in between
   the next batch, piece by piece, so that neither waits for the other. */
static enum gw_status finish_pass(struct gw_worker *worker,
                                  const struct gw_plan_step *step,
                                  struct gw_plan_run part,
                                  uint64_t next)
{
    struct gw_batch_site site;
    enum gw_status status = GW_OK;
    int more = !worker->hollow && next_batch(worker, step, part, next, &site);
    while (status == GW_OK && more) {
        more = gw_feed_ahead(&worker->feed, worker->train, &site);
        status = hand_over(worker, 0);
    }
    return status == GW_OK ? hand_over(worker, 1) : status;
}

/* What the device makes of the pass that it was given; it fails for itself. */
static enum gw_status add_result(struct gw_worker *worker,
                                 struct gw_model_result *sum)
{
    struct gw_model_result result;
    enum gw_status status =
        gw_model_result(worker->model, &result, worker->error);
    if (status != GW_OK) {
        gw_client_fail_with(worker->client, worker->error);
        return status;
    }
    sum->loss += result.loss;
    sum->correct += result.correct;
    return GW_OK;
}

static enum gw_status begin_weights(struct gw_worker *worker)
{
    enum gw_status status = gw_mirror_begin(worker->mirror, worker->error);
    if (status != GW_OK)
        gw_client_fail_with(worker->client, worker->error);
    return status;
}

/* Forward and backward over this rank's part, in micro-batches. */
static enum gw_status train_part(struct gw_worker *worker,
                                 const struct gw_plan_step *step,
                                 struct gw_plan_run part,
                                 struct gw_model_result *sum)
{
    const struct gw_model_hooks hooks = hooks_of(worker);
    uint64_t batches = gw_plan_batches(part, worker->plan.max_batch);
    for (uint64_t i = 0; i < batches; i++) {
        struct gw_plan_run run = gw_plan_batch(part, worker->plan.max_batch, i);
        const struct gw_batch_site site = site_of(worker, step, run);
        load_batch(worker, worker->train, &site);
        /* the scale of this step is known when its first weights are */
        enum gw_status status = need_weights(worker, 0, 1);
        if (status != GW_OK)
            return status;
        struct gw_model_pass pass = {
            .x = worker->feed.x,
            .labels = worker->feed.labels,
            .n = run.n,
            .seed = site.seed,
            .step = worker->clock,
            .first_sample = run.first - step->run.first,
            .scale = (float)gw_client_loss_scale(worker->client),
            .accumulate = i > 0,
            .last = i + 1 == batches,
        };
        status = gw_model_train(worker->model, &pass,
                                gw_mirror_weights(worker->mirror),
                                gw_mirror_gradients(worker->mirror), &hooks);
        if (status == GW_OK)
            status = finish_pass(worker, step, part, i + 1);
        if (status == GW_OK)
            status = add_result(worker, sum);
        if (status != GW_OK)
            return status;
    }
    return GW_OK;
}

/* A rank without samples still takes part: it has nothing to add. */
static enum gw_status sit_out(struct gw_worker *worker)
{
    enum gw_status status = await_weights(worker, 0, worker->keys);
    if (status != GW_OK || worker->local)
        return status != GW_OK ? status
                               : gw_local_ready(worker, 0, worker->keys);
    return gw_client_push(worker->client, 0, worker->keys, worker->clock,
                          worker->clock + 1, 0);
}

/* With backup workers it may be known later only whether they count. */
static void count_samples(struct gw_worker *worker, uint64_t clock)
{
    if (!gw_client_counts(worker->client, clock))
        return;
    gw_metrics_add(worker->options->client.metrics, GW_METRIC_SAMPLES,
                   worker->uncounted_samples);
    worker->uncounted_samples = 0;
}

static struct gw_plan_run part_of(const struct gw_worker *worker,
                                  struct gw_plan_run run)
{
    if (!gw_config_splits_by_speed(&worker->config))
        return gw_plan_part(run, worker->ranks, worker->rank);
    return gw_plan_share(run,
                         gw_client_share(worker->client, worker->clock).range);
}

/* How fast this worker is, for those who divide the steps to come. */
static void note_pace(struct gw_worker *worker,
                      uint64_t began_us,
                      uint64_t busy,
                      int gave_up)
{
    struct gw_pace_window pace;
    const struct gw_pace_step step = {
        .clock = worker->clock,
        .began_us = began_us,
        .ended_us = gw_loop_now(worker->options->client.loop),
        .busy_us = busy,
        .samples = worker->samples,
        .share = gw_client_share(worker->client, worker->clock).since,
        .gave_up = gave_up,
    };
    if (gw_pace_take(&worker->pace, &step, &pace))
        gw_client_tell_speed(worker->client, pace.clock, pace.samples_per_s);
}

static enum gw_status train_step(struct gw_worker *worker)
{
    struct gw_plan_step step = gw_plan_step(&worker->plan, worker->clock);
    struct gw_plan_run part = part_of(worker, step.run);
    struct gw_model_result sum = {0};
    struct gw_metrics *metrics = worker->options->client.metrics;
    uint64_t before_us = busy_us(worker);
    uint64_t began_us = gw_loop_now(worker->options->client.loop);
    gw_client_begin_step(worker->client, worker->clock);
    worker->samples = (uint32_t)part.n;
    worker->flop = gw_model_flop(worker->model) * part.n;
    worker->flop_done = 0;
    enum gw_status status = begin_weights(worker);
    if (status == GW_OK)
        status = part.n > 0 ? train_part(worker, &step, part, &sum)
                            : sit_out(worker);
    int late = status == GW_EAGAIN && look_late(worker) != GW_OK;
    if (status != GW_OK && !late)
        return status;
    uint64_t took_us = busy_us(worker) - before_us;
    gw_metrics_add(metrics, GW_METRIC_COMPUTE_US, took_us);
    if (gw_config_splits_by_speed(&worker->config))
        note_pace(worker, began_us, took_us, late);
    if (late)
        return GW_OK;
    gw_metrics_add(metrics, GW_METRIC_STEPS, 1);
    gw_client_stepped(worker->client, worker->clock);
    worker->uncounted_samples = part.n;
    count_samples(worker, worker->clock);
    gw_worker_report(worker, &sum, part.n);
    return GW_OK;
}

/* Evaluations that the job has asked for by now. */
static uint64_t dues_of(const struct gw_worker *worker)
{
    return gw_course_dues(&worker->plan.course,
                          &worker->config.train.eval_every, worker->clock);
}

/* Another policy holds from this clock on. */
static enum gw_status change_policy(struct gw_worker *worker)
{
    gw_worker_forget_steps(worker);
    /* what was due under single pushes has been scored */
    if (worker->was_each)
        worker->dues_done = dues_of(worker);
    worker->was_each = gw_client_is_each(worker->client);
    return gw_local_switch(worker);
}

/* The policy that holds by now. */
static enum gw_status take_policy(struct gw_worker *worker)
{
    return gw_client_switch(worker->client, &worker->clock)
               ? change_policy(worker)
               : GW_OK;
}

/* To the next clock, which may be further on where others did not wait, and is
   another one where clocks are numbered anew. */
static enum gw_status next_clock(struct gw_worker *worker)
{
    uint64_t last = worker->clock - 1;
    enum gw_status status = gw_client_catch_up(worker->client, &worker->clock);
    count_samples(worker, last);
    worker->uncounted_samples = 0;
    if (status == GW_OK)
        status = gw_local_meet(worker);
    if (status == GW_EAGAIN && !gw_client_is_scored(worker->client))
        status = GW_OK; /* clocks are numbered anew: what is missing is void */
    return status == GW_OK ? take_policy(worker) : status;
}

/* ---- evaluation ---- */

static enum gw_status evaluate(struct gw_worker *worker)
{
    const struct gw_model_hooks hooks = hooks_of(worker);
    struct gw_plan_run all = {.n = gw_dataset_shape(worker->test)->samples};
    struct gw_plan_run part = gw_plan_part(all, worker->ranks, worker->rank);
    uint64_t batches = gw_plan_batches(part, worker->batch_max);
    struct gw_model_result sum = {0};
    enum gw_status status = begin_weights(worker);
    worker->whole = 1;
    for (uint64_t i = 0; status == GW_OK && i < batches; i++) {
        struct gw_plan_run run = gw_plan_batch(part, worker->batch_max, i);
        struct gw_batch_site site = {.first = run.first, .n = run.n};
        load_batch(worker, worker->test, &site);
        struct gw_model_pass pass = {
            .x = worker->feed.x, .labels = worker->feed.labels, .n = run.n};
        status = gw_model_score(worker->model, &pass,
                                gw_mirror_weights(worker->mirror), &hooks);
        if (status == GW_OK)
            status = add_result(worker, &sum);
    }
    if (status != GW_OK)
        return status;
    struct gw_client_score score;
    worker->whole = 0;
    gw_client_computed(worker->client,
                       &(const struct gw_computed){.of = 1, .to = 1});
    /* the score may wait for checkpoints */
    status = gw_local_cut(worker);
    if (status != GW_OK)
        return status;
    return gw_client_score(worker->client, worker->clock, sum.loss, sum.correct,
                           part.n, &score);
}

static int evaluation_is_due(const struct gw_worker *worker)
{
    if (!worker->test || worker->clock == worker->scored_clock ||
        gw_client_is_each(worker->client) || !gw_local_is_together(worker))
        return 0;
    /* where steps are exchanged together, at the next time when they are */
    return dues_of(worker) > worker->dues_done;
}

static enum gw_status maybe_evaluate(struct gw_worker *worker)
{
    if (!evaluation_is_due(worker))
        return GW_OK;
    enum gw_status status =
        worker->local
            ? gw_local_need(worker, 0, worker->keys)
            : gw_client_wait(worker->client, 0, worker->keys, worker->clock);
    if (status != GW_OK)
        return status;
    worker->scored_clock = worker->clock;
    worker->dues_done = dues_of(worker);
    return evaluate(worker);
}

/*
 * Where ranks are at clocks of their own, an evaluation or another policy is
 * decided while they wait for weights, perhaps for those of the last layer
 * only. Nothing of the step has left by then: it is given up, and taken after
 * that. Who still waits for the last weights of pushes together meets them
 * there, and scores as they do.
 */
static enum gw_status meet(struct gw_worker *worker)
{
    if (!gw_client_is_scored(worker->client))
        return GW_OK; /* next_clock */
    enum gw_status status = take_policy(worker);
    if (status == GW_OK)
        status = gw_client_pull(worker->client);
    if (status == GW_OK && worker->test)
        status = evaluate(worker);
    if (status == GW_OK)
        status = gw_client_go_on(worker->client, worker->clock);
    return status;
}

/* Each push makes its own way to the end, which is decided. */
static int has_steps(const struct gw_worker *worker)
{
    return gw_client_is_each(worker->client) ||
           worker->clock < worker->plan.steps;
}

/* ---- the job ---- */

static enum gw_status end_job(struct gw_worker *worker)
{
    int reason = gw_client_end_reason(worker->client);
    uint8_t digest[GW_DIGEST_BYTES] = {0};
    /* the others may have ended it under a policy that this one never came to
     */
    enum gw_status status = take_policy(worker);
    worker->clock = gw_client_end_clock(worker->client);
    if (status == GW_OK)
        status = gw_client_wait_end(worker->client);
    if (status == GW_OK)
        status = gw_local_cut(worker);
    gw_local_end(worker);
    if (status == GW_OK && worker->test && reason == GW_END_COMPLETE &&
        worker->clock != worker->scored_clock)
        status = evaluate(worker);
    if (status == GW_OK)
        status = gw_client_saved(worker->client);
    if (status != GW_OK)
        return status;
    /* others' devices are let go, and ours by them */
    status = worker->backend->sync(worker->device, worker->error);
    if (status != GW_OK) {
        gw_client_fail_with(worker->client, worker->error);
        return status;
    }
    if (worker->rank == 0 && !worker->hollow)
        gw_digest_weights(worker->weight, worker->key, worker->keys, digest);
    return gw_client_finish(worker->client, worker->clock, digest,
                            gw_worker_rss_bytes());
}

/*
 * A job may have been stopped where its weights were to be scored, just before
 * they were; and it may have been scored more often than it is from here on.
 */
static void begin_evaluations(struct gw_worker *worker)
{
    uint64_t made = gw_client_evaluations(worker->client);
    uint64_t dues = dues_of(worker);
    worker->scored_clock = !gw_client_is_each(worker->client) && made >= dues
                               ? worker->clock
                               : NEVER_SCORED;
    worker->dues_done = made < dues ? made : dues;
}

enum gw_status gw_step_run(struct gw_worker *worker)
{
    enum gw_status status = GW_OK;
    worker->clock = gw_client_first_clock(worker->client);
    begin_evaluations(worker);
    worker->was_each = gw_client_is_each(worker->client);
    while (status == GW_OK) {
        status = next_clock(worker);
        if (status == GW_OK)
            status = maybe_evaluate(worker);
        if (status == GW_OK && has_steps(worker))
            status = train_step(worker);
        else if (status == GW_OK)
            status =
                gw_client_wait(worker->client, 0, worker->keys, worker->clock);
        if (status == GW_EAGAIN)
            status = meet(worker);
        else
            worker->clock++;
    }
    return status == GW_EEND ? end_job(worker) : status;
}
