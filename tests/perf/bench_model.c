/*
 * Samples per second of whole training steps on synthetic data: forward,
 * backward and an update with momentum, in one process; then the time of each
 * operation, compared with the rate of a large matrix product in the same
 * process. Not part of `make check`: its figures need a quiet machine.
 *
 *   bench_model [THREADS [BATCH]]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/update/update.h"
#include "worker/model/model.h"

#define ROUNDS   8
#define ROUND_S  0.4
#define BATCHES  16
#define KEYS_MAX 16

#define CALLS_MAX 64

static const struct {
    const char *name;
    enum gw_model_kind kind;
    struct gw_string_list layers;
} cases[] = {
    {"mlp", GW_MODEL_MLP, {4, {"784", "512", "512", "10"}}},
    {"cnn 3x3",
     GW_MODEL_CNN,
     {6,
      {"conv 32 3", "pool 2", "conv 64 3", "pool 2", "dense 128",
       "dropout 0.25"}}},
    {"cnn 3x3 pad",
     GW_MODEL_CNN,
     {6,
      {"conv 32 3 pad 1", "pool 2", "conv 64 3 pad 1", "pool 2", "dense 128",
       "dropout 0.25"}}},
    {"cnn 5x5",
     GW_MODEL_CNN,
     {6,
      {"conv 32 5", "pool 2", "conv 64 5", "pool 2", "dense 128", "dense 10"}}},
};

static const struct gw_dataset_shape fashion = {60000, 1, 28, 28, 10};

struct bench {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    struct gw_model *model;
    size_t n_keys, elems[KEYS_MAX];
    float *weight[KEYS_MAX], *gradient[KEYS_MAX], *state[KEYS_MAX];
    float *x;
    int32_t *labels;
    uint64_t step;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- a backend that times the operations of another ---- */

static struct {
    const struct gw_backend_ops *ops;
    struct call {
        const char *name;
        double flop, bytes, seconds; /* of the fastest call */
    } call[CALLS_MAX];
    size_t next;
} watch;

static void note(const char *name, double flop, size_t floats, double start)
{
    struct call *call = &watch.call[watch.next++];
    double seconds = now_s() - start;
    if (call->seconds == 0 || seconds < call->seconds)
        call->seconds = seconds;
    call->name = name;
    call->flop = flop;
    call->bytes = (double)(floats * sizeof(float));
}

static double conv_flop(const struct gw_conv_shape *s, size_t *floats_p)
{
    size_t oh = (s->h + 2 * s->pad - s->kh) / s->stride + 1;
    size_t ow = (s->w + 2 * s->pad - s->kw) / s->stride + 1;
    size_t outputs = s->n * s->out * oh * ow;
    *floats_p = outputs + s->n * s->in * s->h * s->w;
    return 2 * (double)outputs * (double)(s->in * s->kh * s->kw);
}

static size_t pool_floats(const struct gw_pool_shape *s)
{
    size_t oh = (s->h - s->size) / s->stride + 1;
    size_t ow = (s->w - s->size) / s->stride + 1;
    return s->n * s->c * (s->h * s->w + oh * ow);
}

static void timed_dense_forward(struct gw_device *device,
                                const struct gw_dense_shape *s,
                                const float *x,
                                const float *w,
                                const float *b,
                                float *y,
                                void *mask,
                                void *scratch)
{
    double start = now_s();
    watch.ops->dense_forward(device, s, x, w, b, y, mask, scratch);
    note("dense forward", 2 * (double)(s->n * s->in * s->out),
         s->n * (s->in + s->out) + s->in * s->out, start);
}

static void timed_dense_backward(struct gw_device *device,
                                 const struct gw_dense_shape *s,
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
    double start = now_s();
    watch.ops->dense_backward(device, s, x, mask, w, dy, beta, dx, dw, db,
                              scratch);
    note("dense backward", (dx ? 4 : 2) * (double)(s->n * s->in * s->out),
         2 * (s->n * (s->in + s->out) + s->in * s->out), start);
}

static void timed_conv_forward(struct gw_device *device,
                               const struct gw_conv_shape *s,
                               const float *x,
                               const float *k,
                               const float *b,
                               float *y,
                               void *scratch)
{
    size_t floats;
    double flop = conv_flop(s, &floats), start = now_s();
    watch.ops->conv_forward(device, s, x, k, b, y, scratch);
    note("conv forward", flop, floats, start);
}

