/*
 * Who looks for what has come, and tasks, may use all of each turn of a loop:
 * sockets have a share of it all the same, and all of it is counted.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "proto/metrics.h"
#include "tests/table/pair.h"
#include "transport/link/loop_uv.h"

#define LONG_US (GW_TURN_US + 1000)

/* Takes all of a turn whenever it is called. */
struct hog {
    struct gw_loop *loop;
    struct gw_poller poller;
    struct gw_task task;
    unsigned polls;
};

static void be_busy(struct gw_loop *loop)
{
    uint64_t until = gw_loop_now(loop) + LONG_US;
    while (gw_loop_now(loop) < until)
        continue;
}

static int poll_hog(struct gw_poller *poller, uint64_t now_us)
{
    struct hog *hog = GW_CONTAINER(poller, struct hog, poller);
    (void)now_us;
    be_busy(hog->loop);
    hog->polls++;
    return 1;
}

static void arm(struct gw_poller *poller)
{
    (void)poller;
}

static void on_task(struct gw_task *task)
{
    struct hog *hog = task->owner;
    be_busy(hog->loop);
    gw_loop_post(hog->loop, task);
}

static void hog_begin(struct hog *hog, struct gw_loop *loop)
{
    *hog = (struct hog){.loop = loop,
                        .poller = {.poll = poll_hog, .arm = arm, .waits = 1},
                        .task = {.run = on_task, .owner = hog}};
    gw_uv_poller_add(loop, &hog->poller);
    gw_loop_post(loop, &hog->task);
}

static void hog_end(struct hog *hog)
{
    gw_loop_unpost(hog->loop, &hog->task);
    gw_uv_poller_remove(hog->loop, &hog->poller);
}

#define MESSAGES 20

/* Both ends have something to read and to write in each turn. */
static void sockets_are_read_where_others_use_all(void **state)
{
    struct pair *pair = connected("tcp");
    struct counted *from_a = counted_new(MESSAGES);
    struct counted *from_b = counted_new(MESSAGES);
    struct hog hog;
    (void)state;
    hog_begin(&hog, pair->world.loop[0]);
    for (size_t i = 0; i < MESSAGES; i++) {
        struct messages wanted = {pair, i + 1, i + 1};
        message(&from_a[i], "to b");
        message(&from_b[i], "to a");
        gw_link_send(pair->a.link, &from_a[i].send);
        gw_link_send(pair->b.link, &from_b[i].send);
        world_run(&pair->world, have_frames, &wanted);
    }
    assert_in_range(hog.polls, 1, 12 * MESSAGES);
    hog_end(&hog);
    pair_close(pair);
    free(from_a), free(from_b);
}

static void stop(struct gw_timer *timer)
{
    gw_loop_stop(timer->owner);
}

/* Also that which comes before the loop looks at its sockets. */
static void what_comes_before_the_poll_is_counted(void **state)
{
    struct gw_loop *loop;
    struct gw_error error;
    struct gw_metrics metrics = {0};
    struct gw_timer timer = {.fire = stop};
    struct hog hog = {.poller = {.poll = poll_hog, .arm = arm, .waits = 1}};
    (void)state;
    assert_int_equal(gw_loop_open_uv(&loop, &error), GW_OK);
    loop->metrics = &metrics;
    timer.owner = hog.loop = loop;
    gw_uv_poller_add(loop, &hog.poller);
    gw_timer_start(loop, &timer, 10 * LONG_US);
    gw_loop_run(loop);
    gw_uv_poller_remove(loop, &hog.poller);
    assert_true(gw_metrics_get(&metrics, GW_METRIC_LONGEST_TURN_US) >=
                2 * LONG_US);
    gw_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_read_where_others_use_all),
        cmocka_unit_test(what_comes_before_the_poll_is_counted),
    };
    return cmocka_run_group_tests_name("turn share", tests, NULL, NULL);
}
