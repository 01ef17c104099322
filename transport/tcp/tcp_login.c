/*
 * From a socket to a link that is up.
 *
 *   opener    resolve - connect - hello > .......... < reply - up
 *   acceptor            accept  - ..... < hello, judge, reply > - up
 *
 * Before login a link holds a fixed buffer, a deadline, and a place among at
 * most logins_max; when all places are taken the oldest stranger makes room.
 */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"
#include "transport/link/socket.h"

static void go_up(struct gw_tcp_link *link, const struct gw_reply *reply)
{
    gw_connection_go_up(&link->connection, reply);
    if (link->base.up)
        gw_tcp_watch(link);
}

/* ---- the opener ---- */

/* Binds to the interface that leads there, or else to the next one. */
static int
bind_own(const struct gw_tcp_link *link, int fd, const struct sockaddr *to)
{
    const struct gw_place *own = NULL;
    unsigned again = 0;
    int failed = 0;
    do {
        if (to->sa_family == AF_INET || to->sa_family == AF_INET6)
            own = gw_own_places_towards(&link->tcp->own, to, link->index,
                                        again++);
        if (own)
            failed = bind(fd, (const struct sockaddr *)&own->at, own->bytes);
    } while (own && failed);
    return failed;
}

static int open_socket(struct gw_tcp_link *link, const struct gw_place *to)
{
    int family = to->at.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind_own(link, fd, (const struct sockaddr *)&to->at) != 0) {
        close(fd);
        return -1;
    }
    gw_socket_tune_for(fd, (const struct sockaddr *)&to->at, to->bytes);
    return fd;
}

/* Records the own address of an attempt, also of one that fails. */
static void note_from(struct gw_tcp_link *link, int fd)
{
    struct gw_place *from = &link->from;
    from->bytes = sizeof from->at;
    if (getsockname(fd, (struct sockaddr *)&from->at, &from->bytes) != 0 ||
        gw_address_is_any((const struct sockaddr *)&from->at))
        from->bytes = 0;
}

static void fail_to_connect(struct gw_tcp_link *link,
                            enum gw_status status,
                            const char *why)
{
    char text[GW_ERROR_TEXT_BYTES];
    gw_tcp_tell_attempt(link, why, text);
    gw_tcp_fail(link, status, text);
}

/* Tries one address after the other; the last failure is reported. */
void gw_tcp_connect(struct gw_tcp_link *link)
{
    char why[GW_LIMITS_WHY_BYTES];
    for (; link->trying < link->found->n; link->trying++) {
        const struct gw_place *to = &link->found->place[link->trying];
        int fd = open_socket(link, to);
        if (fd < 0) {
            link->number = errno;
            continue;
        }
        int failed =
            connect(fd, (const struct sockaddr *)&to->at, to->bytes) != 0;
        int number = errno;
        note_from(link, fd);
        if (failed && number != EINPROGRESS) {
            link->number = number;
            close(fd);
            continue;
        }
        if (gw_tcp_adopt(link, fd) != GW_OK)
            break;
        gw_connection_connect(&link->connection);
        gw_tcp_watch(link);
        return;
    }
    fail_to_connect(link, GW_EUNREACHABLE,
                    link->number ? gw_limits_why_no_file(link->number, why)
                                 : "no address");
}

/* An attempt failed: goes on with the name's next address, if there is one, as
   soon as libuv has let go of the socket. */
static int go_on(struct gw_tcp_link *link, int number)
{
    if (link->trying + 1 >= link->found->n)
        return 0;
    link->trying++;
    link->number = number;
    link->connection.state = GW_CONNECTION_RESOLVING;
    gw_timer_stop(link->tcp->base.loop, &link->connection.timer);
    gw_tcp_let_go(link);
    return 1;
}

int gw_tcp_goes_on(struct gw_link *base)
{
    struct gw_tcp_link *link = gw_tcp_link_of(base);
    if (!go_on(link, ETIMEDOUT))
        fail_to_connect(link, GW_ETIMEOUT, "no connection in time");
    return 1;
}

static void resolve_run(struct gw_work *work)
{
    struct gw_tcp_link *link = work->owner;
    gw_tcp_resolve(link->base.remote, 0, 0, &link->found, &link->error);
}

