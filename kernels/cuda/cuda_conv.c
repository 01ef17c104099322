/*
 * Convolution by im2col: windows become columns, and all three products are
 * matrix products. Columns of a whole group of samples lie side by side, so
 * that small images make one large product and not many small ones:
 *
 *   columns[in kh kw][samples oh ow]    outputs[out][samples oh ow]
 *
 *   forward    outputs = k columns
 *   dk         k = outputs columns^T, in slices, which are added in order
 *   dx         columns = k^T outputs
 *
 * Outputs in that layout are not yet images y[sample][out][oh][ow]. The pass
 * that reorders them also adds bias and ReLU, which would cost as much in place
 * (one read, one write); dy is reordered in one pass that also shortens the
 * sums for db.
 *
 * A group has as many samples as keep its matrices in the cache of a large GPU
 * from one step to the next, which also bounds the scratch.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <string.h>

#define SLICE_LEAST 512 /* columns */

static struct gw_cuda_group group_of(const struct gw_conv_shape *s,
                                     const struct gw_cuda_conv_plan *plan,
                                     size_t samples)
{
    return (struct gw_cuda_group){
        .samples = (uint32_t)samples,
        .columns = (uint32_t)gw_cuda_conv_columns(plan, samples),
        .in = (uint32_t)s->in,
        .h = (uint32_t)s->h,
        .w = (uint32_t)s->w,
        .out = (uint32_t)s->out,
        .oh = (uint32_t)plan->oh,
        .ow = (uint32_t)plan->ow,
        .kh = (uint32_t)s->kh,
        .kw = (uint32_t)s->kw,
        .stride = (uint32_t)s->stride,
        .pad = (uint32_t)s->pad,
    };
}

static void queue_forward(struct gw_device *device,
                          const struct gw_cuda_call *call)
{
    const char *op = call->op;
    const struct gw_conv_shape *shape = &call->shape.conv;
    struct gw_cuda_conv_plan plan =
        gw_cuda_conv_plan_of(shape, device->precision, call->scratch);
    const void *operand = gw_cuda_operand(
        device, op, call->w, shape->out * plan.window, &plan.narrow);
    for (size_t first = 0; first < shape->n; first += plan.samples) {
        struct gw_cuda_group group =
            group_of(shape, &plan, gw_size_min(plan.samples, shape->n - first));
        const struct gw_cuda_product product = {
            .m = shape->out,
            .n = group.columns,
            .k = plan.window,
            .batch = 1,
            .a = {.at = operand, .ld = plan.window},
            .b = {.at = plan.unfolded, .ld = group.columns},
            .c = plan.outputs,
            .ld = group.columns,
        };
        gw_cuda_unfold(device, op, &group, call->x + first * plan.image,
                       plan.unfolded);
        gw_cuda_multiply(device, op, &product);
        gw_cuda_scatter(device, op, &group, plan.outputs, call->b, shape->relu,
                        call->y + first * shape->out * plan.places);
    }
}

void gw_cuda_conv_forward(struct gw_device *device,
                          const struct gw_conv_shape *shape,
                          const float *x,
                          const float *k,
                          const float *b,
                          float *y,
                          void *scratch)
{
    struct gw_cuda_call call;
    memset(&call, 0, sizeof call);
    call.op = "conv_forward";
    call.queue = queue_forward;
    call.shape.conv = *shape;
    call.x = x, call.w = k, call.b = b, call.y = y;
    call.scratch = scratch;
    gw_cuda_run(device, &call);
}

/* ---- backward ---- */

/*
 * dk and db of a group, from `outputs` and `unfolded`. Both sums run over all
 * places and have few results: slices occupy all blocks.
 */
