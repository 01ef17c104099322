/*
 * kernels/kernels.h: every backend on random shapes, with NaN and equal values
 * in the data, against the cpu.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "tests/table/backend.h"

#define SHAPES 60

/* ---- random cases ---- */

enum values {
    SMOOTH, /* in [-1, 1) */
    EQUAL,  /* few distinct values */
    NANS,   /* smooth values and some NaN */
};

static uint64_t draws;

static unsigned draw(unsigned n)
{
    draws = draws * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(draws >> 33) % n;
}

static size_t from_one(unsigned most)
{
    return 1 + draw(most);
}

static float value_of(enum values values)
{
    if (values == EQUAL)
        return (float)draw(5) - 2;
    if (values == NANS && draw(40) == 0)
        return NAN;
    return rounded((float)draw(100000) / 50000 - 1);
}

/* ---- the same array on both devices ---- */

static struct gw_device *cpu;

struct pair {
    float *here, *there; /* on the cpu, and on the device */
    size_t elems;
};

static struct pair pair_of(size_t elems, enum values values)
{
    float *host = malloc(elems * sizeof *host);
    struct pair pair = {.elems = elems};
    for (size_t i = 0; i < elems; i++)
        host[i] = value_of(values);
    pair.here = gw_cpu_ops.alloc(cpu, elems * sizeof *host);
    gw_cpu_ops.upload(cpu, pair.here, host, elems * sizeof *host);
    pair.there = to_device(host, elems);
    free(host);
    return pair;
}

/* For an array that is written. */
static struct pair pair_for(size_t elems)
{
    struct pair pair = {.elems = elems};
    pair.here = gw_cpu_ops.alloc(cpu, elems * sizeof(float));
    pair.there = poisoned(elems);
    return pair;
}

/* For a sum that is overwritten, or added to. */
static struct pair pair_to_add(size_t elems, float beta)
{
    return beta > 0 ? pair_of(elems, SMOOTH) : pair_for(elems);
}

static void drop(const struct pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        gw_cpu_ops.free(cpu, pairs[i].here);
        ops->free(device, pairs[i].there);
    }
}

/* Any NaN equals any NaN; `terms` have been added, each of about 1. */
static void assert_alike(const char *shape, struct pair pair, size_t terms)
{
    float *host = to_host(pair.there, pair.elems);
    double most = 2e-6 * (double)terms;
    for (size_t i = 0; i < pair.elems; i++) {
        double here = (double)pair.here[i], there = (double)host[i];
        if (isnan(here) && isnan(there))
            continue;
        if (!(fabs(here - there) <= most))
            fail_msg("%s: element %zu of %zu is %.9g, on the cpu %.9g", shape,
                     i, pair.elems, there, here);
    }
    free(host);
}

/* ---- layers ---- */

static void dense(void)
{
    struct gw_dense_shape s = {from_one(70), from_one(80), from_one(70),
                               (int)draw(2), (int)draw(2)};
    float beta = (float)draw(2);
    char text[128];
    snprintf(text, sizeof text, "dense %zu x %zu to %zu, relu %d", s.n, s.in,
             s.out, s.relu);
    enum values values = draw(4) ? SMOOTH : NANS;
    struct pair p[] = {
        pair_of(s.n * s.in, values),     pair_of(s.in * s.out, SMOOTH),
        pair_of(s.out, SMOOTH),          pair_of(s.n * s.out, values),
        pair_for(s.n * s.out),           pair_for(s.n * s.in),
        pair_to_add(s.in * s.out, beta), pair_to_add(s.out, beta),
    };
    void *here =
        gw_cpu_ops.alloc(cpu, gw_cpu_ops.dense_scratch_bytes(&s, precision));
    void *there = ops->alloc(device, ops->dense_scratch_bytes(&s, precision));
    gw_cpu_ops.dense_forward(cpu, &s, p[0].here, p[1].here, p[2].here,
                             p[4].here, NULL, here);
    ops->dense_forward(device, &s, p[0].there, p[1].there, p[2].there,
                       p[4].there, NULL, there);
    gw_cpu_ops.dense_backward(cpu, &s, p[0].here, NULL, p[1].here, p[3].here,
                              beta, p[5].here, p[6].here, p[7].here, here);
    ops->dense_backward(device, &s, p[0].there, NULL, p[1].there, p[3].there,
                        beta, p[5].there, p[6].there, p[7].there, there);
    for (size_t i = 4; i < COUNT(p); i++)
        assert_alike(text, p[i], 100);
    drop(p, COUNT(p));
    gw_cpu_ops.free(cpu, here);
    ops->free(device, there);
}

