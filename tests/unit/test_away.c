/*
 * transport/member/away: a coordinator that is here, silent, or another process
 * than before, and how long a member waits for it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "transport/member/away.h"

#define FIRST    UINT64_C(0xfeedfacecafebeef)
#define SECOND   UINT64_MAX
#define THIRD    UINT64_C(7)
#define PATIENCE UINT64_C(1000)

/* A coordinator that was joined, and is here. */
static struct gw_away joined(void)
{
    struct gw_away away = {0};
    assert_int_equal(gw_away_link_up(&away, FIRST, 10), 1);
    assert_int_equal(away.state, GW_COORDINATOR_HERE);
    return away;
}

static void the_first_one_is_joined_and_here(void **state)
{
    (void)state;
    struct gw_away away = joined();
    assert_true(away.joined == FIRST);
    assert_int_equal(away.since_us, 0);
    assert_int_equal(gw_away_is_over(&away, UINT64_MAX, 0, 0), 0);
}

/* A link of the same process that broke and is back: no second JOIN. */
static void the_same_one_is_joined_once(void **state)
{
    (void)state;
    struct gw_away away = joined();
    for (uint64_t now = 20; now < 25; now++) {
        assert_int_equal(gw_away_link_up(&away, FIRST, now), 0);
        assert_int_equal(away.state, GW_COORDINATOR_HERE);
    }
    assert_int_equal(away.since_us, 0);
}

static void a_silent_one_is_away_since_it_was_heard(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 500);
    assert_int_equal(away.state, GW_COORDINATOR_AWAY);
    assert_int_equal(away.since_us, 500);
    gw_away_silent(&away, 900); /* told again: it is away for longer */
    assert_int_equal(away.state, GW_COORDINATOR_AWAY);
    assert_int_equal(away.since_us, 500);
    assert_true(away.joined == FIRST);
}

static void the_silent_one_may_be_heard_again(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 500);
    assert_int_equal(gw_away_link_up(&away, FIRST, 600), 0);
    assert_int_equal(away.state, GW_COORDINATOR_HERE);
    assert_int_equal(gw_away_is_over(&away, 9000, 0, PATIENCE), 0);
    gw_away_silent(&away, 9000); /* another time, counted by itself */
    assert_int_equal(away.since_us, 9000);
    assert_int_equal(gw_away_is_over(&away, 9000 + PATIENCE, 0, PATIENCE), 0);
    assert_int_equal(gw_away_is_over(&away, 9001 + PATIENCE, 0, PATIENCE), 1);
}

/* It answered before anybody noticed that the one before was silent. */
static void another_one_may_answer_while_one_is_here(void **state)
{
    (void)state;
    struct gw_away away = joined();
    assert_int_equal(gw_away_link_up(&away, SECOND, 700), 1);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
    assert_true(away.joined == SECOND);
    assert_int_equal(away.since_us, 700);
    assert_int_equal(gw_away_is_over(&away, 700 + PATIENCE, 0, PATIENCE), 0);
    assert_int_equal(gw_away_is_over(&away, 701 + PATIENCE, 0, PATIENCE), 1);
}

/* The wait began when the one before was heard last. */
static void another_one_may_answer_while_one_is_away(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 500);
    assert_int_equal(gw_away_link_up(&away, SECOND, 700), 1);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
    assert_int_equal(away.since_us, 500);
    assert_int_equal(gw_away_is_over(&away, 501 + PATIENCE, 0, PATIENCE), 1);
}

/* A new one that has no view yet is not here because its link is up again, nor
   away because it is silent: it still knows nobody. */
static void a_new_one_is_here_with_its_view_alone(void **state)
{
    (void)state;
    struct gw_away away = joined();
    assert_int_equal(gw_away_link_up(&away, SECOND, 700), 1);
    assert_int_equal(gw_away_link_up(&away, SECOND, 800), 0);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
    gw_away_silent(&away, 900);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
    assert_int_equal(away.since_us, 700);
    gw_away_back(&away);
    assert_int_equal(away.state, GW_COORDINATOR_HERE);
    assert_true(away.joined == SECOND);
    assert_int_equal(gw_away_is_over(&away, UINT64_MAX, 0, 0), 0);
    assert_int_equal(gw_away_link_up(&away, SECOND, 1000), 0);
    assert_int_equal(away.state, GW_COORDINATOR_HERE);
}

