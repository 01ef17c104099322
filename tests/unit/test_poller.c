/* transport/link/loop_uv_poll: polling, and work that must not wait for it. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/link/loop_uv.h"

/* One that nothing ever comes to, unless it is told to. */
struct watched {
    struct gw_poller poller;
    struct gw_loop *loop;
    struct gw_timer timer;
    struct gw_task task;
    int polls, arms, comes;
    int polls_before; /* when the task was posted */
    int late;         /* something comes just before it is armed, unheard: */
    uint64_t came_us, seen_us; /* when that was, and when it was looked at */
};

static int poll_watched(struct gw_poller *poller, uint64_t now_us)
{
    struct watched *watched = GW_CONTAINER(poller, struct watched, poller);
    int came = watched->comes;
    (void)now_us;
    watched->polls++;
    watched->comes = 0;
    if (came)
        watched->seen_us = gw_loop_now(watched->loop);
    return came;
}

static void arm(struct gw_poller *poller)
{
    struct watched *watched = GW_CONTAINER(poller, struct watched, poller);
    watched->arms++;
    if (watched->late)
        watched->came_us = gw_loop_now(watched->loop);
    watched->comes |= watched->late;
    watched->late = 0;
}

static void on_task(struct gw_task *task)
{
    struct watched *watched = task->owner;
    gw_loop_stop(watched->loop);
}

static void on_timer(struct gw_timer *timer)
{
    struct watched *watched = timer->owner;
    watched->polls_before = watched->polls;
    gw_loop_post(watched->loop, &watched->task);
}

static void watched_open(struct watched *watched)
{
    struct gw_error error;
    *watched = (struct watched){.poller = {.poll = poll_watched, .arm = arm}};
    assert_int_equal(gw_loop_open_uv(&watched->loop, &error), GW_OK);
    watched->timer = (struct gw_timer){.fire = on_timer, .owner = watched};
    watched->task = (struct gw_task){.run = on_task, .owner = watched};
    gw_uv_poller_add(watched->loop, &watched->poller);
}

static void watched_close(struct watched *watched)
{
    gw_uv_poller_remove(watched->loop, &watched->poller);
    gw_loop_close(watched->loop);
}

/* One that is busy is looked at all the time, but for what is due. */
static void a_task_does_not_wait_for_pollers(void **state)
{
    (void)state;
    struct watched watched;
    watched_open(&watched);
    watched.poller.busy = 1;
    gw_timer_start(watched.loop, &watched.timer, 5000);
    gw_loop_run(watched.loop);
    assert_true(watched.polls_before > 20);
    assert_in_range(watched.polls - watched.polls_before, 1, 4);
    assert_int_equal(watched.arms, 0);
    watched_close(&watched);
}

/* Where nothing comes it is armed, and the loop sleeps. */
static void an_idle_loop_sleeps(void **state)
{
    (void)state;
    struct watched watched;
    watched_open(&watched);
    watched.poller.waits = 1;
    gw_timer_start(watched.loop, &watched.timer, 50000);
    gw_loop_run(watched.loop);
    assert_true(watched.arms > 0);
    assert_in_range(watched.polls, 2, 20);
    watched_close(&watched);
}

/* A message between the last look and the arming wakes nobody: it is looked
   for once more, and does not lie there until something else wakes the loop. */
static void what_comes_while_it_is_armed_is_seen(void **state)
{
    (void)state;
    struct watched watched;
    watched_open(&watched);
    watched.late = 1;
    gw_timer_start(watched.loop, &watched.timer, 400000);
    gw_loop_run(watched.loop);
    assert_true(watched.came_us > 0);
    assert_in_range(watched.seen_us - watched.came_us, 0, 200000);
    watched_close(&watched);
}

/* After something has come, more may come soon: it is looked for. */
static void what_comes_is_followed(void **state)
{
    (void)state;
    struct watched watched;
    watched_open(&watched);
    watched.poller.waits = watched.comes = 1;
    gw_timer_start(watched.loop, &watched.timer, 20000);
    gw_loop_run(watched.loop);
    assert_true(watched.polls > 20);
    assert_true(watched.arms > 0);
    watched_close(&watched);
}

/* Nobody calls one that has ended. */
static void an_ended_one_is_left_alone(void **state)
{
    (void)state;
    struct watched watched;
    watched_open(&watched);
    gw_uv_poller_remove(watched.loop, &watched.poller);
    gw_timer_start(watched.loop, &watched.timer, 1000);
    gw_loop_run(watched.loop);
    assert_int_equal(watched.polls, 0);
    watched_close(&watched);
}

static void on_time(struct gw_timer *timer)
{
    (*(int *)timer->owner)++;
}

/* libuv calls timers that are due, and then sleeps in the same turn. */
static void a_turn_ends_with_a_timer(void **state)
{
    struct watched watched;
    int fired = 0;
    struct gw_timer soon = {.fire = on_time, .owner = &fired};
    struct gw_timer late = {.fire = on_time, .owner = &fired};
    (void)state;
    watched_open(&watched);
    uint64_t before = gw_loop_now(watched.loop);
    gw_timer_start(watched.loop, &soon, 1000);
    gw_timer_start(watched.loop, &late, 3000000);
    while (gw_loop_now(watched.loop) < before + 5000)
        continue; /* so that it is due before the turn begins */
    gw_loop_turn(watched.loop);
    assert_int_equal(fired, 1);
    assert_true(gw_loop_now(watched.loop) < before + 1000000);
    gw_timer_stop(watched.loop, &late);
    watched_close(&watched);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_ends_with_a_timer),
        cmocka_unit_test(a_task_does_not_wait_for_pollers),
        cmocka_unit_test(an_idle_loop_sleeps),
        cmocka_unit_test(what_comes_while_it_is_armed_is_seen),
        cmocka_unit_test(what_comes_is_followed),
        cmocka_unit_test(an_ended_one_is_left_alone),
    };
    return cmocka_run_group_tests_name("poller", tests, NULL, NULL);
}
