/*
 * Inside `gradweir bench sum`: types that its two files share. All is made
 * before the processes start, which inherit it.
 *
 *   bench_sum.c     the sizes, the rows
 *   bench_summer.c  one process of a group: its gradient, its part of the sum
 */
#ifndef GW_CLI_BENCH_SUM_H
#define GW_CLI_BENCH_SUM_H

#include <pthread.h>

#include "cli/bench/bench.h"
#include "proto/groups.h"

/* Contestants, which take turns; each process reads and writes equally many
   bytes. */
enum gw_sum_contestant {
    GW_SUM_REDUCE, /* as a worker does it */
    GW_SUM_BOUND,  /* traffic alone, in the same memory */
    GW_SUM_ALONE,  /* traffic alone, in memory that no other process has */
    GW_SUM_CONTESTANTS
};

/* Shared by all processes. A pass lasts from the first process' begin to the
   last one's end. */
struct gw_sum_shared {
    pthread_barrier_t barrier;
    double begin_us[GW_BENCH_MEMBERS_MAX], end_us[GW_BENCH_MEMBERS_MAX];
    int huge[GW_BENCH_MEMBERS_MAX]; /* the gradient is in huge pages */
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

/* A process; its child->owner is the case. An order is one untimed pass of
   every contestant, then the timed ones; the answer has the number of wrong
   values. */
void gw_sum_process(struct gw_bench_child *child);

#endif
