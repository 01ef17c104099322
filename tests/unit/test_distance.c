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
    assert_int_equal(gw_edit_distance("Async", "async"), 0);
    assert_int_equal(gw_edit_distance("ASNYC", "async"), 1);
    char long_word[200];
    memset(long_word, 'x', sizeof long_word);
    long_word[199] = '\0';
    assert_int_equal(gw_edit_distance(long_word, ""), GW_DISTANCE_BYTES);
}

static void the_nearest_has_something_in_common(void **state)
{
    (void)state;
    struct gw_nearest nearest = {0};
    char said[GW_NEAREST_BYTES];
    gw_nearest_try(&nearest, "trian", "config");
    assert_string_equal(gw_nearest_say(&nearest, said), "");
    gw_nearest_try(&nearest, "trian", "train");
    gw_nearest_try(&nearest, "trian", "trainer");
    gw_nearest_try(&nearest, "trian", "tryan"); /* as near, but later */
    assert_string_equal(gw_nearest_say(&nearest, said),
                        ", the nearest is train");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(the_nearest_has_something_in_common),
    };
    return cmocka_run_group_tests_name("distance", tests, NULL, NULL);
}
