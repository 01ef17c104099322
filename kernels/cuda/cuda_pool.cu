#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_index.cuh"

struct pool {
    uint32_t w, size, stride, oh, ow;
    struct gw_divisor image,
        row; /* sizes of the array with a thread per element */
};

static struct pool pool_of(const struct gw_pool_shape *shape)
{
    struct pool pool;
    pool.w = (uint32_t)shape->w;
    pool.size = (uint32_t)shape->size;
    pool.stride = (uint32_t)shape->stride;
    pool.oh = (uint32_t)((shape->h - shape->size) / shape->stride + 1);
    pool.ow = (uint32_t)((shape->w - shape->size) / shape->stride + 1);
    return pool;
}

static __global__ void forward(uint32_t elems,
                               struct pool p,
                               uint32_t image,
                               const float *x,
                               float *y,
                               uint8_t *argmax)
{
    uint32_t i = gw_thread_index();
    if (i >= elems)
        return;
    uint32_t plane = gw_divide(i, p.image), at = i - plane * p.image.by;
    uint32_t oy = gw_divide(at, p.row), ox = at - oy * p.row.by;
    const float *window =
        x + plane * (size_t)image + (size_t)oy * p.stride * p.w + ox * p.stride;
    float best = window[0];
    uint32_t where = 0, place = 0;
    for (uint32_t ky = 0; ky < p.size; ky++, window += p.w)
        for (uint32_t kx = 0; kx < p.size; kx++, place++) {
            float value = window[kx];
            if (value > best || value != value) { /* NaN wins */
                best = value;
                where = place;
            }
        }
    y[i] = best;
    argmax[i] = (uint8_t)where;
}

/*
 * One thread per element of dx checks the windows that contain it, the first
 * ones first; non-overlapping windows are one at most.
 */
static __global__ void backward(uint32_t elems,
                                struct pool p,
                                struct gw_divisor stride,
                                const float *dy,
                                const uint8_t *argmax,
                                float *dx)
{
    uint32_t i = gw_thread_index();
    if (i >= elems)
        return;
    uint32_t plane = gw_divide(i, p.image), at = i - plane * p.image.by;
    uint32_t y = gw_divide(at, p.row), x = at - y * p.row.by;
    size_t windows = plane * (size_t)(p.oh * p.ow);
    uint32_t oy = y < p.size ? 0 : gw_divide(y - p.size, stride) + 1;
    uint32_t first_ox = x < p.size ? 0 : gw_divide(x - p.size, stride) + 1;
    float sum = 0;
    for (; oy < p.oh && oy * p.stride <= y; oy++)
        for (uint32_t ox = first_ox; ox < p.ow && ox * p.stride <= x; ox++) {
            size_t from = windows + oy * p.ow + ox;
            uint32_t ky = y - oy * p.stride, kx = x - ox * p.stride;
            if (argmax[from] == ky * p.size + kx)
                sum += dy[from];
        }
    dx[i] = sum;
}

/* Planes per launch, limited by 32-bit indices. */
static size_t planes_at_a_time(const struct gw_pool_shape *shape)
{
    return GW_CUDA_INDEX_MAX / (shape->h * shape->w);
}

void gw_cuda_pool_forward(struct gw_device *device,
                          const struct gw_pool_shape *shape,
                          const float *x,
                          float *y,
                          uint8_t *argmax)
{
    struct pool pool = pool_of(shape);
    size_t image = shape->h * shape->w, out = (size_t)pool.oh * pool.ow;
    size_t planes = shape->n * shape->c, most = planes_at_a_time(shape);
    pool.image = gw_divisor_of(out);
    pool.row = gw_divisor_of(pool.ow);
    while (planes && gw_cuda_enter(device)) {
        size_t n = planes < most ? planes : most;
        gw_cuda_check(device, "pool_forward",
                      gw_cuda_launch(device->compute, gw_blocks(n * out),
                                     GW_CUDA_BLOCK, forward,
                                     (uint32_t)(n * out), pool, (uint32_t)image,
                                     x, y, argmax));
        x += n * image;
        y += n * out;
        argmax += n * out;
        planes -= n;
    }
}

void gw_cuda_pool_backward(struct gw_device *device,
                           const struct gw_pool_shape *shape,
                           const float *dy,
                           const uint8_t *argmax,
                           float *dx)
{
    struct pool pool = pool_of(shape);
    size_t image = shape->h * shape->w, out = (size_t)pool.oh * pool.ow;
    size_t planes = shape->n * shape->c, most = planes_at_a_time(shape);
    pool.image = gw_divisor_of(image);
    pool.row = gw_divisor_of(shape->w);
    while (planes && gw_cuda_enter(device)) {
        size_t n = planes < most ? planes : most;
        gw_cuda_check(
            device, "pool_backward",
            gw_cuda_launch(device->compute, gw_blocks(n * image), GW_CUDA_BLOCK,
                           backward, (uint32_t)(n * image), pool,
                           gw_divisor_of(shape->stride), dy, argmax, dx));
        dy += n * out;
        argmax += n * out;
        dx += n * image;
        planes -= n;
    }
}
