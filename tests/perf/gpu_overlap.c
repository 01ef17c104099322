/*
 * Copies beside the computation, in a worker's own step: when the backward of
 * each layer is done on the device, when its gradients have come to the host,
 * and how much of the time that they take is hidden. The same of weights, on
 * their way to the device under forward.
 *
 *   gpu_overlap [BACKEND [WIDTH [BATCH [ROUNDS]]]]    cuda 4096 4096 15
 *
 * The model is an mlp of three layers of WIDTH. Where a layer's copies begin
 * and end is seen by points of the device's queue of copies, on both sides of
 * them: a point behind nothing is reached when the gradients are made and the
 * copies before are done. Computing alone (where of each tensor one number is
 * copied, to tell when it was made), the copies alone, and both are timed in
 * turns; hidden is (computing + copies - both) / copies, of the medians. 1 is
 * all of it, and cannot be reached: the first layer's copies have nothing to
 * hide behind.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker/trainer/mirror.h"
#include "worker/model/model.h"

#define KEYS_MAX   16
#define LAYERS_MAX (KEYS_MAX / 2)
#define ROUNDS_MAX 99
#define COLUMNS    60

static const struct gw_dataset_shape fashion = {60000, 1, 28, 28, 10};

static struct bench {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    struct gw_model *model;
    struct gw_mirror *mirror;
    const struct gw_key *key;
    size_t keys, batch, bytes; /* of all keys */
    float *weight[KEYS_MAX], *gradient[KEYS_MAX];
    float *arena[2]; /* behind them */
    float *x;
    int32_t *labels;
    struct gw_error error;
} bench;

/* What a pass does. */
enum way {
    COMPUTE = 1, /* of each gradient only its first element is copied */
    COPY = 2,    /* nothing is computed */
    BOTH = 3
};
enum {
    WAYS = 4
};

/* Of each way, seconds since a step began. */
static struct times {
    double begun[LAYERS_MAX][ROUNDS_MAX];   /* a layer's gradients leave, */
    double arrived[LAYERS_MAX][ROUNDS_MAX]; /* and are there */
    double step[ROUNDS_MAX];                /* all of them */
    double forward[ROUNDS_MAX];             /* of a forward by itself */
} times[WAYS];

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "gpu_overlap: %s: %s\n", what, bench.error.text);
    exit(1);
}

static void check(enum gw_status status, const char *what)
{
    if (status != GW_OK)
        die(what);
}

/* ---- what is measured ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t n)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

/* ---- a model and its arenas ---- */

static void open_model(const char *backend, const char *width)
{
    static struct gw_config config; /* large */
    const struct gw_device_options options = {.threads = 1};
    bench.ops = gw_backend_find(backend, &bench.error);
    if (!bench.ops)
        die(backend);
    check(bench.ops->open(&options, &bench.device, &bench.error), backend);
    config.model.kind = GW_MODEL_MLP;
    config.model.layers.n = 5;
    snprintf(config.model.layers.item[0], GW_STRING_MAX, "784");
    for (size_t i = 1; i < 4; i++)
        snprintf(config.model.layers.item[i], GW_STRING_MAX, "%s", width);
    snprintf(config.model.layers.item[4], GW_STRING_MAX, "10");
    check(gw_model_create(&config, &fashion, bench.batch, bench.ops,
                          bench.device, &bench.model, &bench.error),
          "a model");
    bench.key = gw_model_keys(bench.model, &bench.keys);
}

/* As a worker has them: pinned, and every key at a cache line. */
static void open_arenas(void)
{
    size_t room = 0, at = 0;
    for (size_t k = 0; k < bench.keys; k++)
        room += (gw_key_elems(&bench.key[k]) + 15) / 16 * 16;
    for (int i = 0; i < 2; i++) {
        bench.arena[i] =
            bench.ops->alloc_host(bench.device, room * sizeof(float));
        if (!bench.arena[i])
            die("pinned memory");
    }
    for (size_t k = 0; k < bench.keys; k++) {
        bench.weight[k] = bench.arena[0] + at;
        bench.gradient[k] = bench.arena[1] + at;
        at += (gw_key_elems(&bench.key[k]) + 15) / 16 * 16;
        bench.bytes += gw_key_elems(&bench.key[k]) * sizeof(float);
    }
    gw_model_init(bench.model, 1, bench.weight);
    const struct gw_mirror_of of = {.ops = bench.ops,
                                    .device = bench.device,
                                    .key = bench.key,
                                    .keys = bench.keys,
                                    .arena = bench.arena[0],
                                    .bytes = room * sizeof(float),
                                    .weight = bench.weight,
                                    .gradient = bench.gradient};
    check(gw_mirror_open(&of, &bench.mirror, &bench.error), "a mirror");
}

