/*
 * The path of a gradient through a rank, and of weights:
 *
 *   need      waits for weights, and has the device, or the trainer, take them
 *   ready     has gradients brought from there,
 *   hand_over and pushes them as they come, with the want for the next version
 *   skip      pushes that there is none
 */
#include "config.h"

#include "worker/trainer/rank_state.h"

#include <stdio.h>
#include <string.h>

/* Time so far in which the rank did not wait. */
static uint64_t busy_us(const struct gw_rank *rank)
{
    const struct gw_client_options *options = &rank->options.client;
    return gw_loop_now(options->loop) -
           gw_metrics_get(options->metrics, GW_METRIC_WAIT_US);
}

/* The step goes on without us: give it up, between two layers. */
static enum gw_status look_late(const struct gw_rank *rank)
{
    return gw_client_is_late(rank->client, rank->clock) ? GW_EAGAIN : GW_OK;
}

/* ---- weights in ---- */

static enum gw_status
await_weights(struct gw_rank *rank, size_t first, size_t n)
{
    if (rank->whole)
        return GW_OK;
    if (rank->local)
        return gw_local_need(rank, first, n);
    if (look_late(rank) != GW_OK)
        return GW_EAGAIN;
    return gw_client_wait(rank->client, first, n, rank->clock);
}

/* Copies weights to the device, from all the places that they are in. */
static void take_to_device(struct gw_rank *rank, size_t key)
{
    enum gw_encoding as = gw_client_weights_as(rank->client);
    struct gw_client_place part = {0};
    while (!gw_mirror_has(rank->mirror, key) &&
           gw_client_next_place(rank->client, key, &part))
        gw_mirror_upload_part(rank->mirror, key, part.at, part.bytes, as,
                              part.device);
    gw_mirror_uploaded(rank->mirror, key, as);
}

/* Once in a step: a trainer may need a key again for each of its batches. */
static void take_to_tensor(const struct gw_rank *rank, size_t key)
{
    const struct gw_rank_tensor *tensor =
        rank->tensor ? &rank->tensor[key] : NULL;
    if (!tensor || !tensor->weights || rank->done[key].taken)
        return;
    gw_rank_tensor_store(tensor->dtype, gw_key_elems(&rank->key[key]),
                         rank->weight[key], tensor->weights);
    rank->done[key].taken = 1;
}

void gw_rank_refill_tensors(struct gw_rank *rank, size_t first, size_t n)
{
    for (size_t key = first; key < first + n; key++) {
        rank->done[key].taken = 0;
        take_to_tensor(rank, key);
    }
}

void gw_rank_fill_tensors(struct gw_rank *rank)
{
    gw_rank_refill_tensors(rank, 0, rank->keys);
}

enum gw_status gw_rank_need(struct gw_rank *rank, size_t first, size_t n)
{
    enum gw_status status = await_weights(rank, first, n);
    for (size_t key = first; status == GW_OK && key < first + n; key++) {
        take_to_device(rank, key);
        take_to_tensor(rank, key);
    }
    return status;
}

int gw_rank_has(const struct gw_rank *rank, size_t first, size_t n)
{
    return rank->whole || (!rank->local && look_late(rank) == GW_OK &&
                           gw_client_has(rank->client, first, n, rank->clock));
}

double gw_rank_loss_scale(const struct gw_rank *rank)
{
    return gw_client_loss_scale(rank->client);
}

enum gw_status gw_rank_begin_weights(struct gw_rank *rank)
{
    memset(rank->done, 0, rank->keys * sizeof *rank->done);
    return gw_rank_fail(rank, gw_mirror_begin(rank->mirror, rank->error));
}

/* ---- gradients out ---- */

/* Before a push to servers that step by them. */
static enum gw_status tell_terms(struct gw_rank *rank)
{
    struct gw_rank_terms_table *terms = &rank->terms;
    if (!terms->changed)
        return GW_OK;
    terms->changed = 0;
    return gw_client_set_terms(rank->client, rank->clock, terms->set, terms->n);
}

static enum gw_status
push_gradients(struct gw_rank *rank, size_t first, size_t n)
{
    if (rank->local)
        return gw_local_ready(rank, first, n);
    if (look_late(rank) != GW_OK)
        return GW_EAGAIN;
    enum gw_status status = tell_terms(rank);
    if (status != GW_OK)
        return status;
    return gw_client_push(rank->client, first, n, rank->clock, rank->clock + 1,
                          rank->samples);
}

enum gw_status gw_rank_hand_over(struct gw_rank *rank, int wait)
{
    enum gw_status status = GW_OK;
    size_t first, n;
    while (status == GW_OK) {
        status = gw_mirror_next(rank->mirror, wait, &first, &n, rank->error);
        if (status == GW_EAGAIN)
            return GW_OK;
        if (status == GW_EIO)
            gw_rank_fail(rank, status);
        if (status == GW_OK)
            status = push_gradients(rank, first, n);
    }
    return status;
}

