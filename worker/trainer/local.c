/*
 * Steps of a worker's own: between two exchanges it takes several, with an
 * optimizer of its own, or of its trainer's.
 *
 *   take | step | step | .. | step --> push     a round of H (T) steps
 *
 * local, diloco: all workers begin a round from the servers' weights, the
 * anchor. A worker steps on a copy of it, and pushes the way that it has gone,
 *
 *   delta = anchor - weights      (times the samples of the round)
 *
 * so that a server that subtracts the mean of the deltas averages the weights
 * (Stich 2019, arXiv 1805.09767), and any other optimizer there takes that mean
 * for a gradient (DiLoCo, arXiv 2311.08105).
 *
 * diloco in parts of the model, each with rounds of its own, and with overlap:
 * a worker goes on with its own weights, and merges the anchor when it comes
 * some steps later (Streaming DiLoCo, arXiv 2501.18512),
 *
 *   weights = mix weights + (1 - mix) anchor
 *
 * but at a clock at which all of the model is exchanged (a meeting) it takes
 * the anchor.
 *
 * downpour: as local, but each worker by itself: a server adds the push to the
 * weights as they then are, and the worker begins again from the answer (Dean
 * et al. 2012; Zhang et al. 2015, algorithm 3).
 *
 * A key whose rule is the mean has no optimizer: the trainer gives a value in
 * each step, which is the worker's weights from there on. The push of a round
 * is the last value, and servers take the mean.
 *
 * easgd: each worker goes on from weights of its own, and pushes them as they
 * are. The answer is the same weights, drawn towards the centre (Zhang et al.
 * 2015, arXiv 1412.6651). It comes into the memory in which the worker steps:
 * no anchor.
 */
#include "config.h"

#include "worker/trainer/local.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/update/blend.h"
#include "kernels/update/update.h"
#include "proto/rounds.h"
#include "proto/schedule.h"
#include "worker/trainer/clip.h"
#include "worker/trainer/inner.h"
#include "worker/trainer/rank_state.h"

/* A part of the model that is exchanged at one time. */
struct part {
    uint64_t version; /* the clock at which its round began */
    uint64_t next;    /* the clock at which the next one begins */
    uint64_t samples; /* the round's, so far */
};

/* A key in its round, so far. */
struct gone {
    uint8_t taken;   /* the round's weights are taken */
    uint8_t stepped; /* a step had a gradient of the key, */
    uint8_t counts;  /* or the round's samples count without one */
};

struct gw_local {
    struct gw_rounds rounds;
    struct part *part;  /* [rounds.fragments] */
    uint32_t *fragment; /* [keys] */
    struct gone *gone;  /* [keys] */
    float *own;         /* weights stepped on; NULL: rank->weights, and */
    float *from;        /* their copy on arrival; NULL: it is not kept */
    float *apart;       /* gradients; NULL: in the place of pushes */
    const struct gw_optimizer *optimizer;
    uint64_t updates;           /* the optimizer's, so far, and */
    uint64_t *skipped;          /* [keys] without a gradient of the key */
    float *state[GW_STATE_MAX]; /* arenas, as the weights */
    struct gw_inner inner;      /* the states, in checkpoints */
    struct gw_clip clip;
    int counted; /* this step is one of the updates */
};

static struct part *part_of(const struct gw_rank *rank, size_t key)
{
    const struct gw_local *local = rank->local;
    return &local->part[local->fragment[key]];
}

/* The same place in another arena. */
static float *in_arena(const struct gw_rank *rank, float *arena, size_t key)
{
    return arena + (rank->gradient[key] - rank->gradient[0]);
}

/* Sets the arena of the model's weights. */
static void show(struct gw_rank *rank, float *arena)
{
    for (size_t key = 0; key < rank->keys; key++)
        rank->weight[key] = in_arena(rank, arena, key);
}

/* Sets the arena in which gradients are made. A push may have to be sent again
   until the answer is there: with overlap the next steps' gradients must not
   lie there. */
static void make_in(struct gw_rank *rank, float *arena)
{
    const float *first = rank->gradient[0];
    for (size_t key = 0; key < rank->keys; key++)
        rank->gradient[key] = arena + (rank->gradient[key] - first);
}

