#include "tests/cuda/try/try.h"

#include "kernels/cuda/cuda_launch.cuh"

#include <stdint.h>

#define THREADS 256

__device__ static float sum_of_warp(float value)
{
    for (unsigned delta = warpSize / 2; delta > 0; delta /= 2)
        value += __shfl_down_sync(0xffffffff, value, delta);
    return value;
}

__device__ static void
mistake_before(enum try_mistake mistake, const float *x, float *y)
{
    unsigned t = threadIdx.x;
    if (mistake == TRY_TWO_BARRIERS) {
        if (t < 100)
            __syncthreads();
        else
            __syncthreads();
    }
    if (mistake == TRY_PART_OF_A_WARP && t % 32 != 7)
        y[0] = __shfl_sync(0xffffffff, y[0], 0);
    if (mistake == TRY_MISALIGNED)
        y[0] = reinterpret_cast<const float4 *>(x + 1)[t].w;
    if (mistake == TRY_BEHIND)
        y[gridDim.x] = 1;
    if (mistake == TRY_FAR_BEHIND)
        y[gridDim.x + 4096] = 1;
    if (mistake == TRY_OTHER_BLOCK)
        y[blockIdx.x] = y[(blockIdx.x + 1) % gridDim.x];
}

__global__ static void
sums(enum try_mistake mistake, const float *__restrict__ x, float *y)
{
    __shared__ float warps[THREADS / 32];
    __shared__ float all[THREADS];
    unsigned t = threadIdx.x;
    if ((uintptr_t)__builtin_frame_address(0) % 16 != 0)
        y[gridDim.x] = 0; /* a stack that compilers do not expect */
    mistake_before(mistake, x, y);
    if (mistake == TRY_EARLY_RETURN && t == 3)
        return;
    if (mistake != TRY_UNWRITTEN || t != 5)
        all[mistake == TRY_OUT_OF_SHARED ? t + 1 : t] =
            __ldg(x + blockIdx.x * THREADS + t);
    if (mistake != TRY_NO_BARRIER)
        __syncthreads();
    float value = sum_of_warp(all[THREADS - 1 - t]);
    if (t % 32 == 0)
        warps[t / 32] = value;
    __syncthreads();
    if (t >= 32)
        return;
    value = sum_of_warp(t < THREADS / 32 ? warps[t] : 0);
    if (mistake == TRY_OTHER_BLOCK)
        value += y[blockIdx.x];
    if (t == 0)
        y[blockIdx.x] = value;
}

__global__ static void
axpy(size_t elems, float a, const float *__restrict__ x, float *y)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    for (; i < elems; i += (size_t)gridDim.x * blockDim.x)
        y[i] += a * x[i];
}

cudaError_t try_sums(cudaStream_t stream,
                     unsigned blocks,
                     enum try_mistake mistake,
                     const float *x,
                     float *y)
{
    return gw_cuda_launch(stream, dim3(blocks), THREADS, sums, mistake, x, y);
}

cudaError_t
try_axpy(cudaStream_t stream, size_t elems, float a, const float *x, float *y)
{
    return gw_cuda_launch(stream, 7, 64, axpy, elems, a, x, y);
}
