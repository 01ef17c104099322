/*
 * The rules under which workers take steps of their own, as test_mlp_rules has
 * those of gradients: rounds, parts of the model in turn, elastic averaging.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/mlp_bench.h"

/* Stich 2019 and Douillard et al. 2023: the mean way that all have gone, by
   their samples, is a gradient of the outer optimizer. */
static void plain_round(struct plain_optimizer *outer, double outer_lr)
{
    double way[MLP_WEIGHTS] = {0}, *theta = mlp_bench.plain.w;
    uint32_t samples = 0;
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        const struct mlp_replica *replica = &mlp_bench.replica[rank];
        samples += replica->samples;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            way[i] += replica->samples * (theta[i] - replica->x[i]);
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        way[i] /= samples;
    plain_update(outer, outer_lr, MLP_WEIGHTS, way, theta);
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        memcpy(mlp_bench.replica[rank].x, theta,
               sizeof mlp_bench.replica[rank].x);
        mlp_bench.replica[rank].samples = 0;
    }
}

/* The last round of 50 steps is short. */
#define ROUND 4

/* What some gradients are longer than, and others are not. */
#define CLIP         0.75
#define CLIP_SETTING "policy.inner_clip=0.75"

static void open_clipped(const char *policy, enum plain_kind kind, int clips)
{
    mlp_bench_open(policy, kind, MLP_STEPS,
                   SETTINGS(clips ? CLIP_SETTING : NULL));
    mlp_bench.inner_clip = clips ? CLIP : 0;
}

static void close_clipped(const char *policy, enum plain_kind kind, int clips)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", policy, clips ? " clipped" : "");
    mlp_bench_compare(name, kind);
    assert_true(!clips || (mlp_bench.clipped > 9 && mlp_bench.unclipped > 9));
    mlp_workers_close(&mlp_bench.workers);
}

static void run_rounds(const char *policy,
                       enum plain_kind kind,
                       enum plain_kind outer_kind,
                       int clips)
{
    struct plain_optimizer outer = {.kind = outer_kind, .momentum = 0.9};
    double outer_lr = outer_kind == PLAIN_SGD ? 1 : 0.7;
    open_clipped(policy, kind, clips);
    for (uint64_t clock = 0; clock < MLP_STEPS; clock++) {
        for (uint32_t i = 0; i < MLP_RANKS; i++) {
            uint32_t rank = (uint32_t)(clock * 7 + i) % MLP_RANKS;
            mlp_bench_plain_step(rank, clock);
            mlp_bench_step(rank);
        }
        if ((clock + 1) % ROUND == 0 || clock + 1 == MLP_STEPS)
            plain_round(&outer, outer_lr);
    }
    close_clipped(policy, kind, clips);
}

static void rounds_are_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++) {
        run_rounds("local:4", (enum plain_kind)kind, PLAIN_SGD, 0);
        run_rounds("diloco:4", (enum plain_kind)kind, PLAIN_NESTEROV, 0);
    }
}

static void own_gradients_are_clipped_before_own_steps(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++) {
        run_rounds("local:4", (enum plain_kind)kind, PLAIN_SGD, 1);
        run_rounds("diloco:4", (enum plain_kind)kind, PLAIN_NESTEROV, 1);
    }
}

/* ---- diloco in parts of the model ---- */

#define TURN      6 /* H */
#define PARTS_MAX 3
#define NONE      UINT64_MAX

struct streaming_row {
    const char *label;
    uint32_t parts;
    uint64_t overlap;
    double mix;
};

/* Large: not on the stack. */
static struct part {
    struct plain_optimizer outer;
    uint32_t samples[MLP_RANKS]; /* since its last exchange */
    uint64_t merge;              /* at this clock */
} part[PARTS_MAX];

/* Most come while an exchange is under way. */
static int is_meeting(uint64_t clock)
{
    return clock % 21 == 0 || clock % 25 == 0;
}

/* Both layers go to the parts in turn: a third has none. */
static int is_in_part(const struct streaming_row *row, size_t i, uint32_t p)
{
    return (i < mlp_key_end[1] ? 0u : 1u) % row->parts == p;
}

