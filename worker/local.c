/*
 * Steps of a worker's own (local, diloco): between two exchanges it takes
 * several, each with its own optimizer, from the weights that all had at the
 * beginning of the round. What is pushed at the end is the way it has gone,
 *
 *   delta = anchor - weights      (times the samples of the round)
 *
 * so that a server that subtracts the mean of the deltas averages the weights
 * (Stich 2019, arXiv 1805.09767), and any other optimizer there takes that mean
 * for a gradient (DiLoCo, arXiv 2311.08105).
 *
 *   anchor | step | step | .. | step --> delta     a round of H steps
 */
#include "config.h"

#include "worker/worker_state.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/blend.h"
#include "kernels/update.h"
#include "proto/schedule.h"
#include "worker/inner.h"

struct gw_local {
    struct gw_policy_word word;
    const struct gw_optimizer *optimizer;
    uint64_t round;    /* the clock at which it began */
    uint64_t steps;    /* of it */
    uint64_t samples;  /* of it, so far */
    uint64_t updates;  /* of this worker's optimizer */
    uint64_t batch;    /* samples of a full step of all workers */
    uint8_t *anchored; /* [keys] the anchor holds the round's weights */
    float *anchor;
    float *state[GW_STATE_MAX]; /* arenas, as the weights */
    struct gw_inner inner;      /* them, in checkpoints */
    int counted;                /* this step's samples are in */
};

static int is_last(const struct gw_worker *worker)
{
    const struct gw_local *local = worker->local;
    return worker->clock + 1 == local->round + local->steps;
}

static void begin_round(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    local->round = worker->clock;
    local->steps =
        gw_policy_stride(&local->word, worker->clock, worker->plan.steps);
    local->samples = 0;
    memset(local->anchored, 0, worker->keys);
}

int gw_local_is_together(const struct gw_worker *worker)
{
    const struct gw_local *local = worker->local;
    return !local || worker->clock == local->round + local->steps ||
           worker->clock == local->round;
}

/* The same place in another arena. */
static float *in_arena(const struct gw_worker *worker, float *arena, size_t key)
{
    return arena + (worker->weight[key] - worker->weights);
}

enum gw_status gw_local_need(struct gw_worker *worker, size_t first, size_t n)
{
    struct gw_local *local = worker->local;
    if (worker->clock == local->round + local->steps)
        begin_round(worker);
    local->counted = 0;
    enum gw_status status =
        gw_client_wait(worker->client, first, n, local->round);
    for (size_t key = first; key < first + n && status == GW_OK; key++) {
        if (local->anchored[key])
            continue;
        memcpy(in_arena(worker, local->anchor, key), worker->weight[key],
               gw_key_elems(&worker->key[key]) * sizeof(float));
        local->anchored[key] = 1;
    }
    return status;
}

/* One step of the worker's own optimizer, on one key. */
static void step_key(struct gw_worker *worker, size_t key)
{
    struct gw_local *local = worker->local;
    const struct gw_config *config = &worker->config;
    float *state[GW_STATE_MAX] = {0};
    for (unsigned s = 0; s < local->optimizer->states; s++)
        state[s] = in_arena(worker, local->state[s], key);
    struct gw_update update = {
        .scale = (float)(1 / (double)worker->samples),
        .lr = gw_schedule_lr(config, worker->clock, worker->plan.steps,
                             local->batch),
        .weight_decay = config->optimizer.weight_decay,
        .momentum = config->optimizer.momentum,
        .beta1 = config->optimizer.beta1,
        .beta2 = config->optimizer.beta2,
        .eps = config->optimizer.eps,
        .t = local->updates,
        .trust_ratio = 1,
    };
    gw_update_prepare(&update);
    gw_update_apply(local->optimizer, &update, gw_key_elems(&worker->key[key]),
                    worker->gradient[key], worker->weight[key],
                    worker->weight[key], state);
}

/* The delta takes the gradient's place. */
static void leave_delta(struct gw_worker *worker, size_t key)
{
    const struct gw_local *local = worker->local;
    size_t elems = gw_key_elems(&worker->key[key]);
    float *delta = worker->gradient[key];
    struct gw_update times = {.scale = (float)local->samples, .t = 1};
    gw_difference(elems, in_arena(worker, local->anchor, key),
                  worker->weight[key], delta);
    gw_update_apply(gw_optimizer_find("none"), &times, elems, delta, delta,
                    delta, NULL);
}

enum gw_status gw_local_ready(struct gw_worker *worker, size_t first, size_t n)
{
    struct gw_local *local = worker->local;
    if (!local->counted) {
        enum gw_status status = gw_inner_cut(worker, &local->inner);
        if (status != GW_OK)
            return status;
        local->counted = 1;
        local->samples += worker->samples;
        local->updates += worker->samples > 0;
    }
    for (size_t key = first; key < first + n && worker->samples > 0; key++)
        step_key(worker, key);
    if (!is_last(worker))
        return GW_OK;
    for (size_t key = first; key < first + n && local->samples > 0; key++)
        leave_delta(worker, key);
    return gw_client_push(worker->client, first, n, local->round,
                          local->round + local->steps,
                          (uint32_t)local->samples);
}

static float *take_arena(struct gw_worker *worker)
{
    return worker->backend->alloc(worker->device,
                                  gw_client_arena_bytes(worker->client));
}

enum gw_status gw_local_open(struct gw_worker *worker)
{
    struct gw_policy_plan plan;
    enum gw_status status = gw_policy_plan_parse(worker->config.cluster.policy,
                                                 &plan, worker->error);
    if (status != GW_OK || !gw_policy_is_local(plan.phase[0].word.kind))
        return status;
    struct gw_local *local = calloc(1, sizeof *local);
    worker->local = local;
    if (!local)
        return gw_fail(worker->error, GW_ENOMEM, "no memory for local steps");
    local->word = plan.phase[0].word;
    local->optimizer = gw_optimizer_find(
        gw_config_policy_terms(&worker->config, &local->word).inner);
    local->round = gw_client_first_clock(worker->client);
    local->batch = gw_schedule_batch(&worker->config);
    local->anchored = calloc(worker->keys, sizeof *local->anchored);
    local->anchor = take_arena(worker);
    int missing = !local->anchored || !local->anchor;
    for (unsigned s = 0; s < local->optimizer->states; s++) {
        local->state[s] = take_arena(worker);
        missing |= !local->state[s];
    }
    if (missing)
        return gw_fail(worker->error, GW_ENOMEM,
                       "no memory for local steps: %u arrays of %zu MiB",
                       1 + local->optimizer->states,
                       (size_t)gw_client_arena_bytes(worker->client) >> 20);
    local->inner = (struct gw_inner){.optimizer = local->optimizer,
                                     .state = local->state,
                                     .updates = &local->updates};
    return gw_inner_load(worker, &local->inner);
}

enum gw_status gw_local_cut(struct gw_worker *worker)
{
    return worker->local ? gw_inner_cut(worker, &worker->local->inner) : GW_OK;
}

void gw_local_close(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    if (!local)
        return;
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        if (local->state[s])
            worker->backend->free(worker->device, local->state[s]);
    gw_inner_close(&local->inner);
    if (local->anchor)
        worker->backend->free(worker->device, local->anchor);
    free(local->anchored);
    free(local);
}
