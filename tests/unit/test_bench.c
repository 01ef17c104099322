/* What gradweir bench makes of bytes and times. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/bench.h"

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
    array[0] = -array[0] - 1;
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_value_is_counted),
        cmocka_unit_test(a_misplaced_value_is_counted),
        cmocka_unit_test(percentiles_are_of_the_nearest_rank),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