static void plain_merge(const struct streaming_row *row, uint32_t p, double own)
{
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        double *x = mlp_bench.replica[rank].x;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            if (is_in_part(row, i, p))
                x[i] = own * x[i] + (1 - own) * mlp_bench.plain.w[i];
    }
    part[p].merge = NONE;
}

/* The outer step of a part; what that makes of the others is left. */
static void plain_exchange(const struct streaming_row *row, uint32_t p)
{
    double way[MLP_WEIGHTS] = {0}, theta[MLP_WEIGHTS];
    uint32_t samples = 0;
    memcpy(theta, mlp_bench.plain.w, sizeof theta);
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        uint32_t n = part[p].samples[rank];
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            way[i] += n * (theta[i] - mlp_bench.replica[rank].x[i]);
        samples += n;
        part[p].samples[rank] = 0;
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        way[i] /= samples;
    plain_update(&part[p].outer, 0.7, MLP_WEIGHTS, way, theta);
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        if (is_in_part(row, i, p))
            mlp_bench.plain.w[i] = theta[i];
}

/* Behind the step before `clock`; turns are counted from the last meeting. */
static void plain_turns(const struct streaming_row *row,
                        uint64_t clock,
                        uint64_t last_meeting)
{
    for (uint32_t p = 0; p < row->parts; p++) {
        uint64_t shift = p * TURN / row->parts;
        if (is_meeting(clock)) {
            if (part[p].merge != NONE)
                plain_merge(row, p, row->mix);
            plain_exchange(row, p);
            plain_merge(row, p, 0);
        } else if ((clock - last_meeting + shift) % TURN == 0) {
            plain_exchange(row, p);
            part[p].merge = clock + row->overlap;
        }
    }
}

/* Douillard et al. 2025. */
static void plain_streaming(const struct streaming_row *row)
{
    uint64_t last_meeting = 0;
    memset(part, 0, sizeof part);
    for (uint32_t p = 0; p < row->parts; p++)
        part[p] = (struct part){
            .outer = {.kind = PLAIN_NESTEROV, .momentum = 0.9}, .merge = NONE};
    for (uint64_t clock = 0; clock < MLP_STEPS; clock++) {
        for (uint32_t p = 0; p < row->parts; p++) {
            if (part[p].merge == clock)
                plain_merge(row, p, row->mix);
            for (uint32_t rank = 0; rank < MLP_RANKS; rank++)
                part[p].samples[rank] += mlp_samples(rank, clock);
        }
        for (uint32_t rank = 0; rank < MLP_RANKS; rank++)
            mlp_bench_plain_step(rank, clock);
        plain_turns(row, clock + 1, last_meeting);
        last_meeting = is_meeting(clock + 1) ? clock + 1 : last_meeting;
    }
}

/* All as far as the overlap lets them run ahead of rank 0, but not to a
   meeting, which merges what is pending: exchanges are under way while others
   have not come to them. */
static void run_ahead(const struct streaming_row *row, uint64_t clock)
{
    for (uint32_t i = 0; i < MLP_RANKS; i++) {
        uint32_t rank = (uint32_t)(clock * 7 + i) % MLP_RANKS;
        uint64_t until = clock;
        while (until < clock + row->overlap * rank / 3 && !is_meeting(until) &&
               !is_meeting(until + 1))
            until++;
        while (mlp_bench.clock[rank] < until)
            mlp_bench_step(rank);
    }
}

static void run_streaming(const struct streaming_row *row, enum plain_kind kind)
{
    char parts[40], overlap[40], mix[40];
    snprintf(parts, sizeof parts, "policy.fragments=%" PRIu32, row->parts);
    snprintf(overlap, sizeof overlap, "policy.overlap=%" PRIu64, row->overlap);
    snprintf(mix, sizeof mix, "policy.mix=%.17g", row->mix);
    mlp_bench_open("diloco:6", kind, MLP_STEPS,
                   SETTINGS(parts, overlap, mix, "train.eval_every=21 steps",
                            "checkpoint.every=25 steps"));
    plain_streaming(row);
    for (uint64_t clock = 1; clock <= MLP_STEPS; clock++)
        run_ahead(row, clock);
    mlp_bench_compare(row->label, kind);
    mlp_workers_close(&mlp_bench.workers);
}

