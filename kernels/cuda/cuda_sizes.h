/*
 * Private to kernels/: memory use of the cuda backend. Pure functions of
 * shapes, in the program as well as in the module, to plan for GPUs that are
 * not here. Used from C and C++.
 */
#ifndef GW_KERNELS_CUDA_SIZES_H
#define GW_KERNELS_CUDA_SIZES_H

#include "kernels/kernels.h"
#include "kernels/size.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GW_CUDA_WORKSPACE ((size_t)32 << 20) /* for products on Hopper */
/* Allocation granularity of cudaMalloc. */
#define GW_CUDA_PAGE ((size_t)2 << 20)
/* Memory that CUDA takes per process, and for kernels that steps load at their
   first use: on an H200 with CUDA 13.0 and driver 580 both were 532 MiB
   (tests/gpu/test_gpu_share.c), the kernels 10 of them. GPUs differ. */
#define GW_CUDA_CONTEXT ((size_t)576 << 20)
#define GW_CUDA_CODE    ((size_t)64 << 20)
#define GW_CUDA_TAKES                                                          \
    {                                                                          \
        .open = GW_CUDA_WORKSPACE, .process = GW_CUDA_CONTEXT,                 \
        .code = GW_CUDA_CODE, .page = GW_CUDA_PAGE                             \
    }

/* Operands narrower than fp32 are converted copies. */
static inline int gw_cuda_narrows(enum gw_precision precision)
{
    return precision == GW_PRECISION_BF16 || precision == GW_PRECISION_FP16;
}
static inline size_t gw_cuda_operand_bytes(enum gw_precision precision)
{
    return gw_cuda_narrows(precision) ? sizeof(uint16_t) : sizeof(float);
}

/* Bits per mask row of n columns; bytes of the mask of an m x n product. */
size_t gw_cuda_mask_row(size_t n);
size_t gw_cuda_mask_bytes(size_t m, size_t n);
/* Bytes of an operand's copy, 0 if none is made. */
size_t gw_cuda_copy_bytes(enum gw_precision precision, size_t elems);

#define GW_SIZE_OPERATION(name, parameters, arguments)                         \
    size_t gw_cuda_##name parameters;
#define GW_OPERATION(name, parameters, arguments) /* cuda.h */
#include "kernels/operations.h"

/* Sizes of a convolution; the first ones depend on the shape alone, the others
   also on n. */
struct gw_cuda_conv_plan {
    size_t oh, ow;                /* output height and width */
    size_t window, places, image; /* elements of in kh kw, oh ow, in h w */
    size_t samples, columns;      /* per group */
    size_t slices;                /* at most */
    float *unfolded, *outputs, *kernels, *biases;
    char *narrow; /* converted copy of the kernel */
    size_t bytes;
};
#define GW_CUDA_COLUMN_STEP 32 /* columns of a group are rounded up to it */
/* The arrays point into scratch at `base`; NULL: only sizes are computed. */
struct gw_cuda_conv_plan gw_cuda_conv_plan_of(const struct gw_conv_shape *shape,
                                              enum gw_precision precision,
                                              void *base);
/* Columns of a group with so many samples. */
size_t gw_cuda_conv_columns(const struct gw_cuda_conv_plan *plan,
                            size_t samples);

#ifdef __cplusplus
}
#endif

#endif
