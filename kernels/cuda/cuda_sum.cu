/*
 * Sums with the same bits each time: each thread adds its terms in order, and
 * threads are added in order. Sums over several blocks are written, and summed
 * in a second launch.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_half.cuh"
#include "kernels/cuda/cuda_index.cuh"

#define RUN       128 /* least rows per block, with two stages */
#define CHUNKS    64  /* blocks, at most, over the rows */
#define ONE_STAGE 256 /* rows, at most */
#define SQUARES   512 /* blocks, at most; each writes one sum */

/* Sum over the threads of a block, in thread 0. */
template <typename T> static __device__ inline T sum_of_block(T sum)
{
    __shared__ T part[GW_CUDA_WARPS];
    for (int away = GW_CUDA_WARP / 2; away > 0; away /= 2)
        sum += __shfl_down_sync(GW_CUDA_ALL, sum, away);
    if (threadIdx.x % GW_CUDA_WARP == 0)
        part[threadIdx.x / GW_CUDA_WARP] = sum;
    __syncthreads();
    for (unsigned i = 1; threadIdx.x == 0 && i < GW_CUDA_WARPS; i++)
        sum += part[i];
    return sum;
}

/* One lane per column, one warp per row: sums[chunk][columns]. */
static __global__ void column_sums(size_t rows,
                                   size_t columns,
                                   size_t chunk,
                                   const float *x,
                                   float beta,
                                   float *sums)
{
    __shared__ float part[GW_CUDA_WARPS][GW_CUDA_WARP];
    unsigned lane = threadIdx.x % GW_CUDA_WARP;
    unsigned warp = threadIdx.x / GW_CUDA_WARP;
    size_t column = (size_t)blockIdx.x * GW_CUDA_WARP + lane;
    size_t first = blockIdx.y * chunk, end = min(first + chunk, rows);
    float sum = 0;
    if (column < columns)
        for (size_t row = first + warp; row < end; row += GW_CUDA_WARPS)
            sum += x[row * columns + column];
    part[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= columns)
        return;
    for (unsigned i = 1; i < GW_CUDA_WARPS; i++)
        sum += part[i][lane];
    float *to = sums + blockIdx.y * columns + column;
    *to = beta == 0 ? sum : sum + beta * *to;
}

static void launch_columns(struct gw_device *device,
                           const char *op,
                           size_t rows,
                           size_t columns,
                           size_t chunks,
                           const float *x,
                           float beta,
                           float *sums)
{
    size_t chunk = (rows + chunks - 1) / chunks;
    dim3 grid((unsigned)((columns + GW_CUDA_WARP - 1) / GW_CUDA_WARP),
              (unsigned)chunks);
    gw_cuda_check(device, op,
                  gw_cuda_launch(device->compute, grid, GW_CUDA_BLOCK,
                                 column_sums, rows, columns, chunk, x, beta,
                                 sums));
}

void gw_cuda_column_sums(struct gw_device *device,
                         const char *op,
                         size_t rows,
                         size_t columns,
                         const float *x,
                         float beta,
                         float *sums)
{
    size_t room = GW_CUDA_WORKSPACE / sizeof(float) / columns;
    size_t chunks = min(min(rows / RUN, room), (size_t)CHUNKS);
    if (!gw_cuda_enter(device))
        return;
    if (rows <= ONE_STAGE || chunks <= 1) {
        launch_columns(device, op, rows, columns, 1, x, beta, sums);
        return;
    }
    launch_columns(device, op, rows, columns, chunks, x, 0, device->workspace);
    launch_columns(device, op, chunks, columns, 1, device->workspace, beta,
                   sums);
}

/* One block per row and slice. */
template <typename T>
static __global__ void
row_sums(unsigned rows, size_t columns, size_t slice, const T *x, float *sums)
{
    unsigned row = blockIdx.x % rows;
    size_t first = blockIdx.x / rows * slice;
    size_t end = min(first + slice, columns);
    float sum = 0;
    for (size_t i = first + threadIdx.x; i < end; i += GW_CUDA_BLOCK)
        sum += gw_load(&x[row * columns + i]);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

void gw_cuda_row_sums(struct gw_device *device,
                      const char *op,
                      size_t rows,
                      size_t columns,
                      size_t slice,
                      const void *x,
                      float *sums)
{
    size_t slices = (columns + slice - 1) / slice;
    auto launch = [&](auto operand) {
        typedef typename decltype(operand)::type T;
        return gw_cuda_launch(device->compute, (unsigned)(slices * rows),
                              GW_CUDA_BLOCK, row_sums<T>, (unsigned)rows,
                              columns, slice, (const T *)x, sums);
    };
    if (gw_cuda_enter(device))
        gw_cuda_check(device, op, gw_with_operands(device->precision, launch));
}

/* ---- norms ---- */

static __device__ inline double square(float x)
{
    return (double)x * (double)x; /* exact in double */
}

/* Elements from 4 `fours` on are added one by one. */
static __global__ void
square_sums(size_t elems, size_t fours, const float *x, double *sums)
{
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    size_t step = (size_t)gridDim.x * blockDim.x;
    double sum = 0;
    for (size_t i = first; i < fours; i += step) {
        float4 v = ((const float4 *)x)[i];
        sum += (square(v.x) + square(v.y)) + (square(v.z) + square(v.w));
    }
    for (size_t i = 4 * fours + first; i < elems; i += step)
        sum += square(x[i]);
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

/* Runs as one block. */
static __global__ void add_up(unsigned n, const double *part, double *to)
{
    double sum = 0;
    for (unsigned i = threadIdx.x; i < n; i += GW_CUDA_BLOCK)
        sum += part[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0)
        *to = sum;
}

void gw_cuda_square_sum(struct gw_device *device,
                        size_t elems,
                        const float *x,
                        double *sum)
{
    double *part = (double *)device->workspace;
    unsigned blocks = min(gw_blocks_of_fours(elems), (unsigned)SQUARES);
    if (!gw_cuda_enter(device))
        return;
    gw_cuda_check(device, "square_sum",
                  gw_cuda_launch(device->compute, blocks, GW_CUDA_BLOCK,
                                 square_sums, elems,
                                 gw_fits_four(x) ? elems / 4 : 0, x, part));
    gw_cuda_check(device, "square_sum",
                  gw_cuda_launch(device->compute, 1, GW_CUDA_BLOCK, add_up,
                                 blocks, part, sum));
}
