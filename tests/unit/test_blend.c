/* kernels/update/blend: the same bits on every set, aliases, non-finite
 * numbers. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/blend.h"
#include "kernels/update/blend_isa.h"
#include "proto/random.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ELEMS        300
#define INPUTS       4 /* three arrays and the mean square */

/* Normal numbers over six decades, a pure function of (array, element). */
static float value_at(uint32_t array, size_t i)
{
    uint32_t u[4];
    float z[2];
    gw_random4(12, GW_RANDOM_TEST, array, i, u);
    gw_random_normal2(u[0], u[1], z);
    return z[0] * powf(10, (float)(u[2] % 7) - 3);
}

static const struct gw_blend_factors factors = {
    .scale = 0.37f,
    .lambda = 0.7f,
    .decay = 0.95f,
    .fresh = 0.05f,
    .eps = 1e-3f,
    .alpha = 0.23f,
    .keep = 0.6f,
    .take = 0.4f,
    .weight = 0.3f,
};

struct arrays {
    float in[3][ELEMS];
    float out[2][ELEMS];
};

static struct arrays drawn;

/* out[1], if it is the mean square, is not negative. */
static int draw(void **state)
{
    (void)state;
    for (size_t i = 0; i < ELEMS; i++) {
        for (uint32_t k = 0; k < 3; k++)
            drawn.in[k][i] = value_at(k, i);
        drawn.out[0][i] = value_at(3, i);
        drawn.out[1][i] = fabsf(value_at(4, i));
    }
    return 0;
}

static void fill(struct arrays *arrays)
{
    *arrays = drawn;
}

/* The formulas of one element, each operation rounded by itself. */
static void define(enum gw_blend blend, struct arrays *arrays, size_t i)
{
    const struct gw_blend_factors *f = &factors;
    const float a = arrays->in[0][i], b = arrays->in[1][i];
    float *out = &arrays->out[0][i], *second = &arrays->out[1][i];
    float g = a * f->scale, gap = b - arrays->in[2][i];
    switch (blend) {
    case GW_BLEND_COMPENSATE:
        *out = g + f->lambda * g * g * gap;
        break;
    case GW_BLEND_ADAPT:
        *second = f->decay * *second + f->fresh * g * g;
        *out = g + f->lambda / sqrtf(*second + f->eps) * g * g * gap;
        break;
    case GW_BLEND_ELASTIC:
        *out = a - f->alpha * (a - b);
        *second = b + f->alpha * (a - b);
        break;
    case GW_BLEND_DIFFERENCE:
        *out = a - b;
        break;
    case GW_BLEND_MIX:
        *out = f->keep * a + f->take * b;
        break;
    case GW_BLEND_ADD:
        *out = *out + f->weight * a;
        break;
    case GW_BLENDS:
        fail();
    }
}

static void every_instruction_set_gives_the_bits_of_the_formula(void **state)
{
    (void)state;
    static struct arrays plain, ours;
    const size_t sizes[] = {0, 1, 3, 15, 16, 17, 31, 33, 40, 100, 290};
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++)
        for (int blend = 0; blend < GW_BLENDS; blend++)
            for (size_t s = 0; s < COUNT(sizes); s++)
                for (size_t from = 0; from < 4; from++) {
                    struct gw_blend_arrays arrays = {
                        .elems = sizes[s],
                        .in = {ours.in[0] + from, ours.in[1] + from,
                               ours.in[2] + from},
                        .out = {ours.out[0] + from, ours.out[1] + from},
                    };
                    fill(&plain);
                    fill(&ours);
                    for (size_t i = from; i < from + sizes[s]; i++)
                        define((enum gw_blend)blend, &plain, i);
                    assert_int_equal(
                        gw_blend_loops[blend][isa](&factors, &arrays), 1);
                    assert_memory_equal(&plain, &ours, sizeof plain);
                }
}

static const struct gw_compensation compensation = {
    .scale = 0.37f,
    .lambda = 0.7,
    .decay = 0.95,
    .eps = 1e-3,
};

/* A public call with results in out0 and out1, and their allowed aliases. */
struct call {
    int (*run)(struct arrays *at, size_t from, float *out0, float *out1);
    int inputs;
    int same[3]; /* arrays of `in` that out0 may be, ended by -1 */
    int second;  /* out1 may be in[1] */
    int square;  /* out1 is an input too */
};

static int constant(struct arrays *at, size_t from, float *out0, float *out1)
{
    (void)out1;
    return gw_compensate(&compensation, ELEMS - from, at->in[0] + from,
                         at->in[1] + from, at->in[2] + from, NULL, out0 + from);
}

static int adaptive(struct arrays *at, size_t from, float *out0, float *out1)
{
    return gw_compensate(&compensation, ELEMS - from, at->in[0] + from,
                         at->in[1] + from, at->in[2] + from, out1 + from,
                         out0 + from);
}

static int elastic(struct arrays *at, size_t from, float *out0, float *out1)
{
    return gw_elastic(0.23, ELEMS - from, at->in[0] + from, at->in[1] + from,
                      out0 + from, out1 + from);
}

static int difference(struct arrays *at, size_t from, float *out0, float *out1)
{
    (void)out1;
    return gw_difference(ELEMS - from, at->in[0] + from, at->in[1] + from,
                         out0 + from);
}

static int mix(struct arrays *at, size_t from, float *out0, float *out1)
{
    (void)out1;
    if (out0 != at->in[0])
        memcpy(out0 + from, at->in[0] + from, (ELEMS - from) * sizeof *out0);
    return gw_mix(0.6, ELEMS - from, out0 + from, at->in[1] + from);
}

