/* Members on every transport: messages survive their links, silence is told. */
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
#include "tests/table/world.h"
#include "transport/member.h"

struct side {
    struct gw_member *member;
    struct gw_peer *peer;
    int ups, downs, lost;
    enum gw_status lost_status;
    char lost_why[128];
    uint64_t messages; /* passed on, checked to be in order */
    uint64_t frames;
    uint64_t stall_us; /* that the handling of the next frame takes */
    const char *refuse;
    int closes; /* the peer, when one of its links breaks */
};

struct couple {
    struct world world;
    struct side a, b; /* a listens, b dials */
    uint64_t wanted;
};

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct side *side = owner;
    (void)hello;
    if (side->refuse) {
        snprintf(why, why_bytes, "%s", side->refuse);
        return GW_EREFUSED;
    }
    side->peer = peer;
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct side *side = owner;
    (void)peer;
    (void)link;
    side->ups++;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct side *side = owner;
    (void)peer;
    assert_int_equal(message->kind, GW_MESSAGE_STORED);
    assert_int_equal(message->stored.clock, side->messages);
    side->messages++;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct side *side = owner;
    struct gw_loop *loop = gw_member_loop(side->member);
    uint64_t until_us = gw_loop_now(loop) + side->stall_us;
    (void)peer;
    (void)link;
    (void)frame;
    (void)payload;
    side->frames++;
    side->stall_us = 0;
    while (gw_loop_now(loop) < until_us)
        continue;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct side *side = owner;
    (void)link;
    (void)status;
    (void)why;
    side->downs++;
    if (side->closes)
        gw_peer_close(peer);
}

static void on_lost(void *owner,
                    struct gw_peer *peer,
                    enum gw_status status,
                    const char *why)
{
    struct side *side = owner;
    (void)peer;
    side->lost++;
    side->lost_status = status;
    snprintf(side->lost_why, sizeof side->lost_why, "%s", why);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = on_lost,
};

static void
side_open(struct couple *couple, struct side *side, int which, uint8_t role)
{
    struct gw_error error = {0};
    struct gw_member_options options = {
        .loop = couple->world.loop[which],
        .transport = couple->world.ops,
        .role = role,
        .rank = 0,
        .join_us = 400000,
        .handler = &handler,
        .owner = side,
    };
    assert_int_equal(gw_member_open(&options, &side->member, &error), GW_OK);
}

static struct couple *couple_new(const char *transport)
{
    struct couple *couple = calloc(1, sizeof *couple);
    struct gw_error error = {0};
    assert_non_null(couple);
    world_open(&couple->world, transport);
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    side_open(couple, &couple->b, 1, GW_ROLE_WORKER);
    assert_int_equal(gw_member_listen(couple->a.member,
                                      world_any_port(&couple->world), &error),
                     GW_OK);
    return couple;
}

