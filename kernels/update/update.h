/*
 * The server's arithmetic on cache-sized blocks: the tree reduction of W
 * gradient slots, and the optimizers that turn the sum into the next weights.
 * Bits are the same on every x86-64 and aarch64: no fused multiply-add, no
 * reassociation, fixed lanes for norms. Pure functions on host memory, any
 * thread; arrays of one call do not overlap unless said; any alignment (64
 * bytes is fastest).
 */
#ifndef GW_KERNELS_UPDATE_H
#define GW_KERNELS_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

/* Elements per block: scratch, sums and state of a block stay in L1. */
#define GW_BLOCK_ELEMS 1024
#define GW_STATE_MAX   2

/*
 * Offset between arrays that one update reads and writes together, against
 * 4 KiB aliasing: arrays that begin at the same offset in a page stall loads
 * behind stores. Array i begins i times this much later. Worth a tenth.
 */
#define GW_STAGGER_BYTES 320

/*
 * sum[i] = slots[0][offset + i] + ... as a balanced binary tree over slots: n
 * slots are split after the largest power of two below n, left first. A NULL
 * slot (a rank without samples) is absent: the sum of a pair with one side
 * absent is the other side. All absent: zeros. elems <= GW_BLOCK_ELEMS. sum may
 * be one of the slots + offset. Returns 0 if any sum is NaN or infinite, else
 * 1.
 */
int gw_reduce_block(const float *const *slots,
                    uint32_t n,
                    size_t offset,
                    size_t elems,
                    float *sum);

/*
 * Sum of squares in double over 16 fixed lanes: lane l takes elements l, l +
 * 16, ..; lanes are then added as a tree. Each call starts from zero: callers
 * add the results of blocks in order.
 */
double gw_square_sum(const float *x, size_t elems);

/* The factor that scales a gradient of that norm down to `limit`, at most 1; as
   PyTorch's clip_grad_norm_. A norm that is not finite gets 1. */
double gw_clip_to(double limit, double norm);

/*
 * Parameters of one update of one chunk, the same for all its blocks. Fill in
 * the first part, call gw_update_prepare, then apply block by block. Doubles,
 * because 1 - beta2 of a rounded 0.999f is off by 1e-5.
 */
struct gw_update {
    float scale; /* multiplies the sum first, in fp32: 1/N, times the clip
                    factor, over the loss scale */
    double lr;
    double weight_decay;
    double momentum;
    double beta1, beta2, eps;
    uint64_t t;         /* number of this update, from 1 */
    double trust_ratio; /* lamb's apply: |w| / |u| of the key, 1 where either
                           is 0; may be set after gw_update_prepare */

    double bias1, bias2; /* 1 - beta^t, set by gw_update_prepare */
};

/* Fills in the derived part by a few multiplications, which give the same bits
   everywhere; libm's pow need not. t >= 1 (asserted). */
void gw_update_prepare(struct gw_update *update);

struct gw_optimizer {
    const char *name;
    unsigned states; /* fp32 arrays kept per weight, <= GW_STATE_MAX */
    const char *const state_names[GW_STATE_MAX]; /* PyTorch's names */
    int two_phase; /* lamb: needs per-key norms between direction and apply */
    int rule;      /* enum gw_rule of update_isa.h */
};

/*
 * sgd, momentum, nesterov, adam, adamw, lamb, none; ended by NULL. With "none"
 * the next weights are the scaled sum itself, so that a pull gives every
 * worker the reduced gradient.
 */
extern const struct gw_optimizer *const gw_optimizers[];

/* NULL when there is none of that name. */
const struct gw_optimizer *gw_optimizer_find(const char *name);

/*
 * Reads g (raw sum), w and states, writes w_next and states, any number of
 * elements. w_next may be w. For a two-phase optimizer g is the direction.
 */
void gw_update_apply(const struct gw_optimizer *optimizer,
                     const struct gw_update *update,
                     size_t elems,
                     const float *g,
                     const float *w,
                     float *w_next,
                     float *const *states);

/*
 * Two-phase optimizers only (asserted): updates the states and writes the
 * direction u over g.
 */
void gw_update_direction(const struct gw_optimizer *optimizer,
                         const struct gw_update *update,
                         size_t elems,
                         float *g,
                         const float *w,
                         float *const *states);

/*
 * gw_reduce_block and gw_update_apply over any number of elements, with the
 * same bits, in one pass if n is small: for a commit that decides nothing
 * between the two. slots[i] are read from `offset` on; w, w_next and states
 * point at the first element. Not for two-phase optimizers (asserted). Returns
 * 0 if any sum is NaN or infinite, else 1; all elements are written in both
 * cases.
 */
int gw_update_reduce_apply(const struct gw_optimizer *optimizer,
                           const struct gw_update *update,
                           const float *const *slots,
                           uint32_t n,
                           size_t offset,
                           size_t elems,
                           const float *w,
                           float *w_next,
                           float *const *states);

/* The instruction set in use, for the first log line: "avx512", "avx2", "sse2",
   "neon" or "plain". */
const char *gw_update_isa(void);

#endif
