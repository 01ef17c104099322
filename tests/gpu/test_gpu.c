/*
 * What the table tests are too small for, on a real GPU: products and
 * convolutions of the sizes of models against the cpu's, TF32, the same bits
 * again, copies beside the computation, arrays of more than 2^31 elements, and
 * memory that runs out. Skipped, with the reason, where no GPU is.
 *
 *   test_gpu [GFLOP]    leaves out what is more arithmetic than that
 *
 * $GW_CASES is a pattern of the cases that alone are run.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/table/backend.h"

#define GIB ((size_t)1 << 30)

/* Of fp32 sums, of sums that tensor cores take, which do not round but cut off,
   and of factors with 10 bits of mantissa, relative to the sum of the terms'
   sizes. */
#define CLOSE      2e-6
#define CLOSE_CUT  1e-5
#define CLOSE_TF32 (1.0 / 1024 + CLOSE_CUT)

static const struct gw_backend_ops *cuda, *cpu;
static double most_flop = 100e9;

static struct gw_device *open_on(const struct gw_backend_ops *on,
                                 enum gw_precision rounds)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct gw_device_options options = {
        .threads = processors < 8 ? (int)processors : 8,
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

static int open_fp32(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_FP32);
}

static int open_tf32(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_TF32);
}

static int open_bf16(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_BF16);
}

static int open_fp16(void **state)
{
    (void)state;
    return open_in(GW_PRECISION_FP16);
}

static int close_device(void **state)
{
    (void)state;
    cuda->close(device);
    return 0;
}

/* ---- layers of real sizes, beside the cpu ---- */

enum array {
    X,
    W,
    B,
    DY,
    GIVEN,
    Y = GIVEN,
    DX,
    DW,
    DB,
    ARRAYS
};

/* A dense layer, or a convolution where conv.n is set. */
struct layer {
    struct gw_dense_shape dense;
    struct gw_conv_shape conv;
};

static const struct layer layers[] = {
    {.dense = {256, 784, 512, 1, 0}},
    {.dense = {256, 512, 512, 1, 1}},
    {.dense = {256, 512, 10, 0, 1}},
    {.dense = {1000, 769, 1031, 1, 0}},
    {.dense = {20000, 64, 64, 0, 0}}, /* dw is a long sum */
    {.dense = {1024, 768, 2304, 0, 0}},
    {.dense = {4096, 768, 3072, 1, 0}},
    {.dense = {2048, 3072, 768, 0, 0}},
    {.conv = {128, 1, 28, 28, 16, 5, 5, 1, 0, 1, 0}},
    {.conv = {128, 16, 12, 12, 32, 5, 5, 1, 0, 1, 1}},
    {.conv = {61, 3, 33, 31, 24, 3, 3, 2, 1, 0, 0}},
    {.conv = {32, 64, 28, 28, 128, 3, 3, 1, 1, 1, 0}},
};

static void sizes_of(const struct layer *l, size_t elems[ARRAYS])
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

static double flop_of(const struct layer *l)
{
    size_t elems[ARRAYS];
    sizes_of(l, elems);
    return 6.0 * (double)elems[Y] * (double)elems[W] / (double)elems[B];
}

/* Forward and backward on any backend. */
static void compute(const struct gw_backend_ops *on,
                    struct gw_device *at,
                    const struct layer *l,
                    float *const a[ARRAYS])
{
    const struct gw_conv_shape *c = &l->conv;
    size_t bytes = c->n ? on->conv_scratch_bytes(c, precision)
                        : on->dense_scratch_bytes(&l->dense, precision);
    void *scratch = on->alloc(at, bytes);
    assert_non_null(scratch);
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
    on->free(at, scratch);
}

