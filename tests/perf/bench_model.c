/*
 * Samples per second of whole training steps on made-up data: forward, backward
 * and an update with momentum, one process. Not part of `make check`: its
 * figures need a quiet machine.
 *
 *   bench_model [THREADS [BATCH]]
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/update.h"
#include "worker/model.h"

#define ROUNDS   8
#define ROUND_S  0.4
#define BATCHES  16
#define KEYS_MAX 16

static const struct {
    const char *name;
    enum gw_model_kind kind;
    struct gw_string_list layers;
} cases[] = {
    {"mlp", GW_MODEL_MLP, {4, {"784", "512", "512", "10"}}},
    {"cnn",
     GW_MODEL_CNN,
     {5, {"conv 32 5", "pool 2", "conv 64 5", "pool 2", "dense 128"}}},
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
    struct gw_model_result result;
    gw_model_train(bench->model, &pass, (const float *const *)bench->weight,
                   bench->gradient, NULL, &result);
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

static int bench_case(size_t which, int threads, size_t batch)
{
    static struct gw_config config; /* large */
    struct bench bench = {.ops = gw_backends[0]};
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
        printf("# %s\n%-5s  %5s  %12s  %15s  %8s  %10s\n", text, "model",
               "batch", "samples/s", "with momentum", "GFLOP/s", "MiB");
    }
    make_arrays(&bench, batch);
    double bare = best_rate(&bench, batch, 0);
    double updated = best_rate(&bench, batch, 1);
    printf("%-5s  %5zu  %12.0f  %15.0f  %8.1f  %10.1f\n", cases[which].name,
           batch, bare, updated,
           bare * (double)gw_model_flop(bench.model) * 1e-9,
           (double)gw_model_bytes(bench.model) / (1 << 20));
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
