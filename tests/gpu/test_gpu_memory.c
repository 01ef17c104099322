/*
 * Concurrent copies and memory on a real GPU: operations keep their order
 * without waiting, allocations fail cleanly and are not made per step, and
 * arrays may have more than 2^31 elements. Skipped, with the reason, without a
 * GPU. $GW_CASES is a pattern that selects cases.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/gpu.h"

static const struct layer layer = {.dense = {256, 512, 512, 1, 1}};

/* ---- concurrent copies ---- */

#define SIDE   192 /* small whole numbers: their products have no rounding */
#define ROUNDS 200
#define SLOTS  3

static void whole_numbers(float *x, size_t elems, unsigned seed)
{
    for (size_t i = 0; i < elems; i++)
        x[i] = (float)((i * 2654435761u + seed * 40503u) >> 7 & 15) - 8;
}

/* Each round has an input and an output of its own for as long as it needs
   them, and waits for nothing else. */
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
    void *scratch =
        cpu->alloc(at, cpu->dense_scratch_bytes(&shape, GW_PRECISION_FP32));
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
            cpu->dense_forward(at, &shape, in[s], w, zeros, should, NULL,
                               scratch);
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
    cpu->free(at, scratch);
    cpu->close(at);
    free(w), free(should);
}

/* ---- memory ---- */

/* The dma-buf for a network device; its absence is no failure. */
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
    finish(); /* the query has broken nothing */
    ops->free(device, memory);
}

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
    compare(&layer, CLOSE); /* the device still works */
}

/* Plans, workspaces and graphs are made once. Other processes may take memory
   meanwhile, now and then; steps would in each try. */
static void steps_take_no_memory(void **state)
{
    (void)state;
    float *given[GIVEN], *a[ARRAYS];
    size_t elems[ARRAYS];
    sizes_of(&layer, elems);
    for (uint32_t i = 0; i < GIVEN; i++)
        given[i] = random_host(i + 1, elems[i]);
    for (size_t i = 0; i < ARRAYS; i++)
        a[i] = i < GIVEN ? to_device(given[i], elems[i]) : poisoned(elems[i]);
    void *scratch = ops->alloc(device, scratch_of(ops, &layer));
    for (int step = 0; step < 2; step++) /* the second is captured in graphs */
        compute(ops, device, &layer, a, scratch);
    uint64_t took = 1;
    for (int i = 0; i < 5 && took > 0; i++) {
        uint64_t before = memory_left();
        for (int step = 0; step < 100; step++)
            compute(ops, device, &layer, a, scratch);
        uint64_t after = memory_left();
        took = before > after ? before - after : 0;
    }
    assert_int_equal(took, 0);
    ops->free(device, scratch);
    for (size_t i = 0; i < ARRAYS; i++)
        ops->free(device, a[i]);
    for (size_t i = 0; i < GIVEN; i++)
        free(given[i]);
}

/* Logits as many as GPT-2's: 3.3e9. All are 0, so that the first of each sample
   counts, and the loss is log classes. */
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
    const float *const twice[] = {logits, logits};
    uint8_t *bad = ops->alloc(device, 2);
    ops->add_parts(device, twice, 2, elems, logits, bad);
    ops->download(device, tail, logits + elems - 4, sizeof tail);
    finish();
    for (size_t i = 0; i < 4; i++)
        assert_true(fabsf(tail[i] * (float)classes - 2) < 1e-5f);
    ops->download(device, tail, logits + elems - classes, sizeof tail);
    finish();
    assert_true(fabsf(tail[0] * (float)classes + 2 * (float)(classes - 1)) <
                1e-5f * (float)classes);
    ops->free(device, bad);
    ops->free(device, logits), ops->free(device, labels);
    ops->free(device, memory);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        CASE(copies_keep_their_order, open_fp32),
        CASE(memory_may_have_a_dma_buf, open_fp32),
        CASE(memory_runs_out_in_order, open_fp32),
        CASE(steps_take_no_memory, open_fp32),
        CASE(arrays_may_be_large, open_fp32),
    };
    return find_gpu(argc, argv)
               ? cmocka_run_group_tests_name("gpu memory", cases, NULL, NULL)
               : 0;
}
