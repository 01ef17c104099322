/*
 * Sum of several workers' arrays, as the balanced tree of update.h: each thread
 * reads its elements of all parts, in local or imported memory, and adds them.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <assert.h>

#include "kernels/cuda/cuda_index.cuh"

/* Passed by value. NULL: absent. */
struct parts {
    const float *pointers[GW_PARTS_MAX];
};

/* x + -0.0 is x for every x, the sign of zero included: an absent part needs no
   other tree. */
static __device__ inline float identity_of(const float *)
{
    return -0.0f;
}

static __device__ inline float4 identity_of(const float4 *)
{
    return make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
}

static __device__ inline float add(float a, float b)
{
    return a + b;
}

static __device__ inline float4 add(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static __device__ inline int is_finite(float x)
{
    return x - x == 0;
}

static __device__ inline int is_finite(float4 x)
{
    return is_finite(x.x) && is_finite(x.y) && is_finite(x.z) && is_finite(x.w);
}

/* Sum of the N parts from `first` on; N is a power of two. A tree of fewer is
   that of N with absent parts at the end. */
template <typename T, unsigned N> struct tree {
    static __device__ inline T
    sum(const struct parts &parts, unsigned first, size_t at)
    {
        T left = tree<T, N / 2>::sum(parts, first, at);
        return add(left, tree<T, N / 2>::sum(parts, first + N / 2, at));
    }
};

template <typename T> struct tree<T, 1> {
    static __device__ inline T
    sum(const struct parts &parts, unsigned first, size_t at)
    {
        const float *part = parts.pointers[first];
        if (!part)
            return identity_of((const T *)0);
        return *(const T *)(part + at);
    }
};

/* A sum is finite only if all its parts are, so parts are checked only if it is
   not; before it is written, since it may overwrite a part. */
template <typename T, unsigned N>
static __device__ inline void add_at(const struct parts &parts,
                                     unsigned n,
                                     size_t at,
                                     float *to,
                                     uint8_t *nonfinite)
{
    T sum = tree<T, N>::sum(parts, 0, at);
    for (unsigned i = 0; !is_finite(sum) && i < n; i++)
        if (!is_finite(tree<T, 1>::sum(parts, i, at)))
            nonfinite[i] = 1; /* other threads write the same value */
    *(T *)(to + at) = sum;
}

/* Elements before `head` and behind the `fours` are added one by one. */
template <unsigned N>
static __global__ void add_parts(struct parts parts,
                                 unsigned n,
                                 size_t elems,
                                 size_t head,
                                 size_t fours,
                                 float *sum,
                                 uint8_t *nonfinite)
{
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < fours; i += step)
        add_at<float4, N>(parts, n, head + 4 * i, sum, nonfinite);
    for (size_t i = first; i < elems - 4 * fours; i += step)
        add_at<float, N>(parts, n, i < head ? i : i + 4 * fours, sum,
                         nonfinite);
}

/* Entry n adds up to 2^n parts. */
static void (*const add_parts_of[])(
    struct parts, unsigned, size_t, size_t, size_t, float *, uint8_t *) = {
    add_parts<1>,  add_parts<2>,  add_parts<4>,  add_parts<8>,
    add_parts<16>, add_parts<32>, add_parts<64>,
};

/* Offset of all arrays from a 16-byte boundary, in floats; -1: they differ. */
static int phase_of(const struct parts *parts, unsigned n, const float *sum)
{
    uintptr_t phase = (uintptr_t)sum % sizeof(float4);
    for (unsigned i = 0; i < n; i++)
        if (parts->pointers[i] &&
            (uintptr_t)parts->pointers[i] % sizeof(float4) != phase)
            return -1;
    return (int)(phase / sizeof(float));
}

static cudaError_t launch(struct gw_device *device,
                          const struct parts *parts,
                          unsigned n,
                          size_t elems,
                          float *sum,
                          uint8_t *nonfinite)
{
    int phase = phase_of(parts, n, sum);
    size_t head = phase > 0 ? min((size_t)(4 - phase), elems) : 0;
    size_t fours = phase < 0 ? 0 : (elems - head) / 4;
    unsigned level = 0;
    while (1u << level < n)
        level++;
    return gw_cuda_launch(device->compute, gw_blocks_of_fours(elems),
                          GW_CUDA_BLOCK, add_parts_of[level], *parts, n, elems,
                          head, fours, sum, nonfinite);
}

void gw_cuda_add_parts(struct gw_device *device,
                       const float *const *parts,
                       uint32_t n,
                       size_t elems,
                       float *sum,
                       uint8_t *nonfinite)
{
    struct parts present = {};
    unsigned end = 0; /* behind the last present part */
    assert(n <= GW_PARTS_MAX);
    for (unsigned i = 0; i < n; i++) {
        present.pointers[i] = parts[i];
        end = parts[i] ? i + 1 : end;
    }
    if (!gw_cuda_enter(device))
        return;
    gw_cuda_check(device, "add_parts",
                  cudaMemsetAsync(nonfinite, 0, n, device->compute));
    if (elems == 0)
        return;
    gw_cuda_check(
        device, "add_parts",
        end ? launch(device, &present, end, elems, sum, nonfinite)
            : cudaMemsetAsync(sum, 0, elems * sizeof *sum, device->compute));
}
