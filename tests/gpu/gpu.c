#include "config.h"

#include "tests/gpu/gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct gw_backend_ops *cuda, *cpu;
double most_flop = 100e9;

int find_gpu(int argc, char **argv)
{
    struct gw_error error;
    if (argc > 1)
        most_flop = strtod(argv[1], NULL) * 1e9;
    cmocka_set_test_filter(getenv("GW_CASES"));
    cuda = gw_backend_find("cuda", &error);
    cpu = gw_backend_find("cpu", NULL);
    if (!cuda)
        printf("1..0 # SKIP %s\n", error.text);
    return cuda != NULL;
}

struct gw_device *open_on(const struct gw_backend_ops *on,
                          enum gw_precision rounds)
{
    /* $GW_THREADS: the thread sanitizer cannot follow the BLAS's own threads */
    const char *asked = getenv("GW_THREADS");
    long threads = asked ? atol(asked) : sysconf(_SC_NPROCESSORS_ONLN);
    struct gw_device_options options = {
        .threads = threads < 8 ? (int)threads : 8,
        .precision = rounds,
    };
    struct gw_device *opened = NULL;
    struct gw_error error;
    if (on->open(&options, &opened, &error) != GW_OK)
        fail_msg("%s", error.text);
    return opened;
}

static int open_in(enum gw_precision its)
{
    ops = cuda;
    precision = its;
    device = open_on(cuda, its);
    return 0;
}

int open_fp32(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_FP32);
}

int open_tf32(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_TF32);
}

int open_bf16(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_BF16);
}

int open_fp16(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_FP16);
}

int close_device(void **state)
{
    char report[GW_REPORT_BYTES];
    (void)state;
    cuda->report(device, report, sizeof report);
    if (report[0])
        print_message("# %s: %s\n", gw_precision_name(precision), report);
    cuda->close(device);
    return 0;
}

/* ---- layers, compared with the cpu ---- */

void sizes_of(const struct layer *l, size_t elems[ARRAYS])
{
    const struct gw_dense_shape *d = &l->dense;
    const struct gw_conv_shape *c = &l->conv;
    elems[X] = d->n * d->in;
    elems[W] = d->out * d->in;
    elems[B] = d->out;
    elems[Y] = d->n * d->out;
    if (c->n) {
        elems[X] = c->n * c->in * c->h * c->w;
        elems[W] = c->out * c->in * c->kh * c->kw;
        elems[B] = c->out;
        elems[Y] = c->n * c->out * reference_conv_oh(c) * reference_conv_ow(c);
    }
    elems[DY] = elems[Y];
    elems[DX] = elems[X];
    elems[DW] = elems[W];
    elems[DB] = elems[B];
}

double flop_of(const struct layer *l)
{
    size_t elems[ARRAYS];
    sizes_of(l, elems);
    return 6.0 * (double)elems[Y] * (double)elems[W] / (double)elems[B];
}

size_t scratch_of(const struct gw_backend_ops *on, const struct layer *l)
{
    return l->conv.n ? on->conv_scratch_bytes(&l->conv, precision)
                     : on->dense_scratch_bytes(&l->dense, precision);
}

void compute(const struct gw_backend_ops *on,
             struct gw_device *at,
             const struct layer *l,
             float *const a[ARRAYS],
             void *scratch)
{
    const struct gw_conv_shape *c = &l->conv;
    if (c->n) {
        on->conv_forward(at, c, a[X], a[W], a[B], a[Y], scratch);
        on->conv_backward(at, c, a[X], a[W], a[DY], 0, a[DX], a[DW], a[DB],
                          scratch);
    } else {
        on->dense_forward(at, &l->dense, a[X], a[W], a[B], a[Y], NULL, scratch);
        on->dense_backward(at, &l->dense, a[X], NULL, a[W], a[DY], 0, a[DX],
                           a[DW], a[DB], scratch);
    }
    struct gw_error error;
    if (on->sync(at, &error) != GW_OK)
        fail_msg("%s", error.text);
}

