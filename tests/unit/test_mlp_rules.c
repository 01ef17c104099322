/*
 * Every update rule on a small mlp: 50 steps of four workers that take unlike
 * batches, against the same equations written down once more in fp64
 * (plain.c), of gradients made by hand (plain_mlp.c), and against frozen
 * results of PyTorch.
 *
 * What is tested is the program's own all the way: gradients of worker/model on
 * the cpu, a worker's own steps by worker/local, pushes, wants and answers by
 * the server's session with its policies and its shard. Only what lies between
 * them is not (mlp_workers.c): it hands frames over at once.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/mlp_workers.h"
#include "tests/unit/plain.h"

#define RANKS SINGLE_RANKS
#define STEPS 50

/* How near a sum may come to the kink of a ReLU. In fp32 it is off by a few
   1e-7, so the same side of it is taken in both. */
#define CLEARANCE 4e-6

static const struct frozen {
    const char *policy, *kind;
    double w[MLP_WEIGHTS];
} frozen[] = {
#include "tests/reference/policies_mlp.inc"
};
static size_t frozen_met;

/* ---- both sides of a job ---- */

struct replica {
    double x[MLP_WEIGHTS];
    struct plain_optimizer optimizer;
    uint32_t samples; /* of the round */
};

/* Large: not on the stack. */
static struct bench {
    struct mlp_workers workers;
    uint64_t clock[RANKS];

    double lr;
    int constant; /* its rate, else it falls to a tenth */
    uint64_t total_steps;
    struct plain_server plain;
    struct replica replica[RANKS];
    double clearance;
} bench;

/* The constants of tests/reference/policies.py. */
static double first_lr(enum plain_kind kind)
{
    static const double lr[] = {1 / 4.0,  1 / 16.0, 1 / 16.0,
                                1 / 64.0, 1 / 64.0, 1 / 64.0};
    return lr[kind];
}

static struct plain_optimizer plain_optimizer(enum plain_kind kind)
{
    return (struct plain_optimizer){.kind = kind,
                                    .decay = 0.125,
                                    .momentum = 0.875,
                                    .beta1 = 0.875,
                                    .beta2 = 0.96875,
                                    .eps = 1e-3,
                                    .keys = MLP_KEYS,
                                    .end = mlp_key_end};
}

static double lr_at(uint64_t step)
{
    double done = fmin(1, (double)step / (double)bench.total_steps);
    return bench.lr * (bench.constant ? 1 : 1 - 0.9 * done);
}

static void plain_begin(enum plain_kind kind)
{
    bench.plain.n = MLP_WEIGHTS;
    bench.plain.optimizer = plain_optimizer(kind);
    mlp_first_weights(bench.plain.w);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct replica *replica = &bench.replica[rank];
        plain_give(&bench.plain, rank);
        replica->optimizer = plain_optimizer(kind);
        memcpy(replica->x, bench.plain.w, sizeof replica->x);
    }
}

static void open_job(const char *policy,
                     enum plain_kind kind,
                     uint64_t total_steps,
                     const char *const *more)
{
    char word[64], optimizer[64], lr[64];
    /* AdamW rounds 1 - lr decay to fp32, and at a constant rate does so to the
       same side each time: 50 steps then take the weights 50 times half an ulp
       off. Here it is exact: 1 - 1/512, and with a push's part of its clock,
       but where a rate is divided by a staleness of 3. */
    int constant = kind == PLAIN_ADAMW;
    memset(&bench, 0, sizeof bench);
    bench.lr = first_lr(kind);
    bench.constant = constant;
    bench.total_steps = total_steps;
    bench.clearance = INFINITY;
    plain_begin(kind);
    snprintf(word, sizeof word, "cluster.policy=\"%s\"", policy);
    snprintf(optimizer, sizeof optimizer, "optimizer.kind=%s",
             plain_names[kind]);
    snprintf(lr, sizeof lr, "optimizer.lr=%.17g", bench.lr);
    mlp_workers_open(
        &bench.workers, total_steps,
        SETTINGS(word, optimizer, lr, "optimizer.weight_decay=0.125",
                 "optimizer.momentum=0.875", "optimizer.beta1=0.875",
                 "optimizer.beta2=0.96875", "optimizer.eps=1e-3",
                 constant ? "optimizer.schedule=constant"
                          : "optimizer.schedule=linear",
                 "optimizer.final_lr=0.1"),
        more);
}

