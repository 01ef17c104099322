/*
 * Inside `gradweir bench sum`: what its two files share. All of it is made
 * before the processes start, so each of them has it.
 *
 *   bench_sum.c     the sizes, the rows
 *   bench_summer.c  one process of a group: its gradient, its part of the sum
 */
#ifndef GW_CLI_BENCH_SUM_H
#define GW_CLI_BENCH_SUM_H

#include <pthread.h>

#include "cli/bench/bench.h"
#include "proto/groups.h"

/* What takes turns, with as many bytes read and written by each process. */
enum gw_sum_contestant {
    GW_SUM_REDUCE, /* as a worker does it */
    GW_SUM_BOUND,  /* traffic alone, in the same memory */
    GW_SUM_ALONE,  /* traffic alone, in memory that no other process has */
    GW_SUM_CONTESTANTS
};

/* In memory that all processes share. A pass is from the first that begins to
   the last that ends. */
struct gw_sum_shared {
    pthread_barrier_t barrier;
    double begin_us[GW_BENCH_MEMBERS_MAX], end_us[GW_BENCH_MEMBERS_MAX];
    int huge[GW_BENCH_MEMBERS_MAX]; /* pages of that gradient */
    double us[GW_SUM_CONTESTANTS][GW_BENCH_ITERS_MAX]; /* of one order */
};

/* One size. */
struct gw_sum_case {
    size_t bytes; /* of a gradient */
    struct gw_map *map;
    struct gw_group group;
    uint32_t iterations; /* timed ones of an order */
    struct gw_sum_shared *shared;
    int fd[GW_BENCH_MEMBERS_MAX]; /* a gradient each */
};

/* A process: `owner` of the child is the case. An order is one pass of every
   contestant that is not counted, then those that are; it answers with how
   many numbers were wrong. */
void gw_sum_process(struct gw_bench_child *child);

#endif
