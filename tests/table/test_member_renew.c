/*
 * Members on every transport: another process takes the place of a peer, at the
 * same address, where the member that dials it allows that.
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

#include "tests/table/couple.h"

#define SILENT_US 2000000

static int are_linked(void *owner)
{
    struct couple *couple = owner;
    return couple->a.peer && gw_peer_is_up(couple->a.peer, 0) &&
           gw_peer_is_up(couple->b.peer, 0);
}

static void tell(struct gw_peer *peer, uint64_t clock)
{
    const struct gw_message message = {.kind = GW_MESSAGE_STORED,
                                       .stored = {.clock = clock}};
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
}

/* So many messages in both directions, which count from 0; each arrives once
   and in order. */
static void talk(struct couple *couple, uint64_t n)
{
    couple->a.messages = couple->b.messages = 0;
    couple->wanted = n;
    for (uint64_t i = 0; i < n; i++) {
        tell(couple->a.peer, i);
        tell(couple->b.peer, i);
    }
    world_run(&couple->world, all_told, couple);
    world_settle(&couple->world, 100000);
    assert_int_equal(couple->a.messages, n);
    assert_int_equal(couple->b.messages, n);
}

/* Both are up and have talked; b allows another process where `renews`. */
static struct couple *begin(const char *transport, int renews)
{
    struct couple *couple = couple_new(transport);
    dial(couple, 0, 1);
    if (renews)
        gw_peer_may_renew(couple->b.peer);
    world_run(&couple->world, all_up, couple);
    talk(couple, 5);
    return couple;
}

/* The process of a ends, and its listener with it. */
static void close_a(struct couple *couple, char address[GW_ADDRESS_MAX])
{
    struct side *a = &couple->a;
    snprintf(address, GW_ADDRESS_MAX, "%s", gw_member_address(a->member));
    gw_member_close(a->member);
    a->member = NULL;
    a->peer = NULL;
    a->messages = a->others = 0;
    a->ups = couple->b.ups = 0;
    world_settle(&couple->world, 1000);
}

/* Another one begins where it was. */
static void open_a(struct couple *couple, const char *address)
{
    struct gw_error error;
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    if (gw_member_listen(couple->a.member, address, &error) != GW_OK)
        fail_msg("%s", error.text);
}

/* More than the ring of a channel has room for, in wrong order for one who
   would count. */
static void say_what_nobody_hears(struct couple *couple)
{
    static char text[50000];
    memset(text, 'x', sizeof text - 1);
    const struct gw_message message = {.kind = GW_MESSAGE_STATUS,
                                       .status = {.text = text}};
    for (uint64_t i = 0; i < 8; i++) {
        tell(couple->b.peer, 100 + i);
        assert_int_equal(gw_peer_tell(couple->b.peer, &message), GW_OK);
    }
    assert_true(gw_peer_untaken(couple->b.peer) >= 16);
}

/* At once, while b dials, or when the silence was told. */
static void another_process_takes_the_place(void **state)
{
    static const uint64_t gone_us[] = {0, 100000, SILENT_US};
    char address[GW_ADDRESS_MAX];
    struct couple *couple = begin(*state, 1);
    struct side *a = &couple->a, *b = &couple->b;
    for (size_t i = 0; i < sizeof gone_us / sizeof *gone_us; i++) {
        uint64_t before = gw_member_incarnation(a->member);
        assert_true(b->peer->incarnation == before);
        close_a(couple, address);
        say_what_nobody_hears(couple);
        world_settle(&couple->world, gone_us[i]);
        assert_int_equal(b->lost, gone_us[i] == SILENT_US);
        open_a(couple, address);
        world_run(&couple->world, are_linked, couple);
        assert_true(gw_member_incarnation(a->member) != before);
        assert_true(b->peer->incarnation == gw_member_incarnation(a->member));
        assert_int_equal(b->ups, 1);
        assert_int_equal(gw_peer_untaken(b->peer), 0);
        talk(couple, 20);
        assert_int_equal(a->others, 0);
    }
    assert_int_equal(b->lost_status, GW_ETIMEOUT);
    assert_int_equal(b->lost, 1);
    couple_free(couple);
}

