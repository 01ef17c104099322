/*
 * Steps of a worker's own: between two exchanges it takes several, each with
 * its own optimizer.
 *
 *   take | step | step | .. | step --> push     a round of H (T) steps
 *
 * local, diloco: what servers give is where all begin, the anchor; a worker
 * steps on a copy of it, and pushes the way that it has gone,
 *
 *   delta = anchor - weights      (times the samples of the round)
 *
 * so that a server that subtracts the mean of the deltas averages the weights
 * (Stich 2019, arXiv 1805.09767), and any other optimizer there takes that mean
 * for a gradient (DiLoCo, arXiv 2311.08105).
 *
 * diloco in parts of the model, each with rounds of its own, and with overlap:
 * a worker goes on with what it has and merges what comes some steps later
 * (Streaming DiLoCo, arXiv 2501.18512),
 *
 *   weights = mix weights + (1 - mix) anchor
 *
 * but where all of the model is exchanged (a meeting) it takes the anchor.
 *
 * downpour: as local, but each by itself: what is pushed is added to the
 * weights as they then are, and the answer is where the worker begins again
 * (Dean et al. 2012; Zhang et al. 2015, algorithm 3).
 *
 * easgd: each goes on from weights of its own, and pushes them as they are. The
 * answer is what is left of them when the centre has drawn at them (Zhang et
 * al. 2015, arXiv 1412.6651). It comes where the worker steps: no anchor.
 */
#include "config.h"

#include "worker/worker_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/update/blend.h"
#include "kernels/update/update.h"
#include "proto/rounds.h"
#include "proto/schedule.h"
#include "worker/trainer/clip.h"
#include "worker/trainer/inner.h"

/* A part of the model that is exchanged at one time. */
struct part {
    uint64_t version; /* the clock at which its round began */
    uint64_t next;    /* at which the next one does */
    uint64_t samples; /* of the round, so far */
};

struct gw_local {
    struct gw_rounds rounds;
    struct part *part;  /* [rounds.fragments] */
    uint32_t *fragment; /* [keys] */
    uint8_t *taken;     /* [keys] the round's weights are taken */
    float *own;         /* that are stepped on; NULL: where they come, and */
    float *from;        /* where they came from is here; NULL: it is not kept */
    float *apart;       /* gradients, NULL: where pushes lie */
    const struct gw_optimizer *optimizer;
    uint64_t updates;           /* of it */
    float *state[GW_STATE_MAX]; /* arenas, as the weights */
    struct gw_inner inner;      /* them, in checkpoints */
    struct gw_clip clip;
    int counted; /* this step's samples are in */
};

static struct part *part_of(const struct gw_worker *worker, size_t key)
{
    const struct gw_local *local = worker->local;
    return &local->part[local->fragment[key]];
}

/* The same place in another arena. */
static float *in_arena(const struct gw_worker *worker, float *arena, size_t key)
{
    return arena + (worker->gradient[key] - worker->gradient[0]);
}

/* Which arena the model's weights are in. */
static void show(struct gw_worker *worker, float *arena)
{
    for (size_t key = 0; key < worker->keys; key++)
        worker->weight[key] = in_arena(worker, arena, key);
}

/* Where gradients are made. A push may have to be sent again until the answer
   is there: with overlap the next steps' gradients must not lie there. */
static void make_in(struct gw_worker *worker, float *arena)
{
    const float *first = worker->gradient[0];
    for (size_t key = 0; key < worker->keys; key++)
        worker->gradient[key] = arena + (worker->gradient[key] - first);
}

/* ---- weights in ---- */

static void begin_rounds(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    local->counted = 0;
    local->clip.arrived = 0;
    for (uint32_t f = 0; f < local->rounds.fragments; f++) {
        struct part *part = &local->part[f];
        if (part->next != worker->clock)
            continue;
        part->version = worker->clock;
        part->next = gw_rounds_next(&local->rounds, f, worker->clock);
        part->samples = 0;
        for (size_t key = 0; key < worker->keys; key++)
            if (local->fragment[key] == f)
                local->taken[key] = 0;
    }
}

