/*
 * A small mlp trained twice, by the program's own workers and server and by the
 * same equations written down once more in fp64, with what compares the two.
 * Used by the tests of update rules, one rule at a time.
 */
#ifndef GW_TESTS_MLP_BENCH_H
#define GW_TESTS_MLP_BENCH_H

#include "tests/unit/mlp_workers.h"
#include "tests/unit/plain.h"

#define MLP_RANKS SINGLE_RANKS
#define MLP_STEPS 50

struct mlp_replica {
    double x[MLP_WEIGHTS];
    struct plain_optimizer optimizer;
    uint32_t samples; /* of the round */
};

/* The one that a test has open. */
extern struct mlp_bench {
    struct mlp_workers workers;
    uint64_t clock[MLP_RANKS];

    double lr;
    int constant; /* its rate, else it falls to a tenth */
    uint64_t total_steps;
    struct plain_server plain;
    struct mlp_replica replica[MLP_RANKS];
    double clearance;
    double inner_clip;      /* of a worker's own gradient; 0: none */
    int clipped, unclipped; /* steps, by the equations */
} mlp_bench;

/* Both sides, with first weights; the job has so many steps, and more settings
   in `more`, ended by NULL. */
void mlp_bench_open(const char *policy,
                    enum plain_kind kind,
                    uint64_t total_steps,
                    const char *const *more);

/* A worker's next clock, by the program. */
void mlp_bench_step(uint32_t rank);

/* The learning rate of a step; a step of a worker's own, by its equation. */
double mlp_bench_lr(uint64_t step);
void mlp_bench_plain_step(uint32_t rank, uint64_t clock);

/* Both sides are within 1e-6 of the largest weight; so are PyTorch's results,
   where there are some of the policy and the optimizer. */
void mlp_bench_compare(const char *policy, enum plain_kind kind);

/* How many of PyTorch's results have been compared with so far; and how many
   there are, by the tests that have their rules. */
#define MLP_FROZEN_RULES  4
#define MLP_FROZEN_ROUNDS 9
size_t mlp_bench_frozen_met(void);

#endif