static void step(uint32_t rank)
{
    mlp_workers_step(&bench.workers, rank);
    bench.clock[rank]++;
}

/* ---- how near they are ---- */

static double loss_at(const double *w)
{
    double loss = 0, unused = 0, g[MLP_WEIGHTS];
    for (uint64_t clock = 0; clock < STEPS; clock++) {
        struct mlp_batch batch;
        mlp_batch(0, clock, &batch);
        loss += mlp_gradient(&batch, w, g, &unused) / STEPS;
    }
    return loss;
}

/* That the rule was given something to do, and no kink decided. */
static void assert_worth_it(const char *name)
{
    double start[MLP_WEIGHTS], largest = 0, moved = 0;
    mlp_first_weights(start);
    for (size_t i = 0; i < MLP_WEIGHTS; i++) {
        largest = fmax(largest, fabs(bench.plain.w[i]));
        moved = fmax(moved, fabs(bench.plain.w[i] - start[i]));
    }
    double before = loss_at(start), after = loss_at(bench.plain.w);
    print_message("#   %s: moved by %.2f of it, loss %.3f to %.3f, kinks %.0e "
                  "away\n",
                  name, moved / largest, before, after, bench.clearance);
    assert_true(moved >= 0.1 * largest);
    assert_true(after < 0.9 * before);
    assert_true(bench.clearance > CLEARANCE);
}

static void
assert_frozen(const char *policy, enum plain_kind kind, const float *w)
{
    for (size_t i = 0; i < sizeof frozen / sizeof *frozen; i++) {
        const struct frozen *f = &frozen[i];
        if (strcmp(f->policy, policy) || strcmp(f->kind, plain_names[kind]))
            continue;
        double off = plain_distance(MLP_WEIGHTS, w, f->w);
        print_message("#   PyTorch: %.1e of the largest weight\n", off);
        assert_true(off <= 1e-6);
        frozen_met++;
    }
}

static void compare(const char *policy, enum plain_kind kind)
{
    float w[MLP_WEIGHTS];
    int is_elastic =
        bench.workers.single.server.regime.word.kind == GW_POLICY_EASGD;
    mlp_workers_read_server(&bench.workers, w);
    double off = plain_distance(MLP_WEIGHTS, w, bench.plain.w);
    print_message("# %s, %s: %.1e of the largest weight\n", policy,
                  plain_names[kind], off);
    assert_worth_it(plain_names[kind]);
    assert_true(off <= 1e-6);
    assert_frozen(policy, kind, w);
    for (uint32_t rank = 0; rank < RANKS && is_elastic; rank++) {
        mlp_workers_read(&bench.workers, rank, w);
        off = plain_distance(MLP_WEIGHTS, w, bench.replica[rank].x);
        print_message("#   rank %u: %.1e\n", rank, off);
        assert_true(off <= 1e-6);
    }
}

/* ---- sync and backup ---- */

/* The mean over the samples of those who count. */
static void plain_together(uint64_t clock, unsigned counts)
{
    double sum[MLP_WEIGHTS] = {0}, g[MLP_WEIGHTS];
    uint32_t samples = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct mlp_batch batch;
        mlp_batch(rank, clock, &batch);
        if (!(counts >> rank & 1) || batch.n == 0)
            continue;
        mlp_gradient(&batch, bench.plain.w, g, &bench.clearance);
        samples += (uint32_t)batch.n;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            sum[i] += (double)batch.n * g[i];
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        sum[i] /= samples;
    plain_update(&bench.plain.optimizer, lr_at(clock), MLP_WEIGHTS, sum,
                 bench.plain.w);
}

