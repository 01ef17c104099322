#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_index.cuh"

#define GW_PHILOX __device__
#include "proto/philox.h"
#include "proto/random.h"

/* Arguments of one call; a row is `quads` draws long. */
struct job {
    uint64_t seed, first_sample;
    uint32_t a;
    float p, scale;
    struct gw_divisor quads;
    size_t elems;
};

static __device__ inline float kept(float x, uint32_t bits, const struct job &j)
{
    /* as gw_random_uniform */
    float uniform = (float)(bits >> 8) * (1.0f / 16777216.0f);
    return uniform >= j.p ? x * j.scale : 0;
}

/* One thread per draw; with `Fours`, rows are aligned for vectors. */
template <bool Fours>
static __global__ void
drop(uint32_t draws, struct job j, const float *x, float *y)
{
    uint32_t i = gw_thread_index();
    if (i >= draws)
        return;
    uint32_t row = gw_divide(i, j.quads), quad = i - row * j.quads.by;
    uint32_t u[4];
    gw_philox(j.seed, GW_RANDOM_DROPOUT, j.a,
              (j.first_sample + row) << 32 | quad, u);
    if (Fours) {
        float4 v = ((const float4 *)x)[i];
        v.x = kept(v.x, u[0], j);
        v.y = kept(v.y, u[1], j);
        v.z = kept(v.z, u[2], j);
        v.w = kept(v.w, u[3], j);
        ((float4 *)y)[i] = v;
        return;
    }
    size_t first = row * j.elems + (size_t)quad * 4;
    for (size_t l = 0; l < 4 && (size_t)quad * 4 + l < j.elems; l++)
        y[first + l] = kept(x[first + l], u[l], j);
}

void gw_cuda_dropout(struct gw_device *device,
                     const struct gw_dropout_site *site,
                     size_t n,
                     size_t elems,
                     const float *x,
                     float *y)
{
    size_t quads = (elems + 3) / 4, most = GW_CUDA_INDEX_MAX / quads;
    int fours = elems % 4 == 0 && gw_fits_four(x) && gw_fits_four(y);
    struct job job;
    job.seed = site->seed;
    job.first_sample = site->first_sample;
    job.a = (uint32_t)(site->step << 8) | (site->layer & 0xff);
    job.p = site->p;
    job.scale = 1 / (1 - site->p);
    job.quads = gw_divisor_of(quads);
    job.elems = elems;
    while (n && gw_cuda_enter(device)) {
        size_t rows = n < most ? n : most; /* limit of 32-bit indices */
        uint32_t draws = (uint32_t)(rows * quads);
        gw_cuda_check(
            device, "dropout",
            gw_cuda_launch(device->compute, gw_blocks(draws), GW_CUDA_BLOCK,
                           fours ? drop<true> : drop<false>, draws, job, x, y));
        x += rows * elems;
        y += rows * elems;
        job.first_sample += rows;
        n -= rows;
    }
}