/* By the device: results come to host memory, which the caller frees. */
static void on_device(const struct layer *l,
                      float *const given[GIVEN],
                      float *results[ARRAYS])
{
    size_t elems[ARRAYS];
    float *a[ARRAYS];
    sizes_of(l, elems);
    for (size_t i = 0; i < ARRAYS; i++)
        a[i] = i < GIVEN ? to_device(given[i], elems[i]) : poisoned(elems[i]);
    compute(ops, device, l, a);
    for (size_t i = GIVEN; i < ARRAYS; i++)
        results[i] = to_host(a[i], elems[i]);
    for (size_t i = 0; i < ARRAYS; i++)
        ops->free(device, a[i]);
}

/* By the cpu, the same; with `sizes` the sums of what the terms measure. */
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
    compute(cpu, at, &plain, a);
    for (size_t i = 0; i < ARRAYS; i++) {
        size_t bytes = elems[i] * sizeof(float);
        if (i >= GIVEN)
            results[i] = memcpy(malloc(bytes), a[i], bytes);
        cpu->free(at, a[i]);
    }
    cpu->close(at);
}

/* The largest difference, relative to the size of the sum. */
static double
farthest(const float *is, const float *should, const float *size, size_t elems)
{
    double most = 0;
    for (size_t i = 0; i < elems; i++) {
        double off = fabs((double)is[i] - (double)should[i]) /
                     ((double)fabsf(size[i]) + 1e-30);
        if (!(off <= most)) /* also of a NaN */
            most = off;
    }
    return most;
}

/* Returns by how much the device is off. */
static double compare(const struct layer *l, double limit)
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
            fail_msg("shape %d, %s: off by %.3g of the terms, more than %.3g",
                     (int)(l - layers), names[i], off, limit);
        most = off > most ? off : most;
        free(is[i]), free(should[i]), free(size[i]);
    }
    for (size_t i = 0; i < GIVEN; i++)
        free(given[i]);
    return most;
}

static void layers_of_models_are_the_cpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++)
        if (flop_of(&layers[i]) <= most_flop)
            compare(&layers[i], CLOSE);
}

/* Of factors that need not be rounded. */
static void layers_in_16_bits_are_the_cpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++)
        if (flop_of(&layers[i]) <= most_flop)
            compare(&layers[i], CLOSE_CUT);
}

/* And that it is on is seen. */
static void tf32_is_as_near_as_it_says(void **state)
{
    (void)state;
    double most = 0;
    for (size_t i = 0; i < COUNT(layers); i++) {
        if (flop_of(&layers[i]) > most_flop)
            continue;
        double off = compare(&layers[i], CLOSE_TF32);
        most = off > most ? off : most;
    }
    print_message("# tf32: off by %.3g of the terms at most\n", most);
    assert_true(most > CLOSE);
}

/* ---- two layers ---- */

static const struct gw_dense_shape below = {256, 784, 1000, 1, 0};
static const struct gw_dense_shape above = {256, 1000, 300, 0, 1};

enum two {
    TWO_X,
    TWO_W,
    TWO_B,
    TWO_V, /* weights of the upper one, */
    TWO_E, /* and what comes back to it */
    TWO_GIVEN,
    TWO_Y = TWO_GIVEN,
    TWO_DX,
    TWO_DW,
    TWO_DB,
    TWO_ARRAYS
};
static const size_t two_elems[TWO_ARRAYS] = {256 * 784,  784 * 1000, 1000,
                                             1000 * 300, 256 * 300,  256 * 1000,
                                             256 * 1000, 300 * 1000, 300};

