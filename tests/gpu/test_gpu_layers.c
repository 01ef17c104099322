/*
 * Layers on a real GPU, for which the table tests are too small: products and
 * convolutions of the sizes of models against the cpu's, in each precision, two
 * layers in a row, and the same bits again. Skipped, with the reason, without a
 * GPU.
 *
 *   test_gpu_layers [GFLOP]    leaves out layers with more arithmetic than that
 *
 * $GW_CASES is a pattern that selects cases.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/gpu.h"

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

static void layers_of_models_are_the_cpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++)
        if (flop_of(&layers[i]) <= most_flop)
            compare(&layers[i], CLOSE);
}

/* With operands that are exact in 16 bits. */
static void layers_in_16_bits_are_the_cpus(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layers); i++)
        if (flop_of(&layers[i]) <= most_flop)
            compare(&layers[i], CLOSE_CUT);
}

/* And differs from fp32, so it is on. */
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

enum two {
    TWO_X,
    TWO_W,
    TWO_B,
    TWO_V, /* weights of the upper layer, */
    TWO_E, /* and the gradient of its output */
    TWO_GIVEN,
    TWO_Y = TWO_GIVEN,
    TWO_DX,
    TWO_DW,
    TWO_DB,
    TWO_ARRAYS
};

/* Two layers, with `width` numbers per sample between them. */
struct two_layers {
    struct gw_dense_shape below, above;
    size_t elems[TWO_ARRAYS];
};

static struct two_layers two_layers(size_t width)
{
    const size_t n = most_flop < 10e9 ? 32 : 256, in = 784, out = 300;
    return (struct two_layers){
        .below = {n, in, width, 1, 0},
        .above = {n, width, out, 0, 1},
        .elems = {n * in, in * width, width, width * out, n * out, n * width,
                  n * width, out * width, out},
    };
}

/* Repeatedly, into the same arrays. */
static void compute_two(const struct gw_backend_ops *on,
                        struct gw_device *at,
                        const struct two_layers *two,
                        int sizes,
                        float *const a[TWO_ARRAYS])
{
    struct gw_dense_shape low = two->below, up = two->above;
    size_t mask_bytes = on->dense_mask_bytes(&low);
    low.relu = up.masks = !sizes;
    void *mask = mask_bytes > 0 ? on->alloc(at, mask_bytes) : NULL;
    void *scratch = on->alloc(at, on->dense_scratch_bytes(&low, precision) +
                                      on->dense_scratch_bytes(&up, precision));
    for (int time = 0; time < 3; time++) {
        on->dense_forward(at, &low, a[TWO_X], a[TWO_W], a[TWO_B], a[TWO_Y],
                          mask, scratch);
        on->dense_backward(at, &up, a[TWO_Y], mask, a[TWO_V], a[TWO_E], 0,
                           a[TWO_DX], a[TWO_DW], a[TWO_DB], scratch);
    }
    assert_int_equal(on->sync(at, NULL), GW_OK);
    on->free(at, mask), on->free(at, scratch);
}

static void two_on_cpu(const struct two_layers *two,
                       float *const given[TWO_GIVEN],
                       int sizes,
                       float *results[TWO_ARRAYS])
{
    struct gw_device *at = open_on(cpu, GW_PRECISION_FP32);
    for (size_t i = 0; i < TWO_ARRAYS; i++) {
        results[i] =
            aligned_alloc(64, (two->elems[i] * sizeof(float) + 63) / 64 * 64);
        for (size_t e = 0; i < TWO_GIVEN && e < two->elems[i]; e++)
            results[i][e] = sizes ? fabsf(given[i][e]) : given[i][e];
    }
    compute_two(cpu, at, two, sizes, results);
    cpu->close(at);
}

/* Some samples and some biases are zeros, so that ReLU meets exact zeros, which
   get no gradient. */
static void make_zeros(const struct two_layers *two,
                       float *const given[TWO_GIVEN])
{
    memset(given[TWO_X], 0, 9 * two->below.in * sizeof(float));
    memset(given[TWO_B], 0, two->below.out / 2 * sizeof(float));
}

/* dw has an operand that the device has computed itself, and rounds. In tf32
   all arrays have one. */