static void parts_are_exchanged_in_turn_and_merged_late(void **state)
{
    (void)state;
    static const struct streaming_row rows[] = {
        {"diloco:6, 2 parts", 2, 0, 0.5},
        {"diloco:6, 2 parts, late", 2, 2, 0.375},
        {"diloco:6, 3 parts", 3, 0, 0.375},
        {"diloco:6, 3 parts, late", 3, 2, 0.5},
        {"diloco:6, late", 1, 2, 0.5},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++)
            run_streaming(&rows[r], (enum plain_kind)kind);
}

/* ---- elastic averaging ---- */

/* Zhang et al. 2015, algorithm 1. */
static void plain_elastic(uint32_t rank, double alpha)
{
    double *x = mlp_bench.replica[rank].x, *centre = mlp_bench.plain.w;
    for (size_t i = 0; i < MLP_WEIGHTS; i++) {
        double d = alpha * (x[i] - centre[i]);
        x[i] -= d;
        centre[i] += d;
    }
}

static void run_elastic(const char *policy, enum plain_kind kind, int clips)
{
    open_clipped(policy, kind, clips);
    for (uint32_t i = 0; i < MLP_RANKS * MLP_STEPS; i++) {
        uint32_t rank = i * (i + 3) / 2 % MLP_RANKS; /* unlike delays */
        mlp_bench_plain_step(rank, mlp_bench.clock[rank]);
        mlp_bench_step(rank);
        if (mlp_bench.clock[rank] % 5 == 0)
            plain_elastic(rank, 0.9 / MLP_RANKS);
    }
    close_clipped(policy, kind, clips);
}

static void elastic_averaging_is_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++)
        for (int clips = 0; clips < 2; clips++)
            run_elastic("easgd:5", (enum plain_kind)kind, clips);
}

/* ---- what a worker's steps have come to, each by itself ---- */

/* Zhang et al. 2015, algorithm 3, with a part of the way. */
static void plain_downpour(uint32_t rank, double scale, double *from)
{
    double *x = mlp_bench.replica[rank].x, *w = mlp_bench.plain.w;
    for (size_t i = 0; i < MLP_WEIGHTS; i++) {
        w[i] += scale * (x[i] - from[i]);
        x[i] = from[i] = w[i];
    }
}

static void
run_downpour(enum plain_kind kind, double scale, const char *const *more)
{
    static double from[MLP_RANKS][MLP_WEIGHTS];
    mlp_bench_open("downpour:5", kind, MLP_STEPS, more);
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++)
        memcpy(from[rank], mlp_bench.replica[rank].x, sizeof from[rank]);
    for (uint32_t i = 0; i < MLP_RANKS * MLP_STEPS; i++) {
        uint32_t rank = i * (i + 3) / 2 % MLP_RANKS; /* unlike delays */
        mlp_bench_plain_step(rank, mlp_bench.clock[rank]);
        mlp_bench_step(rank);
        if (mlp_bench.clock[rank] % 5 == 0)
            plain_downpour(rank, scale, from[rank]);
    }
    mlp_bench_compare("downpour:5", kind);
    mlp_workers_close(&mlp_bench.workers);
}

static void ways_are_added_as_they_come(void **state)
{
    (void)state;
    run_downpour(PLAIN_SGD, 1.0 / MLP_RANKS, SETTINGS(NULL));
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++)
        run_downpour((enum plain_kind)kind, 0.5, SETTINGS("policy.scale=0.5"));
}

static void every_frozen_result_was_met(void **state)
{
    (void)state;
    assert_int_equal(mlp_bench_frozen_met(), MLP_FROZEN_ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_what_the_equations_say),
        cmocka_unit_test(own_gradients_are_clipped_before_own_steps),
        cmocka_unit_test(parts_are_exchanged_in_turn_and_merged_late),
        cmocka_unit_test(elastic_averaging_is_what_the_equations_say),
        cmocka_unit_test(ways_are_added_as_they_come),
        cmocka_unit_test(every_frozen_result_was_met),
    };
    return cmocka_run_group_tests_name("mlp_rounds", tests, NULL, NULL);
}