static void take_from_tensor(const struct gw_rank *rank, size_t key)
{
    const struct gw_rank_tensor *tensor =
        rank->tensor ? &rank->tensor[key] : NULL;
    if (tensor && tensor->gradients)
        gw_rank_tensor_load(tensor->dtype, gw_key_elems(&rank->key[key]),
                            tensor->gradients, rank->gradient[key]);
}

/* Copies to the host the gradients that are read there; the rest stays on the
   device. */
static void take_from_device(struct gw_rank *rank, size_t key)
{
    for (struct gw_client_part part = {0};
         gw_client_next_on_host(rank->client, key, &part);
         part.at += part.bytes)
        gw_mirror_fetch_part(rank->mirror, key, part.at, part.bytes);
}

/* The trainer's mistake would become a wrong sum, or a wait of all ranks. `is`
   it is ready, or skipped. */
static enum gw_status
check_final(struct gw_rank *rank, size_t first, size_t n, const char *is)
{
    const char *when = NULL;
    char why[80];
    size_t key = first;
    if (rank->step.task != GW_RANK_TRAIN || rank->whole)
        when = "in a step that only scores";
    else if (rank->samples == 0)
        when = "in a step in which this rank has no samples";
    while (!when && key < first + n)
        if (rank->done[key].ready++)
            when = "twice in one step";
        else
            key++;
    if (!when)
        return GW_OK;
    snprintf(why, sizeof why, "is %s %s", is, when);
    return gw_rank_misused(rank, key, why);
}

/* Every key is ready, or others would wait for it. */
static enum gw_status check_all_ready(struct gw_rank *rank)
{
    for (size_t key = 0; key < rank->keys; key++)
        if (!rank->done[key].ready)
            return gw_rank_misused(rank, key, "is not ready at the end");
    return GW_OK;
}

/*
 * Before the first push of a step. Members act at a clock by the decisions
 * about it, and shard 0 makes these before it gives out weights of that
 * version: no key leaves before some of shard 0 are there, or another shard
 * could be past a cut, an end or a switch that it has not heard of.
 *
 * Where each push makes a version, all ranks may be brought to a stand, and a
 * rank stands between two steps: servers that keep its wants open then wait for
 * the pushes of a step that it has begun. So no key leaves before the weights
 * of all are there. Likewise in the first step under a policy, which a shard
 * takes up when its last chunk is at that clock, where another one may hold
 * from this step on, and in the rank's own steps, which begin with a state that
 * a checkpoint keeps.
 */
static enum gw_status await_turn(struct gw_rank *rank)
{
    enum gw_status status = GW_OK;
    if (rank->may_push)
        return GW_OK;
    int all = rank->local || rank->is_new_policy ||
              gw_client_is_per_push(rank->client);
    if (!all)
        status = gw_client_wait_leader(rank->client, rank->clock);
    if (status == GW_OK && (all || gw_client_has_next_policy(rank->client)))
        status = await_weights(rank, 0, rank->keys);
    if (status != GW_OK)
        return status;
    rank->may_push = 1;
    rank->is_new_policy = 0;
    return GW_OK;
}

/* Before keys are final: until the weights of a key are there, its gradients in
   the arena are those of the step before. */
static enum gw_status
begin_final(struct gw_rank *rank, size_t first, size_t n, const char *is)
{
    enum gw_status status = check_final(rank, first, n, is);
    if (status == GW_OK)
        status = await_turn(rank);
    return status == GW_OK ? await_weights(rank, first, n) : status;
}

enum gw_status gw_rank_ready(struct gw_rank *rank, size_t first, size_t n)
{
    enum gw_status status = begin_final(rank, first, n, "ready");
    if (status != GW_OK)
        return status;
    for (size_t key = first; key < first + n; key++)
        take_from_tensor(rank, key);
    gw_local_made(rank, first, n);
    for (size_t key = first; key < first + n; key++)
        take_from_device(rank, key);
    gw_mirror_hand_over(rank->mirror, first, n);
    return gw_rank_hand_over(rank, 0);
}

static enum gw_status
skip_keys(struct gw_rank *rank, size_t first, size_t n, int counts)
{
    for (size_t key = first; key < first + n; key++) {
        rank->done[key].skipped = 1;
        rank->done[key].counts = counts != 0;
    }
    if (rank->local)
        return gw_local_ready(rank, first, n);
    enum gw_status status = tell_terms(rank);
    if (status != GW_OK)
        return status;
    return gw_client_skip(rank->client, first, n, rank->clock, rank->clock + 1,
                          rank->samples, counts);
}

enum gw_status
gw_rank_skip(struct gw_rank *rank, size_t first, size_t n, int counts)
{
    enum gw_status status = begin_final(rank, first, n, "skipped");
    return status == GW_OK ? skip_keys(rank, first, n, counts) : status;
}

void gw_rank_computed(struct gw_rank *rank, uint64_t flop)
{
    const struct gw_computed part = {.samples = rank->samples,
                                     .from = rank->flop_done,
                                     .to = rank->flop_done + flop,
                                     .of = rank->flop};
    rank->flop_done = part.to;
    gw_client_computed(rank->client, &part);
}

