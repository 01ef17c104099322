#include "config.h"

#include "kernels/cuda/cuda_sizes.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>

#define MASK_STEP   128 /* bits */
#define COPY_ALIGN  64
#define CONV_ALIGN  256
#define GROUP_ELEMS ((size_t)8 << 20) /* fit in the cache of a large GPU */
#define TILE        64  /* output of a block, about, in a product */
#define BLOCKS      256 /* enough for any GPU */

/* ---- products ---- */

/* One bit per element, in rows of whole MASK_STEP, as cublasLt requires. */
size_t gw_cuda_mask_row(size_t n)
{
    return gw_size_round_up(n, MASK_STEP);
}

size_t gw_cuda_mask_bytes(size_t m, size_t n)
{
    return m * gw_cuda_mask_row(n) / CHAR_BIT;
}

size_t gw_cuda_copy_bytes(enum gw_precision precision, size_t elems)
{
    return gw_cuda_narrows(precision)
               ? gw_size_round_up(elems * gw_cuda_operand_bytes(precision),
                                  COPY_ALIGN)
               : 0;
}

/* ---- dense layers ---- */

size_t gw_cuda_dense_mask_bytes(const struct gw_dense_shape *shape)
{
    return shape->relu ? gw_cuda_mask_bytes(shape->n, shape->out) : 0;
}

size_t gw_cuda_dense_scratch_bytes(const struct gw_dense_shape *shape,
                                   enum gw_precision precision)
{
    return gw_cuda_copy_bytes(precision, shape->n * shape->in) +
           gw_cuda_copy_bytes(precision, shape->n * shape->out) +
           gw_cuda_copy_bytes(precision, shape->out * shape->in);
}

/* ---- convolutions ---- */

static float *carve(void *base, size_t *used, size_t elems)
{
    float *piece = base ? (float *)((char *)base + *used) : NULL;
    *used += gw_size_round_up(elems * sizeof(float), CONV_ALIGN);
    return piece;
}

size_t gw_cuda_conv_columns(const struct gw_cuda_conv_plan *plan,
                            size_t samples)
{
    return gw_size_round_up(samples * plan->places, GW_CUDA_COLUMN_STEP);
}

/* Grows with n, so that scratch for n is enough for fewer samples. */
struct gw_cuda_conv_plan gw_cuda_conv_plan_of(const struct gw_conv_shape *s,
                                              enum gw_precision precision,
                                              void *base)
{
    struct gw_cuda_conv_plan p = {.bytes = 0};
    p.oh = (s->h + 2 * s->pad - s->kh) / s->stride + 1;
    p.ow = (s->w + 2 * s->pad - s->kw) / s->stride + 1;
    p.window = s->in * s->kh * s->kw;
    p.places = p.oh * p.ow;
    p.image = s->in * s->h * s->w;
    assert(p.window <= INT32_MAX &&
           p.places <= INT32_MAX - GW_CUDA_COLUMN_STEP &&
           p.image <= INT32_MAX && s->out <= INT32_MAX);
    size_t elems =
        gw_size_max(gw_size_max(p.window, s->out) * p.places, p.image);
    p.samples = gw_size_min(gw_size_max(GROUP_ELEMS / elems, 1), s->n);
    p.columns = gw_cuda_conv_columns(&p, p.samples);
    size_t tiles = gw_size_round_up(s->out, TILE) / TILE *
                   (gw_size_round_up(p.window, TILE) / TILE);
    p.slices = gw_size_max(BLOCKS / tiles, 1);
    p.unfolded = carve(base, &p.bytes, p.window * p.columns);
    p.outputs = carve(base, &p.bytes, s->out * p.columns);
    p.kernels = carve(base, &p.bytes, p.slices * s->out * p.window);
    p.biases = carve(base, &p.bytes, p.slices * s->out);
    p.narrow = base ? (char *)base + p.bytes : NULL;
    p.bytes += gw_cuda_copy_bytes(precision, s->out * p.window);
    return p;
}

size_t gw_cuda_conv_scratch_bytes(const struct gw_conv_shape *shape,
                                  enum gw_precision precision)
{
    return gw_cuda_conv_plan_of(shape, precision, NULL).bytes;
}
