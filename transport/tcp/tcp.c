/* The tcp transport: its table, turns of links, and how links and listeners are
   opened and closed. */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* Share of each turn for delayed links; some hundred small frames. */
#define SHARE_US 1000

const struct gw_transport_ops gw_tcp_transport;

static enum gw_status probe(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "always there");
    return GW_OK;
}

static enum gw_status meet(char host[GW_ADDRESS_MAX], struct gw_error *error)
{
    (void)error;
    snprintf(host, GW_ADDRESS_MAX, "127.0.0.1");
    return GW_OK;
}

/* A turn for both directions; the rest waits for the poll, which comes back at
   once. */
static void take_turn(struct gw_tcp_link *link, int readable)
{
    link->tcp->took_turn = 1;
    if (!link->out.blocked && gw_tcp_write(link))
        link->out.blocked = 1;
    if (link->base.up && (readable || link->out.over))
        gw_tcp_read(link);
    if (link->base.up)
        gw_tcp_watch(link);
}

/* ---- turns ---- */

/* Enters the link behind those that wait already. */
static void wait_for_turn(struct gw_tcp_link *link)
{
    if (link->late)
        return;
    link->late = 1;
    link->next_late = NULL;
    *link->tcp->late_last = link;
    link->tcp->late_last = &link->next_late;
}

static void wait_no_more(struct gw_tcp_link *link)
{
    struct gw_tcp *tcp = link->tcp;
    struct gw_tcp_link **at = &tcp->late;
    while (*at != link)
        at = &(*at)->next_late;
    *at = link->next_late;
    if (!*at)
        tcp->late_last = at;
    link->late = 0;
}

/* Gives turns to links that became readable when a turn was over, oldest first.
   They have a share of each turn, even if others use all of it. */
static void read_late(struct gw_tcp *tcp)
{
    struct gw_loop *loop = tcp->base.loop;
    uint64_t now = tcp->late ? gw_loop_now(loop) : 0, until = now + SHARE_US;
    while (tcp->late) {
        struct gw_tcp_link *link = tcp->late;
        wait_no_more(link);
        if (link->base.up)
            take_turn(link, 1);
        now = gw_loop_now(loop);
        if (gw_loop_turn_is_over_at(loop, now) && now >= until)
            break;
    }
}

/* Links with something to send are written together, once per turn; if that is
   over, the rest in the next one. */
static void flush_dirty(struct gw_tcp *tcp)
{
    for (unsigned done = 0; tcp->dirty; done++) {
        if (done > 0 && gw_loop_turn_is_over(tcp->base.loop)) {
            gw_loop_post(tcp->base.loop, &tcp->flush);
            break;
        }
        struct gw_tcp_link *link = tcp->dirty;
        tcp->dirty = link->next_dirty;
        link->dirty = 0;
        if (link->base.up && !link->out.blocked)
            take_turn(link, 0);
    }
}

/* In the turn after the one that was over. */
static void on_flush(struct gw_task *task)
{
    flush_dirty(task->owner);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct gw_tcp *tcp = prepare->data;
    struct gw_uv_loop *loop = gw_uv_loop_of(tcp->base.loop);
    tcp->took_turn = 0;
    gw_uv_turn_before_poll(loop);
    if (tcp->late) {
        read_late(tcp);
        gw_uv_turn_worked(loop, gw_loop_now(tcp->base.loop));
    }
    flush_dirty(tcp);
}

static void on_check(uv_check_t *check)
{
    read_late(check->data);
    flush_dirty(check->data);
}

static const struct gw_connection_ops connection_ops;

static enum gw_status open_tcp(struct gw_loop *loop,
                               const struct gw_transport_config *config,
                               struct gw_transport **transport_p,
                               struct gw_error *error)
{
    struct gw_tcp *tcp = calloc(1, sizeof *tcp);
    if (!tcp)
        return gw_fail(error, GW_ENOMEM, "no memory for the tcp transport");
    enum gw_status status =
        gw_own_places_find(config ? config->interface : NULL,
                           config ? config->key : NULL, &tcp->own, error);
    if (status != GW_OK) {
        free(tcp);
        return status;
    }
    tcp->base.ops = &gw_tcp_transport;
    tcp->base.loop = loop;
    tcp->late_last = &tcp->late;
    tcp->flush = (struct gw_task){.run = on_flush, .owner = tcp};
    gw_connections_open(&tcp->connections, &tcp->base, &connection_ops, config);
    tcp->uv = &gw_uv_loop_of(loop)->uv;
    uv_prepare_init(tcp->uv, &tcp->before_poll);
    uv_check_init(tcp->uv, &tcp->after_poll);
    tcp->before_poll.data = tcp->after_poll.data = tcp;
    tcp->handles = 2;
    uv_prepare_start(&tcp->before_poll, on_prepare);
    uv_check_start(&tcp->after_poll, on_check);
    *transport_p = &tcp->base;
    return GW_OK;
}