static void open_batch(void)
{
    size_t pixels = fashion.height * fashion.width;
    size_t bytes = bench.batch * pixels * sizeof(float);
    float *host = bench.ops->alloc_host(bench.device, bytes);
    bench.x = bench.ops->alloc(bench.device, bytes);
    bench.labels =
        bench.ops->alloc(bench.device, bench.batch * sizeof *bench.labels);
    if (!host || !bench.x || !bench.labels)
        die("a batch");
    for (size_t i = 0; i < bench.batch * pixels; i++)
        host[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    bench.ops->upload(bench.device, bench.x, host, bytes);
    check(bench.ops->sync(bench.device, &bench.error), "a batch");
    bench.ops->free_host(bench.device, host);
}

static void close_all(void)
{
    gw_mirror_close(bench.mirror);
    for (int i = 0; i < 2; i++)
        bench.ops->free_host(bench.device, bench.arena[i]);
    bench.ops->free(bench.device, bench.x);
    bench.ops->free(bench.device, bench.labels);
    gw_model_destroy(bench.model);
    bench.ops->close(bench.device);
}

/* ---- a step, in each way ---- */

/* Layers in the order of backward, and the points at which their gradients
   leave and have come. */
struct pass {
    enum way way;
    double start;
    size_t layer[LAYERS_MAX], layers;
    uint64_t begin[LAYERS_MAX], end[LAYERS_MAX];
};

static void show(const struct pass *pass, size_t first, size_t n)
{
    if (pass->way & COPY)
        gw_mirror_upload(bench.mirror, first, n, GW_ENCODING_RAW);
}

static enum gw_status on_need(void *context, size_t first, size_t n)
{
    show(context, first, n);
    return GW_OK;
}

static enum gw_status on_ready(void *context, size_t first, size_t n)
{
    struct pass *pass = context;
    float *const *made = gw_mirror_gradients(bench.mirror);
    uint64_t point =
        bench.ops->fetch(bench.device, bench.gradient[first], made[first], 0);
    pass->begin[pass->layers] = point;
    for (size_t k = first; k < first + n; k++)
        point = bench.ops->fetch(
            bench.device, bench.gradient[k], made[k],
            pass->way & COPY ? gw_key_elems(&bench.key[k]) * sizeof(float)
                             : sizeof(float));
    pass->layer[pass->layers] = first / 2;
    pass->end[pass->layers++] = point;
    return GW_OK;
}

static double reached(const struct pass *pass, uint64_t point)
{
    check(bench.ops->reach(bench.device, point, 1, &bench.error), "a copy");
    return now_s() - pass->start;
}

static void await_gradients(struct pass *pass, size_t round)
{
    struct times *t = &times[pass->way];
    for (size_t i = 0; i < pass->layers; i++) {
        t->begun[pass->layer[i]][round] = reached(pass, pass->begin[i]);
        t->arrived[pass->layer[i]][round] = reached(pass, pass->end[i]);
    }
    check(bench.ops->sync(bench.device, &bench.error), "a step");
    t->step[round] = now_s() - pass->start;
}

static struct gw_model_pass samples(void)
{
    return (struct gw_model_pass){.x = bench.x,
                                  .labels = bench.labels,
                                  .n = bench.batch,
                                  .scale = 1,
                                  .last = 1};
}

static double run_forward(enum way way)
{
    struct pass pass = {.way = way};
    const struct gw_model_hooks hooks = {.context = &pass, .need = on_need};
    const struct gw_model_pass batch = samples();
    check(gw_mirror_begin(bench.mirror, &bench.error), "a step");
    double start = now_s();
    if (way & COMPUTE)
        check(gw_model_score(bench.model, &batch,
                             gw_mirror_weights(bench.mirror), &hooks),
              "forward");
    else
        show(&pass, 0, bench.keys);
    check(bench.ops->sync(bench.device, &bench.error), "forward");
    return now_s() - start;
}

static enum gw_status no_need(void *context, size_t first, size_t n)
{
    (void)context, (void)first, (void)n;
    return GW_OK;
}

static void nothing_computed(void *context, uint64_t flop)
{
    (void)context, (void)flop;
}

/* Forward and backward, with the weights there. */
static void run_step(enum way way, size_t round)
{
    struct pass pass = {.way = way};
    const struct gw_model_hooks hooks = {&pass, no_need, on_ready,
                                         nothing_computed};
    const struct gw_model_pass batch = samples();
    check(bench.ops->sync(bench.device, &bench.error), "a step");
    pass.start = now_s();
    if (way & COMPUTE)
        check(gw_model_train(bench.model, &batch,
                             gw_mirror_weights(bench.mirror),
                             gw_mirror_gradients(bench.mirror), &hooks),
              "a step");
    for (size_t k = bench.keys; k > 0 && !(way & COMPUTE); k -= 2)
        on_ready(&pass, k - 2, 2);
    await_gradients(&pass, round);
}

/* ---- the timeline ---- */

static void print_bar(double begin, double end, double all, char with)
{
    int from = (int)(begin / all * COLUMNS), to = (int)(end / all * COLUMNS);
    for (int i = 0; i < COLUMNS; i++)
        putchar(i >= from && (i < to || i == from) ? with : ' ');
}

static double arrived(enum way way, size_t layer, size_t rounds)
{
    return median(times[way].arrived[layer], rounds);
}

static double begun(enum way way, size_t layer, size_t rounds)
{
    return median(times[way].begun[layer], rounds);
}

static size_t layer_bytes(size_t layer)
{
    return (gw_key_elems(&bench.key[2 * layer]) +
            gw_key_elems(&bench.key[2 * layer + 1])) *
           sizeof(float);
}

/* From the last layer, where backward begins, to the first. */
static void print_timeline(size_t rounds)
{
    size_t layers = bench.keys / 2;
    double all = median(times[BOTH].step, rounds);
    double before = median(times[COMPUTE].forward, rounds);
    printf("# '=' a layer's backward on the device, '>' its gradients on their "
           "way to the host; ms since the step began, medians, as the host "
           "sees them (some us late)\n");
    printf("# layer    MiB     done    leaves     there\n");
    for (size_t i = layers; i-- > 0;) {
        double done = arrived(COMPUTE, i, rounds);
        double there = arrived(BOTH, i, rounds);
        double leaves = begun(BOTH, i, rounds);
        printf("  fc%zu  %7.1f  %7.3f   %7.3f   %7.3f  |", i + 1,
               (double)layer_bytes(i) / (1 << 20), done * 1e3, leaves * 1e3,
               there * 1e3);
        print_bar(before < done ? before : done, done, all, '=');
        printf("|\n%43s|", "");
        print_bar(leaves, there, all, '>');
        printf("|\n");
        before = done;
    }
}

static void print_hidden(const char *what, const double medians[WAYS])
{
    double sum = medians[COMPUTE] + medians[COPY];
    double hidden = (sum - medians[BOTH]) / medians[COPY];
    printf("%-28s computing %8.3f ms, copies %8.3f ms at %5.1f GB/s, both "
           "%8.3f ms: %.2f of the copies hidden\n",
           what, medians[COMPUTE] * 1e3, medians[COPY] * 1e3,
           (double)bench.bytes / medians[COPY] * 1e-9, medians[BOTH] * 1e3,
           hidden);
}

static void measure(size_t rounds)
{
    double forward[WAYS], step[WAYS];
    run_forward(BOTH); /* plans are made, weights are there */
    run_step(BOTH, 0);
    for (size_t round = 0; round < rounds; round++)
        for (int way = COMPUTE; way <= BOTH; way++) {
            run_forward(BOTH);
            times[way].forward[round] = run_forward((enum way)way);
            run_step((enum way)way, round);
        }
    for (int way = COMPUTE; way <= BOTH; way++) {
        forward[way] = median(times[way].forward, rounds);
        step[way] = median(times[way].step, rounds);
    }
    print_timeline(rounds);
    print_hidden("gradients under backward", step);
    print_hidden("weights under forward", forward);
}

int main(int argc, char **argv)
{
    char text[512];
    const char *width = argc > 2 ? argv[2] : "4096";
    size_t rounds = argc > 4 ? strtoul(argv[4], NULL, 10) : 15;
    bench.batch = argc > 3 ? strtoul(argv[3], NULL, 10) : 4096;
    rounds = rounds < 1 ? 1 : rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    open_model(argc > 1 ? argv[1] : "cuda", width);
    open_arenas();
    open_batch();
    bench.ops->describe(bench.device, text, sizeof text);
    printf("# %s\n# mlp 784-%s-%s-%s-10, %.1f MB, batch %zu, medians of %zu\n",
           text, width, width, width, (double)bench.bytes * 1e-6, bench.batch,
           rounds);
    measure(rounds);
    close_all();
    return 0;
}