static struct gw_conv_shape draw_conv(void)
{
    struct gw_conv_shape s;
    do {
        s = (struct gw_conv_shape){from_one(9),  from_one(5), from_one(14),
                                   from_one(14), from_one(9), from_one(5),
                                   from_one(5),  from_one(3), draw(3),
                                   (int)draw(2), (int)draw(2)};
    } while (s.h + 2 * s.pad < s.kh || s.w + 2 * s.pad < s.kw ||
             s.pad >= s.kh || s.pad >= s.kw);
    return s;
}

static void conv(void)
{
    struct gw_conv_shape s = draw_conv(), larger = s;
    size_t places = reference_conv_oh(&s) * reference_conv_ow(&s);
    float beta = (float)draw(2);
    char text[128];
    snprintf(text, sizeof text,
             "conv %zu of %zu x %zu x %zu to %zu by %zu x %zu, stride %zu, "
             "pad %zu",
             s.n, s.in, s.h, s.w, s.out, s.kh, s.kw, s.stride, s.pad);
    larger.n += draw(4);
    void *here = gw_cpu_ops.alloc(
        cpu, gw_cpu_ops.conv_scratch_bytes(&larger, precision));
    void *there =
        ops->alloc(device, ops->conv_scratch_bytes(&larger, precision));
    size_t window = s.in * s.kh * s.kw;
    struct pair p[] = {
        pair_of(s.n * s.in * s.h * s.w, SMOOTH),
        pair_of(s.out * window, SMOOTH),
        pair_of(s.out, SMOOTH),
        pair_of(s.n * s.out * places, SMOOTH),
        pair_for(s.n * s.out * places),
        pair_for(s.n * s.in * s.h * s.w),
        pair_to_add(s.out * window, beta),
        pair_to_add(s.out, beta),
    };
    gw_cpu_ops.conv_forward(cpu, &s, p[0].here, p[1].here, p[2].here, p[4].here,
                            here);
    ops->conv_forward(device, &s, p[0].there, p[1].there, p[2].there,
                      p[4].there, there);
    gw_cpu_ops.conv_backward(cpu, &s, p[0].here, p[1].here, p[3].here, beta,
                             p[5].here, p[6].here, p[7].here, here);
    ops->conv_backward(device, &s, p[0].there, p[1].there, p[3].there, beta,
                       p[5].there, p[6].there, p[7].there, there);
    for (size_t i = 4; i < COUNT(p); i++)
        assert_alike(text, p[i], window * s.out + s.n * places);
    drop(p, COUNT(p));
    gw_cpu_ops.free(cpu, here);
    ops->free(device, there);
}

static void pool(void)
{
    struct gw_pool_shape s;
    do {
        s = (struct gw_pool_shape){from_one(4),  from_one(5), from_one(14),
                                   from_one(14), from_one(5), from_one(5)};
    } while (s.h < s.size || s.w < s.size);
    size_t outputs = reference_pool_elems(&s);
    enum values values = (enum values)draw(3);
    char text[128];
    snprintf(text, sizeof text,
             "pool %zu of %zu x %zu x %zu by %zu, stride %zu", s.n, s.c, s.h,
             s.w, s.size, s.stride);
    struct pair p[] = {
        pair_of(s.n * s.c * s.h * s.w, values),
        pair_of(outputs, SMOOTH),
        pair_for(outputs),
        pair_for(s.n * s.c * s.h * s.w),
    };
    uint8_t *here = gw_cpu_ops.alloc(cpu, outputs), *host = malloc(outputs);
    uint8_t *there = ops->alloc(device, outputs);
    gw_cpu_ops.pool_forward(cpu, &s, p[0].here, p[2].here, here);
    ops->pool_forward(device, &s, p[0].there, p[2].there, there);
    gw_cpu_ops.pool_backward(cpu, &s, p[1].here, here, p[3].here);
    ops->pool_backward(device, &s, p[1].there, there, p[3].there);
    assert_alike(text, p[2], 0);
    assert_alike(text, p[3], 25);
    ops->download(device, host, there, outputs);
    assert_memory_equal(host, here, outputs);
    drop(p, COUNT(p));
    gw_cpu_ops.free(cpu, here);
    ops->free(device, there);
    free(host);
}

