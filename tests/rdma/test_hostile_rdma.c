/*
 * What a peer can do over RDMA that writes what, where and when it likes: the
 * victim does not crash, no byte outside of the window that it granted changes,
 * the link is closed and says why, and others are served as before.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/rdma/hostile.h"
#include "tests/table/world.h"
#include "transport/rdma.h"

#define ROOM   ((size_t)64 << 10) /* the victim's memory */
#define WINDOW 16384              /* of that, from WINDOW on */
#define FILLED 0xee

struct attack {
    const char *address;
    uint32_t window;
    uint64_t incarnation;
    int (*run)(struct hostile *peer, const struct attack *attack);
    int result; /* of run: 0 when all went as it was meant */
    int done;
    atomic_int told;      /* the victim's owner, that the link is down */
    struct gw_loop *loop; /* the victim's, to be told that it is over */
    struct gw_task over;
};

struct victim {
    struct world world;
    struct gw_acceptor acceptor;
    struct gw_listener *listener;
    struct gw_windows windows;
    struct gw_link *link;
    uint8_t *memory;
    uint32_t window;
    int ups, downs, frames, bad_frames;
    struct attack *attack; /* that is on */
    enum gw_status status;
    char why[160];
};

/* ---- the victim ---- */

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct victim *victim = link->owner;
    (void)reply;
    victim->link = link;
    victim->ups++;
}

/* Whatever was judged is in the window, whole. */
static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct victim *victim = link->owner;
    const uint8_t *at = payload, *begin = victim->memory + WINDOW;
    victim->frames++;
    if (frame->window != GW_WINDOW_NONE &&
        (at < begin || at + frame->length > begin + WINDOW))
        victim->bad_frames++;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct victim *victim = link->owner;
    victim->link = NULL;
    victim->downs++;
    victim->status = status;
    snprintf(victim->why, sizeof victim->why, "%s", why);
    atomic_store(&victim->attack->told, 1);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct victim *victim = acceptor->owner;
    (void)hello, (void)reply;
    link->handler = &handler;
    link->owner = victim;
    link->windows = &victim->windows;
    return GW_OK;
}

static void victim_open(struct victim *victim)
{
    struct gw_error error;
    *victim = (struct victim){.acceptor = {.judge = judge, .owner = victim}};
    world_open(&victim->world, "rdma");
    victim->memory = aligned_alloc(4096, ROOM);
    assert_non_null(victim->memory);
    memset(victim->memory, FILLED, ROOM);
    assert_int_equal(gw_window_open(&victim->windows, GW_FRAME_PUSH,
                                    victim->memory + WINDOW, WINDOW,
                                    &victim->window),
                     GW_OK);
    assert_int_equal(victim->world.ops->listen(victim->world.transport[0],
                                               world_any_port(&victim->world),
                                               &victim->acceptor,
                                               &victim->listener, &error),
                     GW_OK);
}

static void victim_close(struct victim *victim)
{
    gw_window_close(&victim->windows, victim->window);
    world_close(&victim->world);
    free(victim->memory);
}

static void nothing_outside_has_changed(const struct victim *victim)
{
    for (size_t i = 0; i < ROOM; i++)
        if (i < WINDOW || i >= 2 * WINDOW)
            assert_int_equal(victim->memory[i], FILLED);
    assert_int_equal(victim->bad_frames, 0);
}

/* ---- attacks: each runs on a thread of its own, after its login ---- */

/* Nothing of that is wrong: an honest peer's put. */
static int put(struct hostile *peer, const struct attack *attack)
{
    if (hostile_ask(peer, attack->window, 64) != 0)
        return -1;
    memset(peer->memory + 4096, 1, 64);
    hostile_header(peer, attack->window, 128, 64, peer->memory);
    return hostile_write(peer, 4096, 64, peer->offset + 128, peer->key, 0) ||
           hostile_write(peer, 0, GW_FRAME_BYTES, peer->ring, peer->ring_key,
                         hostile_value(GW_RDMA_PUT));
}

