/* proto/distance: against distances counted by hand. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "proto/distance.h"

static void distances(void **state)
{
    (void)state;
    assert_int_equal(gw_edit_distance("", ""), 0);
    assert_int_equal(gw_edit_distance("train", "train"), 0);
    assert_int_equal(gw_edit_distance("", "train"), 5);
    assert_int_equal(gw_edit_distance("train", ""), 5);
    assert_int_equal(gw_edit_distance("trian", "train"), 1);
    assert_int_equal(gw_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(gw_edit_distance("ca", "abc"), 3); /* not 2: alignment */
    char long_word[200];
    memset(long_word, 'x', sizeof long_word);
    long_word[199] = '\0';
    assert_int_equal(gw_edit_distance(long_word, ""), GW_DISTANCE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(distances)};
    return cmocka_run_group_tests_name("distance", tests, NULL, NULL);
}
