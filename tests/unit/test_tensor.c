/* worker/trainer/tensor: every number of 16 bits there and back, and the
   rounding of those between, against the compiler's own. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "worker/trainer/tensor.h"

static void every_half_is_exact(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint16_t half = (uint16_t)bits, back;
        float wide;
        gw_rank_tensor_load(GW_RANK_F16, 1, &half, &wide);
        gw_rank_tensor_store(GW_RANK_F16, 1, &wide, &back);
        if ((bits & 0x7fff) > 0x7c00)
            assert_true(isnan(wide) && (back & 0x7fff) > 0x7c00);
        else
            assert_int_equal(back, half);
    }
}

static void values_are_of_binary16(void **state)
{
    static const struct {
        uint16_t half;
        float is;
    } known[] = {
        {0x3c00, 1},        {0xc000, -2},        {0x7bff, 65504},
        {0x0400, 0x1p-14f}, {0x0001, 0x1p-24f},  {0x03ff, 0x3ffp-24f},
        {0x7c00, INFINITY}, {0xfc00, -INFINITY}, {0x3555, 0x1.554p-2f}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        float wide;
        gw_rank_tensor_load(GW_RANK_F16, 1, &known[i].half, &wide);
        assert_true(wide == known[i].is);
    }
}

/* Between two neighbours the nearer one, halfway the even one: IEEE 754-2019,
   4.3.1. */
static void stores_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x7bff; bits++) {
        uint16_t low = (uint16_t)bits, high = (uint16_t)(bits + 1), made;
        float a, b;
        gw_rank_tensor_load(GW_RANK_F16, 1, &low, &a);
        gw_rank_tensor_load(GW_RANK_F16, 1, &high, &b);
        float half = (a + b) / 2; /* exact: fp32 has 13 bits more */
        const float at[] = {nextafterf(half, a), half, nextafterf(half, b)};
        const uint16_t is[] = {low, bits & 1 ? high : low, high};
        for (size_t i = 0; i < 3; i++) {
            gw_rank_tensor_store(GW_RANK_F16, 1, &at[i], &made);
            if (made != is[i])
                fail_msg("%a becomes %04x and not %04x", (double)at[i], made,
                         is[i]);
        }
    }
}

static void large_ones_are_infinite(void **state)
{
    static const float from[] = {65519.99f, 65520, 1e6f, -1e30f};
    static const uint16_t is[] = {0x7bff, 0x7c00, 0x7c00, 0xfc00};
    uint16_t made[4];
    (void)state;
    gw_rank_tensor_store(GW_RANK_F16, 4, from, made);
    assert_memory_equal(made, is, sizeof is);
}

static void other_dtypes_keep_what_they_have(void **state)
{
    static const float from[] = {1.5f, -0.25f, 3e38f};
    uint16_t bf16[3];
    float back[3];
    (void)state;
    gw_rank_tensor_store(GW_RANK_F32, 3, from, back);
    assert_memory_equal(back, from, sizeof from);
    gw_rank_tensor_store(GW_RANK_BF16, 3, from, bf16);
    gw_rank_tensor_load(GW_RANK_BF16, 3, bf16, back);
    assert_true(back[0] == 1.5f && back[1] == -0.25f);
    assert_true(fabsf(back[2] - 3e38f) < 3e38f / 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_exact),
        cmocka_unit_test(values_are_of_binary16),
        cmocka_unit_test(stores_round_to_nearest_even),
        cmocka_unit_test(large_ones_are_infinite),
        cmocka_unit_test(other_dtypes_keep_what_they_have),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
