/*
 * Members on every transport: messages survive their links, silence is told,
 * what goes over links is counted.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/metrics.h"
#include "tests/table/couple.h"

static int are_linked(void *owner)
{
    struct couple *couple = owner;
    return gw_peer_is_up(couple->a.peer, 0) && gw_peer_is_up(couple->b.peer, 0);
}

static void break_links(struct couple *couple, uint64_t round)
{
    if (couple->world.sim)
        gw_sim_cut(couple->world.sim);
    else if (round % 2)
        gw_peer_reject(couple->a.peer, 0, "test");
    else
        gw_peer_reject(couple->b.peer, 0, "test");
}

static void messages_survive_broken_links(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    for (uint64_t round = 0; round < 60; round++) {
        for (int i = 0; i < 5; i++) {
            struct gw_message message = {.kind = GW_MESSAGE_STORED,
                                         .stored = {.clock = couple->wanted}};
            assert_int_equal(gw_peer_tell(couple->b.peer, &message), GW_OK);
            assert_int_equal(gw_peer_tell(couple->a.peer, &message), GW_OK);
            couple->wanted++;
        }
        if (round % 3 != 0)
            world_settle(&couple->world, round % 3 == 1 ? 15000 : 300);
        /* every second break meets a link, however slow the machine is */
        if (round % 4 == 0)
            world_run(&couple->world, are_linked, couple);
        if (round % 2 == 0)
            break_links(couple, round / 2);
        if (round % 10 == 0)
            world_run(&couple->world, all_told, couple);
    }
    world_run(&couple->world, all_told, couple);
    world_settle(&couple->world, 500000);
    assert_true(couple->a.downs >= 15);
    assert_int_equal(couple->a.messages, couple->wanted);
    assert_int_equal(couple->b.messages, couple->wanted);
    assert_int_equal(couple->a.lost + couple->b.lost, 0);
    couple_free(couple);
}

static int b_has_taken_all(void *owner)
{
    return gw_peer_flushed(((struct couple *)owner)->b.peer);
}

/* Two megabytes at once, to a peer that has not looked yet: nothing is lost,
   and who tells is not told to wait. A message has its size. */
static void a_slow_peer_is_told_all(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    char *text = malloc(70000);
    memset(text, 'x', 69999);
    text[69999] = '\0';
    struct gw_message message = {.kind = GW_MESSAGE_STATUS,
                                 .status = {.text = text + 20000}};
    for (int told = 0; told < 40; told++)
        assert_int_equal(gw_peer_tell(couple->b.peer, &message), GW_OK);
    assert_int_equal(gw_peer_untaken(couple->b.peer), 40);
    world_run(&couple->world, b_has_taken_all, couple);
    assert_int_equal(couple->a.others, 40);
    message.status.text = text;
    assert_int_equal(gw_peer_tell(couple->a.peer, &message), GW_ERANGE);
    free(text);
    couple_free(couple);
}

/* Who has memory that others cannot reach learns it before he opens a window
   there, with the transport's name. */
static void what_is_not_reached_is_told(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_member *member = couple->a.member;
    const char *name = couple->world.ops->name;
    static const struct gw_memory host = {.kind = GW_MEMORY_HOST, .fd = -1};
    static const struct gw_memory shared = {.kind = GW_MEMORY_SHARED};
    static const struct gw_memory cuda = {.kind = GW_MEMORY_CUDA, .fd = -1};
    char why[256] = "";
    assert_int_equal(gw_member_takes(member, &host, why, sizeof why), GW_OK);
    assert_int_equal(gw_member_takes(member, &shared, why, sizeof why), GW_OK);
    assert_string_equal(why, "");
    if (gw_member_takes(member, &cuda, why, sizeof why) == GW_OK)
        assert_string_equal(name, "rdma");
    else
        assert_ptr_equal(strstr(why, name), why);
    dial(couple, 0, 2);
    world_run(&couple->world, all_up, couple);
    why[0] = '\0';
    assert_int_equal(gw_peer_takes(couple->b.peer, &shared, why, sizeof why),
                     GW_OK);
    assert_string_equal(why, "");
    assert_int_equal(gw_peer_takes(couple->b.peer, &cuda, why, sizeof why),
                     gw_member_takes(couple->b.member, &cuda, why, sizeof why));
    couple_free(couple);
}

static void silence_is_told_once_and_in_time(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 2);
    world_run(&couple->world, all_up, couple);
    world_settle(&couple->world, 2500000);
    assert_int_equal(couple->a.lost, 0);
    assert_int_equal(couple->a.downs, 0);
    uint64_t before = gw_loop_now(couple->world.loop[0]);
    gw_member_close(couple->b.member);
    couple->b.member = NULL;
    world_run(&couple->world, a_lost, couple);
    uint64_t took = gw_loop_now(couple->world.loop[0]) - before;
    assert_true(took > 700000 && took < 1300000);
    assert_int_equal(couple->a.lost_status, GW_ETIMEOUT);
    world_settle(&couple->world, 2000000);
    assert_int_equal(couple->a.lost, 1);
    couple_free(couple);
}

