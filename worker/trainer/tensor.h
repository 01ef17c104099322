/*
 * Tensors of a trainer, wherever they lie in host memory and of whichever
 * dtype: what goes between them and the arenas of a rank, in which all is fp32.
 */
#ifndef GW_WORKER_TENSOR_H
#define GW_WORKER_TENSOR_H

#include <stddef.h>

enum gw_tensor_dtype {
    GW_TENSOR_F32,
    GW_TENSOR_BF16,
    GW_TENSOR_F16, /* IEEE 754 binary16 */
    GW_TENSOR_DTYPES
};

/*
 * Memory of the caller, contiguous, aligned to its dtype, as it is until the
 * rank is closed. Weights are written while the rank waits for them, gradients
 * are read when they are ready. NULL: that one is in the rank's arena.
 */
struct gw_rank_tensor {
    enum gw_tensor_dtype dtype;
    void *weights;
    const void *gradients;
};

/* fp32 to the dtype, to nearest, ties to even; what is too large becomes
   infinite, and NaN stays NaN. Pure, any thread. */
void gw_tensor_store(enum gw_tensor_dtype dtype,
                     size_t elems,
                     const float *from,
                     void *to);

/* The dtype to fp32, exactly. */
void gw_tensor_load(enum gw_tensor_dtype dtype,
                    size_t elems,
                    const void *from,
                    float *to);

#endif