static int is_due(const struct gw_worker *worker, size_t key)
{
    const struct gw_local *local = worker->local;
    const struct part *part = part_of(worker, key);
    return !local->taken[key] &&
           (gw_rounds_meets(&local->rounds, part->version) ||
            worker->clock >= part->version + local->rounds.overlap);
}

/* Waits for what came of the key's last exchange, and goes on from it. */
static enum gw_status take(struct gw_worker *worker, size_t key)
{
    struct gw_local *local = worker->local;
    const struct part *part = part_of(worker, key);
    size_t elems = gw_key_elems(&worker->key[key]);
    float *anchor = in_arena(worker, worker->weights, key);
    enum gw_status status =
        gw_client_wait(worker->client, key, 1, part->version);
    if (status != GW_OK)
        return status;
    local->taken[key] = 1;
    if (local->from)
        memcpy(in_arena(worker, local->from, key), anchor,
               elems * sizeof *anchor);
    if (!local->own)
        return GW_OK;
    if (gw_rounds_meets(&local->rounds, part->version))
        memcpy(worker->weight[key], anchor, elems * sizeof *anchor);
    else
        gw_mix(worker->config.policy.mix, elems, worker->weight[key], anchor);
    return GW_OK;
}

enum gw_status gw_local_need(struct gw_worker *worker, size_t first, size_t n)
{
    enum gw_status status = GW_OK;
    begin_rounds(worker);
    for (size_t key = first; key < first + n && status == GW_OK; key++)
        if (is_due(worker, key))
            status = take(worker, key);
    /* all stand still, and what has been taken so far comes again after that */
    if (status == GW_EAGAIN)
        memset(worker->local->taken, 0, worker->keys);
    return status;
}

int gw_local_is_together(const struct gw_worker *worker)
{
    const struct gw_local *local = worker->local;
    return !local || ((worker->clock == local->part[0].next ||
                       worker->clock == local->part[0].version) &&
                      gw_rounds_meets(&local->rounds, worker->clock));
}

enum gw_status gw_local_meet(struct gw_worker *worker)
{
    const struct gw_local *local = worker->local;
    if (!local || !local->rounds.streams || !gw_local_is_together(worker))
        return GW_OK;
    return gw_client_wait(worker->client, 0, worker->keys, worker->clock);
}

/* ---- steps, and what they have come to ---- */