/* ---- weights in ---- */

void gw_local_begin(struct gw_rank *rank)
{
    struct gw_local *local = rank->local;
    if (!local)
        return;
    local->counted = 0;
    local->clip.arrived = 0;
    for (uint32_t f = 0; f < local->rounds.fragments; f++) {
        struct part *part = &local->part[f];
        if (part->next != rank->clock)
            continue;
        part->version = rank->clock;
        part->next = gw_rounds_next(&local->rounds, f, rank->clock);
        part->samples = 0;
        for (size_t key = 0; key < rank->keys; key++)
            if (local->fragment[key] == f)
                local->gone[key] = (struct gone){.taken = 0};
    }
}

static int is_due(const struct gw_rank *rank, size_t key)
{
    const struct gw_local *local = rank->local;
    const struct part *part = part_of(rank, key);
    return !local->gone[key].taken &&
           (gw_rounds_meets(&local->rounds, part->version) ||
            rank->clock >= part->version + local->rounds.overlap);
}

/* Waits for the answer to the key's last exchange, and goes on from it. */
static enum gw_status take(struct gw_rank *rank, size_t key)
{
    struct gw_local *local = rank->local;
    const struct part *part = part_of(rank, key);
    size_t elems = gw_key_elems(&rank->key[key]);
    float *anchor = in_arena(rank, rank->weights, key);
    enum gw_status status = gw_client_wait(rank->client, key, 1, part->version);
    if (status != GW_OK)
        return status;
    local->gone[key].taken = 1;
    if (local->from)
        memcpy(in_arena(rank, local->from, key), anchor,
               elems * sizeof *anchor);
    if (!local->own)
        return GW_OK;
    if (gw_rounds_meets(&local->rounds, part->version))
        memcpy(rank->weight[key], anchor, elems * sizeof *anchor);
    else
        gw_mix(rank->config.policy.mix, elems, rank->weight[key], anchor);
    return GW_OK;
}

enum gw_status gw_local_need(struct gw_rank *rank, size_t first, size_t n)
{
    enum gw_status status = GW_OK;
    for (size_t key = first; key < first + n && status == GW_OK; key++)
        if (is_due(rank, key))
            status = take(rank, key);
    /* all stand still: weights that have been taken so far come again after
       that */
    if (status == GW_EAGAIN)
        for (size_t key = 0; key < rank->keys; key++)
            rank->local->gone[key].taken = 0;
    return status;
}

int gw_local_is_together(const struct gw_rank *rank)
{
    const struct gw_local *local = rank->local;
    return !local || ((rank->clock == local->part[0].next ||
                       rank->clock == local->part[0].version) &&
                      gw_rounds_meets(&local->rounds, rank->clock));
}

enum gw_status gw_local_meet(struct gw_rank *rank)
{
    const struct gw_local *local = rank->local;
    if (!local || !local->rounds.streams || !gw_local_is_together(rank))
        return GW_OK;
    return gw_client_wait(rank->client, 0, rank->keys, rank->clock);
}

/* ---- steps, and pushes ---- */

static int is_value(const struct gw_rank *rank, size_t key)
{
    return rank->key[key].rule == GW_KEY_RULE_MEAN;
}

/* to[i] = scale * from[i] */
static void scale_by(double scale, size_t elems, const float *from, float *to)
{
    const struct gw_update times = {.scale = (float)scale, .t = 1};
    gw_update_apply(gw_optimizer_find("none"), &times, elems, from, to, to,
                    NULL);
}

/* The trainer has taken its step: its weights stand where a gradient would. */
static void take_step(struct gw_rank *rank, size_t key)
{
    memcpy(rank->weight[key], rank->gradient[key],
           gw_key_elems(&rank->key[key]) * sizeof *rank->weight[key]);
}

static struct gw_terms terms_of(const struct gw_rank *rank, size_t key)
{
    const struct gw_config *config = &rank->config;
    const struct gw_terms *set = gw_rank_terms_of(rank, rank->key[key].group);
    if (set)
        return *set;
    return (struct gw_terms){
        .lr = gw_schedule_lr(config, &rank->plan.course, rank->clock,
                             rank->plan.steps),
        .weight_decay = config->optimizer.weight_decay,
        .momentum = config->optimizer.momentum,
        .beta1 = config->optimizer.beta1,
        .beta2 = config->optimizer.beta2,
        .eps = config->optimizer.eps,
    };
}

