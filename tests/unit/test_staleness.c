#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/staleness.h"

static void the_last_bucket_takes_all_more(void **state)
{
    (void)state;
    assert_int_equal(gw_staleness_bucket(0), 0);
    assert_int_equal(gw_staleness_bucket(62), 62);
    assert_int_equal(gw_staleness_bucket(63), 63);
    assert_int_equal(gw_staleness_bucket(64), 63);
    assert_int_equal(gw_staleness_bucket(UINT64_MAX), 63);
}

static void means_are_over_all_chunks(void **state)
{
    struct gw_staleness of[2] = {{.chunks = {1, 2}}, {.chunks = {[4] = 1}}};
    (void)state;
    assert_true(gw_staleness_mean(of, 1) == 2.0 / 3);
    assert_true(gw_staleness_mean(of, 2) == 6.0 / 4);
    memset(of, 0, sizeof of);
    assert_true(gw_staleness_mean(of, 2) == 0);
    assert_int_equal(gw_staleness_used(of), 0);
}

static void prints_what_is_not_empty(void **state)
{
    const struct gw_staleness of = {.chunks = {12, 0, 4, [63] = 1}};
    const struct gw_staleness nothing = {.chunks = {0}};
    const char *line = "staleness 4.18 (0: 12, 2: 4, 63: 1)";
    char text[64], little[8];
    (void)state;
    assert_int_equal(gw_staleness_print(&of, text, sizeof text), strlen(line));
    assert_string_equal(text, line);
    assert_int_equal(gw_staleness_print(&of, little, sizeof little),
                     strlen(line));
    assert_string_equal(little, "stalene");
    assert_int_equal(gw_staleness_print(&of, NULL, 0), strlen(line));
    assert_int_equal(gw_staleness_print(&nothing, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(gw_staleness_used(&of), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_bucket_takes_all_more),
        cmocka_unit_test(means_are_over_all_chunks),
        cmocka_unit_test(prints_what_is_not_empty),
    };
    return cmocka_run_group_tests_name("staleness", tests, NULL, NULL);
}
