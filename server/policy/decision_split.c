/*
 * train.split = speed: how each step is divided among the ranks. The leader
 * gathers their speeds and their other delays, and moves the parts so that all
 * finish a step at the same time; or it repeats the decisions of another run.
 *
 * A split is decided before the first answer for the version that comes before
 * it: a rank has had an answer for that version when it pushes its clock, and
 * no chunk reaches the next version without all these pushes, so nobody can
 * begin a step without knowing its part of it.
 *
 *   answers for v --> decide the split from v + stride on --> pushes of v
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/policy/delay.h"

/* A step must become shorter by these factors: the larger one where there is
   little to go by, fewer than SOME measurements of a rank. */
#define WORTH_MUCH 1.25
#define WORTH_IT   1.04
#define SOME       4

/* Each change asks for twice as many measurements as the one before, up to
   this: passing changes of speed are not followed. */
#define PATIENCE_MAX 16

/* Nobody gets less than this part of the mean, or than a sample of a step: a
   rank without samples could not be measured any more. */
#define LEAST_PART 64

/* The mean is one of about so many measurements: speeds change with time. */
#define MEMORY 16

struct gw_leader_split {
    int repeats;      /* another run's */
    uint32_t *weight; /* [ranks] as decided last */
    uint32_t *next;   /* [ranks] scratch */
    double *value;    /* [ranks] scratch */
    double *speed;    /* [ranks] samples per second */
    uint32_t *heard;  /* [ranks] measurements since the last change */
    double *delay;    /* [ranks] seconds of an exchange besides */
    struct gw_delays *delays;
    uint64_t changed;  /* from which clock on that holds */
    uint32_t patience; /* measurements that the next one takes */
};

enum gw_status gw_split_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    uint32_t ranks = options->ranks;
    if (leader->regime.per_push || !gw_config_splits_by_speed(options->config))
        return GW_OK;
    struct gw_leader_split *split = calloc(1, sizeof *split);
    leader->split = split;
    if (!split)
        return GW_ENOMEM;
    split->patience = 1;
    split->repeats = options->config->train.split_from[0] != '\0';
    split->weight = calloc(ranks, sizeof *split->weight);
    split->next = calloc(ranks, sizeof *split->next);
    split->value = calloc(ranks, sizeof *split->value);
    split->speed = calloc(ranks, sizeof *split->speed);
    split->heard = calloc(ranks, sizeof *split->heard);
    split->delay = calloc(ranks, sizeof *split->delay);
    split->delays = gw_delays_create(ranks);
    if (!split->weight || !split->next || !split->value || !split->speed ||
        !split->heard || !split->delay || !split->delays)
        return GW_ENOMEM;
    if (options->split)
        memcpy(split->weight, options->split, ranks * sizeof *split->weight);
    else
        gw_split_even(ranks, split->weight);
    return GW_OK;
}

void gw_split_close(struct gw_leader *leader)
{
    struct gw_leader_split *split = leader->split;
    if (!split)
        return;
    free(split->weight);
    free(split->next);
    free(split->value);
    free(split->speed);
    free(split->heard);
    free(split->delay);
    gw_delays_destroy(split->delays);
    free(split);
}

enum gw_status gw_leader_speed(struct gw_leader *leader,
                               uint32_t rank,
                               const struct gw_speed *speed)
{
    struct gw_leader_split *split = leader->split;
    if (!split || rank >= leader->options.ranks ||
        !isfinite(speed->samples_per_s) || speed->samples_per_s <= 0)
        return GW_EPROTO;
    /* with another part it was another speed, where steps cost more than
       their samples */
    if (split->repeats || speed->clock < split->changed)
        return GW_OK;
    if (split->heard[rank] < MEMORY)
        split->heard[rank]++;
    if (split->heard[rank] == 1)
        split->speed[rank] = speed->samples_per_s;
    else
        split->speed[rank] +=
            (speed->samples_per_s - split->speed[rank]) / split->heard[rank];
    return GW_OK;
}

void gw_leader_answered(struct gw_leader *leader,
                        uint32_t rank,
                        uint64_t version,
                        uint64_t now_us)
{
    if (leader->split)
        gw_delays_answered(leader->split->delays, rank, version, now_us);
}

void gw_leader_took(struct gw_leader *leader,
                    uint32_t rank,
                    uint64_t clock,
                    uint32_t samples,
                    uint64_t now_us)
{
    if (leader->split)
        gw_delays_pushed(leader->split->delays, rank, clock, samples, now_us);
}

/* ---- parts with which all are done at the same time ---- */

/* Samples of a full exchange of all ranks. */
static double exchange_of(const struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    uint64_t batch = options->course.batch;
    const struct gw_policy_word *word = &leader->regime.word;
    uint64_t steps = gw_policy_is_local(word->kind) ? word->n : 1;
    uint64_t samples = options->course.samples;
    if (samples > 0 && samples < batch)
        batch = samples;
    return (double)batch * (double)steps;
}

/* The least part of 1 that a rank gets. */
static double least_of(const struct gw_leader *leader)
{
    double ranks = leader->options.ranks;
    double batch = (double)leader->options.course.batch;
    /* rounding must not make it less */
    double sample = 1 / batch + 2.0 / GW_SPLIT_TOTAL;
    return fmin(fmax(1 / (LEAST_PART * ranks), sample), 1 / ranks);
}

