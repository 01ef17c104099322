/*
 * The network of simulated hosts: what shares an interface shares its rate, in
 * each direction by itself.
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

#include "transport/sim/sim.h"
#include "transport/link/transport.h"

#define RATE     100.0 /* bytes per us */
#define LENGTH   (40000 - GW_FRAME_BYTES)
#define FRAME_US 400 /* that one takes at RATE */
#define FRAMES   20
#define LATENCY  50
#define PLACES   8
#define LIMIT_US 1000000000
#define ROUNDS_US                                                              \
    3 /* times are whole microseconds, rounded down on the way                 \
       */

struct place {
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_acceptor acceptor;
    struct gw_listener *listener;
};

/* From one place to another. */
struct line {
    struct gw_link *link, *acceptor;
    struct gw_send send[FRAMES];
    uint64_t begun_us, last_us; /* when its frames came */
    uint64_t times;             /* all of those, since then */
    _Atomic int up, arrived, downs, arrived_before, late;
};

static unsigned threads; /* of the next world */
static uint64_t jitter_us;

static struct world {
    struct gw_sim *sim;
    struct place place[PLACES];
    struct line line[PLACES];
    size_t places, lines;
    struct line *next; /* that is dialled */
} world;

static void up(struct gw_link *link, const struct gw_reply *reply)
{
    struct line *line = link->owner;
    if (!reply)
        line->acceptor = link;
    line->up++;
}

static void
frame(struct gw_link *link, const struct gw_frame *frame, const void *payload)
{
    struct line *line = link->owner;
    (void)payload;
    assert_int_equal(frame->clock, line->arrived);
    line->arrived++;
    line->last_us = gw_loop_now(link->transport->loop);
    line->times = 31 * line->times + line->last_us - line->begun_us;
}

static void down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct line *line = link->owner;
    (void)why;
    line->downs++;
    line->late += status == GW_ETIMEOUT;
    line->arrived_before = line->arrived;
}

