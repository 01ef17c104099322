/*
 * Times single operations of a compute backend. Asked by lines on its standard
 * input, so that gpu.py can take turns with another program on the same GPU:
 *
 *   OPERATION fp32|tf32|bf16|fp16 SECONDS NUMBER..
 *
 * each answered by a line: the seconds that a call takes, in a row of as many
 * as fill SECONDS, or "no" and why not. The numbers are those of the shape in
 * kernels/kernels.h, in its order; of `copy`, `upload` and `fetch` they are
 * bytes. Figures are of the wall clock, with what it takes to queue a call.
 *
 *   gpu_ops [BACKEND]    cuda
 */
#include "config.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/kernels.h"

#define NUMBERS_MAX 9
#define BUFFERS_MAX 7
#define NOISE_BYTES ((size_t)16 << 20)
#define WARM_UP     3

static const struct gw_backend_ops *ops;
#define PRECISIONS (GW_PRECISION_FP16 + 1)
static struct gw_device *devices[PRECISIONS];
static char *noise; /* of the host, pinned; normal numbers */

/* Of the driver, what a backend has no operation for; NULL: not there. */
static struct {
    int (*copy)(uintptr_t to, uintptr_t from, size_t bytes);
    int (*wait)(void);
} driver;

/* What is being timed. */
struct request {
    enum gw_precision precision;
    struct gw_device *device;
    size_t number[NUMBERS_MAX];
    void *buffer[BUFFERS_MAX];
    char *host;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- operations ---- */

/* How much device memory, by buffer, in bytes; and one call of it. */
struct operation {
    const char *name;
    size_t numbers;
    void (*room)(const struct request *r, size_t bytes[BUFFERS_MAX]);
    void (*call)(const struct request *r);
};

static struct gw_dense_shape dense_of(const struct request *r)
{
    return (struct gw_dense_shape){r->number[0], r->number[1], r->number[2],
                                   r->number[3] != 0, 0};
}

enum {
    X,
    W,
    B,
    Y,
    DX,
    DW,
    SCRATCH
};

static void dense_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    const struct gw_dense_shape s = dense_of(r);
    bytes[X] = s.n * s.in * sizeof(float);
    bytes[W] = s.in * s.out * sizeof(float);
    bytes[B] = s.out * sizeof(float);
    bytes[Y] = s.n * s.out * sizeof(float);
    bytes[SCRATCH] = ops->dense_scratch_bytes(&s, r->precision);
}

static void dense_backward_room(const struct request *r,
                                size_t bytes[BUFFERS_MAX])
{
    dense_room(r, bytes);
    bytes[DX] = bytes[X];
    bytes[DW] = bytes[W];
}

static void dense_forward(const struct request *r)
{
    const struct gw_dense_shape s = dense_of(r);
    ops->dense_forward(r->device, &s, r->buffer[X], r->buffer[W], r->buffer[B],
                       r->buffer[Y], NULL, r->buffer[SCRATCH]);
}

static void dense_backward(const struct request *r)
{
    const struct gw_dense_shape s = dense_of(r);
    ops->dense_backward(r->device, &s, r->buffer[X], NULL, r->buffer[W],
                        r->buffer[Y], 0, r->buffer[DX], r->buffer[DW],
                        r->buffer[B], r->buffer[SCRATCH]);
}

static struct gw_conv_shape conv_of(const struct request *r)
{
    const size_t *n = r->number;
    return (struct gw_conv_shape){n[0], n[1], n[2], n[3],      n[4], n[5],
                                  n[5], n[6], n[7], n[8] != 0, 0};
}

