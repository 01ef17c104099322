#include "config.h"

#include "tests/unit/mlp_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* How near a sum may come to the kink of a ReLU. In fp32 it is off by a few
   1e-7, so the same side of it is taken in both. */
#define CLEARANCE 4e-6

static const struct frozen {
    const char *policy, *kind;
    double w[MLP_WEIGHTS];
} frozen[] = {
#include "tests/reference/policies_mlp.inc"
};
_Static_assert(sizeof frozen / sizeof *frozen ==
                   MLP_FROZEN_RULES + MLP_FROZEN_ROUNDS,
               "each result is one test's to meet");
static size_t frozen_met;

struct mlp_bench mlp_bench;

/* ---- both sides of a job ---- */

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

double mlp_bench_lr(uint64_t step)
{
    double done = fmin(1, (double)step / (double)mlp_bench.total_steps);
    return mlp_bench.lr * (mlp_bench.constant ? 1 : 1 - 0.9 * done);
}

static void plain_begin(enum plain_kind kind)
{
    mlp_bench.plain.n = MLP_WEIGHTS;
    mlp_bench.plain.optimizer = plain_optimizer(kind);
    mlp_first_weights(mlp_bench.plain.w);
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        struct mlp_replica *replica = &mlp_bench.replica[rank];
        plain_give(&mlp_bench.plain, rank);
        replica->optimizer = plain_optimizer(kind);
        memcpy(replica->x, mlp_bench.plain.w, sizeof replica->x);
    }
}

void mlp_bench_open(const char *policy,
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
    memset(&mlp_bench, 0, sizeof mlp_bench);
    mlp_bench.lr = first_lr(kind);
    mlp_bench.constant = constant;
    mlp_bench.total_steps = total_steps;
    mlp_bench.clearance = INFINITY;
    plain_begin(kind);
    snprintf(word, sizeof word, "cluster.policy=\"%s\"", policy);
    snprintf(optimizer, sizeof optimizer, "optimizer.kind=%s",
             plain_names[kind]);
    snprintf(lr, sizeof lr, "optimizer.lr=%.17g", mlp_bench.lr);
    mlp_workers_open(
        &mlp_bench.workers, total_steps,
        SETTINGS(word, optimizer, lr, "optimizer.weight_decay=0.125",
                 "optimizer.momentum=0.875", "optimizer.beta1=0.875",
                 "optimizer.beta2=0.96875", "optimizer.eps=1e-3",
                 constant ? "optimizer.schedule=constant"
                          : "optimizer.schedule=linear",
                 "optimizer.final_lr=0.1"),
        more);
}

void mlp_bench_step(uint32_t rank)
{
    mlp_workers_step(&mlp_bench.workers, rank);
    mlp_bench.clock[rank]++;
}

/* torch.nn.utils.clip_grad_norm_, once more. */
static void plain_clip(double g[MLP_WEIGHTS])
{
    double square = 0;
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        square += g[i] * g[i];
    double factor = mlp_bench.inner_clip / (sqrt(square) + 1e-6);
    mlp_bench.clipped += factor < 1;
    mlp_bench.unclipped += factor >= 1;
    for (size_t i = 0; i < MLP_WEIGHTS && factor < 1; i++)
        g[i] *= factor;
}

void mlp_bench_plain_step(uint32_t rank, uint64_t clock)
{
    struct mlp_replica *replica = &mlp_bench.replica[rank];
    struct mlp_batch batch;
    double g[MLP_WEIGHTS];
    mlp_batch(rank, clock, &batch);
    if (batch.n == 0)
        return;
    mlp_gradient(&batch, replica->x, g, &mlp_bench.clearance);
    if (mlp_bench.inner_clip > 0)
        plain_clip(g);
    plain_update(&replica->optimizer, mlp_bench_lr(clock), MLP_WEIGHTS, g,
                 replica->x);
    replica->samples += (uint32_t)batch.n;
}

/* ---- how near they are ---- */

static double loss_at(const double *w)
{
    double loss = 0, unused = 0, g[MLP_WEIGHTS];
    for (uint64_t clock = 0; clock < MLP_STEPS; clock++) {
        struct mlp_batch batch;
        mlp_batch(0, clock, &batch);
        loss += mlp_gradient(&batch, w, g, &unused) / MLP_STEPS;
    }
    return loss;
}

/* That the rule was given something to do, and no kink decided. */
static void assert_worth_it(const char *name)
{
    double start[MLP_WEIGHTS], largest = 0, moved = 0;
    mlp_first_weights(start);
    for (size_t i = 0; i < MLP_WEIGHTS; i++) {
        largest = fmax(largest, fabs(mlp_bench.plain.w[i]));
        moved = fmax(moved, fabs(mlp_bench.plain.w[i] - start[i]));
    }
    double before = loss_at(start), after = loss_at(mlp_bench.plain.w);
    print_message("#   %s: moved by %.2f of it, loss %.3f to %.3f, kinks %.0e "
                  "away\n",
                  name, moved / largest, before, after, mlp_bench.clearance);
    assert_true(moved >= 0.1 * largest);
    assert_true(after < 0.9 * before);
    assert_true(mlp_bench.clearance > CLEARANCE);
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

void mlp_bench_compare(const char *policy, enum plain_kind kind)
{
    float w[MLP_WEIGHTS];
    int is_elastic =
        mlp_bench.workers.single.server.regime.word.kind == GW_POLICY_EASGD;
    mlp_workers_read_server(&mlp_bench.workers, w);
    double off = plain_distance(MLP_WEIGHTS, w, mlp_bench.plain.w);
    print_message("# %s, %s: %.1e of the largest weight\n", policy,
                  plain_names[kind], off);
    assert_worth_it(plain_names[kind]);
    assert_true(off <= 1e-6);
    assert_frozen(policy, kind, w);
    for (uint32_t rank = 0; rank < MLP_RANKS && is_elastic; rank++) {
        mlp_workers_read(&mlp_bench.workers, rank, w);
        off = plain_distance(MLP_WEIGHTS, w, mlp_bench.replica[rank].x);
        print_message("#   rank %u: %.1e\n", rank, off);
        assert_true(off <= 1e-6);
    }
}

size_t mlp_bench_frozen_met(void)
{
    return frozen_met;
}
