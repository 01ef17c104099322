/*
 * kernels/cuda/cuda_dense: two dense layers on the emulated CUDA, with products
 * that support epilogues or do not, and keep a NaN or lose it. Results are the
 * cpu's in any case; operations are counted.
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
#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "tests/table/emulated.h"

/* Mask rows are not whole bytes; the inner size has no alignment. */
#define N     19
#define IN    40
#define INNER 150
#define OUT   7

static const struct gw_dense_shape lower = {N, IN, INNER, 1, 0};
static const struct gw_dense_shape upper = {N, INNER, OUT, 0, 1};

static const struct gw_backend_ops *ops;

enum array {
    X,
    W,
    B,
    Y,
    UPPER_W,
    DY,
    DX,
    DW,
    DB,
    ARRAYS
};
static const size_t elems[ARRAYS] = {N * IN,   INNER *IN,  INNER,
                                     N *INNER, OUT *INNER, N *OUT,
                                     N *INNER, OUT *INNER, OUT};

struct subject {
    const struct gw_backend_ops *on;
    struct gw_device *device;
    float *at[ARRAYS];
    void *mask, *scratch;
    uint64_t forward, backward; /* operations */
};

static uint64_t operations(void)
{
    struct emulated_counts now;
    emulated_control()->counts(&now);
    return now.operations;
}

static void fill(struct subject *s, enum array array)
{
    float host[N * INNER + INNER * IN];
    unsigned seed = 77 * (unsigned)array + 1;
    for (size_t i = 0; i < elems[array]; i++) {
        seed = seed * 1664525 + 1013904223;
        host[i] =
            (float)(seed >> 25) * 0x1p-6f - 1; /* exact in bf16 and fp16 */
        /* a sample of zeros, and biases that keep it so */
        if ((array == X && i < IN) || (array == B && i % 3 == 0))
            host[i] = 0;
    }
    s->on->upload(s->device, s->at[array], host, elems[array] * sizeof *host);
    assert_int_equal(s->on->sync(s->device, NULL), GW_OK);
}

static void open_subject(struct subject *s,
                         const struct gw_backend_ops *on,
                         enum gw_precision precision)
{
    const struct gw_device_options options = {.threads = 1,
                                              .precision = precision};
    struct gw_error error;
    *s = (struct subject){.on = on};
    if (on->open(&options, &s->device, &error) != GW_OK)
        fail_msg("%s", error.text);
    for (enum array i = 0; i < ARRAYS; i++) {
        s->at[i] = on->alloc(s->device, elems[i] * sizeof(float));
        fill(s, i);
    }
    if (on->dense_mask_bytes(&lower) > 0)
        s->mask = on->alloc(s->device, on->dense_mask_bytes(&lower));
    s->scratch =
        on->alloc(s->device, on->dense_scratch_bytes(&lower, precision) +
                                 on->dense_scratch_bytes(&upper, precision));
}

static void close_subject(struct subject *s)
{
    for (enum array i = 0; i < ARRAYS; i++)
        s->on->free(s->device, s->at[i]);
    s->on->free(s->device, s->mask);
    s->on->free(s->device, s->scratch);
    s->on->close(s->device);
}

/* Both passes of the first `n` samples; the calls that make plans are not
   counted. */
static void pass(struct subject *s, size_t n)
{
    struct gw_dense_shape low = lower, up = upper;
    float **a = s->at;
    low.n = up.n = n;
    for (int again = 0; again < 2; again++) {
        uint64_t before = operations();
        s->on->dense_forward(s->device, &low, a[X], a[W], a[B], a[Y], s->mask,
                             s->scratch);
        assert_int_equal(s->on->sync(s->device, NULL), GW_OK);
        s->forward = operations() - before;
        s->on->dense_backward(s->device, &up, a[Y], s->mask, a[UPPER_W], a[DY],
                              0, a[DX], a[DW], a[DB], s->scratch);
        assert_int_equal(s->on->sync(s->device, NULL), GW_OK);
        s->backward = operations() - before - s->forward;
    }
}

static void get(struct subject *s, enum array array, size_t n, float *host)
{
    s->on->download(s->device, host, s->at[array], n * sizeof *host);
    assert_int_equal(s->on->sync(s->device, NULL), GW_OK);
}