/*
 * A rank that is too late for its step: it has pushed one layer when the step
 * is decided, or nothing, or comes with all of it after that. It goes on at the
 * next step.
 */
static void be_late(uint32_t rank, uint64_t clock)
{
    if (clock % 3 == 2)
        return;
    mlp_workers_give_up(&bench.workers, rank, clock % 3 == 0);
    bench.clock[rank]++;
}

static void run_together(const char *policy, enum plain_kind kind)
{
    open_job(policy, kind, STEPS, SETTINGS(NULL));
    uint32_t late = bench.workers.single.server.regime.quorum > 0;
    for (uint64_t clock = 0; clock < STEPS; clock++) {
        uint32_t last = (uint32_t)(clock * 7 + 3) % RANKS;
        if (late)
            be_late(last, clock);
        for (uint32_t i = 1; i < RANKS; i++)
            step((last + i) % RANKS);
        if (bench.clock[last] == clock)
            step(last);
        single_settle(&bench.workers.single);
        plain_together(clock, late ? 0xfu & ~(1u << last) : 0xfu);
    }
    compare(policy, kind);
    mlp_workers_close(&bench.workers);
}

static void steps_of_all_are_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_LAMB; kind++) {
        run_together("sync", (enum plain_kind)kind);
        run_together("backup:1", (enum plain_kind)kind);
    }
}

/* ---- single pushes ---- */

struct single_row {
    const char *policy;
    uint32_t group;           /* stale-lr: pushes of an update */
    struct plain_delay delay; /* others: lambda 0 is async */
    int slack;                /* ssp, else -1 */
    const char *label;        /* NULL: the policy */
    const char *setting[3];
};

/* Who pushes: unlike delays, and under ssp unlike speeds. */
static uint32_t rank_at(const struct single_row *row, uint32_t push)
{
    static const uint32_t unlike[] = {1, 2, 1, 3, 2, 1, 0, 3};
    return row->slack >= 0 ? unlike[push % 8] : push * (push + 3) / 2 % RANKS;
}

static uint64_t least_clock(void)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        least = bench.clock[rank] < least ? bench.clock[rank] : least;
    return least;
}

static int may_step(const struct single_row *row, uint32_t rank)
{
    return row->slack < 0 ||
           bench.clock[rank] <= least_clock() + (uint64_t)row->slack;
}

/* What a push of this rank makes of the weights. */
static void
plain_push(const struct single_row *row, uint32_t rank, uint32_t push)
{
    struct plain_server *plain = &bench.plain;
    struct mlp_batch batch;
    double g[MLP_WEIGHTS];
    mlp_batch(rank, bench.clock[rank], &batch);
    if (batch.n == 0)
        return;
    double lr = lr_at(push / RANKS) * (double)batch.n / 32;
    mlp_gradient(&batch, plain->given[rank], g, &bench.clearance);
    if (row->group > 0)
        plain_stale(plain, row->group, rank, (uint32_t)batch.n, lr, g);
    else
        plain_delayed(plain, &row->delay, rank, lr, g);
}

static void one_push(const struct single_row *row, uint32_t push)
{
    uint32_t rank = rank_at(row, push);
    int could[RANKS];
    while (!may_step(row, rank))
        rank = (rank + 1) % RANKS;
    for (uint32_t r = 0; r < RANKS; r++) {
        could[r] = may_step(row, r);
        assert_int_equal(could[r], mlp_workers_can_step(&bench.workers, r));
    }
    plain_push(row, rank, push);
    step(rank);
    for (uint32_t r = 0; r < RANKS; r++)
        if (may_step(row, r) && (r == rank || !could[r]))
            plain_give(&bench.plain, r);
}

static void run_single(const struct single_row *row, enum plain_kind kind)
{
    open_job(row->policy, kind, STEPS + 1, row->setting);
    /* 50 clocks; of AdamW, which rounds every weight twice, 50 updates */
    uint32_t pushes = kind == PLAIN_ADAMW ? STEPS : RANKS * STEPS;
    for (uint32_t push = 0; push < pushes; push++)
        one_push(row, push);
    gw_each_meet(&bench.workers.single.server);
    plain_group(&bench.plain);
    compare(row->label ? row->label : row->policy, kind);
    assert_int_equal(bench.workers.single.server.shard->chunk[0].updates,
                     bench.plain.optimizer.updates);
    mlp_workers_close(&bench.workers);
}

