#include "config.h"

#include "kernels/cpu/cpu.h"

#include <string.h>

#include "kernels/cpu/cpu_four.h"

#define RUN 64 /* outputs per run, so that the temporaries stay in L1 */

struct extent {
    size_t oh, ow;
};

static struct extent extent_of(const struct gw_pool_shape *shape)
{
    return (struct extent){(shape->h - shape->size) / shape->stride + 1,
                           (shape->w - shape->size) / shape->stride + 1};
}

/* Up to RUN outputs of one row; x is the upper left of the first window. */
GW_INLINE void forward_run(const float *x,
                           size_t w,
                           size_t size,
                           size_t stride,
                           size_t n,
                           float *y,
                           uint8_t *argmax)
{
    float best[RUN];
    int32_t where[RUN];
    for (size_t i = 0; i < n; i++)
        best[i] = x[i * stride];
    memset(where, 0, sizeof where);
    for (size_t at = 1; at < size * size; at++) {
        const float *from = x + at / size * w + at % size;
        for (size_t i = 0; i < n; i++) {
            float value = from[i * stride];
            int take = (value > best[i]) | (value != value); /* NaN wins */
            best[i] = take ? value : best[i];
            where[i] = take ? (int32_t)at : where[i];
        }
    }
    memcpy(y, best, n * sizeof *y);
    for (size_t i = 0; i < n; i++)
        argmax[i] = (uint8_t)where[i];
}

GW_INLINE void forward(const struct gw_pool_shape *shape,
                       size_t size,
                       size_t stride,
                       const float *x,
                       float *y,
                       uint8_t *argmax)
{
    struct extent out = extent_of(shape);
    for (size_t plane = 0; plane < shape->n * shape->c; plane++) {
        for (size_t oy = 0; oy < out.oh; oy++) {
            const float *row = x + oy * stride * shape->w;
            for (size_t ox = 0; ox < out.ow; ox += RUN) {
                size_t n = out.ow - ox < RUN ? out.ow - ox : RUN;
                forward_run(row + ox * stride, shape->w, size, stride, n,
                            y + ox, argmax + ox);
            }
            y += out.ow;
            argmax += out.ow;
        }
        x += shape->h * shape->w;
    }
}

/*
 * Fast path for non-overlapping 2 x 2 windows, by far the most frequent: even
 * and odd columns are split, or merged, four outputs at a time. The last four
 * of a row may overlap the four before, and write the same values again.
 */
GW_INLINE void
forward_four(const float *upper, const float *lower, float *y, uint8_t *argmax)
{
    four u[2] = {load4(upper), load4(upper + 4)};
    four l[2] = {load4(lower), load4(lower + 4)};
    const four value[4] = {
        GW_SHUFFLE4(u[0], u[1], 0, 2, 4, 6),
        GW_SHUFFLE4(u[0], u[1], 1, 3, 5, 7),
        GW_SHUFFLE4(l[0], l[1], 0, 2, 4, 6),
        GW_SHUFFLE4(l[0], l[1], 1, 3, 5, 7),
    };
    four best = value[0];
    four_ints where = {0};
    for (int32_t at = 1; at < 4; at++) {
        four_ints take = (value[at] > best) | (value[at] != value[at]);
        best = choose4(take, value[at], best);
        where = (where & ~take) | (take & at);
    }
    four_bytes bytes = __builtin_convertvector(where, four_bytes);
    store4(y, best);
    memcpy(argmax, &bytes, sizeof bytes);
}

GW_INLINE void forward_2x2(const struct gw_pool_shape *shape,
                           const float *x,
                           float *y,
                           uint8_t *argmax)
{
    struct extent out = extent_of(shape);
    for (size_t plane = 0; plane < shape->n * shape->c; plane++) {
        for (size_t oy = 0; oy < out.oh; oy++) {
            const float *row = x + 2 * oy * shape->w;
            if (out.ow < 4)
                forward_run(row, shape->w, 2, 2, out.ow, y, argmax);
            for (size_t i = 0; out.ow >= 4 && i < out.ow; i += 4) {
                size_t at = i + 4 <= out.ow ? i : out.ow - 4;
                forward_four(row + 2 * at, row + shape->w + 2 * at, y + at,
                             argmax + at);
            }
            y += out.ow;
            argmax += out.ow;
        }
        x += shape->h * shape->w;
    }
}

