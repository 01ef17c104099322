#include "config.h"

#include "kernels/cuda.h"

size_t gw_cuda_dense_scratch_bytes(const struct gw_dense_shape *shape,
                                   enum gw_precision precision)
{
    return gw_cuda_copy_bytes(precision, shape->n * shape->in) +
           gw_cuda_copy_bytes(precision, shape->n * shape->out) +
           gw_cuda_copy_bytes(precision, shape->out * shape->in);
}

/* With ReLU the bias comes in a pass of our own: cublasLt's max(x, 0) may lose
   a NaN, which the finite guard relies on. */
void gw_cuda_dense_forward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const float *w,
                           const float *b,
                           float *y,
                           void *scratch)
{
    const char *what = "dense_forward";
    char *room = scratch;
    const void *inputs =
        gw_cuda_factor(device, what, x, shape->n * shape->in, &room);
    const void *weights =
        gw_cuda_factor(device, what, w, shape->out * shape->in, &room);
    const struct gw_cuda_product product = {
        .m = shape->n,
        .n = shape->out,
        .k = shape->in,
        .batch = 1,
        .a = {.at = inputs, .ld = shape->in},
        .b = {.at = weights, .ld = shape->in, .t = 1},
        .bias = shape->relu ? NULL : b,
        .c = y,
        .ld = shape->out,
    };
    gw_cuda_multiply(device, what, &product);
    if (shape->relu)
        gw_cuda_add_bias(device, what, shape->n, shape->out, b, 1, y);
}

void gw_cuda_dense_backward(struct gw_device *device,
                            const struct gw_dense_shape *shape,
                            const float *x,
                            const float *w,
                            const float *dy,
                            float beta,
                            float *dx,
                            float *dw,
                            float *db,
                            void *scratch)
{
    const char *what = "dense_backward";
    char *room = scratch;
    const void *inputs =
        gw_cuda_factor(device, what, x, shape->n * shape->in, &room);
    const void *errors =
        gw_cuda_factor(device, what, dy, shape->n * shape->out, &room);
    const void *weights =
        dx ? gw_cuda_factor(device, what, w, shape->out * shape->in, &room)
           : NULL;
    const struct gw_cuda_product of_weights = {
        .m = shape->out,
        .n = shape->in,
        .k = shape->n,
        .batch = 1,
        .a = {.at = errors, .ld = shape->out, .t = 1},
        .b = {.at = inputs, .ld = shape->in},
        .beta = beta,
        .c = dw,
        .ld = shape->in,
    };
    const struct gw_cuda_product of_inputs = {
        .m = shape->n,
        .n = shape->in,
        .k = shape->out,
        .batch = 1,
        .a = {.at = errors, .ld = shape->out},
        .b = {.at = weights, .ld = shape->in},
        .c = dx,
        .ld = shape->in,
    };
    gw_cuda_multiply(device, what, &of_weights);
    gw_cuda_column_sums(device, what, shape->n, shape->out, dy, beta, db);
    if (dx)
        gw_cuda_multiply(device, what, &of_inputs);
}