static double two_may_be_off(enum two array)
{
    switch (precision) {
    case GW_PRECISION_FP32:
        return CLOSE;
    case GW_PRECISION_TF32:
        return CLOSE_TF32;
    case GW_PRECISION_BF16:
        return CLOSE_CUT + (array == TWO_DW ? 1.0 / 256 : 0);
    case GW_PRECISION_FP16:
        return CLOSE_CUT + (array == TWO_DW ? 1.0 / 2048 : 0);
    }
    return 0;
}

/* A sum near 0 may change its sign on the device: dx is not compared there. */
static void compare_two(const struct two_layers *two,
                        float *const a[TWO_ARRAYS],
                        float *const should[TWO_ARRAYS],
                        float *const size[TWO_ARRAYS])
{
    float *y = to_host(a[TWO_Y], two->elems[TWO_Y]);
    for (size_t i = TWO_GIVEN; i < TWO_ARRAYS; i++) {
        float *is = to_host(a[i], two->elems[i]);
        for (size_t e = 0; i == TWO_DX && e < two->elems[i]; e++) {
            assert_true((y[e] > 0) || is[e] == 0.f);
            if ((y[e] > 0) != (should[TWO_Y][e] > 0))
                is[e] = should[i][e];
        }
        double off = farthest(is, should[i], size[i], two->elems[i]);
        if (!(off <= two_may_be_off((enum two)i)))
            fail_msg("array %zu, %zu wide: off by %.3g of the terms", i,
                     two->below.out, off);
        free(is);
    }
    free(y);
}

/* A product with an epilogue that writes a mask for the next one. */
static void try_two(size_t width, int tuned)
{
    const struct two_layers two = two_layers(width);
    char text[GW_TUNED_BYTES];
    float *given[TWO_GIVEN], *should[TWO_ARRAYS], *size[TWO_ARRAYS];
    float *a[TWO_ARRAYS];
    for (uint32_t i = 0; i < TWO_GIVEN; i++)
        given[i] = random_host(i + 1, two.elems[i]);
    make_zeros(&two, given);
    two_on_cpu(&two, given, 0, should);
    two_on_cpu(&two, given, 1, size);
    for (size_t i = 0; i < TWO_ARRAYS; i++)
        a[i] = i < TWO_GIVEN ? to_device(given[i], two.elems[i])
                             : poisoned(two.elems[i]);
    if (tuned) {
        ops->tune(device, "two layers", NULL);
        compute_two(ops, device, &two, 0, a);
        ops->tuned(device, text);
        print_message("# %s\n", text);
    }
    compute_two(ops, device, &two, 0, a);
    compare_two(&two, a, should, size);
    for (size_t i = 0; i < TWO_ARRAYS; i++) {
        ops->free(device, a[i]);
        free(should[i]), free(size[i]);
        if (i < TWO_GIVEN)
            free(given[i]);
    }
}

/* In rows of whole 128 bits, the unit of cublasLt's masks, and in others. */
static void layers_in_a_row_are_the_cpus(void **state)
{
    (void)state;
    try_two(512, 0);
    try_two(1000, 0);
}

static void layers_in_a_row_tuned_are_the_cpus(void **state)
{
    (void)state;
    try_two(512, 1);
    try_two(1000, 1);
}

/* After any other use of the device. */
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

#define NAMED(name, of)                                                        \
    {                                                                          \
#name "_" #of, name, open_##of, close_device, NULL                     \
    }
#define IN_EACH_PRECISION(name)                                                \
    NAMED(name, fp32), NAMED(name, tf32), NAMED(name, bf16), NAMED(name, fp16)

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(layers_of_models_are_the_cpus, open_fp32),
        CASE(tf32_is_as_near_as_it_says, open_tf32),
        NAMED(layers_in_16_bits_are_the_cpus, bf16),
        NAMED(layers_in_16_bits_are_the_cpus, fp16),
        IN_EACH_PRECISION(layers_in_a_row_are_the_cpus),
        IN_EACH_PRECISION(layers_in_a_row_tuned_are_the_cpus),
        NAMED(bits_are_the_same_again, fp32),
        NAMED(bits_are_the_same_again, tf32),
        NAMED(bits_are_the_same_again, bf16),
    };
    return find_gpu(argc, argv)
               ? cmocka_run_group_tests_name("gpu layers", cases, NULL, NULL)
               : 0;
}
