#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_index.cuh"

static __device__ inline float masked(float y, float dy)
{
    return y > 0 ? dy : 0;
}

/* Elements from 4 `fours` on are masked one by one. */
static __global__ void
backward(size_t elems, size_t fours, const float *y, const float *dy, float *dx)
{
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < fours; i += step) {
        float4 v = ((const float4 *)y)[i], d = ((const float4 *)dy)[i];
        d.x = masked(v.x, d.x);
        d.y = masked(v.y, d.y);
        d.z = masked(v.z, d.z);
        d.w = masked(v.w, d.w);
        ((float4 *)dx)[i] = d;
    }
    for (size_t i = 4 * fours + first; i < elems; i += step)
        dx[i] = masked(y[i], dy[i]);
}

void gw_cuda_relu_backward(struct gw_device *device,
                           size_t elems,
                           const float *y,
                           const float *dy,
                           float *dx)
{
    int fit = gw_fits_four(y) && gw_fits_four(dy) && gw_fits_four(dx);
    size_t fours = fit ? elems / 4 : 0;
    if (gw_cuda_enter(device))
        gw_cuda_check(device, "relu_backward",
                      gw_cuda_launch(device->compute, gw_blocks_of_fours(elems),
                                     GW_CUDA_BLOCK, backward, elems, fours, y,
                                     dy, dx));
}

/* ---- bias and ReLU after a product ---- */

/* The comparison keeps NaN. */
static __device__ inline float rectified(float x)
{
    return x < 0 ? 0 : x;
}

static __global__ void add_bias(uint32_t elems,
                                struct gw_divisor columns,
                                const float *b,
                                int relu,
                                float *y)
{
    uint32_t i = gw_thread_index();
    if (i >= elems)
        return;
    float sum = y[i] + b[i - gw_divide(i, columns) * columns.by];
    y[i] = relu ? rectified(sum) : sum;
}

void gw_cuda_add_bias(struct gw_device *device,
                      const char *op,
                      size_t rows,
                      size_t columns,
                      const float *b,
                      int relu,
                      float *y)
{
    size_t most = GW_CUDA_INDEX_MAX / columns; /* rows per launch */
    while (rows && gw_cuda_enter(device)) {
        size_t n = rows < most ? rows : most;
        gw_cuda_check(device, op,
                      gw_cuda_launch(device->compute, gw_blocks(n * columns),
                                     GW_CUDA_BLOCK, add_bias,
                                     (uint32_t)(n * columns),
                                     gw_divisor_of(columns), b, relu, y));
        y += n * columns;
        rows -= n;
    }
}
