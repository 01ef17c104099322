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
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/rdma/attack.h"
#include "transport/rdma/rdma.h"

/* ---- attacks: each runs on a thread of its own, after its login ---- */

/* The device refuses it: that is what this side sees. */
static int write_at(struct hostile *peer,
                    const struct attack *attack,
                    uint64_t offset,
                    uint32_t key_delta)
{
    if (hostile_ask(peer, attack->victim->window, 64) != 0)
        return -1;
    memset(peer->memory + 4096, 1, 4096);
    return hostile_write(peer, 4096, 4096, peer->offset + offset,
                         peer->key + key_delta, 0) == IBV_WC_SUCCESS;
}

static int behind_the_window(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, VICTIM_WINDOW, 0);
}

static int over_its_end(struct hostile *peer, const struct attack *attack)
{
    return write_at(peer, attack, VICTIM_WINDOW - 4095, 0);
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
    victim_header(peer->session, window, offset, length, peer->memory);
    return hostile_write(peer, 0, GW_FRAME_BYTES, peer->ring, peer->ring_key,
                         hostile_value(GW_RDMA_PUT));
}

static int a_header_behind_it(struct hostile *peer, const struct attack *attack)
{
    return header_of(peer, attack->victim->window, VICTIM_WINDOW - 3, 4);
}

static int a_header_far_behind(struct hostile *peer,
                               const struct attack *attack)
{
    return header_of(peer, attack->victim->window, UINT64_MAX - 3, 4);
}

static int a_header_of_no_window(struct hostile *peer,
                                 const struct attack *attack)
{
    return header_of(peer, attack->victim->window + 1, 0, 4);
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
    victim_header(peer->session, attack->victim->window, 0, 4, peer->memory);
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
                                   .window = attack->victim->window,
                                   .offset = VICTIM_WINDOW - 3,
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
    victim_header(peer->session, attack->victim->window, 0, 4, peer->memory);
    return hostile_send(peer, hostile_value(GW_RDMA_LAST), GW_FRAME_BYTES + 4);
}

static int a_put_in_pieces(struct hostile *peer, const struct attack *attack)
{
    victim_header(peer->session, attack->victim->window, 0, 4096, peer->memory);
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
    victim_header(peer->session, attack->victim->window, 0, VICTIM_WINDOW + 4,
                  peer->memory);
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

static void each_attack_is_its_own_end(void **state)
{
    (void)state;
    struct victim victim;
    victim_open(&victim, "rdma", GW_MEMORY_HOST);
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        struct attack attack = {.run = attacks[i].run, .incarnation = 1000 + i};
        victim.downs = 0;
        attack_run(&victim, &attack);
        print_message("%s: %s\n", attacks[i].name, victim.why);
        if (attack.result != 0)
            fail_msg("%s: could not be made", attacks[i].name);
        assert_int_equal(victim.downs, 1);
        assert_int_equal(victim.status, attacks[i].status);
        victim_is_sound(&victim);
        attack_leaves_others(&victim, 5000 + i);
    }
    victim_close(&victim);
}

/* ---- after completion ---- */

/* Writes into the ring and the window again and again while its puts are
   judged: what is judged is what is used. */
static int rewriting(struct hostile *peer, const struct attack *attack)
{
    if (hostile_ask(peer, attack->victim->window, 64) != 0)
        return -1;
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t slot = peer->ring + i % GW_RDMA_DEPTH * GW_FRAME_BYTES;
        victim_header(peer->session, attack->victim->window, 0, 64,
                      peer->memory);
        victim_header(peer->session, attack->victim->window, (uint64_t)i << 40,
                      4096, peer->memory + 64);
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
    victim_open(&victim, "rdma", GW_MEMORY_HOST);
    attack_run(&victim, &attack);
    assert_int_equal(attack.result, 0);
    assert_int_equal(victim.downs, 1);
    assert_true(victim.frames > 0);
    victim_is_sound(&victim);
    attack_leaves_others(&victim, 9);
    victim_close(&victim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_attack_is_its_own_end),
        cmocka_unit_test(what_is_judged_is_used),
    };
    return cmocka_run_group_tests_name("hostile rdma", tests, NULL, NULL);
}
