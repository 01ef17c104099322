/*
 * kernels/cpu/cpu_dense*: dense layers of the cpu, with sizes at and beyond the
 * limits of their blocks, on one thread and (by the CBLAS) on two, against the
 * definition; and the promises of our own sums.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/update/isa.h"
#include "tests/table/reference.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define GUARD        64 /* floats behind the writable ones */
#define GUARDED      (-12345.0f)

static const struct gw_dense_shape shapes[] = {
    {1, 1, 1, 0, 0},     {5, 7, 6, 1, 0},      {8, 16, 7, 0, 0},
    {33, 33, 13, 1, 0},  {16, 15, 4, 1, 0},    {17, 17, 5, 0, 0},
    {32, 31, 9, 1, 0},   {64, 512, 48, 1, 0},  {64, 784, 49, 1, 0},
    {65, 513, 97, 0, 0}, {100, 1024, 5, 1, 0}, {128, 1041, 50, 1, 0},
    {129, 70, 20, 1, 0}, {300, 70, 20, 1, 0},
};

static float *drawn(uint64_t seed, size_t elems)
{
    float *values = gw_cpu_ops.alloc(NULL, elems * sizeof *values);
    for (size_t i = 0; i < elems; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)((double)(seed >> 40) / (1 << 23) - 1);
    }
    return values;
}

static float *guarded(size_t elems)
{
    float *values = gw_cpu_ops.alloc(NULL, (elems + GUARD) * sizeof *values);
    for (size_t i = 0; i < elems + GUARD; i++)
        values[i] = GUARDED;
    return values;
}

static void assert_guarded(const float *values, size_t elems)
{
    for (size_t i = elems; i < elems + GUARD; i++)
        assert_true(values[i] == GUARDED);
}

static struct gw_device *opened(int threads)
{
    const struct gw_device_options options = {.threads = threads};
    struct gw_device *device;
    struct gw_error error;
    if (gw_cpu_ops.open(&options, &device, &error) != GW_OK)
        fail_msg("%s", error.text);
    return device;
}

struct layer {
    struct gw_dense_shape shape;
    size_t scratch_elems;
    float *x, *w, *b, *dy, *y, *dw, *db, *scratch;
};

static struct layer layer_of(const struct gw_dense_shape *s)
{
    size_t scratch =
        gw_cpu_ops.dense_scratch_bytes(s, GW_PRECISION_FP32) / sizeof(float);
    return (struct layer){
        .shape = *s,
        .scratch_elems = scratch,
        .x = drawn(1, s->n * s->in),
        .w = drawn(2, s->out * s->in),
        .b = drawn(3, s->out),
        .dy = drawn(4, s->n * s->out),
        .y = guarded(s->n * s->out),
        .dw = guarded(s->out * s->in),
        .db = guarded(s->out),
        .scratch = guarded(scratch),
    };
}

static void drop(struct layer *l)
{
    float *all[] = {l->x, l->w, l->b, l->dy, l->y, l->dw, l->db, l->scratch};
    for (size_t i = 0; i < COUNT(all); i++)
        gw_cpu_ops.free(NULL, all[i]);
}

static void forward(struct gw_device *device, struct layer *l)
{
    gw_cpu_ops.dense_forward(device, &l->shape, l->x, l->w, l->b, l->y, NULL,
                             l->scratch);
}

/* Backward of samples [from, from + n). */
static void backward(struct gw_device *device,
                     struct layer *l,
                     size_t from,
                     size_t n,
                     float beta)
{
    struct gw_dense_shape part = l->shape;
    part.n = n;
    gw_cpu_ops.dense_backward(device, &part, l->x + from * part.in, NULL, l->w,
                              l->dy + from * part.out, beta, NULL, l->dw, l->db,
                              l->scratch);
}

static void assert_near(const float *is,
                        const struct value *want,
                        double times,
                        size_t elems)
{
    for (size_t i = 0; i < elems; i++) {
        double error = fabs((double)is[i] - times * want[i].sum);
        if (!(error <= 1e-5 * (times * want[i].size + FLT_MIN)))
            fail_msg("element %zu of %zu: %.9g, not %.9g", i, elems,
                     (double)is[i], times * want[i].sum);
    }
}