static int b_has_two(void *owner)
{
    return ((struct couple *)owner)->b.ups == 2;
}

/* Dials in vain are no connections that break. */
static void a_link_breaks_once(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 2);
    world_run(&couple->world, b_has_two, couple);
    world_settle(&couple->world, 100000);
    assert_int_equal(couple->b.ups, 2);
    gw_member_close(couple->a.member);
    couple->a.member = NULL;
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_ETIMEOUT);
    assert_int_equal(couple->b.downs, 2);
    couple_free(couple);
}

static int b_is_stuck(void *owner)
{
    return ((struct couple *)owner)->b.stuck > 0;
}

/* In the first second, once, and where it leads to. */
static void dials_in_vain_are_told(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 2);
    world_run(&couple->world, b_has_two, couple);
    assert_int_equal(couple->b.stuck, 0);
    char address[GW_ADDRESSES_MAX];
    snprintf(address, sizeof address, "%s",
             gw_member_address(couple->a.member));
    uint64_t before = gw_loop_now(couple->world.loop[1]);
    gw_member_close(couple->a.member);
    couple->a.member = NULL;
    world_run(&couple->world, b_is_stuck, couple);
    uint64_t took = gw_loop_now(couple->world.loop[1]) - before;
    assert_in_range(took, 700000, 2300000); /* that it is gone is told late */
    assert_ptr_equal(strstr(couple->b.stuck_text, "cannot reach coordinator"),
                     couple->b.stuck_text);
    assert_non_null(strstr(couple->b.stuck_text, address));
    world_settle(&couple->world, 2000000);
    assert_int_equal(couple->b.stuck, 1);
    assert_int_equal(couple->b.came_back, 0);
    couple_free(couple);
}

/* Nor is it told while the other side says "later", or comes in time. */
static void what_comes_up_is_not_stuck(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    for (int round = 0; round < 4; round++) {
        gw_peer_reject(couple->b.peer, 0, "test");
        world_settle(&couple->world, 400000);
        world_run(&couple->world, are_linked, couple);
    }
    assert_int_equal(couple->b.stuck, 0);
    couple_free(couple);
}

static void on_sent(struct gw_send *send, enum gw_status status)
{
    (void)send;
    assert_int_equal(status, GW_OK);
}

static int a_has_frames(void *owner)
{
    struct couple *couple = owner;
    return couple->a.frames == couple->wanted;
}

static int two_are_up(void *owner)
{
    struct couple *couple = owner;
    return couple->a.ups == 2 && couple->b.ups == 2;
}

/*
 * Bytes that came in after a long turn of the loop, but before its timers, are
 * not from the future. In simulation nothing takes time within a turn.
 */
static void what_is_heard_after_a_pause_counts(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 2);
    world_run(&couple->world, two_are_up, couple);
    couple->a.stall_us = couple->world.sim ? 0 : 300000;
    for (int round = 1; round <= 2; round++) {
        struct gw_send send[2];
        for (unsigned i = 0; i < 2; i++) {
            send[i] = (struct gw_send){
                .frame = {.kind = GW_FRAME_ACK, .chunk = GW_CHUNK_NONE},
                .done = on_sent};
            gw_peer_send(couple->b.peer, i, &send[i]);
        }
        couple->wanted = 2 * (uint64_t)round;
        world_run(&couple->world, a_has_frames, couple);
    }
    assert_int_equal(couple->a.downs, 0);
    assert_int_equal(couple->b.downs, 0);
    couple_free(couple);
}

/* A member that works for long on the loop, and asks whether the turn is over,
   is heard meanwhile. Nothing leaves within a turn in simulation. */
/* A wait is never from a time to come, whichever clock its beginning had. */
static void a_wait_begins_by_now(void **state)
{
    struct couple *couple = couple_new(*state);
    uint64_t now = gw_loop_now(couple->a.loop), paused_us = 0;
    uint64_t since_us = now + 5;
    gw_member_excuse(couple->a.member, now, &paused_us, &since_us);
    assert_int_equal(since_us, now + 5);
    paused_us = UINT64_MAX / 2; /* more than there was */
    since_us = now - 7;
    gw_member_excuse(couple->a.member, now, &paused_us, &since_us);
    assert_in_range(since_us, now - 7, now);
    couple_free(couple);
}

static void who_works_for_long_is_heard(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_send send = {
        .frame = {.kind = GW_FRAME_ACK, .chunk = GW_CHUNK_NONE},
        .done = on_sent};
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    couple->a.stall_us = couple->world.sim ? 0 : 700000;
    couple->a.asks = 1;
    gw_peer_send(couple->b.peer, 0, &send);
    couple->wanted = 1;
    world_run(&couple->world, a_has_frames, couple);
    if (!couple->world.sim)
        assert_true(couple->a.unsaid_us < 250000);
    world_settle(&couple->world, 300000);
    assert_int_equal(couple->a.downs, 0);
    assert_int_equal(couple->b.downs, 0);
    couple_free(couple);
}