/* The device refuses it: that is what this side sees. */
static int write_at(struct hostile *peer,
                    const struct attack *attack,
                    uint64_t offset,
                    uint32_t key_delta)
{
    if (hostile_ask(peer, attack->window, 64) != 0)
        return -1;
    memset(peer->memory + 4096, 1, 4096);
    return hostile_write(peer, 4096, 4096, peer->offset + offset,
                         peer->key + key_delta, 0) == IBV_WC_SUCCESS;
}

static int behind_the_window(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, WINDOW, 0);
}

static int over_its_end(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, WINDOW - 4095, 0);
}

static int before_it(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, (uint64_t)-64, 0);
}

static int with_another_key(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, 0, 1);
}

static int with_a_far_key(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, 0, 0x100);
}

static int behind_the_ring(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_write(peer, 0, GW_FRAME_BYTES,
                         peer->ring + GW_RDMA_DEPTH * GW_FRAME_BYTES,
                         peer->ring_key, 0) == IBV_WC_SUCCESS;
}

/* A header that an honest put would not have, or none. */
static int header_of(struct hostile *peer,
                     uint32_t window,
                     uint64_t offset,
                     uint32_t length)
{
    hostile_header(peer, window, offset, length, peer->memory);
    return hostile_write(peer, 0, GW_FRAME_BYTES, peer->ring, peer->ring_key,
                         hostile_value(GW_RDMA_PUT));
}

static int a_header_behind_it(struct hostile *peer, const struct attack *attack)
{
    return header_of(peer, attack->window, WINDOW - 3, 4);
}

static int a_header_far_behind(struct hostile *peer,
                               const struct attack *attack)
{
    return header_of(peer, attack->window, UINT64_MAX - 3, 4);
}

static int a_header_of_no_window(struct hostile *peer,
                                 const struct attack *attack)
{
    return header_of(peer, attack->window + 1, 0, 4);
}

static int a_header_without_window(struct hostile *peer,
                                   const struct attack *attack)
{
    (void)attack;
    return header_of(peer, GW_WINDOW_NONE, 0, 4);
}

static int a_header_of_zeros(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_write(peer, 8192, GW_FRAME_BYTES, peer->ring, peer->ring_key,
                         hostile_value(GW_RDMA_PUT));
}

static int a_put_that_is_sent(struct hostile *peer, const struct attack *attack)
{
    hostile_header(peer, attack->window, 0, 4, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_PUT), GW_FRAME_BYTES);
}

static int an_unknown_type(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_send(peer, hostile_value(15), 8);
}

static int a_second_hello(struct hostile *peer, const struct attack *attack)
{
    hostile_hello(peer, attack->incarnation, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_HELLO),
                        GW_RDMA_HELLO_BYTES);
}

static int takes_what_was_not_sent(struct hostile *peer,
                                   const struct attack *attack)
{
    (void)attack;
    return hostile_send(peer, hostile_value(GW_RDMA_CREDIT) | 1000, 0);
}

static int longer_than_a_slot(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_send(peer, hostile_value(GW_RDMA_LAST),
                        GW_RDMA_SLOT_BYTES + 1) == IBV_WC_SUCCESS;
}

static int a_short_message(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_send(peer, hostile_value(GW_RDMA_LAST), 63);
}

/* The header of a message of so many bytes. */
static void begin_message(struct hostile *peer, uint32_t length)
{
    const struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                   .flags = GW_FLAG_NO_CRC,
                                   .session = peer->session,
                                   .chunk = GW_CHUNK_NONE,
                                   .length = length};
    gw_frame_encode(&frame, peer->memory);
}

