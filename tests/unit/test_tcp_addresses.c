/*
 * A name with several addresses: where nobody answers at the first, the next is
 * tried. The names are this test's own: it stands in for the resolver.
 */
#include "config.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/table/world.h"

#define DEAD 3 /* addresses at which nobody listens, before the last */

static uint16_t dead_port[DEAD];

/* "dead" are the dead addresses alone, "some" those and then the port asked
   for; anything else is a numeric IPv4 address. */
static size_t addresses_of(const char *node)
{
    return strcmp(node, "dead") == 0   ? DEAD
           : strcmp(node, "some") == 0 ? DEAD + 1
                                       : 1;
}

int getaddrinfo(const char *node,
                const char *service,
                const struct addrinfo *hints,
                struct addrinfo **found_p)
{
    size_t n = addresses_of(node);
    (void)hints;
    *found_p = NULL;
    for (size_t i = n; i-- > 0;) {
        struct addrinfo *info = calloc(1, sizeof *info);
        struct sockaddr_in *address = calloc(1, sizeof *address);
        uint16_t port =
            n > 1 && i < DEAD ? dead_port[i] : (uint16_t)atoi(service);
        address->sin_family = AF_INET;
        address->sin_port = htons(port);
        address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        info->ai_family = AF_INET;
        info->ai_socktype = SOCK_STREAM;
        info->ai_addr = (struct sockaddr *)address;
        info->ai_addrlen = sizeof *address;
        info->ai_next = *found_p;
        *found_p = info;
    }
    return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
    while (found) {
        struct addrinfo *next = found->ai_next;
        free(found->ai_addr);
        free(found);
        found = next;
    }
}

/* Ports that were free a moment ago. */
static void find_dead_ports(void)
{
    int fd[DEAD];
    for (size_t i = 0; i < DEAD; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t bytes = sizeof address;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fd[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(fd[i], (void *)&address, sizeof address), 0);
        assert_int_equal(getsockname(fd[i], (void *)&address, &bytes), 0);
        dead_port[i] = ntohs(address.sin_port);
    }
    for (size_t i = 0; i < DEAD; i++)
        close(fd[i]);
}

struct call {
    struct world world;
    int ups, downs;
    enum gw_status status;
};

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    (void)reply;
    ((struct call *)link->owner)->ups++;
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)link, (void)frame, (void)payload;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct call *call = link->owner;
    (void)why;
    call->downs++;
    call->status = status;
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    (void)hello, (void)reply;
    link->handler = &handler;
    link->owner = acceptor->owner;
    return GW_OK;
}

static int both_up(void *owner)
{
    return ((struct call *)owner)->ups == 2;
}

static int is_down(void *owner)
{
    return ((struct call *)owner)->downs > 0;
}

static void prepare(struct call *call)
{
    *call = (struct call){.ups = 0};
    find_dead_ports();
    world_open(&call->world, "tcp");
}

/* Dials `name` with the port of a listener at world A. */
static void dial(struct call *call, const char *name)
{
    static struct gw_acceptor acceptor = {.judge = judge};
    struct world *world = &call->world;
    struct gw_hello hello = {
        .role = GW_ROLE_WORKER, .links = 1, .generation = 1, .incarnation = 1};
    struct gw_listener *listener;
    struct gw_link *link;
    struct gw_error error;
    char address[64];
    acceptor.owner = call;
    assert_int_equal(world->ops->listen(world->transport[0],
                                        world_any_port(world), &acceptor,
                                        &listener, &error),
                     GW_OK);
    const char *where = world->ops->listener_address(listener);
    snprintf(address, sizeof address, "%s%s", name, strrchr(where, ':'));
    assert_int_equal(world->ops->dial(world->transport[1], address, &hello,
                                      &handler, call, NULL, &link, &error),
                     GW_OK);
}

static void the_next_address_is_tried(void **state)
{
    struct call call;
    (void)state;
    prepare(&call);
    dial(&call, "some");
    world_run(&call.world, both_up, &call);
    assert_int_equal(call.downs, 0);
    world_close(&call.world);
}

static void the_last_address_ends_it(void **state)
{
    struct call call;
    (void)state;
    prepare(&call);
    dial(&call, "dead");
    world_run(&call.world, is_down, &call);
    world_settle(&call.world, 50000);
    assert_int_equal(call.downs, 1);
    assert_int_equal(call.status, GW_EUNREACHABLE);
    world_close(&call.world);
}

/* Whatever the moment, a link that is closed leaves nothing behind. */
static void a_search_may_be_given_up(void **state)
{
    (void)state;
    for (uint64_t us = 0; us < 2000; us += 50) {
        struct call call;
        prepare(&call);
        dial(&call, "dead");
        world_settle(&call.world, us);
        world_close(&call.world);
    }
}

/* ---- disks ---- */

#define WRITES 16 /* more than there are threads for */

/* A write to a disk that does not answer, until it is told to. */
struct write {
    struct gw_work work;
    atomic_int *may_end;
    int done;
};

static void write_run(struct gw_work *work)
{
    const struct write *write = work->owner;
    for (int ms = 0; ms < 40000 && !atomic_load(write->may_end); ms++)
        usleep(1000);
}

static void write_done(struct gw_work *work)
{
    ((struct write *)work->owner)->done = 1;
}

static int all_written(void *owner)
{
    const struct write *write = owner;
    int done = 0;
    for (size_t i = 0; i < WRITES; i++)
        done += write[i].done;
    return done == WRITES;
}

/* A member that dials again finds the address, however many files are being
   written: a disk that is slow is not silence. */
static void a_slow_disk_keeps_nobody_from_dialling(void **state)
{
    static const char *const names[] = {"127.0.0.1", "some"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct call call;
        static struct write write[WRITES]; /* also where this fails */
        static atomic_int may_end;
        atomic_store(&may_end, 0);
        prepare(&call);
        for (size_t n = 0; n < WRITES; n++) {
            write[n] = (struct write){.may_end = &may_end};
            write[n].work = (struct gw_work){
                .run = write_run, .done = write_done, .owner = &write[n]};
            gw_loop_work(call.world.loop[1], &write[n].work);
        }
        dial(&call, names[i]);
        world_run(&call.world, both_up, &call);
        assert_false(all_written(write));
        atomic_store(&may_end, 1);
        world_run(&call.world, all_written, write);
        world_close(&call.world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_address_is_tried),
        cmocka_unit_test(the_last_address_ends_it),
        cmocka_unit_test(a_search_may_be_given_up),
        cmocka_unit_test(a_slow_disk_keeps_nobody_from_dialling),
    };
    return cmocka_run_group_tests_name("tcp addresses", tests, NULL, NULL);
}