/* Again and again, into the same arrays. */
static void compute_two(const struct gw_backend_ops *on,
                        struct gw_device *at,
                        int sizes,
                        float *const a[TWO_ARRAYS])
{
    struct gw_dense_shape low = below, up = above;
    size_t mask_bytes = on->dense_mask_bytes(&below);
    low.relu = up.masks = !sizes;
    void *mask = mask_bytes > 0 ? on->alloc(at, mask_bytes) : NULL;
    void *scratch =
        on->alloc(at, on->dense_scratch_bytes(&below, precision) +
                          on->dense_scratch_bytes(&above, precision));
    for (int time = 0; time < 3; time++) {
        on->dense_forward(at, &low, a[TWO_X], a[TWO_W], a[TWO_B], a[TWO_Y],
                          mask, scratch);
        on->dense_backward(at, &up, a[TWO_Y], mask, a[TWO_V], a[TWO_E], 0,
                           a[TWO_DX], a[TWO_DW], a[TWO_DB], scratch);
    }
    assert_int_equal(on->sync(at, NULL), GW_OK);
    on->free(at, mask), on->free(at, scratch);
}

static void
two_on_cpu(float *const given[TWO_GIVEN], int sizes, float *results[TWO_ARRAYS])
{
    struct gw_device *at = open_on(cpu, GW_PRECISION_FP32);
    for (size_t i = 0; i < TWO_ARRAYS; i++) {
        results[i] =
            aligned_alloc(64, (two_elems[i] * sizeof(float) + 63) / 64 * 64);
        for (size_t e = 0; i < TWO_GIVEN && e < two_elems[i]; e++)
            results[i][e] = sizes ? fabsf(given[i][e]) : given[i][e];
    }
    compute_two(cpu, at, sizes, results);
    cpu->close(at);
}

/* What a product does beside itself, and notes for the next one. A sum near 0
   may be on its other side on the device: then dx is not compared there. */
static void layers_in_a_row_are_the_cpus(void **state)
{
    float *given[TWO_GIVEN], *should[TWO_ARRAYS], *size[TWO_ARRAYS];
    float *a[TWO_ARRAYS];
    (void)state;
    for (uint32_t i = 0; i < TWO_GIVEN; i++)
        given[i] = random_host(i + 1, two_elems[i]);
    two_on_cpu(given, 0, should);
    two_on_cpu(given, 1, size);
    for (size_t i = 0; i < TWO_ARRAYS; i++)
        a[i] = i < TWO_GIVEN ? to_device(given[i], two_elems[i])
                             : poisoned(two_elems[i]);
    compute_two(ops, device, 0, a);
    float *y = to_host(a[TWO_Y], two_elems[TWO_Y]);
    for (size_t i = TWO_GIVEN; i < TWO_ARRAYS; i++) {
        float *is = to_host(a[i], two_elems[i]);
        for (size_t e = 0; i == TWO_DX && e < two_elems[i]; e++) {
            assert_true((y[e] > 0) || is[e] == 0.f);
            if ((y[e] > 0) != (should[TWO_Y][e] > 0))
                is[e] = should[i][e];
        }
        double off = farthest(is, should[i], size[i], two_elems[i]);
        if (!(off <= CLOSE))
            fail_msg("array %zu: off by %.3g of the terms", i, off);
        free(is);
    }
    free(y);
    for (size_t i = 0; i < TWO_ARRAYS; i++) {
        ops->free(device, a[i]);
        free(should[i]), free(size[i]);
        if (i < TWO_GIVEN)
            free(given[i]);
    }
}

/* What a device of the network would be told; that it is none is no failure. */
static void memory_may_have_a_dma_buf(void **state)
{
    struct gw_pages pages;
    (void)state;
    char *memory = ops->alloc(device, 8 << 20);
    ops->pages(device, memory, 8 << 20, &pages);
    print_message("# dma-buf: %s\n", pages.fd >= 0 ? "yes" : "no");
    assert_true((char *)pages.base <= memory);
    assert_true((char *)pages.base + pages.bytes >= memory + (8 << 20));
    if (pages.fd >= 0)
        assert_int_equal(close(pages.fd), 0);
    finish(); /* asking has broken nothing */
    ops->free(device, memory);
}