static void dial(struct couple *couple, uint64_t expects, unsigned links)
{
    struct gw_error error = {0};
    assert_int_equal(gw_member_dial(couple->b.member,
                                    gw_member_address(couple->a.member),
                                    GW_ROLE_COORDINATOR, expects, links, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
}

static int all_up(void *owner)
{
    struct couple *couple = owner;
    return couple->a.ups > 0 && couple->b.ups > 0;
}

static int are_linked(void *owner)
{
    struct couple *couple = owner;
    return gw_peer_is_up(couple->a.peer, 0) && gw_peer_is_up(couple->b.peer, 0);
}

static int all_told(void *owner)
{
    struct couple *couple = owner;
    return couple->a.messages == couple->wanted &&
           couple->b.messages == couple->wanted;
}

static int b_lost(void *owner)
{
    return ((struct couple *)owner)->b.lost > 0;
}

static int a_lost(void *owner)
{
    return ((struct couple *)owner)->a.lost > 0;
}

static void couple_free(struct couple *couple)
{
    if (couple->a.member)
        gw_member_close(couple->a.member);
    if (couple->b.member)
        gw_member_close(couple->b.member);
    world_close(&couple->world);
    free(couple);
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

static void a_full_channel_says_so(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    char *text = malloc(50001);
    memset(text, 'x', 50000);
    text[50000] = '\0';
    struct gw_message message = {.kind = GW_MESSAGE_STATUS,
                                 .status = {.text = text}};
    int told = 0;
    while (gw_peer_tell(couple->b.peer, &message) == GW_OK)
        told++;
    assert_in_range(told, 2, 3);
    assert_int_equal(gw_peer_tell(couple->b.peer, &message), GW_EAGAIN);
    free(text);
    text = malloc(70000);
    memset(text, 'x', 69999);
    text[69999] = '\0';
    message.status.text = text;
    assert_int_not_equal(gw_peer_tell(couple->a.peer, &message), GW_OK);
    free(text);
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

/* Dials in vain are no connections that break. */
static void a_link_breaks_once(void **state)
{
    struct couple *couple = couple_new(*state);
    dial(couple, 0, 2);
    world_run(&couple->world, all_up, couple);
    world_settle(&couple->world, 100000);
    assert_int_equal(couple->b.ups, 2);
    gw_member_close(couple->a.member);
    couple->a.member = NULL;
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_ETIMEOUT);
    assert_int_equal(couple->b.downs, 2);
    couple_free(couple);
}

static void refusals_are_final(void **state)
{
    struct couple *couple = couple_new(*state);
    couple->a.refuse = "rank 0 is taken";
    dial(couple, 0, 1);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EREFUSED);
    assert_string_equal(couple->b.lost_why, "rank 0 is taken");
    couple_free(couple);

    couple = couple_new(*state);
    dial(couple, 12345, 1);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EREFUSED);
    couple_free(couple);

    couple = couple_new(*state);
    gw_member_set_job(couple->a.member, 1);
    gw_member_set_job(couple->b.member, 2);
    dial(couple, 0, 1);
    world_run(&couple->world, b_lost, couple);
    assert_non_null(strstr(couple->b.lost_why, "another job"));
    couple_free(couple);
}

/* Someone who lets everybody in, under another name each time. */
struct impostor {
    struct gw_acceptor acceptor;
    uint64_t incarnation;
    struct gw_link *link;
};

static void impostor_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct impostor *impostor = link->owner;
    (void)reply;
    impostor->link = link;
}

static void impostor_frame(struct gw_link *link,
                           const struct gw_frame *frame,
                           const void *payload)
{
    (void)link;
    (void)frame;
    (void)payload;
}

static void
impostor_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct impostor *impostor = link->owner;
    (void)status;
    (void)why;
    impostor->link = NULL;
}

static const struct gw_link_handler impostor_handler = {
    .up = impostor_up, .frame = impostor_frame, .down = impostor_down};

static enum gw_status impostor_judge(struct gw_acceptor *acceptor,
                                     struct gw_link *link,
                                     const struct gw_hello *hello,
                                     struct gw_reply *reply)
{
    struct impostor *impostor = acceptor->owner;
    (void)hello;
    link->handler = &impostor_handler;
    link->owner = impostor;
    reply->incarnation = ++impostor->incarnation;
    return GW_OK;
}

