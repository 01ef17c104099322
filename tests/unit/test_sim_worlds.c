/*
 * Random worlds: processes that dial, send, send what is wrong, and close, as
 * each one's own numbers say, while the world pauses, cuts, kills and changes
 * networks. What each process hears, and when, must not depend on the number of
 * threads; and whatever is on its way when a world ends is freed.
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

#include "proto/random.h"
#include "transport/sim/sim.h"
#include "transport/link/transport.h"

#define MEMBERS      8
#define HOSTS        5
#define BEATS        400
#define BEAT_US      60
#define WINDOW       256
#define PAYLOAD      64
#define STORM_US     20000
#define WHOLE_US     60000000
#define WORLDS       150
#define THREADS_MOST 4

/* Somebody's own numbers. */
struct dice {
    uint64_t seed, draws;
};

struct member {
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_acceptor acceptor;
    struct gw_listener *listener;
    struct gw_timer timer;
    struct dice dice;
    struct end *ends;
    int beats;
    uint64_t history; /* of all that it has heard, and when */
};

/* A link as a member has it. */
struct end {
    struct member *member;
    struct gw_link *link;
    int up;
    struct gw_windows windows;
    uint32_t window;
    uint8_t bytes[WINDOW];
    struct end *next, **back;
};

struct message {
    struct gw_send send;
    struct member *member;
    uint8_t bytes[PAYLOAD];
};

static struct world {
    struct gw_sim *sim;
    struct member member[MEMBERS];
    size_t members;
    struct dice dice;
    uint64_t calm_us; /* from then on */
    int is_over;      /* faults leave it alone */
} world;

static uint64_t draw(struct dice *dice, uint64_t n)
{
    uint32_t bits[4];
    gw_random4(dice->seed, GW_RANDOM_TEST, 7, dice->draws++, bits);
    return bits[0] % n;
}

enum heard {
    UP,
    FRAME,
    DOWN,
    BEAT,
    SENT
};

static void note(struct member *member, enum heard what, uint64_t more)
{
    const uint64_t heard[] = {gw_loop_now(member->loop), what, more};
    for (size_t i = 0; i < 3; i++)
        member->history = member->history * 1000003 + heard[i];
}

/* ---- ends ---- */

static struct end *new_end(struct member *member)
{
    struct end *end = calloc(1, sizeof *end);
    assert_non_null(end);
    end->member = member;
    end->next = member->ends;
    if (end->next)
        end->next->back = &end->next;
    end->back = &member->ends;
    member->ends = end;
    assert_int_equal(gw_window_open(&end->windows, GW_FRAME_PUSH, end->bytes,
                                    WINDOW, &end->window),
                     GW_OK);
    return end;
}

static void free_end(struct end *end)
{
    *end->back = end->next;
    if (end->next)
        end->next->back = end->back;
    free(end);
}

static void sent(struct gw_send *send, enum gw_status status)
{
    struct message *message = send->owner;
    note(message->member, SENT, status);
    free(message);
}

/* A put, of bytes or of a length alone; now and then outside of the window. */
static void send_one(struct end *end)
{
    struct dice *dice = &end->member->dice;
    struct message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    message->member = end->member;
    for (size_t i = 0; i < PAYLOAD; i++)
        message->bytes[i] = (uint8_t)draw(dice, 256);
    message->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_PUSH,
                  .clock = draw(dice, 1000),
                  .length = PAYLOAD,
                  .window = end->window, /* the peer's has the same number */
                  .offset = draw(dice, 8) == 0 ? WINDOW
                                               : draw(dice, WINDOW - PAYLOAD),
                  .chunk = (uint32_t)draw(dice, 3)},
        .payload = draw(dice, 3) == 0 ? NULL : message->bytes,
        .done = sent,
        .owner = message,
    };
    gw_link_send(end->link, &message->send);
}

static void do_something(struct end *end)
{
    struct dice *dice = &end->member->dice;
    uint64_t chance = draw(dice, 100);
    if (chance < 30 && end->up) {
        for (uint64_t n = 1 + draw(dice, 4); n > 0; n--)
            send_one(end);
    } else if (chance < 35) {
        gw_link_close(end->link);
        free_end(end);
    }
}

static void up(struct gw_link *link, const struct gw_reply *reply)
{
    struct end *end = link->owner;
    end->link = link;
    end->up = 1;
    note(end->member, UP, reply != NULL);
    do_something(end);
}

static void
frame(struct gw_link *link, const struct gw_frame *frame, const void *payload)
{
    struct end *end = link->owner;
    (void)payload;
    note(end->member, FRAME, frame->clock);
    do_something(end);
}

static void down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct end *end = link->owner;
    uint64_t sum = status;
    (void)why;
    for (size_t i = 0; i < WINDOW; i++) /* torn puts too */
        sum = sum * 31 + end->bytes[i];
    note(end->member, DOWN, sum);
    free_end(end);
}

static const struct gw_link_handler handler = {
    .up = up, .frame = frame, .down = down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct member *member = acceptor->owner;
    (void)hello;
    (void)reply;
    if (draw(&member->dice, 10) == 0)
        return GW_EREFUSED;
    struct end *end = new_end(member);
    end->link = link;
    link->handler = &handler;
    link->owner = end;
    link->windows = &end->windows;
    return GW_OK;
}

static void dial(struct member *member, const struct member *to)
{
    const struct gw_hello hello = {
        .role = GW_ROLE_WORKER, .links = 1, .generation = 1, .version = "test"};
    const struct gw_transport_ops *ops = member->transport->ops;
    struct end *end = new_end(member);
    assert_int_equal(ops->dial(member->transport,
                               ops->listener_address(to->listener), &hello,
                               &handler, end, &end->windows, &end->link, NULL),
                     GW_OK);
}

