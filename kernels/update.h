/*
 * The server's arithmetic on cache-sized blocks: the tree reduction of W
 * gradient slots and the optimizers that turn the sum into the next weights.
 * Bits are the same on every x86-64: no fused multiply-add, no reassociation,
 * fixed lanes for norms. Pure functions on host memory, any thread; arrays of
 * one call do not overlap unless said; any alignment (64 bytes is fastest).
 */
#ifndef GW_KERNELS_UPDATE_H
#define GW_KERNELS_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

/* Elements per block: scratch, sums and state of a block stay in L1. */
#define GW_BLOCK_ELEMS 2048
#define GW_STATE_MAX   2

/*
 * sum[i] = slots[0][offset + i] + ... as a balanced binary tree over slots: n
 * slots are split after the largest power of two below n, left first. A NULL
 * slot (a rank without samples) leaves its place out: the sum of a pair with
 * one side absent is the other side. All absent: zeros.
 * elems <= GW_BLOCK_ELEMS. sum may be one of the slots + offset.
 * Returns 0 if any sum is NaN or infinite, else 1.
 */
int gw_reduce_block(const float *const *slots,
                    uint32_t n,
                    size_t offset,
                    size_t elems,
                    float *sum);

/*
 * Sum of squares in double over 16 fixed lanes: lane l takes elements l,
 * l + 16, ..; lanes are then added as a tree. Continues nothing: callers add
 * the results of blocks in order.
 */
double gw_square_sum(const float *x, size_t elems);

/* Numbers that one update of one chunk needs; the same for all its blocks. */
struct gw_update {
    float scale; /* of the sum: 1/N, times the clip factor, over the loss
                    scale; applied first, in fp32 */
    float lr;
    float weight_decay;
    float momentum;
    float beta1, beta2, eps;
    uint64_t t;        /* this update's number, from 1 */
    float trust_ratio; /* lamb: |w| / |u| of the key */
};

struct gw_optimizer {
    const char *name;
    unsigned states; /* arrays of fp32 kept per weight, <= GW_STATE_MAX */
    const char *const state_names[GW_STATE_MAX]; /* as PyTorch calls them */
    int two_phase; /* lamb: needs per-key norms between direction and apply */

    /*
     * Reads g (raw sum), w and states, writes w_next and states, elems <=
     * GW_BLOCK_ELEMS. w_next may be w.
     */
    void (*apply)(const struct gw_update *update,
                  size_t elems,
                  const float *g,
                  const float *w,
                  float *w_next,
                  float *const *states);

    /*
     * two_phase only (others: NULL is never called, the entry is a function
     * that asserts): updates the states and writes the direction u over g.
     * `apply` then takes u in place of the gradient.
     */
    void (*direction)(const struct gw_update *update,
                      size_t elems,
                      float *g,
                      const float *w,
                      float *const *states);
};

/* sgd, momentum, nesterov, adam, adamw, lamb, none; ended by NULL. */
extern const struct gw_optimizer *const gw_optimizers[];

/* NULL when there is none of that name. */
const struct gw_optimizer *gw_optimizer_find(const char *name);

/* "avx512", "avx2" or "sse2": what this machine runs; for the first log line.
 */
const char *gw_update_isa(void);

#endif