/* One step of the worker's own optimizer, on one key. */
static void step_key(struct gw_rank *rank, size_t key, double clip)
{
    struct gw_local *local = rank->local;
    float *state[GW_STATE_MAX] = {0};
    for (unsigned s = 0; s < local->optimizer->states; s++)
        state[s] = in_arena(rank, local->state[s], key);
    const struct gw_terms terms = terms_of(rank, key);
    struct gw_update update = {
        .scale = (float)(clip / (double)rank->samples),
        .lr = terms.lr,
        .weight_decay = terms.weight_decay,
        .momentum = terms.momentum,
        .beta1 = terms.beta1,
        .beta2 = terms.beta2,
        .eps = terms.eps,
        .t = local->updates - local->skipped[key],
        .trust_ratio = 1,
    };
    gw_update_prepare(&update);
    gw_update_apply(local->optimizer, &update, gw_key_elems(&rank->key[key]),
                    rank->gradient[key], rank->weight[key], rank->weight[key],
                    state);
}

/* Non-zero if a push is the way that a worker has gone, which counts by its
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

/* Writes the push to the place from which the client takes it. */
static void leave(struct gw_rank *rank, size_t key)
{
    const struct gw_local *local = rank->local;
    size_t elems = gw_key_elems(&rank->key[key]);
    float *delta = in_arena(rank, rank->gradients, key);
    float *anchor = local->own ? rank->weights : local->from;
    double samples = (double)part_of(rank, key)->samples;
    if (!anchor) {
        memcpy(delta, rank->weight[key], elems * sizeof *delta);
    } else if (is_value(rank, key)) {
        scale_by(samples, elems, rank->weight[key], delta);
    } else {
        gw_difference(elems, in_arena(rank, anchor, key), rank->weight[key],
                      delta);
        scale_by(samples, elems, delta, delta);
    }
}

/* Pushes the keys [first, first + n), which have gone alike, at the end of
   their round. */
static enum gw_status push(struct gw_rank *rank, size_t first, size_t n)
{
    const struct part *part = part_of(rank, first);
    const struct gone gone = rank->local->gone[first];
    /* weights count by their steps: they are there without a sample, too; but
       a trainer that has left brings none */
    int weights =
        !is_way(&rank->local->rounds) && (!rank->leaves || part->samples > 0);
    uint64_t count = weights ? part->next - part->version : part->samples;
    int bytes = weights || gone.stepped;
    for (size_t key = first; key < first + n; key++) {
        enum gw_status status =
            rank->local->gone[key].taken ? GW_OK : take(rank, key);
        if (status != GW_OK)
            return status;
        if (bytes)
            leave(rank, key);
    }
    if (bytes)
        return gw_client_push(rank->client, first, n, part->version, part->next,
                              (uint32_t)count);
    return gw_client_skip(rank->client, first, n, part->version, part->next,
                          (uint32_t)count, gone.counts);
}

/* Keys of one part that are pushed in one way. */
static int go_alike(const struct gw_local *local, size_t a, size_t b)
{
    return local->fragment[a] == local->fragment[b] &&
           local->gone[a].stepped == local->gone[b].stepped &&
           local->gone[a].counts == local->gone[b].counts;
}

/* Once in a step, before its first update. */
static enum gw_status count(struct gw_rank *rank)
{
    struct gw_local *local = rank->local;
    if (local->counted)
        return GW_OK;
    enum gw_status status = gw_inner_cut(rank, &local->inner);
    local->counted = 1;
    local->updates += rank->samples > 0;
    for (uint32_t f = 0; f < local->rounds.fragments; f++)
        local->part[f].samples += rank->samples;
    return status;
}

void gw_local_made(struct gw_rank *rank, size_t first, size_t n)
{
    if (rank->local && rank->local->clip.limit > 0)
        gw_clip_made(rank, &rank->local->clip, first, n);
}

/* 0: the gradient is clipped, and its keys wait for the last one. Else *first
   and *n are the keys that go on, by one factor: all keys if they have
   waited. */