static void backward_weights(struct gw_device *device,
                             const char *op,
                             const struct gw_conv_shape *shape,
                             const struct gw_cuda_conv_plan *plan,
                             const struct gw_cuda_group *group,
                             float beta,
                             float *dk,
                             float *db)
{
    size_t columns = group->columns, elems = shape->out * plan->window;
    size_t slice = (columns + plan->slices - 1) / plan->slices;
    slice =
        gw_size_max(gw_size_round_up(slice, GW_CUDA_COLUMN_STEP), SLICE_LEAST);
    size_t whole = columns / slice, rest = columns % slice;
    size_t done = whole * slice * gw_cuda_operand_bytes(device->precision);
    struct gw_cuda_product product = {
        .m = shape->out,
        .n = plan->window,
        .k = slice,
        .batch = whole,
        .a = {.at = plan->outputs, .ld = columns, .stride = slice},
        .b = {.at = plan->unfolded, .ld = columns, .t = 1, .stride = slice},
        .c = plan->kernels,
        .ld = plan->window,
        .stride = elems,
    };
    if (whole)
        gw_cuda_multiply(device, op, &product);
    product.k = rest;
    product.batch = 1;
    product.a.at = (const char *)plan->outputs + done;
    product.b.at = (const char *)plan->unfolded + done;
    product.c += whole * elems;
    if (rest)
        gw_cuda_multiply(device, op, &product);
    size_t slices = whole + (rest > 0);
    gw_cuda_row_sums(device, op, shape->out, columns, slice, plan->outputs,
                     plan->biases);
    gw_cuda_column_sums(device, op, slices, elems, plan->kernels, beta, dk);
    gw_cuda_column_sums(device, op, slices, shape->out, plan->biases, beta, db);
}

static void backward_input(struct gw_device *device,
                           const char *op,
                           const struct gw_conv_shape *shape,
                           const struct gw_cuda_conv_plan *plan,
                           const struct gw_cuda_group *group,
                           const void *k,
                           const float *x,
                           float *dx)
{
    const struct gw_cuda_product product = {
        .m = plan->window,
        .n = group->columns,
        .k = shape->out,
        .batch = 1,
        .a = {.at = k, .ld = plan->window, .t = 1},
        .b = {.at = plan->outputs, .ld = group->columns},
        .c = plan->unfolded,
        .ld = group->columns,
    };
    gw_cuda_multiply(device, op, &product);
    gw_cuda_fold(device, op, group, plan->unfolded, shape->masks ? x : NULL,
                 dx);
}

static void queue_backward(struct gw_device *device,
                           const struct gw_cuda_call *call)
{
    const char *op = call->op;
    const struct gw_conv_shape *shape = &call->shape.conv;
    struct gw_cuda_conv_plan plan =
        gw_cuda_conv_plan_of(shape, device->precision, call->scratch);
    const void *operand = NULL;
    if (call->dx)
        operand = gw_cuda_operand(device, op, call->w, shape->out * plan.window,
                                  &plan.narrow);
    for (size_t first = 0; first < shape->n; first += plan.samples) {
        struct gw_cuda_group group =
            group_of(shape, &plan, gw_size_min(plan.samples, shape->n - first));
        const float *x = call->x + first * plan.image;
        gw_cuda_gather(device, op, &group,
                       call->dy + first * shape->out * plan.places,
                       plan.outputs);
        gw_cuda_unfold(device, op, &group, x, plan.unfolded);
        backward_weights(device, op, shape, &plan, &group,
                         first ? 1 : call->beta, call->dw, call->db);
        if (call->dx)
            backward_input(device, op, shape, &plan, &group, operand, x,
                           call->dx + first * plan.image);
    }
}

void gw_cuda_conv_backward(struct gw_device *device,
                           const struct gw_conv_shape *shape,
                           const float *x,
                           const float *k,
                           const float *dy,
                           float beta,
                           float *dx,
                           float *dk,
                           float *db,
                           void *scratch)
{
    struct gw_cuda_call call;
    memset(&call, 0, sizeof call);
    call.op = "conv_backward";
    call.queue = queue_backward;
    call.shape.conv = *shape;
    call.x = x, call.w = k, call.dy = dy;
    call.beta = beta;
    call.dx = dx, call.dw = dk, call.db = db;
    call.scratch = scratch;
    gw_cuda_run(device, &call);
}