static void timed_conv_backward(struct gw_device *device,
                                const struct gw_conv_shape *s,
                                const float *x,
                                const float *k,
                                const float *dy,
                                float beta,
                                float *dx,
                                float *dk,
                                float *db,
                                void *scratch)
{
    size_t floats;
    double flop = conv_flop(s, &floats), start = now_s();
    watch.ops->conv_backward(device, s, x, k, dy, beta, dx, dk, db, scratch);
    note("conv backward", (dx ? 2 : 1) * flop, (dx ? 2 : 1) * floats, start);
}

static void timed_pool_forward(struct gw_device *device,
                               const struct gw_pool_shape *s,
                               const float *x,
                               float *y,
                               uint8_t *argmax)
{
    double start = now_s();
    watch.ops->pool_forward(device, s, x, y, argmax);
    note("pool forward", 0, pool_floats(s), start);
}

static void timed_pool_backward(struct gw_device *device,
                                const struct gw_pool_shape *s,
                                const float *dy,
                                const uint8_t *argmax,
                                float *dx)
{
    double start = now_s();
    watch.ops->pool_backward(device, s, dy, argmax, dx);
    note("pool backward", 0, pool_floats(s), start);
}

static void timed_dropout(struct gw_device *device,
                          const struct gw_dropout_site *site,
                          size_t n,
                          size_t elems,
                          const float *x,
                          float *y)
{
    double start = now_s();
    watch.ops->dropout(device, site, n, elems, x, y);
    note("dropout", 0, 2 * n * elems, start);
}

static void timed_softmax_loss(struct gw_device *device,
                               size_t n,
                               size_t classes,
                               const float *logits,
                               const int32_t *labels,
                               float scale,
                               float *dlogits,
                               struct gw_loss *loss)
{
    double start = now_s();
    watch.ops->softmax_loss(device, n, classes, logits, labels, scale, dlogits,
                            loss);
    note("softmax loss", 0, 2 * n * classes, start);
}

static struct gw_backend_ops timed(const struct gw_backend_ops *ops)
{
    struct gw_backend_ops made = *ops;
    memset(&watch, 0, sizeof watch);
    watch.ops = ops;
    made.dense_forward = timed_dense_forward;
    made.dense_backward = timed_dense_backward;
    made.conv_forward = timed_conv_forward;
    made.conv_backward = timed_conv_backward;
    made.pool_forward = timed_pool_forward;
    made.pool_backward = timed_pool_backward;
    made.dropout = timed_dropout;
    made.softmax_loss = timed_softmax_loss;
    return made;
}

static void print_calls(void)
{
    double all = 0;
    for (size_t i = 0; i < watch.next; i++)
        all += watch.call[i].seconds;
    for (size_t i = 0; i < watch.next; i++) {
        const struct call *call = &watch.call[i];
        printf("    %-15s  %8.1f us  %4.1f %%", call->name, call->seconds * 1e6,
               100 * call->seconds / all);
        if (call->flop > 0)
            printf("  %6.1f GFLOP/s\n", call->flop / call->seconds * 1e-9);
        else
            printf("  %6.1f GB/s\n", call->bytes / call->seconds * 1e-9);
    }
}

static void make_arrays(struct bench *bench, size_t batch)
{
    const struct gw_key *keys = gw_model_keys(bench->model, &bench->n_keys);
    for (size_t i = 0; i < bench->n_keys; i++) {
        bench->elems[i] = 1;
        for (size_t d = 0; d < keys[i].dims; d++)
            bench->elems[i] *= keys[i].shape[d];
        size_t bytes = bench->elems[i] * sizeof(float);
        bench->weight[i] = bench->ops->alloc(bench->device, bytes);
        bench->gradient[i] = bench->ops->alloc(bench->device, bytes);
        bench->state[i] = bench->ops->alloc(bench->device, bytes);
    }
    gw_model_init(bench->model, 1, bench->weight);
    size_t pixels = fashion.height * fashion.width, n = BATCHES * batch;
    bench->x = bench->ops->alloc(bench->device, n * pixels * sizeof(float));
    bench->labels = bench->ops->alloc(bench->device, n * sizeof(int32_t));
    for (size_t i = 0; i < n * pixels; i++)
        bench->x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    for (size_t i = 0; i < n; i++)
        bench->labels[i] = (int32_t)(i * 7 % 10);
}

static void free_arrays(struct bench *bench)
{
    for (size_t i = 0; i < bench->n_keys; i++) {
        bench->ops->free(bench->device, bench->weight[i]);
        bench->ops->free(bench->device, bench->gradient[i]);
        bench->ops->free(bench->device, bench->state[i]);
    }
    bench->ops->free(bench->device, bench->x);
    bench->ops->free(bench->device, bench->labels);
}

