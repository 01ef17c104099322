#include "config.h"

#include "kernels/cpu/cpu.h"

#include <string.h>

#include "kernels/cpu/cpu_sums.h"
#include "kernels/update/isa.h"

GW_INLINE void
add_bias(const struct gw_dense_shape *shape, const float *b, float *y, int relu)
{
    for (size_t r = 0; r < shape->n; r++, y += shape->out) {
        GW_SAME_INDEX_ONLY
        for (size_t i = 0; i < shape->out; i++) {
            float sum = y[i] + b[i];
            y[i] = relu && sum < 0 ? 0 : sum;
        }
    }
}

GW_INLINE void
column_sums(const struct gw_dense_shape *shape, const float *dy, float *db)
{
    for (size_t r = 0; r < shape->n; r++, dy += shape->out) {
        GW_SAME_INDEX_ONLY
        for (size_t i = 0; i < shape->out; i++)
            db[i] += dy[i];
    }
}

#define VARIANT(isa, target)                                                   \
    target static void add_bias_##isa(const struct gw_dense_shape *shape,      \
                                      const float *b, float *y)                \
    {                                                                          \
        if (shape->relu)                                                       \
            add_bias(shape, b, y, 1);                                          \
        else                                                                   \
            add_bias(shape, b, y, 0);                                          \
    }                                                                          \
    target static void column_sums_##isa(const struct gw_dense_shape *shape,   \
                                         const float *dy, float *db)           \
    {                                                                          \
        column_sums(shape, dy, db);                                            \
    }
GW_FOR_EACH_ISA(VARIANT)

static void (*const add_bias_table[])(const struct gw_dense_shape *,
                                      const float *,
                                      float *) = GW_ISA_TABLE(add_bias);
static void (*const column_sums_table[])(const struct gw_dense_shape *,
                                         const float *,
                                         float *) = GW_ISA_TABLE(column_sums);

size_t gw_cpu_dense_scratch_bytes(const struct gw_dense_shape *shape,
                                  enum gw_precision precision)
{
    (void)precision;
    struct gw_dense_shape most = *shape;
    if (most.n > GW_DENSE_SUMS_SAMPLES)
        most.n = GW_DENSE_SUMS_SAMPLES; /* a batch may have fewer */
    return gw_cpu_dense_sums_bytes(&most);
}

/* The CBLAS computes with several threads, on sets without a fused
   multiply-add, which our loops are made for, and for rows too long for 32-bit
   offsets. */
static int uses_sums(const struct gw_device *device,
                     const struct gw_dense_shape *shape)
{
    return shape->n <= GW_DENSE_SUMS_SAMPLES && gw_cpu_threads(device) == 1 &&
           gw_isa_fuses(gw_isa_here()) && shape->in <= INT32_MAX / GW_GROUP;
}

/* Backward reads the mask from the output itself, which is in cache. */
size_t gw_cpu_dense_mask_bytes(const struct gw_dense_shape *shape)
{
    (void)shape;
    return 0;
}

void gw_cpu_dense_forward(struct gw_device *device,
                          const struct gw_dense_shape *shape,
                          const float *x,
                          const float *w,
                          const float *b,
                          float *y,
                          void *mask,
                          void *scratch)
{
    (void)mask;
    if (uses_sums(device, shape)) {
        gw_cpu_dense_sums_forward(shape, x, w, b, y, scratch);
        return;
    }
    gw_cpu_gemm(device, shape->n, shape->out, shape->in,
                (struct gw_matrix){x, shape->in, 0},
                (struct gw_matrix){w, shape->in, 1}, 0, y, shape->out);
    add_bias_table[gw_isa_here()](shape, b, y);
}

static void weight_gradient(struct gw_device *device,
                            const struct gw_dense_shape *shape,
                            const float *x,
                            const float *dy,
                            float beta,
                            float *dw,
                            void *scratch)
{
    if (uses_sums(device, shape))
        gw_cpu_dense_sums_dw(shape, x, dy, beta, dw, scratch);
    else
        gw_cpu_gemm(device, shape->out, shape->in, shape->n,
                    (struct gw_matrix){dy, shape->out, 1},
                    (struct gw_matrix){x, shape->in, 0}, beta, dw, shape->in);
}

void gw_cpu_dense_backward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const void *mask,
                           const float *w,
                           const float *dy,
                           float beta,
                           float *dx,
                           float *dw,
                           float *db,
                           void *scratch)
{
    (void)mask;
    weight_gradient(device, shape, x, dy, beta, dw, scratch);
    if (beta == 0)
        memset(db, 0, shape->out * sizeof *db);
    column_sums_table[gw_isa_here()](shape, dy, db);
    if (dx)
        gw_cpu_gemm(device, shape->n, shape->in, shape->out,
                    (struct gw_matrix){dy, shape->out, 0},
                    (struct gw_matrix){w, shape->in, 0}, 0, dx, shape->in);
    if (dx && shape->masks)
        gw_cpu_relu_backward(device, shape->n * shape->in, x, dx, dx);
}
