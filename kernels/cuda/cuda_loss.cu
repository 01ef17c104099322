/*
 * Softmax, its loss and its gradient in one kernel, one warp per row. Each warp
 * adds the losses of its rows in order, and one block adds the warps' sums.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_index.cuh"

#define BLOCKS_MAX 1024 /* beyond that, warps take several rows */

struct maximum {
    float value;
    size_t at;
};

/* First maximum of a row; NaN only if it comes first, as on the cpu. */
static __device__ struct maximum
first_maximum(const float *x, size_t classes, unsigned lane)
{
    struct maximum best = {x[0], 0};
    for (size_t c = lane; c < classes; c += GW_CUDA_WARP)
        if (x[c] > best.value) {
            best.value = x[c];
            best.at = c;
        }
    for (int away = GW_CUDA_WARP / 2; away > 0; away /= 2) {
        float value = __shfl_xor_sync(GW_CUDA_ALL, best.value, away);
        size_t at = __shfl_xor_sync(GW_CUDA_ALL, best.at, away);
        if (value > best.value || (value == best.value && at < best.at)) {
            best.value = value;
            best.at = at;
        }
    }
    return best;
}

static __device__ double
sum_of_exp(const float *x, size_t classes, float largest, unsigned lane)
{
    double sum = 0;
    for (size_t c = lane; c < classes; c += GW_CUDA_WARP)
        sum += exp((double)x[c] - (double)largest);
    for (int away = GW_CUDA_WARP / 2; away > 0; away /= 2)
        sum += __shfl_xor_sync(GW_CUDA_ALL, sum, away);
    return sum;
}

/*
 * In place: each element is written by the lane that reads it; the label's,
 * which all lanes read, is written after the shuffle of its value.
 */
static __global__ void losses(size_t n,
                              size_t classes,
                              const float *logits,
                              const int32_t *labels,
                              float scale,
                              float *dlogits,
                              struct gw_loss *parts)
{
    unsigned lane = threadIdx.x % GW_CUDA_WARP;
    size_t warp = gw_thread_index() / GW_CUDA_WARP;
    size_t warps = (size_t)gridDim.x * GW_CUDA_WARPS;
    struct gw_loss part = {0, 0};
    for (size_t row = warp; row < n; row += warps) {
        const float *x = logits + row * classes;
        size_t label = (size_t)labels[row];
        float at_label =
            __shfl_sync(GW_CUDA_ALL, x[label], (int)(label % GW_CUDA_WARP));
        struct maximum best = first_maximum(x, classes, lane);
        double sum = sum_of_exp(x, classes, best.value, lane);
        part.sum += log(sum) + (double)best.value - (double)at_label;
        part.correct += best.at == label;
        double factor = (double)scale / sum;
        for (size_t c = lane; dlogits && c < classes; c += GW_CUDA_WARP) {
            double e = exp((double)x[c] - (double)best.value);
            dlogits[row * classes + c] =
                (float)(factor * e) - (c == label ? scale : 0);
        }
    }
    if (lane == 0)
        parts[warp] = part;
}

/* Runs as one block. */
static __global__ void
add_losses(size_t parts, const struct gw_loss *part, struct gw_loss *loss)
{
    __shared__ double sums[GW_CUDA_BLOCK];
    __shared__ uint64_t corrects[GW_CUDA_BLOCK];
    double sum = 0;
    uint64_t correct = 0;
    for (size_t i = threadIdx.x; i < parts; i += GW_CUDA_BLOCK) {
        sum += part[i].sum;
        correct += part[i].correct;
    }
    sums[threadIdx.x] = sum;
    corrects[threadIdx.x] = correct;
    for (unsigned away = GW_CUDA_BLOCK / 2; away > 0; away /= 2) {
        __syncthreads();
        if (threadIdx.x < away) {
            sums[threadIdx.x] += sums[threadIdx.x + away];
            corrects[threadIdx.x] += corrects[threadIdx.x + away];
        }
    }
    if (threadIdx.x == 0) {
        loss->sum = sums[0];
        loss->correct = corrects[0];
    }
}

void gw_cuda_softmax_loss(struct gw_device *device,
                          size_t n,
                          size_t classes,
                          const float *logits,
                          const int32_t *labels,
                          float scale,
                          float *dlogits,
                          struct gw_loss *loss)
{
    size_t blocks = (n + GW_CUDA_WARPS - 1) / GW_CUDA_WARPS;
    struct gw_loss *parts = (struct gw_loss *)device->workspace;
    if (!gw_cuda_enter(device))
        return;
    blocks = blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
    gw_cuda_check(device, "softmax_loss",
                  gw_cuda_launch(device->compute, (unsigned)blocks,
                                 GW_CUDA_BLOCK, losses, n, classes, logits,
                                 labels, scale, dlogits, parts));
    gw_cuda_check(device, "softmax_loss",
                  gw_cuda_launch(device->compute, 1, GW_CUDA_BLOCK, add_losses,
                                 blocks * GW_CUDA_WARPS, parts, loss));
}