static int
gather(struct gw_rank *rank, size_t *first, size_t *n, double *factor_p)
{
    struct gw_clip *clip = &rank->local->clip;
    *factor_p = 1;
    if (clip->limit == 0)
        return 1;
    clip->arrived += *n;
    if (clip->arrived < rank->keys)
        return 0;
    *first = 0;
    *n = rank->keys;
    if (rank->samples > 0)
        *factor_p = gw_clip_factor(rank, clip);
    return 1;
}

/* The key's part of a step; a key without a gradient stays as it is. */
static void go(struct gw_rank *rank, size_t key, double clip)
{
    struct gw_local *local = rank->local;
    struct gone *gone = &local->gone[key];
    if (rank->samples == 0)
        return;
    if (rank->done[key].skipped) {
        local->skipped[key]++;
        gone->counts |= rank->done[key].counts;
        return;
    }
    if (is_value(rank, key))
        scale_by(1 / (double)rank->samples, gw_key_elems(&rank->key[key]),
                 rank->gradient[key], rank->weight[key]);
    else if (rank->own_steps)
        take_step(rank, key);
    else
        step_key(rank, key, clip);
    gone->stepped = 1;
}

enum gw_status gw_local_ready(struct gw_rank *rank, size_t first, size_t n)
{
    const struct gw_local *local = rank->local;
    double factor;
    enum gw_status status = count(rank);
    if (status != GW_OK || !gather(rank, &first, &n, &factor))
        return status;
    for (size_t key = first; key < first + n; key++)
        go(rank, key, factor);
    for (size_t key = first, end; key < first + n && status == GW_OK;
         key = end) {
        end = key + 1;
        while (end < first + n && go_alike(local, key, end))
            end++;
        if (part_of(rank, key)->next == rank->clock + 1)
            status = push(rank, key, end - key);
    }
    return status;
}

/* ---- from one policy to the next ---- */

static float *take_arena(struct gw_rank *rank)
{
    return rank->backend->alloc_host(rank->device,
                                     gw_client_arena_bytes(rank->client));
}

static void drop_arena(struct gw_rank *rank, float **arena)
{
    if (*arena)
        rank->backend->free_host(rank->device, *arena);
    *arena = NULL;
}

/* Returns 0 if there is no memory. */
static int keep_arena(struct gw_rank *rank, int keeps, float **arena)
{
    if (!keeps)
        drop_arena(rank, arena);
    else if (!*arena)
        *arena = take_arena(rank);
    return !keeps || *arena;
}

/* Another optimizer begins with nothing. */
static int keep_states(struct gw_rank *rank,
                       const struct gw_optimizer *optimizer)
{
    struct gw_local *local = rank->local;
    int anew = local->optimizer != optimizer, kept = 1;
    for (unsigned s = 0; s < GW_STATE_MAX; s++) {
        if (anew)
            drop_arena(rank, &local->state[s]);
        kept &= keep_arena(rank, s < optimizer->states, &local->state[s]);
    }
    if (anew)
        local->updates = 0;
    if (anew && local->skipped)
        memset(local->skipped, 0, rank->keys * sizeof *local->skipped);
    if (!local->skipped)
        local->skipped = calloc(rank->keys, sizeof *local->skipped);
    local->optimizer = optimizer;
    local->inner.optimizer = optimizer;
    local->inner.state = local->state;
    local->inner.updates = &local->updates;
    local->inner.skipped = local->skipped;
    return kept && local->skipped;
}

/* Sets when parts of the model are exchanged; all rounds begin here. */
static int keep_rounds(struct gw_rank *rank, const struct gw_rounds *rounds)
{
    struct gw_local *local = rank->local;
    free(local->part);
    local->rounds = *rounds;
    local->part = calloc(rounds->fragments, sizeof *local->part);
    if (!local->fragment)
        local->fragment = calloc(rank->keys, sizeof *local->fragment);
    if (!local->gone)
        local->gone = calloc(rank->keys, sizeof *local->gone);
    if (!local->part || !local->fragment || !local->gone)
        return 0;
    gw_rounds_divide(rounds, rank->key, rank->keys, local->fragment);
    for (uint32_t f = 0; f < rounds->fragments; f++)
        local->part[f].next = rank->clock;
    return 1;
}

