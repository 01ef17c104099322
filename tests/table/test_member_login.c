/*
 * Members on every transport: who gets in and who does not, who comes late or
 * never, and who is no longer who it was.
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
    gw_member_close(couple->b.member);
    couple->b.job = couple->a.job + 1;
    side_open(couple, &couple->b, 1, GW_ROLE_WORKER);
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
    enum gw_status status; /* of its end, */
    char why[160];         /* and the reason */
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
    impostor->status = status;
    snprintf(impostor->why, sizeof impostor->why, "%s", why);
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

static int b_is_up(void *owner)
{
    return ((struct couple *)owner)->b.ups > 0;
}

static int a_is_down(void *owner)
{
    return ((struct couple *)owner)->a.downs > 0;
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
    world_run(world, b_is_up, couple);
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
    world_run(world, a_is_down, couple);
    world_settle(world, 200000);
    assert_int_equal(couple->a.downs, 1);
    assert_null(again.link);
    couple_free(couple);
}

/* A connection that was on its way when a newer one took its place is refused,
   and the newer one stays. */
static void an_older_connection_does_not_come_back(void **state)
{
    struct couple *couple = couple_new(*state);
    struct world *world = &couple->world;
    static const uint32_t older[] = {0, 1};
    struct gw_error error = {0};
    dial(couple, 0, 1);
    world_run(world, all_up, couple);
    for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
        struct impostor again = {.incarnation = 0};
        struct gw_link *link;
        struct gw_hello hello = {
            .role = GW_ROLE_WORKER,
            .links = 1,
            .generation = older[i],
            .incarnation = gw_member_incarnation(couple->b.member),
        };
        assert_int_equal(world->ops->dial(world->transport[1],
                                          gw_member_address(couple->a.member),
                                          &hello, &impostor_handler, &again,
                                          NULL, &link, &error),
                         GW_OK);
        world_settle(world, 200000);
        assert_null(again.link);
        assert_int_equal(couple->a.downs, 0);
        assert_int_equal(couple->b.downs, 0);
    }
    couple_free(couple);
}

static int is_turned_away(void *owner)
{
    return ((struct impostor *)owner)->status != GW_OK;
}

/* Logs in at a as b, with a hello of this generation. */
static void log_in_as_b(struct couple *couple,
                        uint32_t generation,
                        struct impostor *impostor)
{
    struct world *world = &couple->world;
    struct gw_error error = {0};
    struct gw_link *link;
    const struct gw_hello hello = {
        .role = GW_ROLE_WORKER,
        .links = 1,
        .generation = generation,
        .incarnation = gw_member_incarnation(couple->b.member),
        .expects = gw_member_incarnation(couple->a.member),
    };
    *impostor = (struct impostor){.status = GW_OK};
    assert_int_equal(world->ops->dial(world->transport[1],
                                      gw_member_address(couple->a.member),
                                      &hello, &impostor_handler, impostor, NULL,
                                      &link, &error),
                     GW_OK);
    world_run(world, is_turned_away, impostor);
}

/* A process that is put off learns who has its place. */
static void the_newer_connection_is_named(void **state)
{
    struct couple *couple = couple_new(*state);
    struct impostor late;
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    log_in_as_b(couple, 1, &late);
    assert_int_equal(late.status, GW_EAGAIN);
    assert_non_null(strstr(late.why, "a newer connection is there already, "
                                     "from "));
    assert_int_equal(couple->a.downs, 0);
    couple_free(couple);
}

static int b_is_back(void *owner)
{
    return ((struct couple *)owner)->a.ups > 1;
}

/* With what everybody knows of b, and a higher generation, nobody is b; b is,
   when it comes again. */
static void nobody_logs_in_as_another(void **state)
{
    struct couple *couple = couple_new(*state);
    struct gw_secret pair;
    struct impostor thief;
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    assert_int_equal(gw_secret_of_pair(gw_member_secret(couple->b.member),
                                       gw_member_incarnation(couple->a.member),
                                       &pair),
                     GW_OK);
    gw_peer_expect(couple->a.peer, &pair);
    log_in_as_b(couple, 1000, &thief);
    assert_int_equal(thief.status, GW_EREFUSED);
    assert_non_null(strstr(thief.why, "no proof that this is worker 0"));
    assert_int_equal(couple->a.downs, 0);
    gw_peer_cut(couple->a.peer, 0, "test");
    world_run(&couple->world, b_is_back, couple);
    assert_int_equal(couple->b.lost, 0);
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

static int a_starves(void *owner)
{
    return ((struct couple *)owner)->a.starves > 0;
}

/* A member without memory to answer others is told so itself, and once; the
   others hear that they may come again. */
static void want_of_memory_is_told(void **state)
{
    struct couple *couple = couple_new(*state);
    gw_member_close(couple->b.member);
    couple->b.join_us = 1500000; /* however slow this machine is */
    side_open(couple, &couple->b, 1, GW_ROLE_WORKER);
    couple->a.is_poor = 1;
    dial(couple, 0, 1);
    world_run(&couple->world, a_starves, couple);
    world_run(&couple->world, b_lost, couple);
    assert_int_equal(couple->b.lost_status, GW_EUNREACHABLE);
    assert_non_null(strstr(couple->b.lost_why, "no memory"));
    assert_int_equal(couple->a.starves, 1);
    couple_free(couple);
}

/* Once is not for long. */
static void memory_that_comes_back_is_no_news(void **state)
{
    struct couple *couple = couple_new(*state);
    couple->a.is_poor = 1;
    dial(couple, 0, 1);
    world_settle(&couple->world, 60000);
    couple->a.is_poor = 0;
    world_run(&couple->world, b_is_up, couple);
    world_settle(&couple->world, 500000);
    couple->a.is_poor = 1;
    gw_peer_close(couple->a.peer); /* and it is to be admitted again */
    world_settle(&couple->world, 60000);
    couple->a.is_poor = 0;
    assert_int_equal(couple->a.starves, 0);
    couple_free(couple);
}

#define ALL(transport)                                                         \
    ON(transport, refusals_are_final),                                         \
        ON(transport, nobody_takes_the_place_of_another),                      \
        ON(transport, a_peer_may_go_while_it_comes_back),                      \
        ON(transport, an_older_connection_does_not_come_back),                 \
        ON(transport, the_newer_connection_is_named),                          \
        ON(transport, nobody_logs_in_as_another),                              \
        ON(transport, a_coordinator_that_never_comes),                         \
        ON(transport, a_late_listener_is_found),                               \
        ON(transport, want_of_memory_is_told),                                 \
        ON(transport, memory_that_comes_back_is_no_news)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL("tcp"), ALL("unix"), ALL("sim"), ALL("rdma"), ALL("shm"),
        /* any name may be an address in a simulated world */
        ON("tcp", no_address_is_refused), ON("unix", no_address_is_refused)};
    return world_run_tests("member login", tests, sizeof tests / sizeof *tests);
}