static void single_pushes_are_what_the_equations_say(void **state)
{
    (void)state;
    static const struct single_row rows[] = {
        {.policy = "async", .slack = -1},
        {.policy = "ssp:1", .slack = 1},
        {.policy = "stale-lr:2", .group = 2, .slack = -1},
        {.policy = "stale-lr:4", .group = 1, .slack = -1},
        {.policy = "dc-async",
         .delay = {.lambda = 0.5},
         .slack = -1,
         .setting = {"policy.lambda=0.5"}},
        {.policy = "dc-async",
         .delay = {1, 2, 0.95, 0.01},
         .slack = -1,
         .label = "dc-async adaptive",
         .setting = {"policy.adaptive=true", "policy.eps=0.01"}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++)
            run_single(&rows[r], (enum plain_kind)kind);
}

/* ---- steps of workers' own ---- */

static void plain_local_step(uint32_t rank, uint64_t clock)
{
    struct replica *replica = &bench.replica[rank];
    struct mlp_batch batch;
    double g[MLP_WEIGHTS];
    mlp_batch(rank, clock, &batch);
    if (batch.n == 0)
        return;
    mlp_gradient(&batch, replica->x, g, &bench.clearance);
    plain_update(&replica->optimizer, lr_at(clock), MLP_WEIGHTS, g, replica->x);
    replica->samples += (uint32_t)batch.n;
}

/* Stich 2019 and Douillard et al. 2023: the mean way that all have gone, by
   their samples, is a gradient of the outer optimizer. */
static void plain_round(struct plain_optimizer *outer, double outer_lr)
{
    double way[MLP_WEIGHTS] = {0}, *theta = bench.plain.w;
    uint32_t samples = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct replica *replica = &bench.replica[rank];
        samples += replica->samples;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            way[i] += replica->samples * (theta[i] - replica->x[i]);
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        way[i] /= samples;
    plain_update(outer, outer_lr, MLP_WEIGHTS, way, theta);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        memcpy(bench.replica[rank].x, theta, sizeof bench.replica[rank].x);
        bench.replica[rank].samples = 0;
    }
}

/* The last round of 50 steps is short. */
#define ROUND 4

static void
run_rounds(const char *policy, enum plain_kind kind, enum plain_kind outer_kind)
{
    struct plain_optimizer outer = {.kind = outer_kind, .momentum = 0.9};
    double outer_lr = outer_kind == PLAIN_SGD ? 1 : 0.7;
    open_job(policy, kind, STEPS, SETTINGS(NULL));
    for (uint64_t clock = 0; clock < STEPS; clock++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            uint32_t rank = (uint32_t)(clock * 7 + i) % RANKS;
            plain_local_step(rank, clock);
            step(rank);
        }
        if ((clock + 1) % ROUND == 0 || clock + 1 == STEPS)
            plain_round(&outer, outer_lr);
    }
    compare(policy, kind);
    mlp_workers_close(&bench.workers);
}

static void rounds_are_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++) {
        run_rounds("local:4", (enum plain_kind)kind, PLAIN_SGD);
        run_rounds("diloco:4", (enum plain_kind)kind, PLAIN_NESTEROV);
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
    uint32_t samples[RANKS]; /* since its last exchange */
    uint64_t merge;          /* at this clock */
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
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        double *x = bench.replica[rank].x;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            if (is_in_part(row, i, p))
                x[i] = own * x[i] + (1 - own) * bench.plain.w[i];
    }
    part[p].merge = NONE;
}