/* Equal to the cpu's. A layer's output, an operand of DW, may be rounded. */
static void
assert_same(struct subject *s, struct subject *cpu, size_t n, float rounds)
{
    static const enum array arrays[] = {Y, DX, DW, DB};
    static float here[N * INNER], there[N * INNER];
    for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
        size_t part = k < 2 ? n * INNER : elems[arrays[k]];
        float most = arrays[k] == DW ? 2e-4f + rounds : 2e-4f;
        get(cpu, arrays[k], part, here), get(s, arrays[k], part, there);
        for (size_t i = 0; i < part; i++)
            if (isnan(here[i])   ? !isnan(there[i])
                : here[i] == 0.f ? there[i] != 0.f
                                 : !(fabsf(here[i] - there[i]) <= most))
                fail_msg("array %zu, element %zu: %g, on the cpu %g", k, i,
                         (double)there[i], (double)here[i]);
    }
}

/* Abilities of products on the emulated device, and its memory. */
struct can {
    int fuses, keeps_nan, notes_zero, no_masks;
    size_t memory_bytes; /* 0: enough */
};

static void set(const struct can *can)
{
    struct emulated_settings settings;
    emulated_control()->defaults(&settings);
    settings.no_fused_epilogue = !can->fuses;
    settings.keeps_nan = can->keeps_nan;
    settings.notes_zero = can->notes_zero;
    settings.no_masks = can->no_masks;
    if (can->memory_bytes)
        settings.memory_bytes = can->memory_bytes;
    emulated_control()->set(&settings);
}

static const struct can everything = {.fuses = 1, .keeps_nan = 1};

/* Abilities of a device, operations that its passes then take besides
   conversions, and text of its report. */
static const struct {
    struct can can;
    uint64_t forward, backward;
    const char *report;
} devices[] = {
    /* product, bias and ReLU; two products, sums of biases, ReLU */
    {{.fuses = 0},
     2,
     4,
     "ReLU in products 0 of 1 (the functionality requested is not supported)"},
    {{.fuses = 1}, 2, 4, "ReLU in products 0 of 1 (it makes 0 of NaN)"},
    {{.fuses = 1, .notes_zero = 1},
     2,
     4,
     "ReLU noted by products 0 of 1 (it makes 0 of NaN)"},
    {{.fuses = 1, .keeps_nan = 1},
     1,
     3,
     "ReLU noted by products 1 of 1, its backward in products 1 of 1"},
    {{.fuses = 1, .keeps_nan = 1, .notes_zero = 1},
     1,
     4,
     "ReLU in products 1 of 1, ReLU noted by products 0 of 1 (it notes 0 as "
     "let "
     "through)"},
    {{.fuses = 1, .keeps_nan = 1, .no_masks = 1},
     1,
     4,
     "ReLU noted by products 1 of 1, its backward in products 0 of 1 (the "
     "functionality requested is not supported)"},
};

static void assert_reports(const struct subject *s, const char *words)
{
    char text[GW_REPORT_BYTES];
    s->on->report(s->device, text, sizeof text);
    if (!strstr(text, words))
        fail_msg("it reports \"%s\", not \"%s\"", text, words);
}

static void compare(enum gw_precision precision, uint64_t narrow, int nan)
{
    struct subject s, cpu;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        set(&devices[i].can);
        open_subject(&s, ops, precision);
        open_subject(&cpu, &gw_cpu_ops, GW_PRECISION_FP32);
        if (nan) {
            float none = NAN;
            ops->upload(s.device, s.at[X] + 3 * IN + 1, &none, sizeof none);
            cpu.at[X][3 * IN + 1] = NAN;
        }
        pass(&s, N), pass(&cpu, N);
        assert_same(&s, &cpu, N, narrow ? 0.3f : 0);
        assert_int_equal(s.forward, 2 * narrow + devices[i].forward);
        assert_int_equal(s.backward, 3 * narrow + devices[i].backward);
        assert_reports(&s, devices[i].report);
        close_subject(&s), close_subject(&cpu);
        emulated_assert_nothing_left();
    }
}

static void relu_costs_no_pass_where_products_do_it(void **state)
{
    (void)state;
    compare(GW_PRECISION_FP32, 0, 0);
    compare(GW_PRECISION_BF16, 1, 0);
    compare(GW_PRECISION_FP16, 1, 0);
}

static void nan_is_never_lost(void **state)
{
    (void)state;
    compare(GW_PRECISION_FP32, 0, 1);
    compare(GW_PRECISION_FP16, 1, 1);
}