/* ---- the step's ends ---- */

static struct gw_plan_run part_of(const struct gw_rank *rank,
                                  struct gw_plan_run run)
{
    if (rank->leaves)
        return (struct gw_plan_run){.first = run.first};
    if (!gw_config_splits_by_speed(&rank->config))
        return gw_plan_part(run, rank->ranks, rank->number);
    return gw_plan_share(run, gw_client_share(rank->client, rank->clock).range);
}

static struct gw_rank_step step_at(uint64_t clock,
                                   const struct gw_plan_step *step,
                                   struct gw_plan_run part)
{
    return (struct gw_rank_step){.task = GW_RANK_TRAIN,
                                 .number = clock,
                                 .epoch = step->epoch,
                                 .run = part,
                                 .offset = part.first - step->run.first};
}

int gw_rank_ahead(const struct gw_rank *rank, struct gw_rank_step *step_p)
{
    if (gw_config_splits_by_speed(&rank->config) ||
        rank->step.task != GW_RANK_TRAIN)
        return 0;
    uint64_t next = rank->clock + 1;
    const struct gw_plan_step step = gw_plan_step(&rank->plan, next);
    *step_p =
        step_at(next, &step, gw_plan_part(step.run, rank->ranks, rank->number));
    return 1;
}

enum gw_status gw_rank_begin_step(struct gw_rank *rank)
{
    const struct gw_plan_step step = gw_plan_step(&rank->plan, rank->clock);
    struct gw_plan_run part = part_of(rank, step.run);
    rank->step = step_at(rank->clock, &step, part);
    rank->step.own = rank->own_steps && rank->local;
    rank->busy_us = busy_us(rank);
    rank->began_us = gw_loop_now(rank->options.client.loop);
    gw_client_set_step(rank->client, rank->clock);
    gw_local_begin(rank);
    rank->samples = (uint32_t)part.n;
    rank->flop = rank->sample_flop * part.n;
    rank->flop_done = 0;
    rank->may_push = 0;
    return gw_rank_begin_weights(rank);
}

void gw_rank_weigh(struct gw_rank *rank, uint32_t weight)
{
    rank->samples = weight;
}

/* A rank without samples still takes part: it has nothing to add. */
static enum gw_status sit_out(struct gw_rank *rank)
{
    enum gw_status status = await_weights(rank, 0, rank->keys);
    return status == GW_OK ? skip_keys(rank, 0, rank->keys, 1) : status;
}

/* Counts the samples if they count, which may be known only later with backup
   workers. */
static void count_samples(struct gw_rank *rank, uint64_t clock)
{
    if (!gw_client_counts(rank->client, clock))
        return;
    gw_metrics_add(rank->options.client.metrics, GW_METRIC_SAMPLES,
                   rank->uncounted_samples);
    rank->uncounted_samples = 0;
}

void gw_rank_count_samples(struct gw_rank *rank, uint64_t clock)
{
    count_samples(rank, clock);
    rank->uncounted_samples = 0;
}

/* Tells shard 0 the pace of this rank: coming steps are divided by it. */
static void note_pace(struct gw_rank *rank, uint64_t busy, int gave_up)
{
    struct gw_pace_window pace;
    const struct gw_pace_step step = {
        .clock = rank->clock,
        .began_us = rank->began_us,
        .ended_us = gw_loop_now(rank->options.client.loop),
        .busy_us = busy,
        .samples = rank->samples,
        .share = gw_client_share(rank->client, rank->clock).since,
        .gave_up = gave_up,
    };
    if (gw_pace_take(&rank->pace, &step, &pace))
        gw_client_tell_speed(rank->client, pace.clock, pace.samples_per_s);
}

static void count_step(struct gw_rank *rank, const struct gw_rank_sum *sum)
{
    gw_metrics_add(rank->options.client.metrics, GW_METRIC_STEPS, 1);
    gw_client_set_step(rank->client, rank->clock);
    rank->uncounted_samples = sum->samples ? sum->samples : rank->samples;
    struct gw_rank_sum told = *sum;
    told.samples = sum->is_untold ? 0 : rank->uncounted_samples;
    count_samples(rank, rank->clock);
    gw_rank_report(rank, &told);
}

enum gw_status gw_rank_end_step(struct gw_rank *rank,
                                enum gw_status status,
                                const struct gw_rank_sum *sum)
{
    if (status == GW_OK && rank->samples > 0)
        status = check_all_ready(rank);
    if (status == GW_OK)
        status = rank->samples > 0 ? gw_rank_hand_over(rank, 1) : sit_out(rank);
    int late = status == GW_EAGAIN && look_late(rank) != GW_OK;
    if (status != GW_OK && !late)
        return status;
    uint64_t took_us = busy_us(rank) - rank->busy_us;
    gw_metrics_add(rank->options.client.metrics, GW_METRIC_COMPUTE_US, took_us);
    if (gw_config_splits_by_speed(&rank->config))
        note_pace(rank, took_us, late);
    if (!late)
        count_step(rank, sum);
    rank->clock++;
    return GW_OK;
}