static void conv_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    const struct gw_conv_shape s = conv_of(r);
    size_t oh = (s.h + 2 * s.pad - s.kh) / s.stride + 1;
    size_t ow = (s.w + 2 * s.pad - s.kw) / s.stride + 1;
    bytes[X] = s.n * s.in * s.h * s.w * sizeof(float);
    /* and behind the kernels their gradients */
    bytes[W] = 2 * s.out * s.in * s.kh * s.kw * sizeof(float);
    bytes[B] = s.out * sizeof(float);
    bytes[Y] = s.n * s.out * oh * ow * sizeof(float);
    bytes[DX] = bytes[X];
    bytes[SCRATCH] = ops->conv_scratch_bytes(&s, r->precision);
}

static void conv_forward(const struct request *r)
{
    const struct gw_conv_shape s = conv_of(r);
    ops->conv_forward(r->device, &s, r->buffer[X], r->buffer[W], r->buffer[B],
                      r->buffer[Y], r->buffer[SCRATCH]);
}

static void conv_backward(const struct request *r)
{
    const struct gw_conv_shape s = conv_of(r);
    float *w = r->buffer[W];
    ops->conv_backward(r->device, &s, r->buffer[X], w, r->buffer[Y], 0,
                       r->buffer[DX], w + s.out * s.in * s.kh * s.kw,
                       r->buffer[B], r->buffer[SCRATCH]);
}

static struct gw_pool_shape pool_of(const struct request *r)
{
    const size_t *n = r->number;
    return (struct gw_pool_shape){n[0], n[1], n[2], n[3], n[4], n[5]};
}

static void pool_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    const struct gw_pool_shape s = pool_of(r);
    size_t oh = (s.h - s.size) / s.stride + 1;
    size_t outputs = s.n * s.c * oh * ((s.w - s.size) / s.stride + 1);
    bytes[X] = s.n * s.c * s.h * s.w * sizeof(float);
    bytes[W] = outputs * sizeof(float);
    bytes[B] = outputs; /* argmax */
}

static void pool_forward(const struct request *r)
{
    const struct gw_pool_shape s = pool_of(r);
    ops->pool_forward(r->device, &s, r->buffer[X], r->buffer[W], r->buffer[B]);
}

static void pool_backward(const struct request *r)
{
    const struct gw_pool_shape s = pool_of(r);
    ops->pool_backward(r->device, &s, r->buffer[W], r->buffer[B], r->buffer[X]);
}

#define PARTS_MAX 4 /* what is left of the buffers has their sum */

static void parts_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    for (size_t i = 0; i <= PARTS_MAX; i++)
        bytes[i] = i < r->number[0] || i == PARTS_MAX
                       ? r->number[1] * sizeof(float)
                       : 0;
    bytes[PARTS_MAX + 1] = PARTS_MAX;
}

static void add_parts(const struct request *r)
{
    const float *parts[PARTS_MAX] = {NULL};
    for (size_t i = 0; i < PARTS_MAX; i++)
        parts[i] = r->buffer[i];
    ops->add_parts(r->device, parts, PARTS_MAX, r->number[1],
                   r->buffer[PARTS_MAX], r->buffer[PARTS_MAX + 1]);
}

static void widen_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    bytes[0] = r->number[0] * sizeof(uint16_t);
    bytes[1] = r->number[0] * sizeof(float);
}

static void widen(const struct request *r)
{
    ops->widen(r->device, r->number[0], r->buffer[0], r->buffer[1]);
}

static void rows_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    bytes[0] = bytes[1] = r->number[0] * r->number[1] * sizeof(float);
    bytes[2] = r->number[0] * sizeof(int32_t);
    bytes[3] = sizeof(struct gw_loss);
}

static void dropout(const struct request *r)
{
    const struct gw_dropout_site site = {.seed = 1, .p = 0.25f};
    ops->dropout(r->device, &site, r->number[0], r->number[1], r->buffer[0],
                 r->buffer[1]);
}

static void softmax_loss(const struct request *r)
{
    ops->softmax_loss(r->device, r->number[0], r->number[1], r->buffer[0],
                      r->buffer[2], 1, r->buffer[1], r->buffer[3]);
}