/* A mask of one batch is not used for another. */
static void masks_are_of_the_last_pass(void **state)
{
    static const size_t batches[] = {N, 5, N, 1, 6};
    static const struct can none = {.keeps_nan = 1};
    struct subject s, cpu;
    (void)state;
    set(&everything);
    open_subject(&s, ops, GW_PRECISION_FP32);
    open_subject(&cpu, &gw_cpu_ops, GW_PRECISION_FP32);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        if (i == 3)
            set(&none); /* new batches from here on are not fused */
        /* different signs each time */
        fill(&s, i % 2 ? X : Y), fill(&cpu, i % 2 ? X : Y);
        float *x = cpu.at[X];
        for (size_t k = 0; k < elems[X]; k++)
            x[k] =
                (float)((k * (i + 3) * 2654435761u) >> 22 & 1023) * 0x1p-9f - 1;
        ops->upload(s.device, s.at[X], x, elems[X] * sizeof *x);
        pass(&s, batches[i]), pass(&cpu, batches[i]);
        assert_same(&s, &cpu, batches[i], 0);
        assert_int_equal(s.forward, i < 3 ? 1 : 2);
        assert_int_equal(s.backward, i < 3 ? 3 : 4);
    }
    close_subject(&s), close_subject(&cpu);
    emulated_assert_nothing_left();
}

/* A trial that failed for lack of memory is repeated. */
static void no_memory_is_no_verdict(void **state)
{
    (void)state;
    struct subject s, cpu;
    struct emulated_counts now;
    struct can little = everything;
    set(&everything);
    open_subject(&s, ops, GW_PRECISION_FP32);
    open_subject(&cpu, &gw_cpu_ops, GW_PRECISION_FP32);
    pass(&cpu, N);
    emulated_control()->counts(&now);
    little.memory_bytes = now.live_bytes;
    set(&little);
    pass(&s, N);
    assert_same(&s, &cpu, N, 0);
    assert_int_equal(s.forward, 2);
    set(&everything);
    pass(&s, N);
    assert_same(&s, &cpu, N, 0);
    assert_int_equal(s.forward, 1);
    close_subject(&s), close_subject(&cpu);
    emulated_assert_nothing_left();
}

/* A failure before the trial of a product is the device's failure, and not the
   reason for a fallback. */
static void a_failure_is_no_verdict(void **state)
{
    (void)state;
    struct emulated_settings settings;
    struct subject s;
    struct gw_error error;
    char text[GW_REPORT_BYTES];
    set(&everything);
    open_subject(&s, ops, GW_PRECISION_FP32);
    emulated_control()->defaults(&settings);
    settings.keeps_nan = 1;
    settings.fail_at = 1;
    emulated_control()->set(&settings);
    s.on->dense_forward(s.device, &lower, s.at[X], s.at[W], s.at[B], s.at[Y],
                        s.mask, s.scratch);
    assert_int_equal(s.on->sync(s.device, &error), GW_EIO);
    assert_non_null(strstr(error.text, "illegal memory access"));
    s.on->report(s.device, text, sizeof text);
    assert_string_equal(text, "");
    close_subject(&s);
    emulated_assert_nothing_left();
}

/* Layers of one shape share a plan, but not their bias. */
static void every_layer_has_its_own_bias(void **state)
{
    (void)state;
    const struct gw_dense_shape shape = {1, 2, 2, 0, 0};
    const struct gw_device_options options = {.threads = 1};
    const float in[2] = {0, 0}, biases[4] = {1, 2, 3, 4};
    set(&everything);
    struct gw_device *d;
    assert_int_equal(ops->open(&options, &d, NULL), GW_OK);
    float *x = ops->alloc(d, sizeof in), *w = ops->alloc(d, 4 * sizeof *w);
    float *b[2], *y = ops->alloc(d, sizeof in), out[2];
    ops->upload(d, x, in, sizeof in);
    for (size_t i = 0; i < 2; i++) {
        b[i] = ops->alloc(d, sizeof in);
        ops->upload(d, b[i], biases + 2 * i, sizeof in);
    }
    for (size_t i = 0; i < 2; i++) {
        ops->dense_forward(d, &shape, x, w, b[i], y, NULL, NULL);
        ops->download(d, out, y, sizeof out);
        assert_true(out[0] == biases[2 * i] && out[1] == biases[2 * i + 1]);
    }
    float *all[] = {x, w, y, b[0], b[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        ops->free(d, all[i]);
    ops->close(d);
    emulated_assert_nothing_left();
}

int main(void)
{
    char why[GW_WHY_BYTES];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relu_costs_no_pass_where_products_do_it),
        cmocka_unit_test(nan_is_never_lost),
        cmocka_unit_test(masks_are_of_the_last_pass),
        cmocka_unit_test(no_memory_is_no_verdict),
        cmocka_unit_test(a_failure_is_no_verdict),
        cmocka_unit_test(every_layer_has_its_own_bias),
    };
    ops = emulated_backend(why, sizeof why);
    if (!ops) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