/* ---- counters ---- */

/* Whether it had left when the link was closed is the transport's affair. */
static void on_bad_sent(struct gw_send *send, enum gw_status status)
{
    (void)send;
    assert_true(status == GW_OK || status == GW_ECLOSED);
}

/* Sends one frame from b that a cannot take, and waits until the link is back.
 */
static void
send_bad(struct couple *couple, struct gw_frame frame, int crc_known)
{
    struct gw_send send = {.frame = frame,
                           .payload = "gradient",
                           .crc_known = crc_known,
                           .done = on_bad_sent};
    couple->a.ups = couple->b.ups = 0;
    gw_peer_send(couple->b.peer, 0, &send);
    world_run(&couple->world, all_up, couple);
}

static void traffic_is_counted(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_metrics counters = {0};
    /* over tcp both live on one loop, so one struct takes both sides */
    couple->world.loop[0]->metrics = &counters;
    couple->world.loop[1]->metrics = &counters;
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    while (couple->wanted < 20) {
        struct gw_message message = {.kind = GW_MESSAGE_STORED,
                                     .stored = {.clock = couple->wanted}};
        assert_int_equal(gw_peer_tell(couple->b.peer, &message), GW_OK);
        assert_int_equal(gw_peer_tell(couple->a.peer, &message), GW_OK);
        couple->wanted++;
    }
    world_run(&couple->world, all_told, couple);
    world_settle(&couple->world, 1000000);
    uint64_t in = gw_metrics_get(&counters, GW_METRIC_FRAMES_IN);
    uint64_t out = gw_metrics_get(&counters, GW_METRIC_FRAMES_OUT);
    uint64_t beats = gw_metrics_get(&counters, GW_METRIC_HEARTBEATS);
    assert_in_range(beats, 6, 30); /* two sides, 5 a second, and acks */
    assert_in_range(in, beats + 40, beats + 40);
    assert_in_range(out, in, in + 2); /* on their way */
    assert_int_equal(gw_metrics_get(&counters, GW_METRIC_PROTOCOL_ERRORS), 0);
    assert_int_equal(gw_metrics_get(&counters, GW_METRIC_CRC_ERRORS), 0);

    /* a put into a window that was never opened */
    send_bad(couple,
             (struct gw_frame){.kind = GW_FRAME_PUSH, .window = 9, .length = 8},
             0);
    assert_int_equal(gw_metrics_get(&counters, GW_METRIC_PROTOCOL_ERRORS), 1);
    /* what never touches a wire has no checksum: this is only no message */
    int checked = !gw_peer_is_within_host(couple->b.peer, 0);
    if (!couple->world.sim) {
        struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                 .chunk = GW_CHUNK_NONE,
                                 .length = 8,
                                 .payload_crc = 1};
        send_bad(couple, frame, 1);
        assert_int_equal(gw_metrics_get(&counters, GW_METRIC_CRC_ERRORS),
                         checked);
        assert_int_equal(gw_metrics_get(&counters, GW_METRIC_PROTOCOL_ERRORS),
                         1 + !checked);
    }
    assert_int_equal(gw_metrics_get(&counters, GW_METRIC_LOGINS_REFUSED), 0);
    couple->a.refuse = "no more";
    gw_peer_close(couple->b.peer);
    gw_peer_close(couple->a.peer);
    dial(couple, 0, 1);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(gw_metrics_get(&counters, GW_METRIC_LOGINS_REFUSED), 1);
    couple_free(couple);
}

static int a_is_down(void *owner)
{
    return ((struct couple *)owner)->a.downs > 0;
}

static void a_frame_out_of_place_is_named(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_send send = {
        .frame = {.kind = GW_FRAME_ACK, .chunk = GW_CHUNK_NONE},
        .done = on_sent};
    couple->a.rejects = 1;
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    gw_peer_send(couple->b.peer, 0, &send);
    world_run(&couple->world, a_is_down, couple);
    assert_string_equal(couple->a.down_why,
                        "ack frame that its role does not send");
    couple_free(couple);
}

#define ALL(transport)                                                         \
    ON(transport, messages_survive_broken_links),                              \
        ON(transport, a_slow_peer_is_told_all),                                \
        ON(transport, what_is_not_reached_is_told),                            \
        ON(transport, silence_is_told_once_and_in_time),                       \
        ON(transport, a_link_breaks_once),                                     \
        ON(transport, dials_in_vain_are_told),                                 \
        ON(transport, what_comes_up_is_not_stuck),                             \
        ON(transport, what_is_heard_after_a_pause_counts),                     \
        ON(transport, who_works_for_long_is_heard),                            \
        ON(transport, a_wait_begins_by_now),                                   \
        ON(transport, traffic_is_counted),                                     \
        ON(transport, a_frame_out_of_place_is_named)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("unix"), ALL("sim"),
                                       ALL("rdma"), ALL("shm")};
    return world_run_tests("member", tests, sizeof tests / sizeof *tests);
}