/* The last handle to close frees the transport. */
static void handle_gone(struct gw_transport *transport)
{
    struct gw_tcp *tcp = gw_tcp_of(transport);
    if (--tcp->handles == 0)
        free(tcp);
}

static void on_own_handle_closed(uv_handle_t *handle)
{
    struct gw_tcp *tcp = handle->data;
    handle_gone(&tcp->base);
}

static void close_listener(struct gw_listener *listener);

static void close_tcp(struct gw_transport *transport)
{
    struct gw_tcp *tcp = gw_tcp_of(transport);
    gw_loop_unpost(transport->loop, &tcp->flush);
    while (tcp->listeners)
        close_listener(tcp->listeners);
    gw_connections_close(&tcp->connections);
    uv_close((uv_handle_t *)&tcp->before_poll, on_own_handle_closed);
    uv_close((uv_handle_t *)&tcp->after_poll, on_own_handle_closed);
}

/* ---- links ---- */

struct gw_tcp_link *gw_tcp_link_new(struct gw_tcp *tcp)
{
    struct gw_tcp_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->tcp = tcp;
    link->fd = -1;
    gw_connection_begin(&link->connection, &tcp->connections, &link->base);
    tcp->handles++;
    return link;
}

static void free_link(struct gw_tcp_link *link)
{
    struct gw_tcp *tcp = link->tcp;
    if (link->fd >= 0)
        close(link->fd);
    free(link->found);
    free(link->in.message);
    free(link);
    handle_gone(&tcp->base);
}

static void on_link_closed(uv_handle_t *handle)
{
    struct gw_tcp_link *link = handle->data;
    link->poll_open = 0;
    if (link->connection.state == GW_CONNECTION_CLOSED) {
        if (!link->resolving)
            free_link(link);
        return;
    }
    close(link->fd);
    link->fd = -1;
    link->events = 0;
    gw_tcp_connect(link);
}

/* Closes the socket; the link goes on with another address. */
void gw_tcp_let_go(struct gw_tcp_link *link)
{
    uv_close((uv_handle_t *)&link->poll, on_link_closed);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct gw_tcp_link *link = poll->data;
    /* the read or write that meets an error of the socket reports it; libuv
       does not poll that socket again until it is told to */
    if (status < 0) {
        events = UV_READABLE | UV_WRITABLE;
        link->events = 0;
        gw_tcp_watch(link);
    }
    if (link->connection.state == GW_CONNECTION_CONNECTING) {
        gw_tcp_connected(link);
        return;
    }
    if (link->connection.state == GW_CONNECTION_GREETING) {
        gw_tcp_greet(link);
        return;
    }
    if (events & UV_WRITABLE)
        link->out.blocked = 0;
    if (!link->base.up)
        return;
    /* libuv names ready sockets in the same order each time: a link that gets
       no turn gets one in the next, before links that had theirs; the first has
       one without reading the clock */
    if (link->tcp->late ||
        (link->tcp->took_turn && gw_loop_turn_is_over(link->tcp->base.loop)))
        wait_for_turn(link);
    else
        take_turn(link, events & UV_READABLE);
}

/* Asks libuv for the events that this link waits for; calls it only if they
   have changed. */
void gw_tcp_watch(struct gw_tcp_link *link)
{
    int events = UV_READABLE;
    if (link->connection.state == GW_CONNECTION_CONNECTING ||
        (link->base.up && link->out.blocked))
        events |= UV_WRITABLE;
    if (events == link->events)
        return;
    link->events = events;
    uv_poll_start(&link->poll, events, on_poll);
}

enum gw_status gw_tcp_adopt(struct gw_tcp_link *link, int fd)
{
    link->fd = fd;
    int failed = uv_poll_init(link->tcp->uv, &link->poll, fd);
    if (failed) {
        link->number = -failed;
        return GW_EIO;
    }
    link->poll.data = link;
    link->poll_open = 1;
    return GW_OK;
}

static void detach(struct gw_link *base)
{
    struct gw_tcp_link *link = gw_tcp_link_of(base);
    if (link->dirty) {
        struct gw_tcp_link **at = &link->tcp->dirty;
        while (*at != link)
            at = &(*at)->next_dirty;
        *at = link->next_dirty;
    }
    if (link->late)
        wait_no_more(link);
    gw_tcp_give_back(link);
    gw_link_drop_queue(base);
}

/* Frees a detached link as soon as libuv and the resolver let go of it. */
void gw_tcp_release(struct gw_link *base)
{
    struct gw_tcp_link *link = gw_tcp_link_of(base);
    if (link->poll_open && !uv_is_closing((uv_handle_t *)&link->poll))
        uv_close((uv_handle_t *)&link->poll, on_link_closed);
    else if (!link->poll_open && !link->resolving)
        free_link(link);
}