/* A put under a brief header, of a window that ends before. */
static int a_brief_put_behind_it(struct hostile *peer,
                                 const struct attack *attack)
{
    const struct gw_frame frame = {.kind = GW_FRAME_PUSH,
                                   .flags = GW_FLAG_NO_CRC,
                                   .window = attack->window,
                                   .offset = WINDOW - 3,
                                   .dtype = GW_DTYPE_F32};
    gw_brief_encode(&frame, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_BRIEF), GW_BRIEF_BYTES + 4);
}

static int a_short_brief(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    return hostile_send(peer, hostile_value(GW_RDMA_BRIEF), GW_BRIEF_BYTES - 1);
}

/* No message but a brief one carries a put, however small it is. */
static int a_put_as_a_message(struct hostile *peer, const struct attack *attack)
{
    hostile_header(peer, attack->window, 0, 4, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_LAST), GW_FRAME_BYTES + 4);
}

static int a_put_in_pieces(struct hostile *peer, const struct attack *attack)
{
    hostile_header(peer, attack->window, 0, 4096, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_MORE),
                        GW_FRAME_BYTES + 1024);
}

/* Says 60,000 bytes, and ends after few. */
static int an_early_end(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    begin_message(peer, 60000);
    return hostile_send(peer, hostile_value(GW_RDMA_LAST), 200);
}

/* Pieces beyond what it said; the first that is too much ends it. */
static int no_end(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    begin_message(peer, 2000);
    /* it need not be thrown out before all are sent: fewer than its receives */
    for (int i = 0; i < 60; i++)
        if (hostile_send(peer, hostile_value(GW_RDMA_MORE), 1024) !=
            IBV_WC_SUCCESS)
            break;
    return 0;
}

static int a_grant_for_nothing(struct hostile *peer,
                               const struct attack *attack)
{
    (void)attack;
    memset(peer->memory, 1, GW_RDMA_GRANT_BYTES);
    return hostile_send(peer, hostile_value(GW_RDMA_GRANT),
                        GW_RDMA_GRANT_BYTES);
}

static int asks_for_what_is_not_there(struct hostile *peer,
                                      const struct attack *attack)
{
    hostile_header(peer, attack->window, 0, WINDOW + 4, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_ASK), GW_FRAME_BYTES);
}

/* More than may be on its way: the device holds them back, for ever. */
static int a_flood(struct hostile *peer, const struct attack *attack)
{
    (void)attack;
    for (int i = 0; i < 3 * GW_RDMA_RECEIVES; i++)
        if (hostile_send(peer, hostile_value(GW_RDMA_CREDIT), 0) !=
            IBV_WC_SUCCESS)
            return -1;
    return hostile_send(peer, hostile_value(15), 0);
}

struct attacked {
    const char *name;
    int (*run)(struct hostile *peer, const struct attack *attack);
    enum gw_status status;
};

/* ECLOSED: the device has refused it, and the victim knows no more than that
   the queue pair is broken. */
static const struct attacked attacks[] = {
    {"writes behind the window", behind_the_window, GW_ECLOSED},
    {"writes over its end", over_its_end, GW_ECLOSED},
    {"writes before it", before_it, GW_ECLOSED},
    {"writes with another key", with_another_key, GW_ECLOSED},
    {"writes with a far key", with_a_far_key, GW_ECLOSED},
    {"writes behind the ring", behind_the_ring, GW_ECLOSED},
    {"a header behind the window", a_header_behind_it, GW_EPROTO},
    {"a header far behind", a_header_far_behind, GW_EPROTO},
    {"a header of no window", a_header_of_no_window, GW_EPROTO},
    {"a header without a window", a_header_without_window, GW_EPROTO},
    {"a header of zeros", a_header_of_zeros, GW_EPROTO},
    {"a put that is sent", a_put_that_is_sent, GW_EPROTO},
    {"an unknown type", an_unknown_type, GW_EPROTO},
    {"a second hello", a_second_hello, GW_EPROTO},
    {"takes what was not sent", takes_what_was_not_sent, GW_EPROTO},
    {"longer than a slot", longer_than_a_slot, GW_ECLOSED},
    {"a short message", a_short_message, GW_EPROTO},
    {"a brief put behind it", a_brief_put_behind_it, GW_EPROTO},
    {"a short brief", a_short_brief, GW_EPROTO},
    {"a put as a message", a_put_as_a_message, GW_EPROTO},
    {"a put in pieces", a_put_in_pieces, GW_EPROTO},
    {"an early end", an_early_end, GW_EPROTO},
    {"no end", no_end, GW_EPROTO},
    {"a grant for nothing", a_grant_for_nothing, GW_EPROTO},
    {"asks for what is not there", asks_for_what_is_not_there, GW_EPROTO},
    {"a flood", a_flood, GW_EPROTO},
};

