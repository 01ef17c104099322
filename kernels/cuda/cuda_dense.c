#include "config.h"

#include "kernels/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* Whether what ReLU let through in a forward pass was noted there. */
struct gw_cuda_mask {
    struct gw_cuda_mask *next;
    const void *at;
    int is_noted;
};

static struct gw_cuda_mask *mask_at(const struct gw_device *device,
                                    const void *at)
{
    struct gw_cuda_mask *mask = device->masks;
    while (mask && mask->at != at)
        mask = mask->next;
    return mask;
}

/* Without memory for it: as if it were not. */
static void note_mask(struct gw_device *device, const void *at, int is_noted)
{
    struct gw_cuda_mask *mask = mask_at(device, at);
    if (!mask && is_noted) {
        mask = malloc(sizeof *mask);
        if (!mask)
            return;
        *mask = (struct gw_cuda_mask){.next = device->masks, .at = at};
        device->masks = mask;
    }
    if (mask)
        mask->is_noted = is_noted;
}

void gw_cuda_drop_masks(struct gw_device *device)
{
    while (device->masks) {
        struct gw_cuda_mask *mask = device->masks;
        device->masks = mask->next;
        free(mask);
    }
}

/* All at once; or what ReLU lets through is not noted; or ReLU and the bias in
   a pass of our own. */
static void rectify(struct gw_device *device,
                    const char *what,
                    struct gw_cuda_product *product,
                    const float *b,
                    void *mask)
{
    product->epilogue = GW_CUDA_RELU;
    product->mask = mask;
    int fused = gw_cuda_multiply_fused(device, what, product);
    if (mask)
        note_mask(device, mask, fused);
    if (mask && !fused) {
        product->mask = NULL;
        fused = gw_cuda_multiply_fused(device, what, product);
    }
    if (fused)
        return;
    product->epilogue = GW_CUDA_PLAIN;
    gw_cuda_multiply(device, what, product);
    gw_cuda_add_bias(device, what, product->m, product->n, b, 1, product->c);
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
    const char *what = "dense_forward";
    char *room = scratch;
    const void *inputs =
        gw_cuda_factor(device, what, x, shape->n * shape->in, &room);
    const void *weights =
        gw_cuda_factor(device, what, w, shape->out * shape->in, &room);
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
        rectify(device, what, &product, b, mask);
    else
        gw_cuda_multiply(device, what, &product);
}

/* dx, masked at once where what ReLU let through was noted. */
static void send_back(struct gw_device *device,
                      const struct gw_cuda_call *call,
                      struct gw_cuda_product *product)
{
    const struct gw_dense_shape *shape = &call->shape.dense;
    product->epilogue = GW_CUDA_MASK;
    product->mask = call->mask;
    if (call->mask && gw_cuda_multiply_fused(device, call->what, product))
        return;
    product->epilogue = GW_CUDA_PLAIN;
    gw_cuda_multiply(device, call->what, product);
    if (shape->masks)
        gw_cuda_relu_backward(device, shape->n * shape->in, call->x, product->c,
                              product->c);
}

static void queue_backward(struct gw_device *device,
                           const struct gw_cuda_call *call)
{
    const char *what = call->what;
    const struct gw_dense_shape *shape = &call->shape.dense;
    char *room = call->scratch;
    const void *inputs =
        gw_cuda_factor(device, what, call->x, shape->n * shape->in, &room);
    const void *errors =
        gw_cuda_factor(device, what, call->dy, shape->n * shape->out, &room);
    const void *weights = call->dx
                              ? gw_cuda_factor(device, what, call->w,
                                               shape->out * shape->in, &room)
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
    gw_cuda_multiply(device, what, &of_weights);
    gw_cuda_column_sums(device, what, shape->n, shape->out, call->dy,
                        call->beta, call->db);
    if (call->dx)
        send_back(device, call, &of_inputs);
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
    const struct gw_cuda_mask *noted = mask ? mask_at(device, mask) : NULL;
    struct gw_cuda_call call;
    memset(&call, 0, sizeof call);
    call.what = "dense_backward";
    call.queue = queue_backward;
    call.shape.dense = *shape;
    call.x = x, call.w = w, call.dy = dy;
    call.beta = beta;
    call.dx = dx, call.dw = dw, call.db = db;
    call.mask = shape->masks && noted && noted->is_noted
                    ? (void *)(uintptr_t)mask
                    : NULL;
    call.scratch = scratch;
    gw_cuda_do(device, &call);
}