static const struct gw_connection_ops connection_ops = {
    .goes_on = gw_tcp_goes_on,
    .detach = detach,
    .release = gw_tcp_release,
};

static void close_link(struct gw_link *base)
{
    gw_connection_drop(&gw_tcp_link_of(base)->connection);
}

static void kick(struct gw_link *base)
{
    struct gw_tcp_link *link = gw_tcp_link_of(base);
    if (link->dirty)
        return;
    link->dirty = 1;
    link->next_dirty = link->tcp->dirty;
    link->tcp->dirty = link;
}

static enum gw_status dial(struct gw_transport *transport,
                           const char *address,
                           const struct gw_hello *hello,
                           const struct gw_link_handler *handler,
                           void *owner,
                           struct gw_windows *windows,
                           struct gw_link **link_p,
                           struct gw_error *error)
{
    enum gw_status status = gw_tcp_check(address, error);
    if (status != GW_OK)
        return status;
    struct gw_tcp_link *link = gw_tcp_link_new(gw_tcp_of(transport));
    if (!link)
        return gw_fail(error, GW_ENOMEM, "no memory for a link to %s", address);
    link->base.local = gw_tcp_is_unix(address);
    gw_hello_encode(hello, link->hello);
    link->index = hello->link;
    gw_connection_dial(&link->connection, address, handler, owner, windows);
    gw_tcp_dial(link);
    *link_p = &link->base;
    return GW_OK;
}

/* ---- listeners ---- */

static void close_listener(struct gw_listener *base)
{
    struct gw_tcp_listener *listener = gw_tcp_listener_of(base);
    gw_tcp_local_remove(&listener->file);
    gw_socket_listener_close(&listener->socket);
}

static enum gw_status
bind_port(const char *address, int *fd_p, struct gw_error *error)
{
    struct gw_places *found;
    enum gw_status status = gw_tcp_resolve(address, 0, 1, &found, error);
    if (status != GW_OK)
        return status;
    const struct gw_place *own = &found->place[0];
    int fd = socket(own->at.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, failed = fd < 0;
    if (!failed) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        failed = bind(fd, (const struct sockaddr *)&own->at, own->bytes) != 0 ||
                 listen(fd, GW_LISTEN_BACKLOG) != 0;
    }
    free(found);
    if (!failed) {
        *fd_p = fd;
        return GW_OK;
    }
    int number = errno;
    char why[GW_LIMITS_WHY_BYTES];
    if (fd >= 0)
        close(fd);
    if (number == EADDRINUSE)
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: the port is in use; stop its "
                       "owner (ss -ltnp shows it) or choose another port",
                       address);
    return gw_fail(error, GW_EIO, "cannot listen on %s: %s", address,
                   gw_limits_why_no_file(number, why));
}

static enum gw_status listen_tcp(struct gw_transport *transport,
                                 const char *address,
                                 struct gw_acceptor *acceptor,
                                 struct gw_listener **listener_p,
                                 struct gw_error *error)
{
    struct gw_tcp *tcp = gw_tcp_of(transport);
    struct gw_tcp_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return gw_fail(error, GW_ENOMEM, "no memory to listen on %s", address);
    struct gw_socket_listener *polled = &listener->socket;
    enum gw_status status =
        gw_tcp_is_unix(address)
            ? gw_tcp_local_listen(address, &polled->fd, &listener->file, error)
            : bind_port(address, &polled->fd, error);
    if (status != GW_OK)
        goto free_listener;
    polled->base.transport = transport;
    polled->base.acceptor = acceptor;
    gw_tcp_name(polled->fd, 0, polled->base.address);
    status = gw_socket_listener_open(polled, &tcp->listeners, gw_tcp_accept,
                                     handle_gone, error);
    if (status != GW_OK)
        goto close_socket;
    tcp->handles++;
    *listener_p = &polled->base;
    return GW_OK;

close_socket:
    gw_tcp_local_remove(&listener->file);
    close(polled->fd);
free_listener:
    free(listener);
    return status;
}

const struct gw_transport_ops gw_tcp_transport = {
    .name = "tcp",
    .probe = probe,
    .meet = meet,
    .reaches = gw_transport_reaches_all,
    .open = open_tcp,
    .close = close_tcp,
    .listen = listen_tcp,
    .close_listener = close_listener,
    .listener_address = gw_listener_address,
    .dial = dial,
    .kick = kick,
    .pulse = gw_tcp_pulse,
    .close_link = close_link,
    .register_memory = gw_transport_registers_nothing,
    .deregister_memory = gw_transport_deregisters_nothing,
    .export = gw_transport_exports_nothing,
    .import = gw_transport_imports_nothing,
    .takes = gw_transport_takes_host,
};
