/* cli/steady: time goes on, and jumps are no part of it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/steady.h"

#define SECOND ((uint64_t)1000000)
#define HOUR   (3600 * SECOND)

static void jumps_are_left_out(void **state)
{
    (void)state;
    struct gw_steady steady = {0};
    uint64_t loop = 7 * HOUR;
    assert_true(gw_steady_now(&steady, loop) == loop);
    uint64_t began = loop;
    for (int i = 0; i < 20; i++)
        gw_steady_now(&steady, loop += SECOND / 4);
    assert_true(gw_steady_now(&steady, loop) == began + 5 * SECOND);
    loop += HOUR; /* the machine slept */
    assert_true(gw_steady_now(&steady, loop) == began + 5 * SECOND);
    assert_true(steady.lost_us == HOUR);
    loop += 2 * SECOND; /* a busy one is late */
    assert_true(gw_steady_now(&steady, loop) == began + 7 * SECOND);
    loop -= HOUR; /* somebody set the clock */
    assert_true(gw_steady_now(&steady, loop) == began + 7 * SECOND);
    assert_true(gw_steady_now(&steady, loop + SECOND) == began + 8 * SECOND);
    assert_int_equal(steady.jumps, 2);
    assert_true(steady.lost_us == HOUR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(jumps_are_left_out)};
    return cmocka_run_group_tests_name("steady", tests, NULL, NULL);
}