GW_INLINE void backward_four(const float *dy,
                             const uint8_t *argmax,
                             float *upper,
                             float *lower)
{
    four_bytes bytes;
    memcpy(&bytes, argmax, sizeof bytes);
    four_ints where = __builtin_convertvector(bytes, four_ints), part[4];
    for (int32_t at = 0; at < 4; at++)
        part[at] = (where == at) & (four_ints)load4(dy);
    store4(upper, (four)GW_SHUFFLE4(part[0], part[1], 0, 4, 1, 5));
    store4(upper + 4, (four)GW_SHUFFLE4(part[0], part[1], 2, 6, 3, 7));
    store4(lower, (four)GW_SHUFFLE4(part[2], part[3], 0, 4, 1, 5));
    store4(lower + 4, (four)GW_SHUFFLE4(part[2], part[3], 2, 6, 3, 7));
}

/* The outputs write all four places of their windows, so nothing is cleared. */
GW_INLINE void backward_row(const float *dy,
                            const uint8_t *argmax,
                            size_t n,
                            float *upper,
                            float *lower)
{
    for (size_t i = 0; n >= 4 && i < n; i += 4) {
        size_t at = i + 4 <= n ? i : n - 4;
        backward_four(dy + at, argmax + at, upper + 2 * at, lower + 2 * at);
    }
    for (size_t i = 0; n < 4 && i < n; i++) {
        upper[2 * i] = argmax[i] == 0 ? dy[i] : 0;
        upper[2 * i + 1] = argmax[i] == 1 ? dy[i] : 0;
        lower[2 * i] = argmax[i] == 2 ? dy[i] : 0;
        lower[2 * i + 1] = argmax[i] == 3 ? dy[i] : 0;
    }
}

GW_INLINE void backward_2x2(const struct gw_pool_shape *shape,
                            const float *dy,
                            const uint8_t *argmax,
                            float *dx)
{
    struct extent out = extent_of(shape);
    size_t w = shape->w, edge = w - 2 * out.ow, rows = shape->h - 2 * out.oh;
    for (size_t plane = 0; plane < shape->n * shape->c; plane++) {
        for (size_t oy = 0; oy < out.oh; oy++) {
            backward_row(dy, argmax, out.ow, dx, dx + w);
            if (edge)
                dx[w - 1] = dx[2 * w - 1] = 0;
            dx += 2 * w;
            dy += out.ow;
            argmax += out.ow;
        }
        memset(dx, 0, rows * w * sizeof *dx);
        dx += rows * w;
    }
}

static void backward_any(const struct gw_pool_shape *shape,
                         const float *dy,
                         const uint8_t *argmax,
                         float *dx)
{
    struct extent out = extent_of(shape);
    size_t w = shape->w, size = shape->size, stride = shape->stride;
    memset(dx, 0, shape->n * shape->c * shape->h * w * sizeof *dx);
    for (size_t plane = 0; plane < shape->n * shape->c; plane++) {
        for (size_t oy = 0; oy < out.oh; oy++)
            for (size_t ox = 0; ox < out.ow; ox++, dy++, argmax++) {
                size_t y = oy * stride + *argmax / size;
                size_t x = ox * stride + *argmax % size;
                dx[y * w + x] += *dy; /* windows may overlap */
            }
        dx += shape->h * w;
    }
}

#define VARIANT(isa, target)                                                   \
    target static void forward_##isa(const struct gw_pool_shape *shape,        \
                                     const float *x, float *y,                 \
                                     uint8_t *argmax)                          \
    {                                                                          \
        if (shape->size == 2 && shape->stride == 2)                            \
            forward_2x2(shape, x, y, argmax);                                  \
        else                                                                   \
            forward(shape, shape->size, shape->stride, x, y, argmax);          \
    }                                                                          \
    target static void backward_2x2_##isa(const struct gw_pool_shape *shape,   \
                                          const float *dy,                     \
                                          const uint8_t *argmax, float *dx)    \
    {                                                                          \
        backward_2x2(shape, dy, argmax, dx);                                   \
    }
GW_FOR_EACH_ISA(VARIANT)

static void (*const forward_table[])(const struct gw_pool_shape *,
                                     const float *,
                                     float *,
                                     uint8_t *) = GW_ISA_TABLE(forward);
static void (*const backward_table[])(const struct gw_pool_shape *,
                                      const float *,
                                      const uint8_t *,
                                      float *) = GW_ISA_TABLE(backward_2x2);

void gw_cpu_pool_forward(struct gw_device *device,
                         const struct gw_pool_shape *shape,
                         const float *x,
                         float *y,
                         uint8_t *argmax)
{
    (void)device;
    forward_table[gw_isa_here()](shape, x, y, argmax);
}

void gw_cpu_pool_backward(struct gw_device *device,
                          const struct gw_pool_shape *shape,
                          const float *dy,
                          const uint8_t *argmax,
                          float *dx)
{
    (void)device;
    if (shape->size == 2 && shape->stride == 2)
        backward_table[gw_isa_here()](shape, dy, argmax, dx);
    else
        backward_any(shape, dy, argmax, dx);
}
