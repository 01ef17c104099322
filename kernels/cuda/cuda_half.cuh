/*
 * Operands of products in the device's precision: float, or 16-bit floats,
 * rounded to nearest even.
 */
#ifndef GW_KERNELS_CUDA_HALF_CUH
#define GW_KERNELS_CUDA_HALF_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/kernels.h"

static __device__ inline void gw_store(float value, float *to)
{
    *to = value;
}

static __device__ inline void gw_store(float value, __nv_bfloat16 *to)
{
    *to = __float2bfloat16_rn(value);
}

/* Out-of-range values become infinite. */
static __device__ inline void gw_store(float value, __half *to)
{
    *to = __float2half_rn(value);
}

static __device__ inline float gw_load(const float *from)
{
    return *from;
}

static __device__ inline float gw_load(const __nv_bfloat16 *from)
{
    return __bfloat162float(*from);
}

static __device__ inline float gw_load(const __half *from)
{
    return __half2float(*from);
}

template <typename T> struct gw_operand {
    typedef T type;
};

/* launch(gw_operand<T>()) for the type T of the precision's operands. */
template <typename Launch>
static cudaError_t gw_with_operands(enum gw_precision precision, Launch launch)
{
    switch (precision) {
    case GW_PRECISION_BF16:
        return launch(gw_operand<__nv_bfloat16>());
    case GW_PRECISION_FP16:
        return launch(gw_operand<__half>());
    case GW_PRECISION_FP32:
    case GW_PRECISION_TF32:
        break;
    }
    return launch(gw_operand<float>());
}

#endif
