/* kernels/update/reduce: the bits of the tree, and the slots that are not
   finite. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/reduce.h"
#include "kernels/update/update.h"
#include "kernels/update/update_isa.h"
#include "proto/random.h"

#define SLOTS  16
#define OFFSET 7
#define ELEMS  (2 * GW_BLOCK_ELEMS + 77)
#define ROOM   (OFFSET + ELEMS)
#define NOBODY UINT32_MAX

static const uint32_t counts[] = {1, 2, 3, 4, 7, 8, 9, 16};
#define COUNTS (sizeof counts / sizeof *counts)

struct slots {
    float value[SLOTS][ROOM];
    const float *slot[SLOTS];
};

static float drawn[SLOTS][ROOM];

static int draw(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SLOTS; s++)
        for (size_t i = 0; i < ROOM; i += 2) {
            uint32_t u[4];
            float z[2];
            gw_random4(11, GW_RANDOM_TEST, s, i, u);
            gw_random_normal2(u[0], u[1], z);
            drawn[s][i] = z[0] * powf(10, (float)(u[2] % 7) - 3);
            if (i + 1 < ROOM)
                drawn[s][i + 1] = z[1];
        }
    return 0;
}

static void make(struct slots *slots, uint32_t n)
{
    memcpy(slots->value, drawn, n * sizeof *drawn);
    for (uint32_t s = 0; s < n; s++)
        slots->slot[s] = slots->value[s];
}

static void reduce_by_blocks(const struct slots *slots, uint32_t n, float *sum)
{
    for (size_t at = 0; at < ELEMS; at += GW_BLOCK_ELEMS) {
        size_t left = ELEMS - at;
        gw_reduce_block(slots->slot, n, OFFSET + at,
                        left < GW_BLOCK_ELEMS ? left : GW_BLOCK_ELEMS,
                        sum + at);
    }
}

static void assert_sum(uint32_t n, uint32_t own, uint32_t absent)
{
    static struct slots slots;
    static float expected[ELEMS], apart[ELEMS];
    float *out = own == NOBODY ? apart : slots.value[own] + OFFSET;
    make(&slots, n);
    float before = slots.value[0][0];
    if (absent != NOBODY)
        slots.slot[absent] = NULL;
    reduce_by_blocks(&slots, n, expected);
    assert_int_equal(gw_reduce_over(slots.slot, n, OFFSET, ELEMS, out), 0);
    assert_memory_equal(out, expected, sizeof expected);
    assert_memory_equal(slots.value[0], &before, sizeof before);
}

static void bits_are_those_of_blocks(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNTS; c++) {
        assert_sum(counts[c], NOBODY, NOBODY);
        for (uint32_t own = 0; own < counts[c]; own++) {
            assert_sum(counts[c], own, NOBODY);
            assert_sum(counts[c], own, 0);
            assert_sum(counts[c], own, counts[c] - 1);
        }
    }
}

/* Slot `spoiler` (NOBODY: none) has a bad number; the sum overwrites `own`. */
static void
assert_spoilt(uint32_t n, uint32_t own, uint64_t spoilers, float bad)
{
    static struct slots slots;
    make(&slots, n);
    for (uint32_t s = 0; s < n; s++)
        if (spoilers >> s & 1)
            slots.value[s][OFFSET + s * 131 % ELEMS] = bad;
    assert_true(gw_reduce_over(slots.slot, n, OFFSET, ELEMS,
                               slots.value[own] + OFFSET) == spoilers);
}

static void who_spoils_a_sum_is_named(void **state)
{
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t c = 0; c < COUNTS; c++) {
        uint32_t n = counts[c];
        for (uint32_t own = 0; own < n; own += n / 3 + 1)
            for (uint32_t s = 0; s < n; s++)
                for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
                    assert_spoilt(n, own, UINT64_C(1) << s, bad[b]);
                    assert_spoilt(n, own, UINT64_C(1) << s | UINT64_C(1) << own,
                                  bad[b]);
                    assert_spoilt(n, own, (UINT64_C(1) << n) - 1, bad[b]);
                }
    }
}

/* The sum of two large numbers is not finite, but both numbers are. */
static void an_overflow_is_of_nobody(void **state)
{
    static struct slots slots;
    (void)state;
    for (size_t c = 1; c < COUNTS; c++) {
        uint32_t n = counts[c];
        make(&slots, n);
        slots.value[0][OFFSET + 5] = slots.value[1][OFFSET + 5] = FLT_MAX;
        assert_int_equal(gw_reduce_over(slots.slot, n, OFFSET, ELEMS,
                                        slots.value[0] + OFFSET),
                         0);
        assert_true(isinf(slots.value[0][OFFSET + 5]));
    }
}

/* An absent owner's array is overwritten, and is not part of the sum. */
static void an_absent_owner_spoils_nothing(void **state)
{
    static struct slots slots;
    (void)state;
    for (size_t c = 1; c < COUNTS; c++) {
        make(&slots, counts[c]);
        slots.slot[0] = NULL;
        slots.value[0][OFFSET + 5] = NAN;
        assert_int_equal(gw_reduce_over(slots.slot, counts[c], OFFSET, ELEMS,
                                        slots.value[0] + OFFSET),
                         0);
        assert_true(isfinite(slots.value[0][OFFSET + 5]));
    }
}

/* In the last element, outside of all vectors; every set finds the same. */
static void every_set_finds_the_same(void **state)
{
    const float *in[2];
    float own[ELEMS], other[ELEMS];
    (void)state;
    for (int isa = 0; isa <= (int)gw_isa_here(); isa++)
        for (int bad = 0; bad < 4; bad++) {
            for (size_t i = 0; i < ELEMS; i++)
                own[i] = other[i] = (float)i;
            in[0] = own;
            in[1] = other;
            if (bad & 1)
                own[ELEMS - 1] = -INFINITY;
            if (bad & 2)
                other[ELEMS - 1] = NAN;
            int found = gw_update_loops[isa].reduce_over(in, 2, ELEMS, own);
            assert_int_equal(!(found & GW_REDUCE_FINITE), bad != 0);
            assert_int_equal(!(found & GW_REDUCE_WAS_FINITE), bad & 1);
            assert_true(own[77] == 154);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_blocks),
        cmocka_unit_test(who_spoils_a_sum_is_named),
        cmocka_unit_test(an_overflow_is_of_nobody),
        cmocka_unit_test(an_absent_owner_spoils_nothing),
        cmocka_unit_test(every_set_finds_the_same),
    };
    return cmocka_run_group_tests_name("reduce", tests, draw, NULL);
}
