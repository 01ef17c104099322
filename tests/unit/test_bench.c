/* gradweir bench: values, times and rows. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/bench/bench.h"

#define ELEMS ((size_t)3 * GW_BENCH_PERIOD + 100)

static void a_wrong_value_is_counted(void **state)
{
    struct gw_bench_pattern pattern;
    float *array = gw_bench_array(ELEMS * sizeof *array, 3);
    (void)state;
    assert_non_null(array);
    gw_bench_pattern(5, &pattern);
    gw_bench_fill(&pattern, ELEMS, array);
    assert_int_equal(gw_bench_wrong(&pattern, ELEMS, array), 0);
    array[ELEMS - 1] += 1;
    array[0] = -array[0]; /* any bit */
    assert_int_equal(gw_bench_wrong(&pattern, ELEMS, array), 2);
}

/* Chunks that change places, or are an order old, must not look right. */
static void a_misplaced_value_is_counted(void **state)
{
    struct gw_bench_pattern pattern, other;
    float *array = gw_bench_array(ELEMS * sizeof *array, 0);
    (void)state;
    gw_bench_pattern(5, &pattern);
    gw_bench_pattern(6, &other);
    gw_bench_fill(&pattern, ELEMS, array);
    memmove(array, array + 1024, 1024 * sizeof *array);
    assert_true(gw_bench_wrong(&pattern, ELEMS, array) > 1000);
    gw_bench_fill(&other, ELEMS, array);
    assert_true(gw_bench_wrong(&pattern, ELEMS, array) > ELEMS * 9 / 10);
}

/* The tree of four is (0 + 1) + (2 + 3), which is not 0 + 1 + 2 + 3; of three
   the last one stands alone. */
static void bits_of_a_sum_tell_the_order(void **state)
{
    struct gw_bench_pattern part[4], sum, three;
    size_t other = 0;
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        gw_bench_summand(rank, &part[rank]);
    gw_bench_summed(4, &sum);
    gw_bench_summed(3, &three);
    for (size_t i = 0; i < GW_BENCH_PERIOD; i++) {
        float left = part[0].value[i] + part[1].value[i];
        float tree = left + (part[2].value[i] + part[3].value[i]);
        float first = left + part[2].value[i];
        float line = first + part[3].value[i];
        assert_memory_equal(&sum.value[i], &tree, sizeof tree);
        assert_memory_equal(&three.value[i], &first, sizeof first);
        other += memcmp(&line, &tree, sizeof tree) != 0;
    }
    assert_true(other > GW_BENCH_PERIOD / 8);
}

static void an_array_may_begin_within_the_pattern(void **state)
{
    struct gw_bench_pattern pattern;
    float *array = gw_bench_array(ELEMS * sizeof *array, 1);
    const size_t begins[] = {0, 1, GW_BENCH_PERIOD - 1, GW_BENCH_PERIOD, 5000};
    (void)state;
    assert_non_null(array);
    gw_bench_pattern(5, &pattern);
    gw_bench_fill(&pattern, ELEMS, array);
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++) {
        size_t at = begins[b];
        assert_int_equal(
            gw_bench_wrong_from(&pattern, at, ELEMS - at, array + at), 0);
        assert_true(gw_bench_wrong_from(&pattern, at + 1, ELEMS - at,
                                        array + at) > 1000);
    }
}

static void percentiles_are_of_the_nearest_rank(void **state)
{
    double us[200];
    struct gw_bench_row row = {.bytes = 4096, .iterations = 200, .us = us};
    struct gw_bench_row limit = row;
    (void)state;
    for (int i = 0; i < 200; i++)
        us[i] = (double)((i * 7) % 200) + 1;
    row.payload_bytes = limit.payload_bytes = 4096;
    gw_bench_sum_up(&row);
    assert_true(row.best_us == 1 && row.max_us == 200);
    assert_true(row.p50_us == 100 && row.p99_us == 198);
    /* below 64 KiB the median counts, from there on the best */
    limit.p50_us = 80;
    limit.best_us = 2;
    assert_true(gw_bench_ratio(&row, &limit) > 0.799 &&
                gw_bench_ratio(&row, &limit) < 0.801);
    row.bytes = limit.bytes = GW_BENCH_STREAM_BYTES;
    assert_true(gw_bench_ratio(&row, &limit) > 1.99);
    limit.payload_bytes = 8192; /* as fast with half of the bytes */
    assert_true(gw_bench_ratio(&row, &limit) > 0.999 &&
                gw_bench_ratio(&row, &limit) < 1.001);
}

/* The p50 and p99 of three times are the second and the third. */
static void a_rank_is_rounded_up(void **state)
{
    double us[] = {30, 10, 20};
    struct gw_bench_row row = {.iterations = 3, .us = us};
    (void)state;
    gw_bench_sum_up(&row);
    assert_true(row.p50_us == 20 && row.p99_us == 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_value_is_counted),
        cmocka_unit_test(a_misplaced_value_is_counted),
        cmocka_unit_test(bits_of_a_sum_tell_the_order),
        cmocka_unit_test(an_array_may_begin_within_the_pattern),
        cmocka_unit_test(percentiles_are_of_the_nearest_rank),
        cmocka_unit_test(a_rank_is_rounded_up),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