/* ---- copies ---- */

static void bytes_room(const struct request *r, size_t bytes[BUFFERS_MAX])
{
    bytes[0] = bytes[1] = r->number[0];
}

/* Within the device, by its driver: what the memory can do. */
static void copy(const struct request *r)
{
    driver.copy((uintptr_t)r->buffer[0], (uintptr_t)r->buffer[1], r->number[0]);
}

static void upload(const struct request *r)
{
    ops->upload(r->device, r->buffer[0], r->host, r->number[0]);
}

static void fetch(const struct request *r)
{
    ops->fetch(r->device, r->host, r->buffer[1], r->number[0]);
}

static void both(const struct request *r)
{
    ops->upload(r->device, r->buffer[0], r->host, r->number[0]);
    ops->fetch(r->device, r->host + r->number[0], r->buffer[1], r->number[0]);
}

static const struct operation operations[] = {
    {"dense_forward", 4, dense_room, dense_forward},
    {"dense_backward", 4, dense_backward_room, dense_backward},
    {"conv_forward", 9, conv_room, conv_forward},
    {"conv_backward", 9, conv_room, conv_backward},
    {"pool_forward", 6, pool_room, pool_forward},
    {"pool_backward", 6, pool_room, pool_backward},
    {"add_parts", 2, parts_room, add_parts},
    {"widen", 1, widen_room, widen},
    {"dropout", 2, rows_room, dropout},
    {"softmax_loss", 2, rows_room, softmax_loss},
    {"copy", 1, bytes_room, copy},
    {"upload", 1, bytes_room, upload},
    {"fetch", 1, bytes_room, fetch},
    {"both", 1, bytes_room, both},
};

/* ---- timing ---- */

/* The copy within the device has a queue of its own. */
static int wait(const struct request *r, struct gw_error *error)
{
    if (ops->sync(r->device, error) != GW_OK)
        return 0;
    if (driver.wait && driver.wait() != 0) {
        gw_fail(error, GW_EIO, "cuCtxSynchronize fails");
        return 0;
    }
    return 1;
}

static int time_calls(const struct operation *operation,
                      const struct request *r,
                      double seconds,
                      double *each_p,
                      struct gw_error *error)
{
    double spent = 0;
    size_t calls = 1;
    for (int i = 0; i < WARM_UP; i++)
        operation->call(r);
    if (!wait(r, error))
        return 0;
    for (;;) {
        double start = now_s();
        for (size_t i = 0; i < calls; i++)
            operation->call(r);
        if (!wait(r, error))
            return 0;
        spent = now_s() - start;
        if (spent >= 0.7 * seconds)
            break;
        double more = spent > 0.01 * seconds ? seconds / spent : 50;
        calls = (size_t)((double)calls * more) + 1;
    }
    *each_p = spent / (double)calls;
    return 1;
}

/* Labels would have to be below the classes: zeros are. */
static void fill(const struct request *r, size_t which, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += NOISE_BYTES) {
        size_t n = bytes - at < NOISE_BYTES ? bytes - at : NOISE_BYTES;
        ops->upload(r->device, (char *)r->buffer[which] + at, noise, n);
    }
}

static int
get_memory(const struct operation *operation, struct request *r, char *why)
{
    size_t bytes[BUFFERS_MAX] = {0};
    if (operation->call == copy && !driver.copy) {
        strcpy(why, "the driver has no cuMemcpyDtoD_v2");
        return 0;
    }
    operation->room(r, bytes);
    int labels = operation->call == softmax_loss;
    int argmax = operation->call == pool_backward;
    for (size_t i = 0; i < BUFFERS_MAX; i++) {
        if (bytes[i] == 0)
            continue;
        r->buffer[i] = ops->alloc(r->device, bytes[i]);
        if (!r->buffer[i]) {
            sprintf(why, "%zu MiB of the device are not free", bytes[i] >> 20);
            return 0;
        }
        if (!(labels && i >= 2) && !(argmax && i == 2))
            fill(r, i, bytes[i]);
    }
    if (operation->room == bytes_room) {
        r->host = ops->alloc_host(r->device, 2 * r->number[0]);
        if (!r->host)
            sprintf(why, "no pinned memory of %zu MiB", r->number[0] >> 19);
    }
    return operation->room != bytes_room || r->host != NULL;
}

