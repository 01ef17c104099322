/* kernels/update/bf16: rounding to bf16, and the way back. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/bf16.h"
#include "proto/random.h"

#define ALL 65536

static float number(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint16_t rounded(float value)
{
    uint16_t out;
    gw_bf16_round(1, &value, &out);
    return out;
}

static float widened(uint16_t half)
{
    float out;
    gw_bf16_widen(1, &half, &out);
    return out;
}

/* Each value widens to its own upper half, and comes back; a NaN as a NaN. */
static void all_there_are_come_back(void **state)
{
    static uint16_t from[ALL], back[ALL];
    static float wide[ALL];
    (void)state;
    for (uint32_t i = 0; i < ALL; i++)
        from[i] = (uint16_t)i;
    gw_bf16_widen(ALL, from, wide);
    gw_bf16_round(ALL, wide, back);
    for (uint32_t i = 0; i < ALL; i++) {
        assert_int_equal(bits_of(wide[i]), i << 16);
        if (isnan(wide[i]))
            assert_true(isnan(widened(back[i])) && (back[i] & 0x40) != 0);
        else
            assert_int_equal(back[i], i);
    }
}

/* Between two neighbours: below the middle, at it, above it; both signs. */
static void the_nearest_is_taken_of_two_as_near_the_even_one(void **state)
{
    (void)state;
    for (uint32_t low = 0; low < 0x7f80; low++) {
        uint32_t middle = low << 16 | 0x8000;
        for (uint32_t sign = 0; sign < 2; sign++) {
            uint32_t s = sign << 31, h = sign << 15;
            assert_int_equal(rounded(number(s | (middle - 1))), h | low);
            assert_int_equal(rounded(number(s | middle)),
                             h | (low + (low & 1)));
            assert_int_equal(rounded(number(s | (middle + 1))), h | (low + 1));
        }
    }
}

/* No neighbour is nearer, by a comparison in fp64. */
static void draws_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 100000; i++) {
        uint32_t u[4];
        gw_random4(5, GW_RANDOM_TEST, 0, i, u);
        float x = number(u[0]);
        if (!isfinite(x) || fabsf(x) > 0x1p127f || fabsf(x) < 0x1p-126f)
            continue; /* both neighbours must have its sign */
        uint16_t near = rounded(x);
        double apart = fabs((double)widened(near) - (double)x);
        for (int d = -1; d <= 1; d += 2)
            assert_true(apart <= fabs((double)widened((uint16_t)(near + d)) -
                                      (double)x));
    }
}

static void what_is_not_a_number_stays_none(void **state)
{
    static const uint32_t nan[] = {0x7f800001, 0x7fc00000, 0x7fffffff,
                                   0xff800001, 0xffffffff, 0x7f80ffff};
    (void)state;
    for (size_t i = 0; i < sizeof nan / sizeof *nan; i++) {
        uint16_t out = rounded(number(nan[i]));
        assert_true(isnan(widened(out)));
        assert_int_equal(out >> 15, nan[i] >> 31);
    }
    assert_int_equal(rounded(INFINITY), 0x7f80);
    assert_int_equal(rounded(-INFINITY), 0xff80);
    assert_int_equal(rounded(number(0x7f7fffff)), 0x7f80); /* too large */
    assert_int_equal(rounded(-0.0f), 0x8000);
}

/* Whole vectors and remainders, at every alignment. */
static void length_and_place_do_not_matter(void **state)
{
    static float x[160], wide[160], one[160];
    uint16_t out[160];
    (void)state;
    for (uint32_t i = 0; i < 160; i++) {
        uint32_t u[4];
        gw_random4(6, GW_RANDOM_TEST, 0, i, u);
        x[i] = gw_random_uniform(u[0]);
        one[i] = widened(rounded(x[i]));
    }
    for (size_t at = 0; at < 40; at++)
        for (size_t n = 0; n < 100; n++) {
            memset(out, 0xee, sizeof out);
            memset(wide, 0, sizeof wide);
            gw_bf16_round(n, x + at, out + at);
            gw_bf16_widen(n, out + at, wide + at);
            assert_memory_equal(wide + at, one + at, n * sizeof *wide);
            assert_int_equal(out[at + n], 0xeeee);
            assert_true(wide[at + n] == 0);
            assert_true(at == 0 || out[at - 1] == 0xeeee);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_there_are_come_back),
        cmocka_unit_test(the_nearest_is_taken_of_two_as_near_the_even_one),
        cmocka_unit_test(draws_are_rounded_to_the_nearest),
        cmocka_unit_test(what_is_not_a_number_stays_none),
        cmocka_unit_test(length_and_place_do_not_matter),
    };
    return cmocka_run_group_tests_name("bf16", tests, NULL, NULL);
}
