/*
 * Private to kernels/: how much memory the cuda backend takes. Pure functions
 * of shapes, which the program has as well as the module: it plans for GPUs
 * that are not here. Read by C and by C++.
 */
#ifndef GW_KERNELS_CUDA_SIZES_H
#define GW_KERNELS_CUDA_SIZES_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GW_CUDA_WORKSPACE ((size_t)32 << 20) /* what Hopper's products want */
/* What cudaMalloc takes whole ones of. */
#define GW_CUDA_PAGE ((size_t)2 << 20)
/* Memory that CUDA takes for a process, and for code that steps load when they
   first use it: on an H200 with CUDA 13.0 and driver 580 both were 532 MiB
   (tests/gpu/test_gpu_share.c), the code 10 of them. GPUs differ. */
#define GW_CUDA_CONTEXT ((size_t)576 << 20)
#define GW_CUDA_CODE    ((size_t)64 << 20)
#define GW_CUDA_TAKES                                                          \
    {                                                                          \
        .open = GW_CUDA_WORKSPACE, .process = GW_CUDA_CONTEXT,                 \
        .code = GW_CUDA_CODE, .page = GW_CUDA_PAGE                             \
    }

static inline size_t gw_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}
static inline size_t gw_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}
static inline size_t gw_rounded_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

/* Factors that are narrower than fp32 are copies. */
static inline int gw_cuda_narrows(enum gw_precision precision)
{
    return precision == GW_PRECISION_BF16 || precision == GW_PRECISION_FP16;
}
static inline size_t gw_cuda_operand_bytes(enum gw_precision precision)
{
    return gw_cuda_narrows(precision) ? sizeof(uint16_t) : sizeof(float);
}

/* Bits of a mask's row of n; bytes of all that a product m x n writes. */
size_t gw_cuda_mask_row(size_t n);
size_t gw_cuda_mask_bytes(size_t m, size_t n);
/* Of the copy of so many elements as a factor, if one is made. */
size_t gw_cuda_copy_bytes(enum gw_precision precision, size_t elems);
size_t gw_cuda_dense_scratch_bytes(const struct gw_dense_shape *shape,
                                   enum gw_precision precision);
size_t gw_cuda_dense_mask_bytes(const struct gw_dense_shape *shape);
size_t gw_cuda_conv_scratch_bytes(const struct gw_conv_shape *shape,
                                  enum gw_precision precision);

/* Of a convolution, what depends on the shape alone, and for up to n samples.
 */
struct gw_cuda_conv_plan {
    size_t oh, ow;                /* of an output */
    size_t window, places, image; /* elements of in kh kw, oh ow, in h w */
    size_t samples, columns;      /* of a group */
    size_t slices;                /* at most */
    float *unfolded, *outputs, *kernels, *biases;
    char *narrow; /* the kernel as a factor, where that is a copy */
    size_t bytes;
};
#define GW_CUDA_COLUMN_STEP 32 /* columns of a group are a multiple of it */
/* The pieces lie in the scratch at `base`; NULL: they are only counted. */
struct gw_cuda_conv_plan gw_cuda_conv_plan_of(const struct gw_conv_shape *shape,
                                              enum gw_precision precision,
                                              void *base);
/* Of a group of so many samples. */
size_t gw_cuda_conv_columns(const struct gw_cuda_conv_plan *plan,
                            size_t samples);

#ifdef __cplusplus
}
#endif

#endif