/* ---- running them ---- */

static void *attack_main(void *argument)
{
    struct attack *attack = argument;
    struct hostile peer;
    attack->result =
        hostile_login(&peer, attack->address, attack->incarnation) == 0
            ? attack->run(&peer, attack)
            : -2;
    /* stays until it is thrown out: its closing must not be what is told */
    if (attack->result == 0 && attack->run != put)
        hostile_linger(&attack->told);
    hostile_close(&peer);
    gw_loop_post(attack->loop, &attack->over);
    return NULL;
}

static int is_over(void *owner)
{
    return ((struct attack *)owner)->done;
}

static void on_over(struct gw_task *task)
{
    struct attack *attack = task->owner;
    attack->done = 1;
}

/* Runs the attacker beside the victim's loop, to its end. */
static void
run_thread(struct victim *victim, struct attack *attack, void *(*main)(void *))
{
    pthread_t thread;
    attack->address = victim->world.ops->listener_address(victim->listener);
    attack->window = victim->window;
    attack->loop = victim->world.loop[0];
    victim->attack = attack;
    attack->over = (struct gw_task){.run = on_over, .owner = attack};
    assert_int_equal(pthread_create(&thread, NULL, main, attack), 0);
    world_run(&victim->world, is_over, attack);
    pthread_join(thread, NULL);
}

static void run_attack(struct victim *victim, struct attack *attack)
{
    run_thread(victim, attack, attack_main);
}

static int has_gone(void *owner)
{
    return ((struct victim *)owner)->downs > 0;
}

static void an_honest_peer_is_served(struct victim *victim,
                                     uint64_t incarnation)
{
    struct attack honest = {.run = put, .incarnation = incarnation};
    int frames = victim->frames;
    victim->downs = 0;
    run_attack(victim, &honest);
    world_run(&victim->world, has_gone, victim); /* is not counted later */
    assert_int_equal(honest.result, 0);
    assert_int_equal(victim->frames, frames + 1);
    assert_int_equal(victim->memory[WINDOW + 128], 1);
}

static void each_attack_is_its_own_end(void **state)
{
    (void)state;
    struct victim victim;
    victim_open(&victim);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        struct attack attack = {.run = attacks[i].run, .incarnation = 1000 + i};
        victim.downs = 0;
        run_attack(&victim, &attack);
        print_message("%s: %s\n", attacks[i].name, victim.why);
        if (attack.result != 0)
            fail_msg("%s: could not be made", attacks[i].name);
        assert_int_equal(victim.downs, 1);
        assert_int_equal(victim.status, attacks[i].status);
        nothing_outside_has_changed(&victim);
        an_honest_peer_is_served(&victim, 5000 + i);
    }
    victim_close(&victim);
}

/* ---- before login ---- */

/* A peer that did not log in may write nowhere, also where it knows the key. */
static void *stranger_main(void *argument)
{
    struct attack *attack = argument;
    struct hostile friend = {.id = NULL}, stranger = {.id = NULL};
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    hostile_greeting(attack->incarnation, greeting);
    attack->result = 1;
    if (hostile_login(&friend, attack->address, attack->incarnation) == 0 &&
        hostile_ask(&friend, attack->window, 64) == 0 &&
        hostile_connect(&stranger, attack->address, greeting,
                        sizeof greeting) == 0)
        attack->result = hostile_write(&stranger, 0, 64, friend.offset,
                                       friend.key, 0) == IBV_WC_SUCCESS;
    hostile_close(&stranger);
    hostile_close(&friend);
    gw_loop_post(attack->loop, &attack->over);
    return NULL;
}