/* The outer step of a part; what that makes of the others is left. */
static void plain_exchange(const struct streaming_row *row, uint32_t p)
{
    double way[MLP_WEIGHTS] = {0}, theta[MLP_WEIGHTS];
    uint32_t samples = 0;
    memcpy(theta, bench.plain.w, sizeof theta);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint32_t n = part[p].samples[rank];
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            way[i] += n * (theta[i] - bench.replica[rank].x[i]);
        samples += n;
        part[p].samples[rank] = 0;
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        way[i] /= samples;
    plain_update(&part[p].outer, 0.7, MLP_WEIGHTS, way, theta);
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        if (is_in_part(row, i, p))
            bench.plain.w[i] = theta[i];
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
    for (uint64_t clock = 0; clock < STEPS; clock++) {
        for (uint32_t p = 0; p < row->parts; p++) {
            if (part[p].merge == clock)
                plain_merge(row, p, row->mix);
            for (uint32_t rank = 0; rank < RANKS; rank++)
                part[p].samples[rank] += mlp_samples(rank, clock);
        }
        for (uint32_t rank = 0; rank < RANKS; rank++)
            plain_local_step(rank, clock);
        plain_turns(row, clock + 1, last_meeting);
        last_meeting = is_meeting(clock + 1) ? clock + 1 : last_meeting;
    }
}

/* All as far as the overlap lets them run ahead of rank 0, but not to a
   meeting, which merges what is pending: exchanges are under way while others
   have not come to them. */
static void run_ahead(const struct streaming_row *row, uint64_t clock)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        uint32_t rank = (uint32_t)(clock * 7 + i) % RANKS;
        uint64_t until = clock;
        while (until < clock + row->overlap * rank / 3 && !is_meeting(until) &&
               !is_meeting(until + 1))
            until++;
        while (bench.clock[rank] < until)
            step(rank);
    }
}

static void run_streaming(const struct streaming_row *row, enum plain_kind kind)
{
    char parts[40], overlap[40], mix[40];
    snprintf(parts, sizeof parts, "policy.fragments=%" PRIu32, row->parts);
    snprintf(overlap, sizeof overlap, "policy.overlap=%" PRIu64, row->overlap);
    snprintf(mix, sizeof mix, "policy.mix=%.17g", row->mix);
    open_job("diloco:6", kind, STEPS,
             SETTINGS(parts, overlap, mix, "train.eval_every=21 steps",
                      "checkpoint.every=25 steps"));
    plain_streaming(row);
    for (uint64_t clock = 1; clock <= STEPS; clock++)
        run_ahead(row, clock);
    compare(row->label, kind);
    mlp_workers_close(&bench.workers);
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
    double *x = bench.replica[rank].x, *centre = bench.plain.w;
    for (size_t i = 0; i < MLP_WEIGHTS; i++) {
        double d = alpha * (x[i] - centre[i]);
        x[i] -= d;
        centre[i] += d;
    }
}

static void run_elastic(const char *policy, enum plain_kind kind)
{
    static const struct single_row unlike = {.slack = -1};
    open_job(policy, kind, STEPS, SETTINGS(NULL));
    for (uint32_t i = 0; i < RANKS * STEPS; i++) {
        uint32_t rank = rank_at(&unlike, i);
        plain_local_step(rank, bench.clock[rank]);
        step(rank);
        if (bench.clock[rank] % 5 == 0)
            plain_elastic(rank, 0.9 / RANKS);
    }
    compare(policy, kind);
    mlp_workers_close(&bench.workers);
}

static void elastic_averaging_is_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_ADAMW; kind++)
        run_elastic("easgd:5", (enum plain_kind)kind);
}

static void every_frozen_result_was_met(void **state)
{
    (void)state;
    assert_int_equal(frozen_met, sizeof frozen / sizeof *frozen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_all_are_what_the_equations_say),
        cmocka_unit_test(single_pushes_are_what_the_equations_say),
        cmocka_unit_test(rounds_are_what_the_equations_say),
        cmocka_unit_test(parts_are_exchanged_in_turn_and_merged_late),
        cmocka_unit_test(elastic_averaging_is_what_the_equations_say),
        cmocka_unit_test(every_frozen_result_was_met),
    };
    return cmocka_run_group_tests_name("mlp_rules", tests, NULL, NULL);
}
