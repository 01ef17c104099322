/*
 * Every update rule on a small mlp: 50 steps of four workers that take unlike
 * batches, against the same equations written down once more in fp64
 * (plain.c), of gradients made by hand (plain_mlp.c), and against frozen
 * results of PyTorch.
 *
 * Here are the rules of gradients, of steps of all and of per-push policies;
 * those of steps of workers' own are in test_mlp_rounds.
 *
 * What is tested is the program's own all the way: gradients of worker/model on
 * the cpu, a worker's own steps by worker/trainer/local, pushes, wants and
 * answers by the server's session with its policies and its shard. Only what
 * lies between them is not (mlp_workers.c): it hands frames over at once.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/mlp_bench.h"

/* ---- sync and backup ---- */

/* The mean over the samples of those who count. */
static void plain_together(uint64_t clock, unsigned counts)
{
    double sum[MLP_WEIGHTS] = {0}, g[MLP_WEIGHTS];
    uint32_t samples = 0;
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++) {
        struct mlp_batch batch;
        mlp_batch(rank, clock, &batch);
        if (!(counts >> rank & 1) || batch.n == 0)
            continue;
        mlp_gradient(&batch, mlp_bench.plain.w, g, &mlp_bench.clearance);
        samples += (uint32_t)batch.n;
        for (size_t i = 0; i < MLP_WEIGHTS; i++)
            sum[i] += (double)batch.n * g[i];
    }
    for (size_t i = 0; i < MLP_WEIGHTS; i++)
        sum[i] /= samples;
    plain_update(&mlp_bench.plain.optimizer, mlp_bench_lr(clock), MLP_WEIGHTS,
                 sum, mlp_bench.plain.w);
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
    mlp_workers_give_up(&mlp_bench.workers, rank, clock % 3 == 0);
    mlp_bench.clock[rank]++;
}

static void run_together(const char *policy, enum plain_kind kind)
{
    mlp_bench_open(policy, kind, MLP_STEPS, SETTINGS(NULL));
    uint32_t late = mlp_bench.workers.single.server.regime.quorum > 0;
    for (uint64_t clock = 0; clock < MLP_STEPS; clock++) {
        uint32_t last = (uint32_t)(clock * 7 + 3) % MLP_RANKS;
        if (late)
            be_late(last, clock);
        for (uint32_t i = 1; i < MLP_RANKS; i++)
            mlp_bench_step((last + i) % MLP_RANKS);
        if (mlp_bench.clock[last] == clock)
            mlp_bench_step(last);
        single_settle(&mlp_bench.workers.single);
        plain_together(clock, late ? 0xfu & ~(1u << last) : 0xfu);
    }
    mlp_bench_compare(policy, kind);
    mlp_workers_close(&mlp_bench.workers);
}

static void steps_of_all_are_what_the_equations_say(void **state)
{
    (void)state;
    for (int kind = PLAIN_SGD; kind <= PLAIN_LAMB; kind++) {
        run_together("sync", (enum plain_kind)kind);
        run_together("backup:1", (enum plain_kind)kind);
    }
}

/* ---- per-push policies ---- */

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
    return row->slack >= 0 ? unlike[push % 8]
                           : push * (push + 3) / 2 % MLP_RANKS;
}

static uint64_t least_clock(void)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < MLP_RANKS; rank++)
        least = mlp_bench.clock[rank] < least ? mlp_bench.clock[rank] : least;
    return least;
}

static int may_step(const struct single_row *row, uint32_t rank)
{
    return row->slack < 0 ||
           mlp_bench.clock[rank] <= least_clock() + (uint64_t)row->slack;
}

/* What a push of this rank makes of the weights. */
static void
plain_push(const struct single_row *row, uint32_t rank, uint32_t push)
{
    struct plain_server *plain = &mlp_bench.plain;
    struct mlp_batch batch;
    double g[MLP_WEIGHTS];
    mlp_batch(rank, mlp_bench.clock[rank], &batch);
    if (batch.n == 0)
        return;
    double lr = mlp_bench_lr(push / MLP_RANKS) * (double)batch.n / 32;
    mlp_gradient(&batch, plain->given[rank], g, &mlp_bench.clearance);
    if (row->group > 0)
        plain_stale(plain, row->group, rank, (uint32_t)batch.n, lr, g);
    else
        plain_delayed(plain, &row->delay, rank, lr, g);
}

static void one_push(const struct single_row *row, uint32_t push)
{
    uint32_t rank = rank_at(row, push);
    int could[MLP_RANKS];
    while (!may_step(row, rank))
        rank = (rank + 1) % MLP_RANKS;
    for (uint32_t r = 0; r < MLP_RANKS; r++) {
        could[r] = may_step(row, r);
        assert_int_equal(could[r], mlp_workers_can_step(&mlp_bench.workers, r));
    }
    plain_push(row, rank, push);
    mlp_bench_step(rank);
    for (uint32_t r = 0; r < MLP_RANKS; r++)
        if (may_step(row, r) && (r == rank || !could[r]))
            plain_give(&mlp_bench.plain, r);
}

static void run_single(const struct single_row *row, enum plain_kind kind)
{
    mlp_bench_open(row->policy, kind, MLP_STEPS + 1, row->setting);
    /* 50 clocks; of AdamW, which rounds every weight twice, 50 updates */
    uint32_t pushes = kind == PLAIN_ADAMW ? MLP_STEPS : MLP_RANKS * MLP_STEPS;
    for (uint32_t push = 0; push < pushes; push++)
        one_push(row, push);
    gw_commit_of(&mlp_bench.workers.single.server)
        ->quiesce(&mlp_bench.workers.single.server);
    plain_group(&mlp_bench.plain);
    mlp_bench_compare(row->label ? row->label : row->policy, kind);
    assert_int_equal(mlp_bench.workers.single.server.shard->chunk[0].updates,
                     mlp_bench.plain.optimizer.updates);
    mlp_workers_close(&mlp_bench.workers);
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

static void every_frozen_result_was_met(void **state)
{
    (void)state;
    assert_int_equal(mlp_bench_frozen_met(), MLP_FROZEN_RULES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_all_are_what_the_equations_say),
        cmocka_unit_test(single_pushes_are_what_the_equations_say),
        cmocka_unit_test(every_frozen_result_was_met),
    };
    return cmocka_run_group_tests_name("mlp_rules", tests, NULL, NULL);
}