static void resolve_done(struct gw_work *work)
{
    struct gw_tcp_link *link = work->owner;
    link->resolving = 0;
    if (link->connection.state == GW_CONNECTION_CLOSED) {
        gw_tcp_release(&link->base); /* dropped meanwhile */
        return;
    }
    if (!link->found) {
        gw_tcp_fail(link, link->error.status, link->error.text);
        return;
    }
    link->trying = 0;
    gw_tcp_connect(link);
}

void gw_tcp_dial(struct gw_tcp_link *link)
{
    link->resolving = 1;
    link->resolve = (struct gw_work){
        .run = resolve_run, .done = resolve_done, .owner = link, .alone = 1};
    gw_loop_work(link->tcp->base.loop, &link->resolve);
}

void gw_tcp_connected(struct gw_tcp_link *link)
{
    int number = 0;
    socklen_t bytes = sizeof number;
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &number, &bytes);
    if (number) {
        if (!go_on(link, number))
            fail_to_connect(link, GW_EUNREACHABLE, strerror(number));
        return;
    }
    if (!link->base.local) {
        gw_socket_tune(link->fd);
        gw_tcp_flight_begin(&link->flight, link->fd);
    }
    /* an empty socket takes the 96 bytes of a hello at once */
    if (send(link->fd, link->hello, sizeof link->hello, MSG_NOSIGNAL) !=
        (ssize_t)sizeof link->hello) {
        gw_tcp_fail(link, GW_ECLOSED, "closed before the login");
        return;
    }
    link->connection.state = GW_CONNECTION_GREETING;
    gw_tcp_watch(link);
}

static void got_reply(struct gw_tcp_link *link)
{
    struct gw_reply reply;
    if (gw_connection_got_reply(&link->connection, link->greeting, &reply))
        go_up(link, &reply);
}

/* ---- the acceptor ---- */

static void got_hello(struct gw_tcp_link *link)
{
    struct gw_reply reply;
    uint8_t bytes[GW_REPLY_BYTES];
    enum gw_status status =
        gw_link_judge(&link->base, link->connection.listener->acceptor,
                      link->greeting, &reply);
    if (status == GW_OK || reply.reason[0]) {
        gw_reply_encode(&reply, bytes);
        /* a socket that does not take it is broken: the next read fails */
        ssize_t sent = send(link->fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        (void)sent;
    }
    if (status == GW_OK)
        go_up(link, NULL);
    else
        gw_connection_drop(&link->connection);
}

/* Reads the missing bytes of the other side's greeting. */
void gw_tcp_greet(struct gw_tcp_link *link)
{
    size_t wanted = link->connection.listener ? GW_HELLO_BYTES : GW_REPLY_BYTES;
    ssize_t got = recv(link->fd, link->greeting + link->greeting_bytes,
                       wanted - link->greeting_bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        gw_tcp_fail(link, GW_ECLOSED,
                    got < 0 ? strerror(errno)
                    : link->connection.listener
                        ? "closed before the login"
                        : "closed without an answer to the login");
        return;
    }
    link->greeting_bytes += (size_t)got;
    if (link->greeting_bytes < wanted)
        return;
    if (link->connection.listener)
        got_hello(link);
    else
        got_reply(link);
}

/* The file's mode keeps other users out, unless it was changed. */
static void refuse_user(struct gw_tcp *tcp, int fd)
{
    char remote[GW_ADDRESS_MAX];
    gw_tcp_name(fd, 1, remote);
    gw_transport_refused(&tcp->base, remote, "it is another user's");
    close(fd);
}

void gw_tcp_accept(struct gw_socket_listener *listener, int fd)
{
    struct gw_tcp *tcp = gw_tcp_of(listener->base.transport);
    int local = gw_tcp_listener_of(&listener->base)->file.path[0] != '\0';
    if (!local) {
        gw_socket_tune(fd);
    } else if (!gw_tcp_local_may(fd)) {
        refuse_user(tcp, fd);
        return;
    }
    struct gw_tcp_link *link = gw_tcp_link_new(tcp);
    if (!link) {
        gw_listener_starves(&listener->base, "no memory for a link");
        close(fd);
        return;
    }
    link->base.local = local;
    if (!local)
        gw_tcp_flight_begin(&link->flight, fd);
    gw_tcp_name(fd, 1, link->base.remote);
    gw_connection_accept(&link->connection, &listener->base);
    if (gw_tcp_adopt(link, fd) != GW_OK) {
        gw_connection_drop(&link->connection);
        return;
    }
    gw_tcp_watch(link);
}
