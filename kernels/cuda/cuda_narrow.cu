/* Conversions: fp32 to 16-bit operands, and bf16 to fp32. */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_half.cuh"
#include "kernels/cuda/cuda_index.cuh"

template <typename T> struct alignas(4 * sizeof(T)) four_of {
    T x, y, z, w;
};

/* Elements from 4 `fours` on are converted one by one. */
template <typename T>
static __global__ void
narrow(size_t elems, size_t fours, const float *from, T *to)
{
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < fours; i += step) {
        float4 v = ((const float4 *)from)[i];
        four_of<T> n;
        gw_store(v.x, &n.x);
        gw_store(v.y, &n.y);
        gw_store(v.z, &n.z);
        gw_store(v.w, &n.w);
        ((four_of<T> *)to)[i] = n;
    }
    for (size_t i = 4 * fours + first; i < elems; i += step)
        gw_store(from[i], &to[i]);
}

void gw_cuda_narrow(struct gw_device *device,
                    const char *op,
                    const float *from,
                    size_t elems,
                    void *to)
{
    size_t fours = gw_fits_four(from) && (uintptr_t)to % 8 == 0 ? elems / 4 : 0;
    auto launch = [&](auto operand) {
        typedef typename decltype(operand)::type T;
        return gw_cuda_launch(device->compute, gw_blocks_of_fours(elems),
                              GW_CUDA_BLOCK, narrow<T>, elems, fours, from,
                              (T *)to);
    };
    if (gw_cuda_enter(device))
        gw_cuda_check(device, op, gw_with_operands(device->precision, launch));
}

static __global__ void
widen(size_t elems, size_t fours, const __nv_bfloat16 *x, float *out)
{
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < fours; i += step) {
        four_of<__nv_bfloat16> n = ((const four_of<__nv_bfloat16> *)x)[i];
        ((float4 *)out)[i] = make_float4(gw_load(&n.x), gw_load(&n.y),
                                         gw_load(&n.z), gw_load(&n.w));
    }
    for (size_t i = 4 * fours + first; i < elems; i += step)
        out[i] = gw_load(&x[i]);
}

void gw_cuda_widen(struct gw_device *device,
                   size_t elems,
                   const uint16_t *x,
                   float *out)
{
    size_t fours = gw_fits_four(out) && (uintptr_t)x % 8 == 0 ? elems / 4 : 0;
    if (gw_cuda_enter(device))
        gw_cuda_check(device, "widen",
                      gw_cuda_launch(device->compute, gw_blocks_of_fours(elems),
                                     GW_CUDA_BLOCK, widen, elems, fours,
                                     (const __nv_bfloat16 *)x, out));
}