/* However the device was used in between. */
static void bits_are_the_same_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++) {
        const struct layer *l = &layers[i];
        float *given[GIVEN], *first[ARRAYS], *again[ARRAYS];
        size_t elems[ARRAYS];
        if (flop_of(l) > most_flop)
            continue;
        sizes_of(l, elems);
        for (uint32_t a = 0; a < GIVEN; a++)
            given[a] = random_host(a + 1, elems[a]);
        on_device(l, given, first);
        for (int time = 0; time < 4; time++) {
            on_device(l, given, again);
            for (size_t a = GIVEN; a < ARRAYS; a++) {
                assert_memory_equal(again[a], first[a],
                                    elems[a] * sizeof(float));
                free(again[a]);
            }
        }
        for (size_t a = 0; a < ARRAYS; a++)
            free(a < GIVEN ? given[a] : first[a]);
    }
}

/* ---- copies beside the computation ---- */

#define SIDE   192 /* small whole numbers: their products have no rounding */
#define ROUNDS 200
#define SLOTS  3

static void whole_numbers(float *x, size_t elems, unsigned seed)
{
    for (size_t i = 0; i < elems; i++)
        x[i] = (float)((i * 2654435761u + seed * 40503u) >> 7 & 15) - 8;
}

/* Each round has an input and an output of its own for as long as it needs
   them, and nobody waits for more than that. */
static void copies_keep_their_order(void **state)
{
    (void)state;
    const struct gw_dense_shape shape = {SIDE, SIDE, SIDE, 0, 0};
    const size_t elems = SIDE * SIDE, bytes = elems * sizeof(float);
    float *in[SLOTS], *out[SLOTS], *x[SLOTS], *y[SLOTS], zeros[SIDE] = {0};
    float *w = random_host(1, elems), *b = to_device(zeros, SIDE);
    float *should = malloc(bytes);
    uint64_t point[SLOTS];
    struct gw_error error;
    struct gw_device *at = open_on(cpu, GW_PRECISION_FP32);
    whole_numbers(w, elems, 77);
    float *mw = to_device(w, elems);
    for (size_t s = 0; s < SLOTS; s++) {
        in[s] = ops->alloc_host(device, bytes);
        out[s] = ops->alloc_host(device, bytes);
        x[s] = ops->alloc(device, bytes);
        y[s] = ops->alloc(device, bytes);
    }
    for (unsigned round = 0; round < ROUNDS + SLOTS; round++) {
        size_t s = round % SLOTS;
        if (round >= SLOTS) {
            assert_int_equal(ops->reach(device, point[s], 1, &error), GW_OK);
            cpu->dense_forward(at, &shape, in[s], w, zeros, should, NULL, NULL);
            assert_memory_equal(out[s], should, bytes);
        }
        whole_numbers(in[s], elems, round);
        ops->upload(device, x[s], in[s], bytes);
        ops->dense_forward(device, &shape, x[s], mw, b, y[s], NULL, NULL);
        point[s] = ops->fetch(device, out[s], y[s], bytes);
    }
    finish();
    for (size_t s = 0; s < SLOTS; s++) {
        ops->free(device, x[s]), ops->free(device, y[s]);
        ops->free_host(device, in[s]), ops->free_host(device, out[s]);
    }
    ops->free(device, mw), ops->free(device, b);
    cpu->close(at);
    free(w), free(should);
}

/* ---- memory ---- */

static uint64_t memory_left(void)
{
    uint64_t total, left;
    finish();
    ops->memory(device, &total, &left);
    return left;
}

static void memory_runs_out_in_order(void **state)
{
    (void)state;
    uint64_t total, left;
    ops->memory(device, &total, &left);
    assert_true(total > 0 && left <= total);
    assert_null(ops->alloc(device, (size_t)total + GIB));
    compare(&layers[0], CLOSE); /* it still works */
}