static void a_stranger_writes_nowhere(void **state)
{
    (void)state;
    struct victim victim;
    struct attack attack = {.incarnation = 77};
    victim_open(&victim);
    run_thread(&victim, &attack, stranger_main);
    assert_int_equal(attack.result, 0);
    for (size_t i = 0; i < ROOM; i++)
        assert_int_equal(victim.memory[i], FILLED);
    victim_close(&victim);
}

static void *greeting_main(void *argument)
{
    struct attack *attack = argument;
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    struct hostile peer;
    attack->result = 0;
    for (int i = 0; i < 4; i++) {
        hostile_greeting(42, greeting);
        greeting[i * 4] ^= 1; /* magic, version, incarnation */
        int failed = hostile_connect(&peer, attack->address, greeting,
                                     i == 3 ? 5 : sizeof greeting);
        if (!failed && i < 2)
            attack->result = -1;
        /* another incarnation in the hello than in the greeting */
        if (!failed && i == 2) {
            hostile_hello(&peer, 42, peer.memory);
            hostile_send(&peer, hostile_value(GW_RDMA_HELLO),
                         GW_RDMA_HELLO_BYTES);
            if (hostile_receive(&peer) != 0)
                attack->result = -1;
        }
        hostile_close(&peer);
    }
    gw_loop_post(attack->loop, &attack->over);
    return NULL;
}

static void a_false_greeting_is_refused(void **state)
{
    (void)state;
    struct victim victim;
    struct attack attack = {.incarnation = 42};
    victim_open(&victim);
    run_thread(&victim, &attack, greeting_main);
    assert_int_equal(attack.result, 0);
    assert_int_equal(victim.ups, 0);
    an_honest_peer_is_served(&victim, 9);
    victim_close(&victim);
}

/* ---- after completion ---- */

/* Writes into the ring and the window again and again while its puts are
   judged: what is judged is what is used. */
static int rewriting(struct hostile *peer, const struct attack *attack)
{
    if (hostile_ask(peer, attack->window, 64) != 0)
        return -1;
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t slot = peer->ring + i % GW_RDMA_DEPTH * GW_FRAME_BYTES;
        hostile_header(peer, attack->window, 0, 64, peer->memory);
        hostile_header(peer, attack->window, (uint64_t)i << 40, 4096,
                       peer->memory + 64);
        if (hostile_write(peer, 0, GW_FRAME_BYTES, slot, peer->ring_key,
                          hostile_value(GW_RDMA_PUT)) ||
            hostile_write(peer, 64, GW_FRAME_BYTES, slot, peer->ring_key, 0) ||
            hostile_write(peer, 8192, 4096, peer->offset, peer->key, 0))
            break;
    }
    hostile_send(peer, hostile_value(15), 0);
    return 0;
}

static void what_is_judged_is_used(void **state)
{
    (void)state;
    struct victim victim;
    struct attack attack = {.run = rewriting, .incarnation = 8};
    victim_open(&victim);
    run_attack(&victim, &attack);
    assert_int_equal(attack.result, 0);
    assert_int_equal(victim.downs, 1);
    assert_true(victim.frames > 0);
    nothing_outside_has_changed(&victim);
    an_honest_peer_is_served(&victim, 9);
    victim_close(&victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_attack_is_its_own_end),
        cmocka_unit_test(a_stranger_writes_nowhere),
        cmocka_unit_test(a_false_greeting_is_refused),
        cmocka_unit_test(what_is_judged_is_used),
    };
    return cmocka_run_group_tests_name("hostile rdma", tests, NULL, NULL);
}