/* One step of the worker's own optimizer, on one key. */
static void step_key(struct gw_worker *worker, size_t key, double clip)
{
    struct gw_local *local = worker->local;
    const struct gw_config *config = &worker->config;
    float *state[GW_STATE_MAX] = {0};
    for (unsigned s = 0; s < local->optimizer->states; s++)
        state[s] = in_arena(worker, local->state[s], key);
    struct gw_update update = {
        .scale = (float)(clip / (double)worker->samples),
        .lr = gw_schedule_lr(config, &worker->plan.course, worker->clock,
                             worker->plan.steps),
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

/* Whether a push is the way that a worker has gone, which counts by its
   samples; easgd's are its weights. */
static int is_way(const struct gw_rounds *rounds)
{
    return rounds->word.kind != GW_POLICY_EASGD;
}

struct gw_local_arenas gw_local_arenas_of(const struct gw_config *config,
                                          const struct gw_rounds *rounds)
{
    const struct gw_policy_word *word = &rounds->word;
    if (!gw_policy_is_local(word->kind))
        return (struct gw_local_arenas){.optimizer = NULL};
    int anchors = gw_policy_is_together(word->kind);
    return (struct gw_local_arenas){
        .own = anchors,
        .from = is_way(rounds) && !anchors,
        .apart = rounds->overlap > 0,
        .optimizer =
            gw_optimizer_find(gw_config_policy_terms(config, word).inner),
    };
}

/* What is pushed, in the place where the client takes it. */
static void leave(struct gw_worker *worker, size_t key)
{
    const struct gw_local *local = worker->local;
    size_t elems = gw_key_elems(&worker->key[key]);
    float *delta = in_arena(worker, worker->gradients, key);
    float *anchor = local->own ? worker->weights : local->from;
    if (!anchor) {
        memcpy(delta, worker->weight[key], elems * sizeof *delta);
        return;
    }
    struct gw_update times = {.scale = (float)part_of(worker, key)->samples,
                              .t = 1};
    gw_difference(elems, in_arena(worker, anchor, key), worker->weight[key],
                  delta);
    gw_update_apply(gw_optimizer_find("none"), &times, elems, delta, delta,
                    delta, NULL);
}

/* The keys [first, first + n) are of one part, whose round is over. */
static enum gw_status push(struct gw_worker *worker, size_t first, size_t n)
{
    const struct part *part = part_of(worker, first);
    /* weights count by their steps: they are there without a sample, too */
    uint64_t count = is_way(&worker->local->rounds)
                         ? part->samples
                         : part->next - part->version;
    for (size_t key = first; key < first + n; key++) {
        enum gw_status status =
            worker->local->taken[key] ? GW_OK : take(worker, key);
        if (status != GW_OK)
            return status;
        if (count > 0)
            leave(worker, key);
    }
    return gw_client_push(worker->client, first, n, part->version, part->next,
                          (uint32_t)count);
}

/* Once in a step, before its first update. */
static enum gw_status count(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    if (local->counted)
        return GW_OK;
    enum gw_status status = gw_inner_cut(worker, &local->inner);
    local->counted = 1;
    local->updates += worker->samples > 0;
    for (uint32_t f = 0; f < local->rounds.fragments; f++)
        local->part[f].samples += worker->samples;
    return status;
}

void gw_local_made(struct gw_worker *worker, size_t first, size_t n)
{
    if (worker->local && worker->local->clip.limit > 0)
        gw_clip_made(worker, &worker->local->clip, first, n);
}

/* Where the gradient is clipped, its keys wait for the last one: 0. Else those
   that go on, by one factor: all of them where they have waited. */
static int
gather(struct gw_worker *worker, size_t *first, size_t *n, double *factor_p)
{
    struct gw_clip *clip = &worker->local->clip;
    *factor_p = 1;
    if (clip->limit == 0)
        return 1;
    clip->arrived += *n;
    if (clip->arrived < worker->keys)
        return 0;
    *first = 0;
    *n = worker->keys;
    if (worker->samples > 0)
        *factor_p = gw_clip_factor(worker, clip);
    return 1;
}

enum gw_status gw_local_ready(struct gw_worker *worker, size_t first, size_t n)
{
    const struct gw_local *local = worker->local;
    double factor;
    enum gw_status status = count(worker);
    if (status != GW_OK || !gather(worker, &first, &n, &factor))
        return status;
    for (size_t key = first; key < first + n && worker->samples > 0; key++)
        step_key(worker, key, factor);
    for (size_t key = first, end; key < first + n && status == GW_OK;
         key = end) {
        end = key + 1;
        while (end < first + n && local->fragment[end] == local->fragment[key])
            end++;
        if (part_of(worker, key)->next == worker->clock + 1)
            status = push(worker, key, end - key);
    }
    return status;
}

/* ---- from one policy to the next ---- */

static float *take_arena(struct gw_worker *worker)
{
    return worker->backend->alloc_host(worker->device,
                                       gw_client_arena_bytes(worker->client));
}

static void drop_arena(struct gw_worker *worker, float **arena)
{
    if (*arena)
        worker->backend->free_host(worker->device, *arena);
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

/* When parts of the model are exchanged; all rounds begin here. */
static int keep_rounds(struct gw_worker *worker, const struct gw_rounds *rounds)
{
    struct gw_local *local = worker->local;
    free(local->part);
    local->rounds = *rounds;
    local->part = calloc(rounds->fragments, sizeof *local->part);
    if (!local->fragment)
        local->fragment = calloc(worker->keys, sizeof *local->fragment);
    if (!local->taken)
        local->taken = calloc(worker->keys, sizeof *local->taken);
    if (!local->part || !local->fragment || !local->taken)
        return 0;
    gw_rounds_divide(rounds, worker->key, worker->keys, local->fragment);
    for (uint32_t f = 0; f < rounds->fragments; f++)
        local->part[f].next = worker->clock;
    return 1;
}

static struct gw_rounds rounds_of(const struct gw_worker *worker,
                                  const struct gw_policy_word *word,
                                  uint64_t until)
{
    return gw_rounds_of(&worker->config, word, worker->clock, until,
                        worker->plan.steps, &worker->plan.course);
}

/* Whether pushes can say how much they count. */
static int rounds_fit(const struct gw_worker *worker,
                      const struct gw_rounds *rounds)
{
    uint64_t steps = rounds->word.n;
    if (gw_policy_is_together(rounds->word.kind) &&
        rounds->last > rounds->first && rounds->last - rounds->first < steps)
        steps = rounds->last - rounds->first;
    return !is_way(rounds) || gw_plan_fits_push(&worker->plan, steps);
}

static int take_up(struct gw_worker *worker, const struct gw_rounds *rounds)
{
    const struct gw_local_arenas arenas =
        gw_local_arenas_of(&worker->config, rounds);
    make_in(worker, worker->gradients);
    if (!worker->local)
        worker->local = calloc(1, sizeof *worker->local);
    struct gw_local *local = worker->local;
    if (!local || !keep_rounds(worker, rounds) ||
        !keep_arena(worker, arenas.own, &local->own) ||
        !keep_arena(worker, arenas.from, &local->from) ||
        !keep_arena(worker, arenas.apart, &local->apart) ||
        !keep_states(worker, arenas.optimizer))
        return 0;
    gw_clip_close(worker, &local->clip);
    if (worker->config.policy.inner_clip > 0 &&
        gw_clip_open(worker, worker->config.policy.inner_clip, &local->clip) !=
            GW_OK)
        return 0;
    show(worker, local->own ? local->own : worker->weights);
    make_in(worker, local->apart ? local->apart : worker->gradients);
    return 1;
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
    const struct gw_rounds rounds = rounds_of(worker, word, until);
    if (!rounds_fit(worker, &rounds))
        status = gw_fail(worker->error, GW_EUSAGE,
                         "cluster.policy: a round of %" PRIu64 " steps of up "
                         "to %" PRIu64 " samples is more than a push can "
                         "count; take a smaller H",
                         word->n, worker->plan.max_part);
    else if (!take_up(worker, &rounds))
        status = gw_fail(worker->error, GW_ENOMEM,
                         "no memory for local steps: up to 4 arrays of %zu MiB",
                         (size_t)gw_client_arena_bytes(worker->client) >> 20);
    if (status != GW_OK)
        gw_client_fail_with(worker->client, worker->error);
    return status;
}

enum gw_status gw_local_load(struct gw_worker *worker)
{
    return worker->local ? gw_inner_load(worker, &worker->local->inner) : GW_OK;
}

enum gw_status gw_local_cut(struct gw_worker *worker)
{
    return worker->local ? gw_inner_cut(worker, &worker->local->inner) : GW_OK;
}

void gw_local_end(struct gw_worker *worker)
{
    show(worker, worker->weights);
}

void gw_local_close(struct gw_worker *worker)
{
    struct gw_local *local = worker->local;
    if (!local)
        return;
    gw_local_end(worker);
    make_in(worker, worker->gradients);
    worker->local = NULL;
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        drop_arena(worker, &local->state[s]);
    drop_arena(worker, &local->own);
    drop_arena(worker, &local->from);
    drop_arena(worker, &local->apart);
    gw_inner_close(&local->inner);
    gw_clip_close(worker, &local->clip);
    free(local->part);
    free(local->fragment);
    free(local->taken);
    free(local);
}