static void train_once(struct bench *bench, size_t batch, int with_update)
{
    size_t first = bench->step++ % BATCHES * batch;
    struct gw_model_pass pass = {
        .x = bench->x + first * fashion.height * fashion.width,
        .labels = bench->labels + first,
        .n = batch,
        .scale = 1,
        .last = 1,
    };
    watch.next = 0;
    gw_model_train(bench->model, &pass, (const float *const *)bench->weight,
                   bench->gradient, NULL);
    struct gw_update update = {
        .scale = 1 / (float)batch, .lr = 0.01, .momentum = 0.9, .t = 1};
    const struct gw_optimizer *momentum = gw_optimizer_find("momentum");
    for (size_t i = 0; with_update && i < bench->n_keys; i++)
        gw_update_apply(momentum, &update, bench->elems[i], bench->gradient[i],
                        bench->weight[i], bench->weight[i], &bench->state[i]);
}

static double best_rate(struct bench *bench, size_t batch, int with_update)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_s(), spent;
        size_t steps = 0;
        do {
            train_once(bench, batch, with_update);
            steps++;
            spent = now_s() - start;
        } while (spent < ROUND_S);
        double rate = (double)(steps * batch) / spent;
        best = rate > best ? rate : best;
    }
    return best;
}

/* The backend's peak: one product far larger than any in a model here. */
static double gemm_rate(const struct gw_backend_ops *ops,
                        struct gw_device *device)
{
    const struct gw_dense_shape s = {768, 768, 768, 0, 0};
    const size_t bytes = 768 * 768 * sizeof(float);
    float *x = ops->alloc(device, bytes), *w = ops->alloc(device, bytes);
    float *y = ops->alloc(device, bytes), *b = ops->alloc(device, bytes);
    void *scratch =
        ops->alloc(device, ops->dense_scratch_bytes(&s, GW_PRECISION_FP32));
    double best = 0;
    for (int i = 0; i < 30; i++) {
        double start = now_s();
        ops->dense_forward(device, &s, x, w, b, y, NULL, scratch);
        double rate = 2.0 * 768 * 768 * 768 / (now_s() - start);
        best = rate > best ? rate : best;
    }
    ops->free(device, x), ops->free(device, w);
    ops->free(device, y), ops->free(device, b);
    ops->free(device, scratch);
    return best;
}

static int bench_case(size_t which, int threads, size_t batch)
{
    static struct gw_config config; /* large */
    struct gw_backend_ops ops = timed(gw_backend_find("cpu", NULL));
    struct bench bench = {.ops = &ops};
    struct gw_device_options options = {.threads = threads};
    struct gw_error error;
    char text[512];
    memset(&config, 0, sizeof config);
    config.model.kind = cases[which].kind;
    config.model.layers = cases[which].layers;
    if (bench.ops->open(&options, &bench.device, &error) != GW_OK)
        goto fail;
    if (gw_model_create(&config, &fashion, batch, bench.ops, bench.device,
                        &bench.model, &error) != GW_OK)
        goto close;
    if (which == 0) {
        bench.ops->describe(bench.device, text, sizeof text);
        printf("# %s; a large product: %.1f GFLOP/s\n", text,
               gemm_rate(watch.ops, bench.device) * 1e-9);
        printf("%-11s  %5s  %12s  %15s  %8s  %10s\n", "model", "batch",
               "samples/s", "with momentum", "GFLOP/s", "MiB");
    }
    make_arrays(&bench, batch);
    double bare = best_rate(&bench, batch, 0);
    double updated = best_rate(&bench, batch, 1);
    printf("%-11s  %5zu  %12.0f  %15.0f  %8.1f  %10.1f\n", cases[which].name,
           batch, bare, updated,
           bare * (double)gw_model_flop(bench.model) * 1e-9,
           (double)gw_model_bytes(bench.model) / (1 << 20));
    print_calls();
    free_arrays(&bench);
    gw_model_destroy(bench.model);
    bench.ops->close(bench.device);
    return 1;

close:
    bench.ops->close(bench.device);
fail:
    fprintf(stderr, "bench_model: %s\n", error.text);
    return 0;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    size_t batch = argc > 2 ? strtoul(argv[2], NULL, 10) : 64;
    int ok = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok &= bench_case(i, threads, batch);
    return !ok;
}