/* in[1] is the sum so far. */
static int add(struct arrays *at, size_t from, float *out0, float *out1)
{
    (void)out1;
    if (out0 != at->in[1])
        memcpy(out0 + from, at->in[1] + from, (ELEMS - from) * sizeof *out0);
    return gw_add_weighted(0.3, ELEMS - from, at->in[0] + from, out0 + from);
}

static const struct call calls[] = {
    {.run = constant, .inputs = 3, .same = {0, -1}},
    {.run = adaptive, .inputs = 3, .same = {0, -1}, .square = 1},
    {.run = elastic, .inputs = 2, .same = {0, -1}, .second = 1},
    {.run = difference, .inputs = 2, .same = {0, 1, -1}},
    {.run = mix, .inputs = 2, .same = {0, -1}},
    {.run = add, .inputs = 2, .same = {1, -1}},
};

static void outputs_may_be_inputs(void **state)
{
    (void)state;
    static struct arrays apart, same;
    for (size_t c = 0; c < COUNT(calls); c++) {
        const struct call *call = &calls[c];
        fill(&apart);
        assert_int_equal(call->run(&apart, 1, apart.out[0], apart.out[1]), 1);
        for (const int *alias = call->same; *alias >= 0; alias++)
            for (int second = 0; second <= call->second; second++) {
                fill(&same);
                float *out0 = same.in[*alias];
                float *out1 = second ? same.in[1] : same.out[1];
                assert_int_equal(call->run(&same, 1, out0, out1), 1);
                assert_memory_equal(out0 + 1, apart.out[0] + 1,
                                    (ELEMS - 1) * sizeof *out0);
                assert_memory_equal(out1 + 1, apart.out[1] + 1,
                                    (ELEMS - 1) * sizeof *out1);
            }
    }
}

/* The k-th input: an array of in, or the mean square. */
static float *input(struct arrays *at, const struct call *call, int k)
{
    if (k < call->inputs)
        return at->in[k];
    return call->square && k == INPUTS - 1 ? at->out[1] : NULL;
}

/* A bad input k is reported at element i, and element 0 is not if the range
   begins behind it. */
static void assert_noticed(const struct call *call, int k, size_t i, float bad)
{
    static struct arrays at;
    fill(&at);
    if (!input(&at, call, k))
        return;
    input(&at, call, k)[i] = bad;
    assert_int_equal(call->run(&at, i % 2, at.out[0], at.out[1]), 0);
    fill(&at);
    input(&at, call, k)[0] = bad;
    assert_int_equal(call->run(&at, 1, at.out[0], at.out[1]), 1);
}

static void non_finite_inputs_are_noticed(void **state)
{
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t c = 0; c < COUNT(calls); c++)
        for (int k = 0; k < INPUTS; k++)
            for (size_t b = 0; b < COUNT(bad); b++)
                for (size_t i = 0; i < ELEMS; i += i < 70 ? 1 : 19)
                    assert_noticed(&calls[c], k, i, bad[b]);
}

/* Finite inputs, results that are not. */
static void overflow_is_noticed(void **state)
{
    (void)state;
    static struct arrays at;
    for (size_t c = 0; c < COUNT(calls); c++) {
        for (size_t i = 0; i < ELEMS; i += 13) {
            fill(&at);
            at.in[0][i] = FLT_MAX;
            at.in[1][i] = -FLT_MAX;
            /* 0.6 and 0.4 of it; 0.3 and the whole */
            int finite = calls[c].run == mix || calls[c].run == add;
            assert_int_equal(calls[c].run(&at, 0, at.out[0], at.out[1]),
                             finite);
        }
    }
    /* with w equal to the given weights only the mean square overflows */
    fill(&at);
    at.in[0][5] = 1e30f;
    at.in[1][5] = at.in[2][5];
    assert_int_equal(adaptive(&at, 0, at.out[0], at.out[1]), 0);
    /* alpha = 3 makes one of the two results overflow */
    float large = 0.7f * FLT_MAX, small = 0.45f * FLT_MAX, x, c;
    assert_int_equal(gw_elastic(3, 1, &large, &small, &x, &c), 0);
    assert_true(isfinite(x) && isinf(c));
    assert_int_equal(gw_elastic(3, 1, &small, &large, &x, &c), 0);
    assert_true(isinf(x) && isfinite(c));
    float sum = large;
    assert_int_equal(gw_add_weighted(0.5, 1, &large, &sum), 0);
    assert_true(isinf(sum));
}

static void without_delay_the_gradient_is_only_scaled(void **state)
{
    (void)state;
    static struct arrays at;
    for (size_t c = 0; c < 2; c++) {
        fill(&at);
        memcpy(at.in[2], at.in[1], sizeof at.in[2]);
        assert_int_equal(calls[c].run(&at, 0, at.out[0], at.out[1]), 1);
        for (size_t i = 0; i < ELEMS; i++)
            assert_true(at.out[0][i] == at.in[0][i] * compensation.scale);
    }
}

static void zero_gradients_need_no_mean_square_yet(void **state)
{
    (void)state;
    static struct arrays at;
    memset(&at, 0, sizeof at);
    for (size_t i = 0; i < ELEMS; i++)
        at.in[1][i] = value_at(1, i);
    assert_int_equal(adaptive(&at, 0, at.out[0], at.out[1]), 1);
    for (size_t i = 0; i < ELEMS; i++)
        assert_true(at.out[0][i] == 0 && at.out[1][i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_set_gives_the_bits_of_the_formula),
        cmocka_unit_test(outputs_may_be_inputs),
        cmocka_unit_test(non_finite_inputs_are_noticed),
        cmocka_unit_test(overflow_is_noticed),
        cmocka_unit_test(without_delay_the_gradient_is_only_scaled),
        cmocka_unit_test(zero_gradients_need_no_mean_square_yet),
    };
    return cmocka_run_group_tests_name("blend", tests, draw, NULL);
}
