/*
 * Steps of a worker's own: between two exchanges it takes several, each with
 * its own optimizer.
 *
 *   anchor | step | step | .. | step --> push     a round of H (T) steps
 *
 * local, diloco: all begin a round with the same weights, and push the way that
 * they have gone in it,
 *
 *   delta = anchor - weights      (times the samples of the round)
 *
 * so that a server that subtracts the mean of the deltas averages the weights
 * (Stich 2019, arXiv 1805.09767), and any other optimizer there takes that mean
 * for a gradient (DiLoCo, arXiv 2311.08105).
 *
 * easgd: each goes on from weights of its own, and pushes them as they are. The
 * answer is what is left of them when the centre has drawn at them (Zhang et
 * al. 2015, arXiv 1412.6651).
 */
#include "config.h"

#include "worker/worker_state.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/blend.h"
#include "kernels/update.h"
#include "proto/rounds.h"
#include "proto/schedule.h"
#include "worker/inner.h"

struct gw_local {
    struct gw_rounds rounds;
    const struct gw_optimizer *optimizer;
    uint64_t round;    /* the clock at which it began */
    uint64_t steps;    /* of it */
    uint64_t samples;  /* of it, so far */
    uint64_t updates;  /* of this worker's optimizer */
    uint64_t batch;    /* samples of a full step of all workers */
    uint8_t *anchored; /* [keys] the anchor holds the round's weights */
    float *anchor;     /* NULL where weights are pushed */
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
        gw_rounds_next(&local->rounds, 0, worker->clock) - worker->clock;
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
    return gw_client_wait(worker->client, first, n, local->round);
}

/* Before the round's first step changes them. */
static void lay_anchor(struct gw_worker *worker, size_t key)
{
    struct gw_local *local = worker->local;
    if (!local->anchor || local->anchored[key])
        return;
    memcpy(in_arena(worker, local->anchor, key), worker->weight[key],
           gw_key_elems(&worker->key[key]) * sizeof(float));
    local->anchored[key] = 1;
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

/* What is pushed takes the gradient's place. */
static void leave(struct gw_worker *worker, size_t key)
{
    const struct gw_local *local = worker->local;
    size_t elems = gw_key_elems(&worker->key[key]);
    float *delta = worker->gradient[key];
    if (!local->anchor) {
        memcpy(delta, worker->weight[key], elems * sizeof *delta);
        return;
    }
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
    for (size_t key = first; key < first + n && worker->samples > 0; key++) {
        lay_anchor(worker, key);
        step_key(worker, key);
    }
    if (!is_last(worker))
        return GW_OK;
    /* weights count by their steps: they are there without a sample, too */
    uint64_t count = local->anchor ? local->samples : local->steps;
    for (size_t key = first; key < first + n && count > 0; key++)
        leave(worker, key);
    return gw_client_push(worker->client, first, n, local->round,
                          local->round + local->steps, (uint32_t)count);
}

static float *take_arena(struct gw_worker *worker)
{
    return worker->backend->alloc(worker->device,
                                  gw_client_arena_bytes(worker->client));
}

static void drop_arena(struct gw_worker *worker, float **arena)
{
    if (*arena)
        worker->backend->free(worker->device, *arena);
    *arena = NULL;
}

/* Returns 0 where there is no memory. */
static int keep_arena(struct gw_worker *worker, int keeps, float **arena)
{
    if (!keeps)
        drop_arena(worker, arena);
    else if (!*arena)
        *arena = take_arena(worker);
    return !keeps || *arena;
}

/* Another optimizer begins with nothing. */
static int keep_states(struct gw_worker *worker,
                       const struct gw_optimizer *optimizer)
{
    struct gw_local *local = worker->local;
    int anew = local->optimizer != optimizer, kept = 1;
    for (unsigned s = 0; s < GW_STATE_MAX; s++) {
        if (anew)
            drop_arena(worker, &local->state[s]);
        kept &= keep_arena(worker, s < optimizer->states, &local->state[s]);
    }
    if (anew)
        local->updates = 0;
    local->optimizer = optimizer;
    local->inner.optimizer = optimizer;
    local->inner.state = local->state;
    local->inner.updates = &local->updates;
    return kept;
}

static int take_up(struct gw_worker *worker,
                   const struct gw_policy_word *word,
                   uint64_t until)
{
    const struct gw_plan *plan = &worker->plan;
    if (!worker->local)
        worker->local = calloc(1, sizeof *worker->local);
    struct gw_local *local = worker->local;
    if (local && !local->anchored)
        local->anchored = calloc(worker->keys, sizeof *local->anchored);
    if (!local || !local->anchored)
        return 0;
    local->rounds = gw_rounds_of(&worker->config, word, worker->clock,
                                 until < plan->steps ? until : plan->steps,
                                 plan->steps_per_epoch);
    local->round = worker->clock;
    local->steps = 0;
    local->batch = gw_schedule_batch(&worker->config);
    const char *inner = gw_config_policy_terms(&worker->config, word).inner;
    int anchors = gw_policy_is_together(word->kind);
    return keep_arena(worker, anchors, &local->anchor) &&
           keep_states(worker, gw_optimizer_find(inner));
}

enum gw_status gw_local_switch(struct gw_worker *worker)
{
    uint64_t until;
    const struct gw_policy_word *word =
        gw_client_policy(worker->client, &until);
    /* what is still being sent is of the policy before */
    enum gw_status status = gw_client_saved(worker->client);
    if (status != GW_OK)
        return status;
    if (!gw_policy_is_local(word->kind)) {
        gw_local_close(worker);
        return GW_OK;
    }
    if (worker->local)
        gw_inner_close(&worker->local->inner);
    if (take_up(worker, word, until))
        return GW_OK;
    gw_fail(worker->error, GW_ENOMEM,
            "no memory for local steps: up to 3 arrays of %zu MiB",
            (size_t)gw_client_arena_bytes(worker->client) >> 20);
    gw_client_fail_with(worker->client, worker->error);
    return GW_ENOMEM;
}

enum gw_status gw_local_load(struct gw_worker *worker)
{
    return worker->local ? gw_inner_load(worker, &worker->local->inner) : GW_OK;
}

enum gw_status gw_local_cut(struct gw_worker *worker)
{
    return worker->local ? gw_inner_cut(worker, &worker->local->inner) : GW_OK;
}

void gw_local_close(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    worker->local = NULL;
    if (!local)
        return;
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        drop_arena(worker, &local->state[s]);
    drop_arena(worker, &local->anchor);
    gw_inner_close(&local->inner);
    free(local->anchored);
    free(local);
}