static void beat(struct gw_timer *timer)
{
    struct member *member = timer->owner;
    if (member->beats-- == 0)
        return;
    note(member, BEAT, 0);
    if (draw(&member->dice, 10) < 3)
        dial(member, &world.member[draw(&member->dice, world.members)]);
    else if (member->ends)
        do_something(member->ends);
    gw_timer_start(member->loop, timer, 1 + draw(&member->dice, BEAT_US));
}

/* ---- worlds ---- */

static struct gw_sim_host_options draw_network(void)
{
    static const double rates[] = {0, 100, 10};
    return (struct gw_sim_host_options){.bytes_per_us =
                                            rates[draw(&world.dice, 3)],
                                        .latency_us = draw(&world.dice, 40)};
}

static void set_network(void)
{
    char host[8];
    const struct gw_sim_host_options network = draw_network();
    snprintf(host, sizeof host, "h%u", (unsigned)draw(&world.dice, HOSTS));
    assert_int_equal(gw_sim_host(world.sim, host, &network, NULL), GW_OK);
}

static void fault(void *owner)
{
    struct dice *dice = &world.dice;
    if (world.is_over)
        return;
    uint64_t chance = draw(dice, 100);
    struct gw_loop *loop = world.member[draw(dice, world.members)].loop;
    if (chance < 40)
        gw_sim_pause(loop, draw(dice, 3000));
    else if (chance < 70)
        gw_sim_cut(world.sim);
    else if (chance < 72)
        gw_sim_kill(loop);
    else if (chance < 80)
        set_network();
    if (gw_sim_now(world.sim) < world.calm_us)
        gw_sim_at(world.sim, draw(dice, 400), fault, owner);
}

static void open_member(struct member *member, uint64_t seed)
{
    struct gw_error error;
    char host[8];
    const struct gw_transport_ops *ops = gw_transport_find("sim", &error);
    snprintf(host, sizeof host, "h%u", (unsigned)draw(&world.dice, HOSTS));
    assert_int_equal(gw_sim_process(world.sim, host, &member->loop, NULL),
                     GW_OK);
    member->acceptor = (struct gw_acceptor){.judge = judge, .owner = member};
    assert_int_equal(ops->open(member->loop, NULL, &member->transport, NULL),
                     GW_OK);
    assert_int_equal(ops->listen(member->transport, "any:0", &member->acceptor,
                                 &member->listener, NULL),
                     GW_OK);
    member->dice.seed = seed;
    member->beats = BEATS;
    member->timer.fire = beat;
    member->timer.owner = member;
    gw_timer_start(member->loop, &member->timer, draw(&world.dice, BEAT_US));
}

static void open_world(uint64_t seed, unsigned threads)
{
    static const uint64_t latencies[] = {1, 20, 200}, jitters[] = {0, 30, 500};
    memset(&world, 0, sizeof world);
    world.dice.seed = seed;
    const struct gw_sim_options options = {
        .seed = seed,
        .latency_us = latencies[draw(&world.dice, 3)],
        .jitter_us = jitters[draw(&world.dice, 3)],
        .threads = threads};
    assert_int_equal(gw_sim_create(&options, &world.sim, NULL), GW_OK);
    for (size_t i = 0; i < HOSTS; i++)
        set_network();
    world.members = 2 + draw(&world.dice, MEMBERS - 1);
    for (size_t i = 0; i < world.members; i++)
        open_member(&world.member[i], seed * 1000 + i);
    world.calm_us = gw_sim_now(world.sim) + STORM_US;
    gw_sim_at(world.sim, 100, fault, NULL);
}

static void close_member(struct member *member)
{
    gw_timer_stop(member->loop, &member->timer);
    member->transport->ops->close(member->transport);
    while (member->ends)
        free_end(member->ends);
}

static int never(void *owner)
{
    (void)owner;
    return 0;
}

static void run_for(uint64_t us)
{
    gw_sim_run(world.sim, never, NULL, gw_sim_now(world.sim) + us);
}

/* In two parts, between which the world begins something, too. */
static void histories(uint64_t seed, unsigned threads, uint64_t *history)
{
    open_world(seed, threads);
    run_for(STORM_US / 2);
    dial(&world.member[0], &world.member[1]);
    run_for(WHOLE_US);
    for (size_t i = 0; i < world.members; i++) {
        close_member(&world.member[i]);
        gw_loop_close(world.member[i].loop);
        history[i] = world.member[i].history;
    }
    gw_sim_destroy(world.sim);
}

static void threads_hear_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        uint64_t one[MEMBERS] = {0}, other[MEMBERS] = {0};
        histories(seed, 1, one);
        for (unsigned n = 2; n <= THREADS_MOST; n++) {
            histories(seed, n, other);
            if (memcmp(one, other, sizeof one) != 0)
                fail_msg("world %u is another one in %u threads",
                         (unsigned)seed, n);
        }
    }
}

/* Some are gone while others go on for a while; then all of it ends. */
static void nothing_is_left_of_a_world_that_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4 * WORLDS; seed++) {
        open_world(seed, 1 + seed % 2);
        run_for(draw(&world.dice, 3 * STORM_US / 2));
        world.is_over = 1;
        for (size_t i = 0; i < world.members; i++) {
            close_member(&world.member[i]);
            if (i % 2 == 1)
                gw_loop_close(world.member[i].loop);
        }
        run_for(draw(&world.dice, 200));
        for (size_t i = 0; i < world.members; i += 2)
            gw_loop_close(world.member[i].loop);
        gw_sim_destroy(world.sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_hear_the_same),
        cmocka_unit_test(nothing_is_left_of_a_world_that_ends),
    };
    return cmocka_run_group_tests_name("sim_worlds", tests, NULL, NULL);
}