void on_device(const struct layer *l,
               float *const given[GIVEN],
               float *results[ARRAYS])
{
    size_t elems[ARRAYS];
    float *a[ARRAYS];
    sizes_of(l, elems);
    for (size_t i = 0; i < ARRAYS; i++)
        a[i] = i < GIVEN ? to_device(given[i], elems[i]) : poisoned(elems[i]);
    void *scratch = ops->alloc(device, scratch_of(ops, l));
    assert_non_null(scratch);
    compute(ops, device, l, a, scratch);
    ops->free(device, scratch);
    for (size_t i = GIVEN; i < ARRAYS; i++)
        results[i] = to_host(a[i], elems[i]);
    for (size_t i = 0; i < ARRAYS; i++)
        ops->free(device, a[i]);
}

void compute_once(const struct layer *l)
{
    size_t elems[ARRAYS];
    float *given[GIVEN], *results[ARRAYS];
    sizes_of(l, elems);
    for (uint32_t i = 0; i < GIVEN; i++)
        given[i] = random_host(i + 1, elems[i]);
    on_device(l, given, results);
    for (size_t i = 0; i < ARRAYS; i++)
        free(i < GIVEN ? given[i] : results[i]);
}

/* The same on the cpu; with `sizes` the sums of the terms' magnitudes. */
static void on_cpu(const struct layer *l,
                   float *const given[GIVEN],
                   int sizes,
                   float *results[ARRAYS])
{
    struct layer plain = *l;
    struct gw_device *at = open_on(cpu, GW_PRECISION_FP32);
    size_t elems[ARRAYS];
    float *a[ARRAYS];
    sizes_of(l, elems);
    if (sizes)
        plain.dense.relu = plain.conv.relu = 0;
    for (size_t i = 0; i < ARRAYS; i++) {
        a[i] = cpu->alloc(at, elems[i] * sizeof(float));
        for (size_t e = 0; i < GIVEN && e < elems[i]; e++)
            a[i][e] = sizes ? fabsf(given[i][e]) : given[i][e];
    }
    void *scratch = cpu->alloc(at, scratch_of(cpu, &plain));
    compute(cpu, at, &plain, a, scratch);
    cpu->free(at, scratch);
    for (size_t i = 0; i < ARRAYS; i++) {
        size_t bytes = elems[i] * sizeof(float);
        if (i >= GIVEN)
            results[i] = memcpy(malloc(bytes), a[i], bytes);
        cpu->free(at, a[i]);
    }
    cpu->close(at);
}

double
farthest(const float *is, const float *should, const float *size, size_t elems)
{
    double most = 0;
    for (size_t i = 0; i < elems; i++) {
        double off = fabs((double)is[i] - (double)should[i]) /
                     ((double)fabsf(size[i]) + 1e-30);
        if (!(off <= most)) /* also for a NaN */
            most = off;
    }
    return most;
}

double compare(const struct layer *l, double limit)
{
    static const char *const names[] = {
        [Y] = "y", [DX] = "dx", [DW] = "dw", [DB] = "db"};
    float *given[GIVEN], *is[ARRAYS], *should[ARRAYS], *size[ARRAYS];
    size_t elems[ARRAYS];
    double most = 0;
    sizes_of(l, elems);
    for (uint32_t i = 0; i < GIVEN; i++)
        given[i] = random_host(i + 1, elems[i]);
    on_cpu(l, given, 0, should);
    on_cpu(l, given, 1, size);
    on_device(l, given, is);
    for (size_t i = GIVEN; i < ARRAYS; i++) {
        double off = farthest(is[i], should[i], size[i], elems[i]);
        if (!(off <= limit))
            fail_msg("%zu of %zu to %zu, %s: off by %.3g of the terms, more "
                     "than %.3g",
                     l->conv.n ? l->conv.n : l->dense.n,
                     l->conv.n ? l->conv.in : l->dense.in,
                     l->conv.n ? l->conv.out : l->dense.out, names[i], off,
                     limit);
        most = off > most ? off : most;
        free(is[i]), free(should[i]), free(size[i]);
    }
    for (size_t i = 0; i < GIVEN; i++)
        free(given[i]);
    return most;
}