static const struct gw_link_handler handler = {
    .up = up, .frame = frame, .down = down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    (void)acceptor;
    (void)hello;
    (void)reply;
    link->handler = &handler;
    link->owner = world.next;
    return GW_OK;
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

/* Everything that can still happen. */
static void settle(void)
{
    run_for(LIMIT_US);
}

static void open_world(void)
{
    const struct gw_sim_options options = {.seed = 1,
                                           .latency_us = LATENCY,
                                           .jitter_us = jitter_us,
                                           .threads = threads};
    memset(&world, 0, sizeof world);
    assert_int_equal(gw_sim_create(&options, &world.sim, NULL), GW_OK);
}

static void rate(const char *host, double bytes_per_us, uint64_t latency_us)
{
    const struct gw_sim_host_options options = {.bytes_per_us = bytes_per_us,
                                                .latency_us = latency_us};
    assert_int_equal(gw_sim_host(world.sim, host, &options, NULL), GW_OK);
}

/* A process that listens. */
static struct place *place(const char *host)
{
    struct gw_error error = {.text = ""};
    struct place *place = &world.place[world.places++];
    const struct gw_transport_ops *ops = gw_transport_find("sim", &error);
    place->acceptor.judge = judge;
    assert_int_equal(gw_sim_process(world.sim, host, &place->loop, &error),
                     GW_OK);
    assert_int_equal(ops->open(place->loop, NULL, &place->transport, &error),
                     GW_OK);
    assert_int_equal(ops->listen(place->transport, "any:0", &place->acceptor,
                                 &place->listener, &error),
                     GW_OK);
    return place;
}

static struct line *dial(struct place *from, struct place *to)
{
    struct line *line = &world.line[world.lines++];
    const struct gw_hello hello = {.role = GW_ROLE_WORKER,
                                   .generation = 1,
                                   .links = 1,
                                   .incarnation = 1,
                                   .version = "test"};
    world.next = line;
    assert_int_equal(from->transport->ops->dial(
                         from->transport,
                         to->transport->ops->listener_address(to->listener),
                         &hello, &handler, line, NULL, &line->link, NULL),
                     GW_OK);
    return line;
}

static struct line *connect_to(struct place *from, struct place *to)
{
    struct line *line = dial(from, to);
    settle();
    assert_int_equal(line->up, 2);
    return line;
}

static void left(struct gw_send *send, enum gw_status status)
{
    (void)send;
    (void)status;
}

static void send_all(struct line *line)
{
    line->begun_us = gw_sim_now(world.sim);
    for (size_t i = 0; i < FRAMES; i++) {
        line->send[i] = (struct gw_send){
            .frame = {.kind = GW_FRAME_PUSH, .clock = i, .length = LENGTH},
            .done = left};
        gw_link_send(line->link, &line->send[i]);
    }
}

static uint64_t took(const struct line *line)
{
    assert_int_equal(line->arrived, FRAMES);
    return line->last_us - line->begun_us;
}

static void assert_takes(const struct line *line, uint64_t us)
{
    uint64_t it_took = took(line);
    if (it_took > us || it_took + ROUNDS_US < us)
        fail_msg("it took %u us, not %u", (unsigned)it_took, (unsigned)us);
}

static void close_world(void)
{
    for (size_t i = 0; i < world.places; i++)
        world.place[i].transport->ops->close(world.place[i].transport);
    settle();
    for (size_t i = 0; i < world.places; i++)
        gw_loop_close(world.place[i].loop);
    gw_sim_destroy(world.sim);
}

static void an_interface_has_a_rate(void **state)
{
    (void)state;
    static const double rates[][2] = {
        {RATE, RATE}, {RATE, 0}, {0, RATE}, {RATE, 9999}, {9999, RATE}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        open_world();
        rate("a", rates[i][0], 0);
        rate("b", rates[i][1], 7);
        struct line *line = connect_to(place("a"), place("b"));
        send_all(line);
        settle();
        assert_true(took(line) >= FRAMES * FRAME_US);
        assert_true(took(line) <= (FRAMES * FRAME_US) + LATENCY + 7 + 10);
        close_world();
    }
}

static void senders_share_who_receives(void **state)
{
    (void)state;
    open_world();
    static const char *const hosts[] = {"a", "b", "c"};
    rate("d", RATE, 0);
    struct place *to = place("d");
    struct line *line[3];
    for (size_t i = 0; i < 3; i++) {
        rate(hosts[i], RATE, 0);
        line[i] = connect_to(place(hosts[i]), to);
    }
    for (size_t i = 0; i < 3; i++)
        send_all(line[i]);
    settle();
    for (size_t i = 0; i < 3; i++) { /* by turns */
        assert_true(took(line[i]) >= (3 * FRAMES - 3) * FRAME_US);
        assert_true(took(line[i]) <= 3 * FRAMES * FRAME_US + LATENCY);
    }
    close_world();
}

static void receivers_share_who_sends(void **state)
{
    (void)state;
    open_world();
    rate("a", RATE, 0);
    struct line *one = connect_to(place("a"), place("b"));
    struct line *other = connect_to(place("a"), place("c"));
    send_all(one);
    send_all(other);
    settle();
    assert_takes(one, (2 * FRAMES - 1) * FRAME_US + LATENCY);
    assert_takes(other, 2 * FRAMES * FRAME_US + LATENCY);
    close_world();
}

static void both_ways_at_once(void **state)
{
    (void)state;
    open_world();
    rate("a", RATE, 0);
    rate("b", RATE, 0);
    struct place *a = place("a"), *b = place("b");
    struct line *there = connect_to(a, b), *back = connect_to(b, a);
    send_all(there);
    send_all(back);
    settle();
    assert_takes(there, FRAMES * FRAME_US + LATENCY);
    assert_takes(back, FRAMES * FRAME_US + LATENCY);
    close_world();
}

static void within_a_host_nothing_is_shared(void **state)
{
    (void)state;
    open_world();
    rate("a", RATE, 1000);
    struct line *line = connect_to(place("a"), place("a"));
    send_all(line);
    settle();
    assert_takes(line, LATENCY);
    close_world();
}

/* What is under way for long does not keep the interface for itself. */
static void the_far_do_not_delay_the_near(void **state)
{
    (void)state;
    open_world();
    rate("far", RATE, 100000);
    rate("here", RATE, 0);
    struct place *here = place("here");
    struct line *far = connect_to(place("far"), here);
    struct line *near = connect_to(place("near"), here);
    send_all(far);
    send_all(near);
    settle();
    assert_takes(near, FRAMES * FRAME_US + LATENCY);
    assert_takes(far, FRAMES * FRAME_US + LATENCY + 100000);
    close_world();
}

static void a_close_comes_behind_what_was_sent(void **state)
{
    (void)state;
    open_world();
    rate("b", RATE / 10, 0); /* it all waits there */
    struct line *line = connect_to(place("a"), place("b"));
    send_all(line);
    run_for(10);
    gw_link_close(line->link);
    settle();
    assert_int_equal(line->downs, 1);
    assert_int_equal(line->arrived, FRAMES);
    assert_int_equal(line->arrived_before, FRAMES);
    close_world();
}

static void a_break_loses_what_waits(void **state)
{
    (void)state;
    open_world();
    rate("b", RATE, 0);
    struct line *line = connect_to(place("a"), place("b"));
    send_all(line);
    run_for(5 * FRAME_US + LATENCY + 10);
    assert_int_equal(gw_sim_cut(world.sim), 1);
    settle();
    assert_int_equal(line->downs, 2);
    assert_true(line->arrived >= 4 && line->arrived <= 6);
    close_world();
}

/* From one host to another, which stands still for so long from now on. */
static struct line *send_to_paused(uint64_t us)
{
    open_world();
    rate("b", RATE, 0);
    struct place *a = place("a"), *b = place("b");
    struct line *line = connect_to(a, b);
    gw_sim_pause(b->loop, us);
    send_all(line);
    return line;
}

/* All that came while it stood still is kept, and is there before the close. */
static void a_pause_keeps_what_comes(void **state)
{
    (void)state;
    struct line *line = send_to_paused(2 * FRAMES * FRAME_US);
    run_for(FRAMES / 2 * FRAME_US);
    gw_link_close(line->link);
    run_for(FRAMES * FRAME_US);
    assert_int_equal(line->arrived + line->downs, 0);
    settle();
    assert_int_equal(line->downs, 1);
    assert_int_equal(line->arrived_before, FRAMES);
    close_world();
}

/* Also where something comes in the very microsecond. */
static void frames_are_in_order_whenever_it_goes_on(void **state)
{
    (void)state;
    for (uint64_t us = 4 * FRAME_US; us < 5 * FRAME_US; us++) {
        struct line *line = send_to_paused(us);
        settle();
        assert_takes(line, FRAMES * FRAME_US + LATENCY);
        close_world();
    }
}

static void a_break_loses_what_is_kept(void **state)
{
    (void)state;
    struct line *line = send_to_paused(2 * FRAMES * FRAME_US);
    run_for(FRAMES / 2 * FRAME_US);
    assert_int_equal(gw_sim_cut(world.sim), 1);
    settle();
    assert_int_equal(line->downs, 2);
    assert_int_equal(line->arrived, 0);
    close_world();
}

/* An opener that stands still, for longer than a login may take, while it is
   answered. */
static struct line *answer_to_paused(struct place **opener_p)
{
    open_world();
    struct place *a = place("a");
    struct line *line = dial(a, place("b"));
    gw_sim_pause(a->loop, 6000000);
    run_for(1000);
    assert_int_equal(line->up, 1);
    *opener_p = a;
    return line;
}

/* Who stood still until a login was too late hears that alone, though an answer
   is there and frames behind it. */
static void an_answer_that_is_heard_too_late_is_none(void **state)
{
    (void)state;
    struct place *opener;
    struct line *line = answer_to_paused(&opener);
    line->link = line->acceptor;
    send_all(line);
    settle();
    assert_int_equal(line->late, 1);
    assert_int_equal(line->downs, 2);
    assert_int_equal(line->arrived, 0);
    close_world();
}

/* Nor does a killed one that stood still leave anybody with half a link. */
static void a_kill_of_the_paused_is_told(void **state)
{
    (void)state;
    struct place *opener;
    struct line *line = answer_to_paused(&opener);
    gw_sim_kill(opener->loop);
    settle();
    assert_int_equal(line->downs, 1);
    close_world();
}

/* With no end and no other host there is an end all the same. */
static void a_world_without_an_end_ends(void **state)
{
    (void)state;
    open_world();
    struct line *line = connect_to(place("a"), place("a"));
    send_all(line);
    gw_sim_run(world.sim, never, NULL, UINT64_MAX);
    assert_int_equal(line->arrived, FRAMES);
    close_world();
}

/* ---- in threads ---- */

struct moment {
    const struct line *line;
    uint64_t us;
    int arrived;
};

static void look(void *owner)
{
    struct moment *moment = owner;
    moment->us = gw_sim_now(world.sim);
    moment->arrived = moment->line->arrived;
}

static void a_call_comes_at_its_time(void **state)
{
    (void)state;
    open_world();
    rate("b", RATE, 0);
    rate("d", RATE, 10); /* where frames come that much later */
    struct line *line = connect_to(place("a"), place("b"));
    struct line *other = connect_to(place("c"), place("d"));
    struct moment before = {.line = line}, after = {.line = line},
                  between = {.line = other};
    send_all(line);
    send_all(other);
    gw_sim_at(world.sim, LATENCY + 5 * FRAME_US, look, &before);
    gw_sim_at(world.sim, LATENCY + 5 * FRAME_US + 1, look, &after);
    gw_sim_at(world.sim, LATENCY + 5 * FRAME_US + 5, look, &between);
    settle();
    assert_int_equal(before.us, line->begun_us + LATENCY + 5 * FRAME_US);
    assert_int_equal(before.arrived, 4); /* calls are the first of their time */
    assert_int_equal(after.arrived, 5);
    assert_int_equal(between.arrived, 4);
    assert_int_equal(line->arrived, FRAMES);
    close_world();
}

static void a_kill_is_told_everywhere(void **state)
{
    (void)state;
    open_world();
    struct place *to = place("d");
    static const char *const hosts[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        connect_to(place(hosts[i]), to);
    gw_sim_kill(to->loop);
    settle();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(world.line[i].downs, 1); /* the dead hear nothing */
    close_world();
}

/* Times are drawn, and frames of many hosts meet at one; returns what comes of
   when each of them came. */
static uint64_t crowd(unsigned n)
{
    uint64_t sum = 0;
    threads = n;
    jitter_us = 30;
    open_world();
    struct place *to = place("h");
    rate("h", 7 * RATE, 0);
    for (size_t i = 0; i < PLACES - 1; i++) {
        char name[] = {(char)('a' + i), '\0'};
        rate(name, RATE, i % 3);
        connect_to(place(name), to);
    }
    for (size_t i = 0; i < PLACES - 1; i++)
        send_all(&world.line[i]);
    settle();
    for (size_t i = 0; i < PLACES - 1; i++) {
        assert_int_equal(world.line[i].arrived, FRAMES);
        sum = 31 * sum + world.line[i].times;
    }
    close_world();
    jitter_us = 0;
    return sum;
}

static void threads_change_nothing(void **state)
{
    (void)state;
    uint64_t one = crowd(1);
    for (unsigned n = 2; n <= 8; n++)
        assert_true(crowd(n) == one);
}

static int set_threads(void **state)
{
    threads = (unsigned)(uintptr_t)*state;
    return 0;
}

#define IN(threads, test)                                                      \
    {                                                                          \
#threads " " #test, test, set_threads, NULL,                           \
            (void *)(uintptr_t)threads                                         \
    }
#define ALL(threads)                                                           \
    IN(threads, an_interface_has_a_rate),                                      \
        IN(threads, senders_share_who_receives),                               \
        IN(threads, receivers_share_who_sends),                                \
        IN(threads, both_ways_at_once),                                        \
        IN(threads, within_a_host_nothing_is_shared),                          \
        IN(threads, the_far_do_not_delay_the_near),                            \
        IN(threads, a_close_comes_behind_what_was_sent),                       \
        IN(threads, a_break_loses_what_waits),                                 \
        IN(threads, a_pause_keeps_what_comes),                                 \
        IN(threads, frames_are_in_order_whenever_it_goes_on),                  \
        IN(threads, a_break_loses_what_is_kept),                               \
        IN(threads, a_call_comes_at_its_time),                                 \
        IN(threads, a_kill_is_told_everywhere),                                \
        IN(threads, an_answer_that_is_heard_too_late_is_none),                 \
        IN(threads, a_kill_of_the_paused_is_told),                             \
        IN(threads, a_world_without_an_end_ends)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL(1),
        ALL(3),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests_name("sim_host", tests, NULL, NULL);
}