/* Delays as they are known; all 0 while one is not. */
static void find_delays(struct gw_leader_split *split, uint32_t ranks)
{
    int known = 1;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        split->delay[rank] =
            gw_delays_of(split->delays, rank, split->speed[rank]);
        known &= split->delay[rank] >= 0;
    }
    if (!known)
        memset(split->delay, 0, ranks * sizeof *split->delay);
}

/*
 * Parts of 1 with which all ranks need the same time t for n samples: each has
 * (t - delay) * speed of them. A rank that would have less than `least` gets
 * `least`; the others share the rest.
 */
static void
divide(const struct gw_leader *leader, double n, double least, double *part)
{
    uint32_t ranks = leader->options.ranks;
    const double *speed = leader->split->speed, *delay = leader->split->delay;
    uint32_t raised = 0, before;
    memset(part, 0, ranks * sizeof *part);
    do {
        double sum = 0, done = n * (1 - least * raised);
        before = raised;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            if (part[rank] < 0)
                continue;
            sum += speed[rank];
            done += speed[rank] * delay[rank];
        }
        raised = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            /* a mark: it has the least */
            if (part[rank] >= 0)
                part[rank] = speed[rank] * (done / sum - delay[rank]) / n;
            if (part[rank] < least)
                part[rank] = -1;
            raised += part[rank] < 0;
        }
    } while (raised != before);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (part[rank] < 0)
            part[rank] = least;
}

/* Whole numbers that add up, from parts of 1. */
static void round_parts(const double *part, uint32_t ranks, uint32_t *weight)
{
    double sum = 0;
    uint32_t begin = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        sum += part[rank];
        uint32_t end =
            (uint32_t)fmin(GW_SPLIT_TOTAL, ceil(sum * GW_SPLIT_TOTAL - 0.5));
        if (rank + 1 == ranks)
            end = GW_SPLIT_TOTAL;
        weight[rank] = end - begin;
        begin = end;
    }
}

/* Seconds until a rank is done with its part of an exchange of n samples. */
static double done_after(const struct gw_leader_split *split,
                         uint32_t rank,
                         uint32_t weight,
                         double n)
{
    double samples = n * weight / GW_SPLIT_TOTAL;
    return split->delay[rank] + samples / split->speed[rank];
}

/* Seconds until the last one is. Compared, and not by fmax: gcc 12 for aarch64
   stops at a loop of fmax over vectors of numbers of two sizes. */
static double last_of(const struct gw_leader_split *split,
                      const uint32_t *weight,
                      uint32_t ranks,
                      double n)
{
    double last = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        double seconds = done_after(split, rank, weight[rank], n);
        if (seconds > last)
            last = seconds;
    }
    return last;
}

/* Measurements of the rank that has fewest. */
static uint32_t heard_of_all(const struct gw_leader *leader)
{
    uint32_t fewest = UINT32_MAX;
    for (uint32_t rank = 0; rank < leader->options.ranks; rank++)
        if (leader->split->heard[rank] < fewest)
            fewest = leader->split->heard[rank];
    return fewest;
}

/* Sets the next split; returns 0 where the one in force is good enough. */
static int measure(const struct gw_leader *leader)
{
    struct gw_leader_split *split = leader->split;
    uint32_t ranks = leader->options.ranks, heard = heard_of_all(leader);
    if (heard < split->patience)
        return 0;
    double n = exchange_of(leader);
    find_delays(split, ranks);
    divide(leader, n, least_of(leader), split->value);
    round_parts(split->value, ranks, split->next);
    double shorter = last_of(split, split->weight, ranks, n) /
                     last_of(split, split->next, ranks, n);
    return shorter > (heard < SOME ? WORTH_MUCH : WORTH_IT);
}

static int repeat(const struct gw_leader *leader, uint64_t clock)
{
    struct gw_leader_split *split = leader->split;
    size_t bytes = leader->options.ranks * sizeof *split->weight;
    const uint32_t *weight = leader->options.splits
                                 ? gw_splits_at(leader->options.splits, clock)
                                 : NULL;
    if (!weight || memcmp(weight, split->weight, bytes) == 0)
        return 0;
    memcpy(split->next, weight, bytes);
    return 1;
}

void gw_split_before(struct gw_leader *leader, uint64_t clock)
{
    struct gw_leader_split *split = leader->split;
    uint32_t ranks = leader->options.ranks;
    if (!split || clock >= leader->options.total_steps ||
        leader->end_clock != GW_NEVER_CLOCK)
        return;
    if (!(split->repeats ? repeat(leader, clock) : measure(leader)))
        return;
    for (uint32_t rank = 0; rank < ranks; rank++)
        split->value[rank] = split->next[rank];
    memcpy(split->weight, split->next, ranks * sizeof *split->weight);
    memset(split->heard, 0, ranks * sizeof *split->heard);
    split->changed = clock;
    if (split->patience < PATIENCE_MAX)
        split->patience *= 2;
    struct gw_decision decision = {
        .kind = GW_DECIDE_SPLIT,
        .clock = clock,
        .values = split->value,
        .values_n = ranks,
    };
    gw_leader_emit(leader, &decision);
}
