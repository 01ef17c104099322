/* Links, the same cases on every transport of gw_transports: logins, messages,
   the order of sends, ends. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/table/pair.h"

static void login_tells_both_sides(void **state)
{
    struct pair *pair = connected(*state);
    assert_int_equal(pair->seen.rank, 3);
    assert_int_equal(pair->seen.job, 99);
    assert_int_equal(pair->seen.incarnation, 42);
    assert_int_equal(pair->a.link->session, pair->b.link->session);
    int local = pair->world.directory[0] != '\0';
    assert_int_equal(pair->a.link->local, local);
    assert_int_equal(pair->b.link->local, local);
    pair_close(pair);
}

static void a_refusal_names_its_reason(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    pair->refusal = "rank 3 is taken";
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    world_run(&pair->world, b_down, pair);
    assert_int_equal(pair->b.down_status, GW_EREFUSED);
    assert_string_equal(pair->b.down_why, "rank 3 is taken");
    assert_int_equal(pair->a.ups + pair->b.ups, 0);
    pair_close(pair);
}

static void dialling_nobody_is_told(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s",
             pair->world.ops->listener_address(pair->listener));
    pair->world.ops->close_listener(pair->listener);
    world_settle(&pair->world, 1000);
    pair_dial(pair, address);
    world_run(&pair->world, b_down, pair);
    assert_int_equal(pair->b.down_status, GW_EUNREACHABLE);
    pair_close(pair);
}

static void messages_go_both_ways_in_order(void **state)
{
    struct pair *pair = connected(*state);
    struct counted *sends = counted_new(200);
    for (size_t i = 0; i < 200; i++) {
        message(&sends[i], i % 2 ? "to a" : "to b");
        sends[i].send.frame.clock = i;
        gw_link_send(i % 2 ? pair->b.link : pair->a.link, &sends[i].send);
    }
    struct messages wanted = {pair, 100, 100};
    world_run(&pair->world, have_frames, &wanted);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(pair->b.frame[i].clock, 2 * i);
        assert_int_equal(pair->a.frame[i].clock, 2 * i + 1);
    }
    assert_string_equal(pair->a.message, "to a");
    assert_string_equal(pair->b.message, "to b");
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(sends[i].done, 1);
    free(sends);
    pair_close(pair);
}

static void urgent_sends_leave_first(void **state)
{
    struct pair *pair = connected(*state);
    const size_t n = 100;
    struct counted *sends = counted_new(n);
    uint8_t *bytes = calloc(1, 100000), *target = malloc(100000);
    uint32_t window;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 100000, &window);
    for (size_t i = 0; i < n; i++) {
        put(&sends[i], window, 0, bytes, 100000);
        sends[i].send.priority = (uint32_t)(n - i);
        gw_link_send(pair->b.link, &sends[i].send);
        sends[i].send.frame.clock = i;
    }
    struct messages wanted = {pair, n, 0};
    world_run(&pair->world, have_frames, &wanted);
    /* all but the first, which may be on its way already, are in order */
    for (size_t i = 2; i < n; i++)
        assert_true(pair->a.frame[i].clock < pair->a.frame[i - 1].clock);
    free(sends);
    free(bytes);
    free(target);
    pair_close(pair);
}

static void closing_gives_every_send_back_once(void **state)
{
    struct pair *pair = connected(*state);
    const size_t n = 50;
    struct counted *sends = counted_new(n);
    uint8_t *bytes = calloc(1, 1000000), *target = malloc(1000000);
    uint32_t window;
    gw_window_open(&pair->a.windows, GW_FRAME_PUSH, target, 1000000, &window);
    for (size_t i = 0; i < n; i++) {
        put(&sends[i], window, 0, bytes, 1000000);
        gw_link_send(pair->b.link, &sends[i].send);
    }
    struct messages wanted = {pair, 2, 0};
    world_run(&pair->world, have_frames, &wanted);
    gw_link_close(pair->b.link);
    size_t lost = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sends[i].done, 1);
        lost += sends[i].status == GW_ECLOSED;
    }
    assert_true(lost > 0);
    world_run(&pair->world, a_down, pair);
    assert_int_equal(pair->a.down_status, GW_ECLOSED);
    assert_int_equal(pair->b.downs, 0);
    free(sends);
    free(bytes);
    free(target);
    pair_close(pair);
}

static void what_was_sent_arrives_before_the_close(void **state)
{
    struct pair *pair = connected(*state);
    struct counted *sends = counted_new(3);
    for (size_t i = 0; i < 3; i++) {
        message(&sends[i], "last words");
        gw_link_send(pair->b.link, &sends[i].send);
    }
    while (!sends[2].done)
        world_settle(&pair->world, 10);
    gw_link_close(pair->b.link);
    world_run(&pair->world, a_down, pair);
    assert_int_equal(pair->a.frames, 3);
    free(sends);
    pair_close(pair);
}

static void sending_on_a_link_that_is_not_up(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    pair_open(pair, *state);
    pair_dial(pair, pair->world.ops->listener_address(pair->listener));
    struct counted *sends = counted_new(1);
    message(sends, "too early");
    gw_link_send(pair->b.link, &sends->send);
    assert_int_equal(sends->done, 1);
    assert_int_equal(sends->status, GW_ECLOSED);
    world_run(&pair->world, both_up, pair);
    free(sends);
    pair_close(pair);
}

static void an_address_is_taken_once(void **state)
{
    struct pair *pair = malloc(sizeof *pair);
    struct gw_listener *second;
    struct gw_error error = {0};
    pair_open(pair, *state);
    const char *address = pair->world.ops->listener_address(pair->listener);
    assert_int_equal(pair->world.ops->listen(pair->world.transport[0], address,
                                             &pair->acceptor, &second, &error),
                     GW_EADDRINUSE);
    assert_non_null(strstr(error.text, strrchr(address, ':')));
    assert_int_equal(pair->world.ops->listen(pair->world.transport[0],
                                             "no port", &pair->acceptor,
                                             &second, &error),
                     GW_EINVAL);
    pair_close(pair);
}

#define ALL(transport)                                                         \
    ON(transport, login_tells_both_sides),                                     \
        ON(transport, a_refusal_names_its_reason),                             \
        ON(transport, dialling_nobody_is_told),                                \
        ON(transport, messages_go_both_ways_in_order),                         \
        ON(transport, urgent_sends_leave_first),                               \
        ON(transport, closing_gives_every_send_back_once),                     \
        ON(transport, what_was_sent_arrives_before_the_close),                 \
        ON(transport, sending_on_a_link_that_is_not_up),                       \
        ON(transport, an_address_is_taken_once)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("unix"), ALL("sim"),
                                       ALL("rdma"), ALL("shm")};
    return world_run_tests("transport", tests, sizeof tests / sizeof *tests);
}