/* An acceptor that lets in whoever comes, but is not who it was. */
static void nobody_takes_the_place_of_another(void **state)
{
    struct couple *couple = couple_new(*state);
    struct world *world = &couple->world;
    struct impostor impostor = {.acceptor = {.judge = impostor_judge}};
    struct gw_listener *listener;
    struct gw_error error = {0};
    impostor.acceptor.owner = &impostor;
    assert_int_equal(world->ops->listen(world->transport[0],
                                        world_any_port(world),
                                        &impostor.acceptor, &listener, &error),
                     GW_OK);
    assert_int_equal(gw_member_dial(couple->b.member,
                                    world->ops->listener_address(listener),
                                    GW_ROLE_COORDINATOR, 0, 1, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
    world_settle(world, 100000);
    assert_int_equal(couple->b.ups, 1);
    gw_link_close(impostor.link);
    impostor.link = NULL;
    world_run(world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EREFUSED);
    assert_false(gw_peer_is_up(couple->b.peer, 0));
    world_settle(world, 100000);
    assert_null(impostor.link);
    assert_int_equal(couple->b.ups, 1);
    couple_free(couple);
}

/* The owner lets go of a peer because of the link that a newer one replaces:
   the newer one has nobody to belong to. */
static void a_peer_may_go_while_it_comes_back(void **state)
{
    struct couple *couple = couple_new(*state);
    struct world *world = &couple->world;
    struct impostor again = {.incarnation = 0};
    struct gw_error error = {0};
    struct gw_link *link;
    dial(couple, 0, 1);
    world_run(world, all_up, couple);
    couple->a.closes = 1;
    struct gw_hello hello = {
        .role = GW_ROLE_WORKER,
        .links = 1,
        .generation = 99,
        .incarnation = gw_member_incarnation(couple->b.member),
    };
    assert_int_equal(world->ops->dial(world->transport[1],
                                      gw_member_address(couple->a.member),
                                      &hello, &impostor_handler, &again, NULL,
                                      &link, &error),
                     GW_OK);
    world_settle(world, 200000);
    assert_int_equal(couple->a.downs, 1);
    assert_null(again.link);
    couple_free(couple);
}

static void a_coordinator_that_never_comes(void **state)
{
    struct couple *couple = couple_new(*state);
    char address[GW_ADDRESS_MAX];
    snprintf(address, sizeof address, "%s",
             gw_member_address(couple->a.member));
    gw_member_close(couple->a.member);
    couple->a.member = NULL;
    world_settle(&couple->world, 1000);
    struct gw_error error = {0};
    assert_int_equal(gw_member_dial(couple->b.member, address,
                                    GW_ROLE_COORDINATOR, 0, 1, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EUNREACHABLE);
    couple_free(couple);
}

static void a_late_listener_is_found(void **state)
{
    struct couple *couple = couple_new(*state);
    char address[GW_ADDRESS_MAX];
    struct gw_error error = {0};
    snprintf(address, sizeof address, "%s",
             gw_member_address(couple->a.member));
    gw_member_close(couple->a.member);
    world_settle(&couple->world, 1000);
    assert_int_equal(gw_member_dial(couple->b.member, address,
                                    GW_ROLE_COORDINATOR, 0, 1, NULL,
                                    &couple->b.peer, &error),
                     GW_OK);
    world_settle(&couple->world, 100000);
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    assert_int_equal(gw_member_listen(couple->a.member, address, &error),
                     GW_OK);
    world_run(&couple->world, all_up, couple);
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

/* ---- counters ---- */

/* Sends one frame from b that a cannot take, and waits until the link is back.
 */
static void
send_bad(struct couple *couple, struct gw_frame frame, int crc_known)
{
    struct gw_send send = {.frame = frame,
                           .payload = "gradient",
                           .crc_known = crc_known,
                           .done = on_sent};
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
    /* what never touches a wire has no checksum */
    if (!couple->world.sim) {
        struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                 .chunk = GW_CHUNK_NONE,
                                 .length = 8,
                                 .payload_crc = 1};
        send_bad(couple, frame, 1);
        assert_int_equal(gw_metrics_get(&counters, GW_METRIC_CRC_ERRORS), 1);
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

static void no_address_is_refused(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_error error = {0};
    struct gw_peer *peer = NULL;
    assert_int_equal(gw_member_dial(couple->b.member, "nonsense",
                                    GW_ROLE_COORDINATOR, 0, 1, NULL, &peer,
                                    &error),
                     GW_EINVAL);
    assert_null(peer);
    assert_null(gw_member_peers(couple->b.member));
    couple_free(couple);
}

#define ON(transport, test)                                                    \
    {                                                                          \
        transport "/" #test, test, NULL, NULL, (void *)(uintptr_t)transport    \
    }
#define ALL(transport)                                                         \
    ON(transport, messages_survive_broken_links),                              \
        ON(transport, a_full_channel_says_so),                                 \
        ON(transport, silence_is_told_once_and_in_time),                       \
        ON(transport, a_link_breaks_once),                                     \
        ON(transport, what_is_heard_after_a_pause_counts),                     \
        ON(transport, refusals_are_final), ON(transport, traffic_is_counted),  \
        ON(transport, nobody_takes_the_place_of_another),                      \
        ON(transport, a_peer_may_go_while_it_comes_back),                      \
        ON(transport, a_coordinator_that_never_comes),                         \
        ON(transport, a_late_listener_is_found)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL("tcp"), ALL("sim"),
        /* any name may be an address in a simulated world */
        ON("tcp", no_address_is_refused)};
    return cmocka_run_group_tests_name("member", tests, NULL, NULL);
}