static struct gw_rounds rounds_of(const struct gw_rank *rank,
                                  const struct gw_policy_word *word,
                                  uint64_t until)
{
    return gw_rounds_of(&rank->config, word, rank->clock, until,
                        rank->plan.steps, &rank->plan.course);
}

/* Non-zero if pushes can say how much they count. */
static int rounds_fit(const struct gw_rank *rank,
                      const struct gw_rounds *rounds)
{
    uint64_t steps = rounds->word.n;
    if (gw_policy_is_together(rounds->word.kind) &&
        rounds->last > rounds->first && rounds->last - rounds->first < steps)
        steps = rounds->last - rounds->first;
    return !is_way(rounds) || gw_plan_fits_push(&rank->plan, steps);
}

static int take_up(struct gw_rank *rank, const struct gw_rounds *rounds)
{
    struct gw_local_arenas arenas = gw_local_arenas_of(&rank->config, rounds);
    if (rank->own_steps) /* which has no states */
        arenas.optimizer = gw_optimizer_find("none");
    make_in(rank, rank->gradients);
    if (!rank->local)
        rank->local = calloc(1, sizeof *rank->local);
    struct gw_local *local = rank->local;
    if (!local || !keep_rounds(rank, rounds) ||
        !keep_arena(rank, arenas.own, &local->own) ||
        !keep_arena(rank, arenas.from, &local->from) ||
        !keep_arena(rank, arenas.apart, &local->apart) ||
        !keep_states(rank, arenas.optimizer))
        return 0;
    gw_clip_close(rank, &local->clip);
    if (rank->config.policy.inner_clip > 0 &&
        gw_clip_open(rank, rank->config.policy.inner_clip, &local->clip) !=
            GW_OK)
        return 0;
    show(rank, local->own ? local->own : rank->weights);
    make_in(rank, local->apart ? local->apart : rank->gradients);
    return 1;
}

enum gw_status gw_local_switch(struct gw_rank *rank)
{
    uint64_t until;
    const struct gw_policy_word *word = gw_client_policy(rank->client, &until);
    /* a file that is still being sent belongs to the policy before */
    enum gw_status status = gw_client_saved(rank->client);
    if (status != GW_OK)
        return status;
    if (!gw_policy_is_local(word->kind)) {
        gw_local_close(rank);
        return GW_OK;
    }
    if (rank->local)
        gw_inner_close(&rank->local->inner);
    const struct gw_rounds rounds = rounds_of(rank, word, until);
    if (!rounds_fit(rank, &rounds))
        status = gw_fail(rank->error, GW_EUSAGE,
                         "cluster.policy: a round of %" PRIu64 " steps of up "
                         "to %" PRIu64 " samples is more than a push can "
                         "count; take a smaller H",
                         word->n, rank->plan.max_part);
    else if (!take_up(rank, &rounds))
        status = gw_fail(rank->error, GW_ENOMEM,
                         "no memory for local steps: up to 4 arrays of %zu MiB",
                         (size_t)gw_client_arena_bytes(rank->client) >> 20);
    if (status != GW_OK)
        gw_client_fail_with(rank->client, rank->error);
    return status;
}

enum gw_status gw_local_load(struct gw_rank *rank)
{
    return rank->local ? gw_inner_load(rank, &rank->local->inner) : GW_OK;
}

enum gw_status gw_local_cut(struct gw_rank *rank)
{
    return rank->local ? gw_inner_cut(rank, &rank->local->inner) : GW_OK;
}

void gw_local_end(struct gw_rank *rank)
{
    show(rank, rank->weights);
}

void gw_local_close(struct gw_rank *rank)
{
    struct gw_local *local = rank->local;
    if (!local)
        return;
    gw_local_end(rank);
    make_in(rank, rank->gradients);
    rank->local = NULL;
    for (unsigned s = 0; s < GW_STATE_MAX; s++)
        drop_arena(rank, &local->state[s]);
    drop_arena(rank, &local->own);
    drop_arena(rank, &local->from);
    drop_arena(rank, &local->apart);
    gw_inner_close(&local->inner);
    gw_clip_close(rank, &local->clip);
    free(local->part);
    free(local->fragment);
    free(local->gone);
    free(local->skipped);
    free(local);
}
