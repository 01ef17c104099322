/*
 * Tests of fused ReLU on special values, which cublasLt does not document:
 * max(x, 0) may turn a NaN into 0, but the finite guard needs it, and the mask
 * may have set the bit of a 0, for which backward must give 0. Each product is
 * tested once, into its own output; products wait only then. alpha = 0 makes
 * the bias alone the sum.
 */
#include "config.h"

#include "kernels/cuda/cuda.h"

#include <cuda_runtime_api.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

static const char keeps_no_nan[] = "it makes 0 of NaN";
static const char notes_nothing[] = "it does not note what it lets through";
static const char notes_zero[] = "it notes 0 as let through";
static const char no_memory[] = "no memory to try it";
static const char does_not_run[] = "it does not run";

struct trial {
    struct gw_device *device;
    const struct gw_cuda_product *product;
    gw_cuda_queue_trial *queue;
    void *context;
    float *bias; /* device memory, [n] */
    float *row;  /* host memory, [n] */
    size_t mask_bytes;
    uint8_t *mask[2]; /* host memory; of ones, of zeros */
};

static void close_trial(struct trial *t)
{
    if (t->bias)
        cudaFree(t->bias);
    else
        cudaGetLastError(); /* clears it: the device works */
    free(t->row);
    free(t->mask[0]);
    free(t->mask[1]);
}

static int open_trial(struct trial *t)
{
    const struct gw_cuda_product *p = t->product;
    void *bias = NULL;
    t->mask_bytes = p->mask ? gw_cuda_mask_bytes(p->m, p->n) : 0;
    t->row = malloc(p->n * sizeof *t->row);
    for (int i = 0; i < 2; i++)
        t->mask[i] = malloc(t->mask_bytes + 1);
    if (!t->row || !t->mask[0] || !t->mask[1] ||
        cudaMalloc(&bias, p->n * sizeof *t->bias) != cudaSuccess)
        return 0;
    t->bias = bias;
    return 1;
}

/* Runs the product with that bias, and copies back the first row, and the mask
   unless NULL. A failure here is the device's. */
static int
run_trial(struct trial *t, float alpha, float bias, float *row, uint8_t *mask)
{
    struct gw_device *device = t->device;
    struct CUstream_st *stream = device->compute;
    size_t bytes = t->product->n * sizeof(float);
    for (size_t i = 0; i < t->product->n; i++)
        t->row[i] = bias;
    gw_cuda_check(device, "trial",
                  cudaMemcpyAsync(t->bias, t->row, bytes,
                                  cudaMemcpyHostToDevice, stream));
    gw_cuda_check(device, "trial", cudaStreamSynchronize(stream));
    if (device->failed || !t->queue(t->context, alpha, t->bias))
        return 0;
    gw_cuda_check(device, "trial",
                  cudaMemcpyAsync(row, t->product->c, bytes,
                                  cudaMemcpyDeviceToHost, stream));
    if (mask)
        gw_cuda_check(device, "trial",
                      cudaMemcpyAsync(mask, t->product->mask, t->mask_bytes,
                                      cudaMemcpyDeviceToHost, stream));
    gw_cuda_check(device, "trial", cudaStreamSynchronize(stream));
    return !device->failed;
}

static const char *try_nan(struct trial *t)
{
    if (!run_trial(t, 1, NAN, t->row, NULL))
        return does_not_run;
    for (size_t i = 0; i < t->product->n; i++)
        if (!isnan(t->row[i]))
            return keeps_no_nan;
    return NULL;
}

static size_t bits_in(const uint8_t *bytes, size_t n)
{
    size_t bits = 0;
    for (size_t i = 0; i < n; i++)
        bits += (size_t)__builtin_popcount(bytes[i]);
    return bits;
}

/* cublasLt does not document the order of a mask's bits: the bits set for ones
   are the elements' bits, at least as many per row as there are elements. */
static const char *try_zero(struct trial *t)
{
    size_t rows = t->product->m, row = t->mask_bytes / rows;
    gw_cuda_check(t->device, "trial",
                  cudaMemsetAsync(t->product->mask, 0, t->mask_bytes,
                                  t->device->compute));
    if (!run_trial(t, 0, 1, t->row, t->mask[0]) ||
        !run_trial(t, 0, 0, t->row, t->mask[1]))
        return does_not_run;
    for (size_t i = 0; i < rows; i++)
        if (bits_in(t->mask[0] + i * row, row) < t->product->n)
            return notes_nothing;
    for (size_t i = 0; i < t->mask_bytes; i++)
        if (t->mask[0][i] & t->mask[1][i])
            return notes_zero;
    return NULL;
}

const char *gw_cuda_try_relu(struct gw_device *device,
                             const struct gw_cuda_product *product,
                             gw_cuda_queue_trial *queue,
                             void *context,
                             int *permanent_p)
{
    struct trial t = {.device = device,
                      .product = product,
                      .queue = queue,
                      .context = context};
    const char *why = open_trial(&t) ? try_nan(&t) : no_memory;
    if (!why && product->mask)
        why = try_zero(&t);
    close_trial(&t);
    *permanent_p = why != no_memory && !device->failed;
    return why;
}