static void loss(void)
{
    size_t n = from_one(60), classes = from_one(70);
    enum values values = (enum values)draw(3);
    int in_place = (int)draw(2);
    int32_t labels[60];
    char text[128];
    snprintf(text, sizeof text, "loss of %zu x %zu", n, classes);
    for (size_t i = 0; i < n; i++)
        labels[i] = (int32_t)draw((unsigned)classes);
    struct pair p[] = {pair_of(n * classes, values), pair_for(n * classes)};
    struct pair to = p[!in_place];
    struct gw_loss here, back, *there = ops->alloc(device, sizeof *there);
    int32_t *where = ops->alloc(device, sizeof labels);
    ops->upload(device, where, labels, n * sizeof *labels);
    gw_cpu_ops.softmax_loss(cpu, n, classes, p[0].here, labels, 0.5f, to.here,
                            &here);
    ops->softmax_loss(device, n, classes, p[0].there, where, 0.5f, to.there,
                      there);
    ops->download(device, &back, there, sizeof back);
    finish();
    assert_true(isnan(here.sum) ? isnan(back.sum)
                                : fabs(here.sum - back.sum) <=
                                      1e-6 * fabs(here.sum) + 1e-9);
    assert_int_equal(here.correct, back.correct);
    assert_alike(text, to, 1);
    drop(p, COUNT(p));
    ops->free(device, there), ops->free(device, where);
}

static void passes(void)
{
    size_t n = from_one(20), each = from_one(300), at = draw(5);
    enum values values = (enum values)draw(3);
    const struct gw_dropout_site site = {draws, draw(100000), draw(300),
                                         draw(1 << 30), (float)draw(10) / 10};
    size_t elems = n * each;
    char text[128];
    snprintf(text, sizeof text, "%zu x %zu from %zu on", n, each, at);
    struct pair p[] = {
        pair_of(at + elems, values),
        pair_of(at + elems, SMOOTH),
    };
    gw_cpu_ops.dropout(cpu, &site, n, each, p[0].here + at, p[1].here + at);
    ops->dropout(device, &site, n, each, p[0].there + at, p[1].there + at);
    for (size_t i = 0; i < COUNT(p); i++)
        assert_alike(text, p[i], 0);
    drop(p, COUNT(p));
}

/* ---- cases ---- */

static void on_shapes(void (*check)(void))
{
    struct gw_device_options options = {.threads = 1};
    struct gw_error error;
    assert_int_equal(gw_cpu_ops.open(&options, &cpu, &error), GW_OK);
    draws = 1;
    for (int i = 0; i < SHAPES; i++)
        check();
    gw_cpu_ops.close(cpu);
}

static void any_dense(void **state)
{
    (void)state;
    on_shapes(dense);
}

static void any_conv(void **state)
{
    (void)state;
    on_shapes(conv);
}

static void any_pool(void **state)
{
    (void)state;
    on_shapes(pool);
}

static void any_loss(void **state)
{
    (void)state;
    on_shapes(loss);
}

static void any_pass(void **state)
{
    (void)state;
    on_shapes(passes);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(any_dense), cmocka_unit_test(any_conv),
        cmocka_unit_test(any_pool),  cmocka_unit_test(any_loss),
        cmocka_unit_test(any_pass),
    };
    return run_on_backends("backend shapes", cases, COUNT(cases));
}
