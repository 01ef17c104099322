/*
 * The passes before and after the products of cuda_conv.c, between images and
 * columns. One thread per column, so that reads and writes are coalesced.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include "kernels/cuda/cuda_half.cuh"
#include "kernels/cuda/cuda_index.cuh"

#define GRID_Y_MAX 65535

static dim3 grid_of(size_t elems, size_t planes)
{
    return dim3(gw_blocks(elems),
                (unsigned)(planes < GRID_Y_MAX ? planes : GRID_Y_MAX));
}

template <typename T>
static __global__ void unfold(struct gw_cuda_group g,
                              struct gw_divisor places,
                              struct gw_divisor width,
                              const float *x,
                              T *columns)
{
    uint32_t column = gw_thread_index();
    if (column >= g.columns)
        return;
    uint32_t sample = gw_divide(column, places);
    uint32_t place = column - sample * places.by;
    uint32_t oy = gw_divide(place, width), ox = place - oy * width.by;
    /* above or left of the image they wrap around, so are out of range too */
    uint32_t y = oy * g.stride - g.pad, left = ox * g.stride - g.pad;
    for (size_t c = blockIdx.y; c < g.in; c += gridDim.y) {
        const float *image = x + (sample * (size_t)g.in + c) * g.h * g.w;
        T *to = columns + c * g.kh * g.kw * g.columns + column;
        for (uint32_t ky = 0; ky < g.kh; ky++)
            for (uint32_t kx = 0; kx < g.kw; kx++, to += g.columns) {
                uint32_t iy = y + ky, ix = left + kx;
                int inside = sample < g.samples && iy < g.h && ix < g.w;
                gw_store(inside ? image[(size_t)iy * g.w + ix] : 0, to);
            }
    }
}

void gw_cuda_unfold(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *x,
                    void *columns)
{
    auto launch = [&](auto operand) {
        typedef typename decltype(operand)::type T;
        return gw_cuda_launch(
            device->compute, grid_of(group->columns, group->in), GW_CUDA_BLOCK,
            unfold<T>, *group, gw_divisor_of((size_t)group->oh * group->ow),
            gw_divisor_of(group->ow), x, (T *)columns);
    };
    if (gw_cuda_enter(device))
        gw_cuda_check(device, op, gw_with_operands(device->precision, launch));
}

/*
 * col2im: one thread per element of dx gathers from the columns of all windows
 * that contain it, from the upper left of the kernel on: the outputs whose
 * window begins (ky, kx) before it.
 */
static __global__ void fold(struct gw_cuda_group g,
                            uint32_t elems,
                            struct gw_divisor image,
                            struct gw_divisor width,
                            struct gw_divisor stride,
                            const float *columns,
                            const float *mask,
                            float *dx)
{
    uint32_t i = gw_thread_index();
    if (i >= elems)
        return;
    uint32_t sample = gw_divide(i, image), at = i - sample * image.by;
    uint32_t iy = gw_divide(at, width), ix = at - iy * width.by;
    uint32_t y = iy + g.pad, x = ix + g.pad; /* in the padded image */
    uint32_t last_oy = gw_divide(y, stride), last_ox = gw_divide(x, stride);
    uint32_t first_ky = y - last_oy * g.stride;
    uint32_t first_kx = x - last_ox * g.stride;
    for (size_t c = blockIdx.y; c < g.in; c += gridDim.y) {
        const float *from = columns + c * g.kh * g.kw * g.columns +
                            (size_t)sample * g.oh * g.ow;
        float sum = 0;
        uint32_t oy = last_oy;
        for (uint32_t ky = first_ky; ky < g.kh && ky <= y; ky += g.stride) {
            uint32_t ox = last_ox;
            for (uint32_t kx = first_kx; kx < g.kw && kx <= x; kx += g.stride) {
                if (oy < g.oh && ox < g.ow)
                    sum += from[((size_t)ky * g.kw + kx) * g.columns +
                                (size_t)oy * g.ow + ox];
                ox--;
            }
            oy--;
        }
        size_t to = (sample * (size_t)g.in + c) * image.by + at;
        dx[to] = !mask || mask[to] > 0 ? sum : 0;
    }
}

void gw_cuda_fold(struct gw_device *device,
                  const char *op,
                  const struct gw_cuda_group *group,
                  const float *columns,
                  const float *x,
                  float *dx)
{
    size_t image = (size_t)group->h * group->w, elems = group->samples * image;
    if (gw_cuda_enter(device))
        gw_cuda_check(
            device, op,
            gw_cuda_launch(device->compute, grid_of(elems, group->in),
                           GW_CUDA_BLOCK, fold, *group, (uint32_t)elems,
                           gw_divisor_of(image), gw_divisor_of(group->w),
                           gw_divisor_of(group->stride), columns, x, dx));
}

static __global__ void scatter(struct gw_cuda_group g,
                               uint32_t elems,
                               struct gw_divisor places,
                               const float *outputs,
                               const float *b,
                               int relu,
                               float *y)
{
    uint32_t column = gw_thread_index();
    if (column >= elems)
        return;
    uint32_t sample = gw_divide(column, places);
    uint32_t place = column - sample * places.by;
    for (size_t o = blockIdx.y; o < g.out; o += gridDim.y) {
        float sum = outputs[o * g.columns + column] + b[o];
        y[(sample * (size_t)g.out + o) * places.by + place] =
            relu && sum < 0 ? 0 : sum; /* NaN stays NaN */
    }
}

void gw_cuda_scatter(struct gw_device *device,
                     const char *op,
                     const struct gw_cuda_group *group,
                     const float *outputs,
                     const float *b,
                     int relu,
                     float *y)
{
    size_t places = (size_t)group->oh * group->ow;
    size_t elems = group->samples * places;
    if (gw_cuda_enter(device))
        gw_cuda_check(
            device, op,
            gw_cuda_launch(device->compute, grid_of(elems, group->out),
                           GW_CUDA_BLOCK, scatter, *group, (uint32_t)elems,
                           gw_divisor_of(places), outputs, b, relu, y));
}

template <typename T>
static __global__ void gather(struct gw_cuda_group g,
                              struct gw_divisor places,
                              const float *dy,
                              T *outputs)
{
    uint32_t column = gw_thread_index();
    if (column >= g.columns)
        return;
    uint32_t sample = gw_divide(column, places);
    uint32_t place = column - sample * places.by;
    for (size_t o = blockIdx.y; o < g.out; o += gridDim.y)
        gw_store(sample < g.samples
                     ? dy[(sample * (size_t)g.out + o) * places.by + place]
                     : 0,
                 &outputs[o * g.columns + column]);
}

void gw_cuda_gather(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *dy,
                    void *outputs)
{
    size_t places = (size_t)group->oh * group->ow;
    auto launch = [&](auto operand) {
        typedef typename decltype(operand)::type T;
        return gw_cuda_launch(
            device->compute, grid_of(group->columns, group->out), GW_CUDA_BLOCK,
            gather<T>, *group, gw_divisor_of(places), dy, (T *)outputs);
    };
    if (gw_cuda_enter(device))
        gw_cuda_check(device, op, gw_with_operands(device->precision, launch));
}