static void
answer(const struct operation *operation, struct request *r, double seconds)
{
    struct gw_error error;
    char why[128] = "";
    double each = 0;
    if (get_memory(operation, r, why)) {
        if (!time_calls(operation, r, seconds, &each, &error)) {
            printf("no %s\n", error.text);
            exit(1); /* from then on all calls fail */
        }
        printf("%.9g\n", each);
    } else {
        printf("no %s\n", why);
    }
    fflush(stdout);
    ops->sync(r->device, &error);
    for (size_t i = 0; i < BUFFERS_MAX; i++)
        ops->free(r->device, r->buffer[i]);
    if (r->host)
        ops->free_host(r->device, r->host);
}

/* ---- requests ---- */

static void take(char *line)
{
    struct request r = {.device = NULL};
    char *rest = NULL, *name = strtok_r(line, " \n", &rest);
    char *precision = strtok_r(NULL, " \n", &rest);
    char *seconds = strtok_r(NULL, " \n", &rest), *word;
    size_t numbers = 0;
    while (numbers < NUMBERS_MAX && (word = strtok_r(NULL, " \n", &rest)))
        r.number[numbers++] = strtoul(word, NULL, 10);
    while (precision && r.precision < PRECISIONS &&
           strcmp(gw_precision_name(r.precision), precision) != 0)
        r.precision++;
    if (!name || !precision || !seconds || r.precision == PRECISIONS) {
        puts("no OPERATION fp32|tf32|bf16|fp16 SECONDS NUMBER..");
        fflush(stdout);
        return;
    }
    r.device = devices[r.precision];
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, name) == 0 &&
            operations[i].numbers == numbers) {
            answer(&operations[i], &r, strtod(seconds, NULL));
            return;
        }
    printf("no operation %s of %zu numbers\n", name, numbers);
    fflush(stdout);
}

/* Sums of uniform numbers are normal enough. */
static void make_noise(void)
{
    uint64_t state = 1;
    float *x = (float *)(void *)noise;
    for (size_t i = 0; i < NOISE_BYTES / sizeof(float); i++) {
        float sum = -2;
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(state >> 40) * 0x1p-24f;
        }
        x[i] = sum * 1.7320508f;
    }
}

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *at = library ? dlsym(library, "cuMemcpyDtoD_v2") : NULL;
    *(void **)&driver.copy = at;
    at = library ? dlsym(library, "cuCtxSynchronize") : NULL;
    *(void **)&driver.wait = at;
}

int main(int argc, char **argv)
{
    char line[512], text[512];
    struct gw_error error;
    ops = gw_backend_find(argc > 1 ? argv[1] : "cuda", &error);
    if (!ops) {
        printf("no %s\n", error.text);
        return 0;
    }
    for (size_t i = 0; i < PRECISIONS; i++) {
        const struct gw_device_options options = {
            .threads = 1, .precision = (enum gw_precision)i};
        if (ops->open(&options, &devices[i], &error) != GW_OK) {
            printf("no %s\n", error.text);
            return 0;
        }
    }
    noise = ops->alloc_host(devices[0], NOISE_BYTES);
    if (!noise) {
        puts("no pinned memory");
        return 0;
    }
    make_noise();
    find_driver();
    ops->describe(devices[0], text, sizeof text);
    printf("%s\n", text);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        take(line);
    ops->free_host(devices[0], noise);
    for (size_t i = 0; i < PRECISIONS; i++)
        ops->close(devices[i]);
    return 0;
}