static void check_definition(struct gw_device *device,
                             const struct gw_dense_shape *s)
{
    struct layer l = layer_of(s);
    struct value *y = calloc(s->n * s->out, sizeof *y);
    struct value *dx = calloc(s->n * s->in, sizeof *dx);
    struct value *dw = calloc(s->out * s->in, sizeof *dw);
    struct value *db = calloc(s->out, sizeof *db);
    reference_dense(s, l.x, l.w, l.b, y);
    reference_dense_backward(s, l.x, l.w, l.dy, dx, dw, db);
    forward(device, &l);
    assert_near(l.y, y, 1, s->n * s->out);
    backward(device, &l, 0, s->n, 0);
    assert_near(l.dw, dw, 1, s->out * s->in);
    backward(device, &l, 0, s->n, 1);
    assert_near(l.dw, dw, 2, s->out * s->in);
    assert_near(l.db, db, 2, s->out);
    assert_guarded(l.y, s->n * s->out);
    assert_guarded(l.dw, s->out * s->in);
    assert_guarded(l.db, s->out);
    assert_guarded(l.scratch, l.scratch_elems);
    free(y), free(dx), free(dw), free(db);
    drop(&l);
}

static void check_definitions(int threads)
{
    struct gw_device *device = opened(threads);
    for (size_t i = 0; i < COUNT(shapes); i++)
        check_definition(device, &shapes[i]);
    gw_cpu_ops.close(device);
}

static void one_thread_is_the_definition(void **state)
{
    (void)state;
    check_definitions(1);
}

static void two_threads_are_the_definition(void **state)
{
    (void)state;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        skip();
    check_definitions(2);
}

static void skip_without_sums(void)
{
    if (!gw_isa_fuses(gw_isa_here()))
        skip();
}

static void a_sample_has_the_same_bits_in_any_batch(void **state)
{
    (void)state;
    skip_without_sums();
    const struct gw_dense_shape s = {GW_DENSE_SUMS_SAMPLES, 1041, 50, 1, 0};
    const size_t batches[] = {1,  7,  8,  9,  15, 16, 17, 31,
                              32, 33, 48, 49, 64, 65, 100};
    struct gw_device *device = opened(1);
    struct layer all = layer_of(&s);
    forward(device, &all);
    for (size_t i = 0; i < COUNT(batches); i++) {
        struct layer some = all;
        some.shape.n = batches[i];
        some.y = guarded(batches[i] * s.out);
        forward(device, &some);
        assert_memory_equal(some.y, all.y, batches[i] * s.out * sizeof *some.y);
        assert_guarded(some.y, batches[i] * s.out);
        gw_cpu_ops.free(NULL, some.y);
    }
    drop(&all);
    gw_cpu_ops.close(device);
}

/* The last batch may be smaller than the one that scratch was sized for. */
static void scratch_serves_smaller_batches(void **state)
{
    (void)state;
    const struct gw_dense_shape s = {300, 70, 20, 1, 0};
    const size_t batches[] = {1, 64, 65, GW_DENSE_SUMS_SAMPLES, 129};
    struct gw_device *device = opened(1);
    struct layer l = layer_of(&s);
    for (size_t i = 0; i < COUNT(batches); i++) {
        l.shape.n = batches[i];
        forward(device, &l);
        backward(device, &l, 0, batches[i], 0);
        assert_guarded(l.scratch, l.scratch_elems);
    }
    drop(&l);
    gw_cpu_ops.close(device);
}

static void samples_are_added_in_their_order(void **state)
{
    (void)state;
    skip_without_sums();
    const struct gw_dense_shape s = {101, 523, 50, 0, 0};
    struct gw_device *device = opened(1);
    struct layer whole = layer_of(&s), parts = layer_of(&s);
    backward(device, &whole, 0, s.n, 0);
    backward(device, &parts, 0, 37, 0);
    backward(device, &parts, 37, 1, 1);
    backward(device, &parts, 38, s.n - 38, 1);
    assert_memory_equal(whole.dw, parts.dw, s.out * s.in * sizeof *whole.dw);
    drop(&whole);
    drop(&parts);
    gw_cpu_ops.close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_is_the_definition),
        cmocka_unit_test(two_threads_are_the_definition),
        cmocka_unit_test(a_sample_has_the_same_bits_in_any_batch),
        cmocka_unit_test(scratch_serves_smaller_batches),
        cmocka_unit_test(samples_are_added_in_their_order),
    };
    return cmocka_run_group_tests_name("dense layers of the cpu", tests, NULL,
                                       NULL);
}
