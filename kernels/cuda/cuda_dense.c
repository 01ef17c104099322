#include "config.h"

#include "kernels/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* State of a mask: 1 if the last forward pass wrote the bits of y > 0 there. */
struct gw_cuda_mask {
    struct gw_cuda_mask *next;
    const void *at;
    int is_written;
};

static struct gw_cuda_mask *mask_at(const struct gw_device *device,
                                    const void *at)
{
    struct gw_cuda_mask *mask = device->masks;
    while (mask && mask->at != at)
        mask = mask->next;
    return mask;
}

/* If there is no memory for an entry, the mask counts as not written. */
static void mark_mask(struct gw_device *device, const void *at, int is_written)
{
    struct gw_cuda_mask *mask = mask_at(device, at);
    if (!mask && is_written) {
        mask = malloc(sizeof *mask);
        if (!mask)
            return;
        *mask = (struct gw_cuda_mask){.next = device->masks, .at = at};
        device->masks = mask;
    }
    if (mask)
        mask->is_written = is_written;
}

void gw_cuda_drop_masks(struct gw_device *device)
{
    while (device->masks) {
        struct gw_cuda_mask *mask = device->masks;
        device->masks = mask->next;
        free(mask);
    }
}

/* One fused product; or one without the mask; or the product, and bias and ReLU
   in a pass of our own. */
static void multiply_relu(struct gw_device *device,
                          const char *op,
                          struct gw_cuda_product *product,
                          const float *b,
                          void *mask)
{
    product->epilogue = GW_CUDA_RELU;
    product->mask = mask;
    int fused = gw_cuda_multiply_fused(device, op, product);
    if (mask)
        mark_mask(device, mask, fused);
    if (mask && !fused) {
        product->mask = NULL;
        fused = gw_cuda_multiply_fused(device, op, product);
    }
    if (fused)
        return;
    product->epilogue = GW_CUDA_PLAIN;
    gw_cuda_multiply(device, op, product);
    gw_cuda_add_bias(device, op, product->m, product->n, b, 1, product->c);
}

void gw_cuda_dense_forward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const float *w,
                           const float *b,
                           float *y,
                           void *mask,
                           void *scratch)
{
    const char *op = "dense_forward";
    char *free_scratch = scratch;
    const void *inputs =
        gw_cuda_operand(device, op, x, shape->n * shape->in, &free_scratch);
    const void *weights =
        gw_cuda_operand(device, op, w, shape->out * shape->in, &free_scratch);
    struct gw_cuda_product product = {
        .m = shape->n,
        .n = shape->out,
        .k = shape->in,
        .batch = 1,
        .a = {.at = inputs, .ld = shape->in},
        .b = {.at = weights, .ld = shape->in, .t = 1},
        .epilogue = GW_CUDA_BIAS,
        .bias = b,
        .c = y,
        .ld = shape->out,
    };
    if (shape->relu)
        multiply_relu(device, op, &product, b, mask);
    else
        gw_cuda_multiply(device, op, &product);
}

/* dx, with the mask in the same product if forward wrote one. */
static void backward_input(struct gw_device *device,
                           const struct gw_cuda_call *call,
                           struct gw_cuda_product *product)
{
    const struct gw_dense_shape *shape = &call->shape.dense;
    product->epilogue = GW_CUDA_DRELU;
    product->mask = call->mask;
    if (call->mask && gw_cuda_multiply_fused(device, call->op, product))
        return;
    product->epilogue = GW_CUDA_PLAIN;
    gw_cuda_multiply(device, call->op, product);
    if (shape->masks)
        gw_cuda_relu_backward(device, shape->n * shape->in, call->x, product->c,
                              product->c);
}

static void queue_backward(struct gw_device *device,
                           const struct gw_cuda_call *call)
{
    const char *op = call->op;
    const struct gw_dense_shape *shape = &call->shape.dense;
    char *free_scratch = call->scratch;
    const void *inputs = gw_cuda_operand(device, op, call->x,
                                         shape->n * shape->in, &free_scratch);
    const void *errors = gw_cuda_operand(device, op, call->dy,
                                         shape->n * shape->out, &free_scratch);
    const void *weights =
        call->dx ? gw_cuda_operand(device, op, call->w, shape->out * shape->in,
                                   &free_scratch)
                 : NULL;
    const struct gw_cuda_product of_weights = {
        .m = shape->out,
        .n = shape->in,
        .k = shape->n,
        .batch = 1,
        .a = {.at = errors, .ld = shape->out, .t = 1},
        .b = {.at = inputs, .ld = shape->in},
        .beta = call->beta,
        .c = call->dw,
        .ld = shape->in,
    };
    struct gw_cuda_product of_inputs = {
        .m = shape->n,
        .n = shape->in,
        .k = shape->out,
        .batch = 1,
        .a = {.at = errors, .ld = shape->out},
        .b = {.at = weights, .ld = shape->in},
        .c = call->dx,
        .ld = shape->in,
    };
    gw_cuda_multiply(device, op, &of_weights);
    gw_cuda_column_sums(device, op, shape->n, shape->out, call->dy, call->beta,
                        call->db);
    if (call->dx)
        backward_input(device, call, &of_inputs);
}

void gw_cuda_dense_backward(struct gw_device *device,
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
    const struct gw_cuda_mask *known = mask ? mask_at(device, mask) : NULL;
    struct gw_cuda_call call;
    memset(&call, 0, sizeof call);
    call.op = "dense_backward";
    call.queue = queue_backward;
    call.shape.dense = *shape;
    call.x = x, call.w = w, call.dy = dy;
    call.beta = beta;
    call.dx = dx, call.dw = dw, call.db = db;
    call.mask = shape->masks && known && known->is_written
                    ? (void *)(uintptr_t)mask
                    : NULL;
    call.scratch = scratch;
    gw_cuda_run(device, &call);
}
