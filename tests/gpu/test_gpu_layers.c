/*
 * What the table tests are too small for, on a real GPU: products and
 * convolutions of the sizes of models against the cpu's, in each precision, two
 * layers in a row, and the same bits again. Skipped, with the reason, where no
 * GPU is.
 *
 *   test_gpu_layers [GFLOP]    leaves out what is more arithmetic than that
 *
 * $GW_CASES is a pattern of the cases that alone are run.
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

/* Some samples are zeros and a part of the biases, so that ReLU meets what is 0
   itself, which gets no gradient. */
static void make_zeros(float *const given[TWO_GIVEN])
{
    memset(given[TWO_X], 0, 9 * below.in * sizeof(float));
    memset(given[TWO_B], 0, below.out / 2 * sizeof(float));
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
    make_zeros(given);
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
        CASE(bits_are_the_same_again, open_fp32),
        {"bits_are_the_same_again_tf32", bits_are_the_same_again, open_tf32,
         close_device, NULL},
        {"bits_are_the_same_again_bf16", bits_are_the_same_again, open_bf16,
         close_device, NULL},
    };
    return find_gpu(argc, argv)
               ? cmocka_run_group_tests_name("gpu layers", cases, NULL, NULL)
               : 0;
}
