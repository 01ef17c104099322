#include "config.h"

#include "kernels/cuda.h"

/* With ReLU the bias comes in a pass of our own: cublasLt's max(x, 0) may lose
   a NaN, which the finite guard relies on. */
void gw_cuda_dense_forward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const float *w,
                           const float *b,
                           float *y)
{
    const char *what = "dense_forward";
    const struct gw_cuda_product product = {
        .m = shape->n,
        .n = shape->out,
        .k = shape->in,
        .batch = 1,
        .a = {.at = x, .ld = shape->in},
        .b = {.at = w, .ld = shape->in, .t = 1},
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
                            float *db)
{
    const char *what = "dense_backward";
    const struct gw_cuda_product of_weights = {
        .m = shape->out,
        .n = shape->in,
        .k = shape->n,
        .batch = 1,
        .a = {.at = dy, .ld = shape->out, .t = 1},
        .b = {.at = x, .ld = shape->in},
        .beta = beta,
        .c = dw,
        .ld = shape->in,
    };
    const struct gw_cuda_product of_inputs = {
        .m = shape->n,
        .n = shape->in,
        .k = shape->out,
        .batch = 1,
        .a = {.at = dy, .ld = shape->out},
        .b = {.at = w, .ld = shape->in},
        .c = dx,
        .ld = shape->in,
    };
    gw_cuda_multiply(device, what, &of_weights);
    gw_cuda_column_sums(device, what, shape->n, shape->out, dy, beta, db);
    if (dx)
        gw_cuda_multiply(device, what, &of_inputs);
}
