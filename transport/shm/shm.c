/* The shm transport: its table, dials and listeners. */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

const struct gw_transport_ops gw_shm_transport;

/* ---- the transport ---- */

static enum gw_status open_shm(struct gw_loop *loop,
                               const struct gw_transport_config *config,
                               struct gw_transport **transport_p,
                               struct gw_error *error)
{
    struct gw_shm *shm = calloc(1, sizeof *shm);
    if (!shm)
        return gw_fail(error, GW_ENOMEM, "no memory for the shm transport");
    shm->busy = config && config->busy;
    shm->base.ops = &gw_shm_transport;
    shm->base.loop = loop;
    gw_connections_open(&shm->connections, &shm->base, &gw_shm_connection_ops,
                        config);
    shm->handles = 1;
    gw_shm_poll_open(shm);
    *transport_p = &shm->base;
    return GW_OK;
}

static void close_listener(struct gw_listener *listener);

static void close_shm(struct gw_transport *transport)
{
    struct gw_shm *shm = gw_shm_of(transport);
    while (shm->listeners)
        close_listener(shm->listeners);
    gw_connections_close(&shm->connections);
    while (shm->fenced)
        gw_shm_drop_fence(shm->fenced);
    gw_registered_free(&shm->registered);
    gw_shm_poll_close(shm);
    gw_shm_handle_gone(&shm->base);
}

/* Without memory for the entry its payloads go through the ring. */
static void register_memory(struct gw_transport *transport,
                            const struct gw_memory *memory)
{
    struct gw_shm *shm = gw_shm_of(transport);
    if (memory->kind == GW_MEMORY_SHARED && memory->fd >= 0 &&
        !gw_registered_at(shm->registered, memory->base, memory->bytes))
        gw_registered_add(&shm->registered, memory);
}

static void deregister_memory(struct gw_transport *transport, void *base)
{
    struct gw_memory memory;
    gw_registered_take(&gw_shm_of(transport)->registered, base, &memory);
}

/* ---- links ---- */

static void close_link(struct gw_link *base)
{
    gw_connection_drop(&gw_shm_link_of(base)->connection);
}

static void kick(struct gw_link *base)
{
    gw_shm_do_not_sleep(gw_shm_link_of(base)->shm);
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
    struct sockaddr_un at;
    socklen_t bytes;
    enum gw_status status = gw_shm_place(address, &at, &bytes, error);
    if (status != GW_OK && status != GW_EUNREACHABLE)
        return status;
    struct gw_shm_link *link = gw_shm_link_new(gw_shm_of(transport));
    if (!link)
        return gw_fail(error, GW_ENOMEM, "no memory for a link to %s", address);
    gw_put_u32(link->hello, GW_SHM_HELLO);
    gw_put_u32(link->hello + 4, GW_SHM_VERSION);
    gw_hello_encode(hello, link->hello + 8);
    gw_connection_dial(&link->connection, address, handler, owner, windows);
    gw_shm_dial(link);
    *link_p = &link->base;
    return GW_OK;
}

/* ---- listeners ---- */

static void close_listener(struct gw_listener *base)
{
    gw_socket_listener_close(
        GW_CONTAINER(base, struct gw_socket_listener, base));
}

/* "HOST:0" gets a name that nobody guesses by chance. */
static void name_listener(struct gw_shm *shm, const char *address, char *name)
{
    const char *colon = strrchr(address, ':');
    uint64_t random;
    snprintf(name, GW_ADDRESS_MAX, "%s", address);
    if (!colon || strcmp(colon, ":0") != 0)
        return;
    gw_loop_random(shm->base.loop, &random, sizeof random);
    snprintf(name, GW_ADDRESS_MAX, "%.*s:%016" PRIx64, (int)(colon - address),
             address, random);
}

static enum gw_status
bind_name(const char *address, int *fd_p, struct gw_error *error)
{
    struct sockaddr_un at;
    socklen_t bytes;
    enum gw_status status = gw_shm_place(address, &at, &bytes, error);
    if (status == GW_EUNREACHABLE)
        return gw_fail(error, GW_EINVAL,
                       "cannot listen on %s in shared memory: %s", address,
                       "it is another host's");
    if (status != GW_OK)
        return status;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, bytes) == 0 &&
        listen(fd, GW_LISTEN_BACKLOG) == 0) {
        *fd_p = fd;
        return GW_OK;
    }
    int number = errno;
    char why[GW_LIMITS_WHY_BYTES];
    if (fd >= 0)
        close(fd);
    if (number == EADDRINUSE)
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: a process listens there (ss -xlp "
                       "shows it)",
                       address);
    return gw_fail(error, GW_EIO, "cannot listen on %s: %s", address,
                   gw_limits_why_no_file(number, why));
}

static enum gw_status listen_shm(struct gw_transport *transport,
                                 const char *address,
                                 struct gw_acceptor *acceptor,
                                 struct gw_listener **listener_p,
                                 struct gw_error *error)
{
    struct gw_shm *shm = gw_shm_of(transport);
    struct gw_socket_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return gw_fail(error, GW_ENOMEM, "no memory to listen on %s", address);
    name_listener(shm, address, listener->base.address);
    enum gw_status status =
        bind_name(listener->base.address, &listener->fd, error);
    if (status != GW_OK)
        goto free_listener;
    listener->base.transport = transport;
    listener->base.acceptor = acceptor;
    status = gw_socket_listener_open(listener, &shm->listeners, gw_shm_accept,
                                     gw_shm_handle_gone, error);
    if (status != GW_OK)
        goto close_socket;
    shm->handles++;
    *listener_p = &listener->base;
    return GW_OK;

close_socket:
    close(listener->fd);
free_listener:
    free(listener);
    return status;
}

const struct gw_transport_ops gw_shm_transport = {
    .name = "shm",
    .within_host = 1,
    .probe = gw_shm_probe,
    .meet = gw_shm_meet,
    .reaches = gw_shm_reaches,
    .open = open_shm,
    .close = close_shm,
    .listen = listen_shm,
    .close_listener = close_listener,
    .listener_address = gw_listener_address,
    .dial = dial,
    .kick = kick,
    .pulse = gw_shm_pulse,
    .close_link = close_link,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .export = gw_shm_export,
    .import = gw_shm_import,
    .takes = gw_transport_takes_host,
};