/* The same process behind another link: nothing is forgotten. */
static void the_same_process_keeps_its_messages(void **state)
{
    struct couple *couple = begin(*state, 1);
    couple->a.messages = couple->b.messages = 0;
    couple->wanted = 12;
    for (uint64_t i = 0; i < couple->wanted; i++) {
        tell(couple->a.peer, i);
        tell(couple->b.peer, i);
        if (i % 4 == 1)
            gw_peer_cut(couple->b.peer, 0, "test");
        if (i % 4 == 3)
            world_run(&couple->world, are_linked, couple);
    }
    world_run(&couple->world, all_told, couple);
    world_settle(&couple->world, 100000);
    assert_int_equal(couple->a.messages, couple->wanted);
    assert_int_equal(couple->b.messages, couple->wanted);
    assert_true(couple->b.downs >= 3);
    assert_int_equal(couple->b.lost, 0);
    couple_free(couple);
}

static void elsewhere_it_is_refused(void **state)
{
    char address[GW_ADDRESS_MAX];
    struct couple *couple = begin(*state, 0);
    uint64_t before = couple->b.peer->incarnation;
    close_a(couple, address);
    tell(couple->b.peer, 100);
    open_a(couple, address);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EREFUSED);
    world_settle(&couple->world, 200000);
    assert_int_equal(couple->a.ups + couple->b.ups, 0);
    assert_true(couple->b.peer->incarnation == before);
    assert_int_equal(couple->a.messages, 0);
    couple_free(couple);
}

/* A process at that address that has a job of its own is none in its place. */
static void one_of_another_job_is_refused(void **state)
{
    char address[GW_ADDRESS_MAX];
    struct couple *couple = begin(*state, 1);
    uint64_t before = couple->b.peer->incarnation;
    close_a(couple, address);
    tell(couple->b.peer, 100);
    couple->a.job++;
    open_a(couple, address);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EREFUSED);
    assert_non_null(strstr(couple->b.lost_why, "another job"));
    world_settle(&couple->world, 200000);
    assert_int_equal(couple->a.ups + couple->b.ups, 0);
    assert_true(couple->b.peer->incarnation == before);
    couple_free(couple);
}

/* The secret of b and of the new process is another one than before; b comes
   back with it. */
static void the_new_one_gets_a_proof_of_its_own(void **state)
{
    char address[GW_ADDRESS_MAX];
    struct gw_secret pair;
    struct couple *couple = begin(*state, 1);
    struct side *a = &couple->a, *b = &couple->b;
    close_a(couple, address);
    open_a(couple, address);
    world_run(&couple->world, are_linked, couple);
    assert_int_equal(gw_secret_of_pair(gw_member_secret(b->member),
                                       gw_member_incarnation(a->member), &pair),
                     GW_OK);
    gw_peer_expect(a->peer, &pair);
    a->ups = b->ups = 0;
    gw_peer_cut(b->peer, 0, "test");
    world_run(&couple->world, all_up, couple);
    talk(couple, 5);
    assert_int_equal(b->lost, 0);
    couple_free(couple);
}

#define ALL(transport)                                                         \
    ON(transport, another_process_takes_the_place),                            \
        ON(transport, the_same_process_keeps_its_messages),                    \
        ON(transport, elsewhere_it_is_refused),                                \
        ON(transport, one_of_another_job_is_refused),                          \
        ON(transport, the_new_one_gets_a_proof_of_its_own)

int main(void)
{
    const struct CMUnitTest tests[] = {ALL("tcp"), ALL("unix"), ALL("sim"),
                                       ALL("rdma"), ALL("shm")};
    return world_run_tests("member renew", tests, sizeof tests / sizeof *tests);
}
