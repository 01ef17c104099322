/*
 * Tensors of a trainer, in host memory and of several dtypes: conversion to and
 * from the arenas of a rank, which are fp32.
 */
#ifndef GW_WORKER_TENSOR_H
#define GW_WORKER_TENSOR_H

#include <stddef.h>

enum gw_rank_dtype {
    GW_RANK_F32,
    GW_RANK_BF16,
    GW_RANK_F16, /* IEEE 754 binary16 */
    GW_RANK_DTYPES
};

/*
 * Memory of the caller, contiguous, aligned to its dtype, in its place until
 * the rank is closed. Weights are written while the rank waits for them,
 * gradients are read when they are ready. NULL: in the rank's arena.
 */
struct gw_rank_tensor {
    enum gw_rank_dtype dtype;
    void *weights;
    const void *gradients;
};

/* fp32 to the dtype, to nearest, ties to even; numbers that are too large
   become infinite, and NaN stays NaN. Pure, any thread. */
void gw_rank_tensor_store(enum gw_rank_dtype dtype,
                          size_t elems,
                          const float *from,
                          void *to);

/* The dtype to fp32, exactly. */
void gw_rank_tensor_load(enum gw_rank_dtype dtype,
                         size_t elems,
                         const void *from,
                         float *to);

#endif