/* Of the device: plans and workspaces are made once. */
static void steps_take_no_memory(void **state)
{
    (void)state;
    float *given[GIVEN], *a[ARRAYS];
    size_t elems[ARRAYS];
    sizes_of(&layers[1], elems);
    for (uint32_t i = 0; i < GIVEN; i++)
        given[i] = random_host(i + 1, elems[i]);
    for (size_t i = 0; i < ARRAYS; i++)
        a[i] = i < GIVEN ? to_device(given[i], elems[i]) : poisoned(elems[i]);
    compute(ops, device, &layers[1], a);
    uint64_t before = memory_left();
    for (int step = 0; step < 100; step++)
        compute(ops, device, &layers[1], a);
    assert_int_equal(memory_left(), before);
    for (size_t i = 0; i < ARRAYS; i++)
        ops->free(device, a[i]);
    for (size_t i = 0; i < GIVEN; i++)
        free(given[i]);
}

/* Logits as those of GPT-2: 3.3e9 of them. All are 0, so that of each sample
   the first counts, and the loss is log classes. */
static void arrays_may_be_large(void **state)
{
    (void)state;
    const size_t n = 65536, classes = 50304, elems = n * classes;
    if (memory_left() < elems * sizeof(float) + 2 * GIB) {
        print_message("# 14 GiB of the device are not free\n");
        skip();
    }
    float *logits = ops->alloc(device, elems * sizeof(float)), tail[4];
    int32_t *labels = ops->alloc(device, n * sizeof *labels);
    struct gw_loss *memory = ops->alloc(device, sizeof *memory), loss;
    assert_true(logits && labels && memory);
    ops->softmax_loss(device, n, classes, logits, labels, 1, logits, memory);
    ops->download(device, &loss, memory, sizeof loss);
    finish();
    assert_int_equal(loss.correct, n);
    double should = (double)n * log((double)classes);
    assert_true(fabs(loss.sum - should) < 1e-6 * should);
    ops->relu_forward(device, elems, logits, logits);
    ops->download(device, tail, logits + elems - 4, sizeof tail);
    finish();
    for (size_t i = 0; i < 4; i++)
        assert_true(fabsf(tail[i] * (float)classes - 1) < 1e-5f);
    ops->download(device, tail, logits + elems - classes, sizeof tail);
    finish();
    assert_true(tail[0] == 0); /* it was negative */
    ops->free(device, logits), ops->free(device, labels);
    ops->free(device, memory);
}

#define CASE(name, open)                                                       \
    cmocka_unit_test_setup_teardown(name, open, close_device)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(layers_of_models_are_the_cpus, open_fp32),
        CASE(tf32_is_as_near_as_it_says, open_tf32),
        {"layers_in_bf16_are_the_cpus", layers_in_16_bits_are_the_cpus,
         open_bf16, close_device, NULL},
        {"layers_in_fp16_are_the_cpus", layers_in_16_bits_are_the_cpus,
         open_fp16, close_device, NULL},
        CASE(layers_in_a_row_are_the_cpus, open_fp32),
        CASE(memory_may_have_a_dma_buf, open_fp32),
        CASE(bits_are_the_same_again, open_fp32),
        {"bits_are_the_same_again_tf32", bits_are_the_same_again, open_tf32,
         close_device, NULL},
        {"bits_are_the_same_again_bf16", bits_are_the_same_again, open_bf16,
         close_device, NULL},
        CASE(copies_keep_their_order, open_fp32),
        CASE(memory_runs_out_in_order, open_fp32),
        CASE(steps_take_no_memory, open_fp32),
        CASE(arrays_may_be_large, open_fp32),
    };
    struct gw_error error;
    if (argc > 1)
        most_flop = strtod(argv[1], NULL) * 1e9;
    cmocka_set_test_filter(getenv("GW_CASES"));
    cuda = gw_backend_find("cuda", &error);
    cpu = gw_backend_find("cpu", NULL);
    if (!cuda) {
        printf("1..0 # SKIP %s\n", error.text);
        return 0;
    }
    return cmocka_run_group_tests_name("gpu", cases, NULL, NULL);
}