/* The one in its place dies as well, before its view or after it. */
static void one_after_another_takes_the_place(void **state)
{
    (void)state;
    struct gw_away away = joined();
    assert_int_equal(gw_away_link_up(&away, SECOND, 700), 1);
    assert_int_equal(gw_away_link_up(&away, THIRD, 800), 1);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
    assert_true(away.joined == THIRD);
    assert_int_equal(away.since_us, 700);
    gw_away_back(&away);
    gw_away_silent(&away, 2000);
    assert_int_equal(away.state, GW_COORDINATOR_AWAY);
    assert_int_equal(away.since_us, 2000);
    assert_int_equal(gw_away_link_up(&away, SECOND, 2100), 1);
    assert_int_equal(away.state, GW_COORDINATOR_NEW);
}

/* Patience is for a job that stands still: as long as it comes on, it is not
   over, however long the coordinator is away. */
static void it_is_not_over_while_the_job_comes_on(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 500);
    uint64_t now = 500;
    for (uint64_t step = 1; step <= 50; step++) {
        now += PATIENCE;
        assert_int_equal(gw_away_is_over(&away, now, step, PATIENCE), 0);
    }
    assert_int_equal(gw_away_is_over(&away, now + PATIENCE, 50, PATIENCE), 0);
    assert_int_equal(gw_away_is_over(&away, now + PATIENCE + 1, 50, PATIENCE),
                     1);
    /* and it comes on at the last moment */
    assert_int_equal(gw_away_is_over(&away, now + PATIENCE + 2, 51, PATIENCE),
                     0);
}

/* Progress from before it went away is no progress of now, but is noticed at
   the first look; and the wait of before is no part of the wait of now. */
static void a_wait_knows_nothing_of_the_one_before(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 500);
    assert_int_equal(gw_away_is_over(&away, 600, 3, PATIENCE), 0);
    assert_int_equal(gw_away_link_up(&away, FIRST, 700), 0);
    gw_away_silent(&away, 50000);
    assert_int_equal(gw_away_is_over(&away, 50600, 9, PATIENCE), 0);
    assert_int_equal(gw_away_is_over(&away, 50600 + PATIENCE, 9, PATIENCE), 0);
    assert_int_equal(gw_away_is_over(&away, 50601 + PATIENCE, 9, PATIENCE), 1);
}

/* A silence that began after the time of a look does not end in the past. */
static void a_wait_from_a_time_to_come_is_not_over(void **state)
{
    (void)state;
    struct gw_away away = joined();
    gw_away_silent(&away, 5000);
    assert_int_equal(gw_away_is_over(&away, 4000, 0, 0), 0);
    assert_int_equal(gw_away_is_over(&away, 5000, 0, 0), 0);
    assert_int_equal(gw_away_is_over(&away, 5001, 0, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_one_is_joined_and_here),
        cmocka_unit_test(the_same_one_is_joined_once),
        cmocka_unit_test(a_silent_one_is_away_since_it_was_heard),
        cmocka_unit_test(the_silent_one_may_be_heard_again),
        cmocka_unit_test(another_one_may_answer_while_one_is_here),
        cmocka_unit_test(another_one_may_answer_while_one_is_away),
        cmocka_unit_test(a_new_one_is_here_with_its_view_alone),
        cmocka_unit_test(one_after_another_takes_the_place),
        cmocka_unit_test(it_is_not_over_while_the_job_comes_on),
        cmocka_unit_test(a_wait_knows_nothing_of_the_one_before),
        cmocka_unit_test(a_wait_from_a_time_to_come_is_not_over),
    };
    return cmocka_run_group_tests_name("away", tests, NULL, NULL);
}
