/* The rdma transport: its table, dials and listeners, and the end of a link. */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gw_transport_ops gw_rdma_transport;

/* ---- the transport ---- */

static const struct gw_connection_ops connection_ops;

static enum gw_status open_rdma(struct gw_loop *loop,
                                const struct gw_transport_config *config,
                                struct gw_transport **transport_p,
                                struct gw_error *error)
{
    char why[256];
    struct gw_rdma *rdma = calloc(1, sizeof *rdma);
    if (!rdma)
        return gw_fail(error, GW_ENOMEM, "no memory for the rdma transport");
    enum gw_status status =
        gw_own_places_find(config ? config->interface : NULL,
                           config ? config->key : NULL, &rdma->own, error);
    if (status == GW_OK &&
        gw_rdma_library_load(&rdma->lib, why, sizeof why) != GW_OK)
        status = gw_fail(error, GW_EUNSUPPORTED, "%s", why);
    rdma->busy = config && config->busy;
    rdma->base.ops = &gw_rdma_transport;
    rdma->base.loop = loop;
    gw_connections_open(&rdma->connections, &rdma->base, &connection_ops,
                        config);
    if (status == GW_OK)
        status = gw_rdma_poll_open(rdma, error);
    if (status != GW_OK) {
        free(rdma);
        return status;
    }
    *transport_p = &rdma->base;
    return GW_OK;
}

static void close_listener(struct gw_listener *listener);

static void close_rdma(struct gw_transport *transport)
{
    struct gw_rdma *rdma = gw_rdma_of(transport);
    while (rdma->listeners)
        close_listener(rdma->listeners);
    gw_connections_close(&rdma->connections);
    struct gw_rdma_device *next;
    for (struct gw_rdma_device *one = rdma->devices; one; one = next) {
        next = one->next;
        gw_rdma_device_close(one);
    }
    gw_registered_free(&rdma->registered);
    gw_rdma_poll_close(rdma);
}

/* Without memory for the entry its payloads are registered one by one. */
static void register_memory(struct gw_transport *transport,
                            const struct gw_memory *memory)
{
    struct gw_rdma *rdma = gw_rdma_of(transport);
    int known = memory->bytes == 0;
    for (const struct gw_registered *one = rdma->registered; one;
         one = one->next)
        known |= one->memory.base == memory->base;
    if (!known && gw_registered_add(&rdma->registered, memory))
        rdma->device_ranges += !gw_memory_is_host_accessible(memory->kind);
}

static void deregister_memory(struct gw_transport *transport, void *base)
{
    struct gw_rdma *rdma = gw_rdma_of(transport);
    struct gw_memory memory;
    if (!gw_registered_take(&rdma->registered, base, &memory))
        return;
    for (struct gw_rdma_device *one = rdma->devices; one; one = one->next)
        for (struct gw_rdma_domain *of = one->domains; of; of = of->next)
            gw_rdma_domain_deregister(of, &memory);
    rdma->device_ranges -= !gw_memory_is_host_accessible(memory.kind);
}

/* ---- links ---- */

/* Frees the link's state on its device: nothing can write through it then. */
static void free_device_side(struct gw_rdma_link *link)
{
    const struct gw_rdma_library *lib = &link->rdma->lib;
    gw_rdma_end(link);
    gw_rdma_unregister(link);
    if (link->ring_mr)
        lib->dereg_mr(link->ring_mr);
    if (link->mr)
        lib->dereg_mr(link->mr);
    link->mr = link->ring_mr = NULL;
    gw_rdma_domain_put(link);
    free(link->memory);
    link->memory = NULL;
}

static void detach(struct gw_link *base)
{
    struct gw_rdma_link *link = gw_rdma_link_of(base);
    gw_rdma_link_take_out(link);
    free_device_side(link);
    gw_rdma_give_back(link);
    gw_link_drop_queue(base);
}

/* The next poll frees it. */
static void release(struct gw_link *base)
{
    struct gw_rdma_link *link = gw_rdma_link_of(base);
    link->next = link->rdma->closed;
    link->rdma->closed = link;
}

static const struct gw_connection_ops connection_ops = {
    .goes_on = gw_rdma_goes_on,
    .detach = detach,
    .release = release,
};

static void close_link(struct gw_link *base)
{
    gw_connection_drop(&gw_rdma_link_of(base)->connection);
}

static void kick(struct gw_link *base)
{
    gw_rdma_make_dirty(gw_rdma_link_of(base));
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
    enum gw_status status = gw_address_check(address, error);
    if (status != GW_OK)
        return status;
    struct gw_rdma_link *link = gw_rdma_link_new(gw_rdma_of(transport));
    if (!link)
        return gw_fail(error, GW_ENOMEM, "no memory for a link to %s", address);
    link->hello = *hello;
    gw_connection_dial(&link->connection, address, handler, owner, windows);
    gw_rdma_dial(link);
    *link_p = &link->base;
    return GW_OK;
}

/* ---- listeners ---- */

static void close_listener(struct gw_listener *base)
{
    struct gw_rdma_listener *listener = gw_rdma_listener_of(base);
    gw_listener_leave(base);
    if (listener->id)
        gw_rdma_of(base->transport)->lib.destroy_id(listener->id);
    free(listener);
}

static enum gw_status
cannot_listen(const char *address, int number, struct gw_error *error)
{
    if (number == EADDRINUSE)
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s over RDMA: the port is in use; "
                       "stop its owner (rdma resource show cm_id shows it) or "
                       "choose another port",
                       address);
    if (number == ENODEV || number == EADDRNOTAVAIL)
        return gw_fail(error, GW_EIO,
                       "cannot listen on %s over RDMA: no RDMA device has that "
                       "address; set cluster.interface to one of a device "
                       "(rdma link shows them)",
                       address);
    return gw_fail(error, GW_EIO, "cannot listen on %s over RDMA: %s", address,
                   strerror(number));
}

static enum gw_status bind_port(struct gw_rdma_listener *listener,
                                const char *address,
                                struct gw_error *error)
{
    struct gw_places *found;
    enum gw_status status = gw_address_resolve(address, 0, 1, &found, error);
    if (status != GW_OK)
        return status;
    struct gw_rdma *rdma = gw_rdma_of(listener->base.transport);
    struct sockaddr *at = (struct sockaddr *)&found->place[0].at;
    int failed = rdma->lib.create_id(rdma->channel, &listener->id, listener,
                                     RDMA_PS_TCP);
    if (!failed)
        failed = rdma->lib.bind_addr(listener->id, at);
    /* an id without a device is bound to loopback, where no peer can come */
    if (!failed && !listener->id->verbs && !gw_address_is_any(at)) {
        errno = ENODEV;
        failed = -1;
    }
    if (!failed)
        failed = rdma->lib.listen(listener->id, GW_LISTEN_BACKLOG);
    int number = errno;
    free(found);
    if (!failed)
        return GW_OK;
    if (listener->id)
        rdma->lib.destroy_id(listener->id);
    listener->id = NULL;
    return cannot_listen(address, number, error);
}

static enum gw_status listen_rdma(struct gw_transport *transport,
                                  const char *address,
                                  struct gw_acceptor *acceptor,
                                  struct gw_listener **listener_p,
                                  struct gw_error *error)
{
    struct gw_rdma_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return gw_fail(error, GW_ENOMEM, "no memory to listen on %s", address);
    listener->base.transport = transport;
    listener->base.acceptor = acceptor;
    enum gw_status status = bind_port(listener, address, error);
    if (status != GW_OK) {
        free(listener);
        return status;
    }
    const struct sockaddr *own = rdma_get_local_addr(listener->id);
    gw_address_name(own, gw_address_bytes(own), listener->base.address);
    gw_listener_enter(&gw_rdma_of(transport)->listeners, &listener->base);
    *listener_p = &listener->base;
    return GW_OK;
}

const struct gw_transport_ops gw_rdma_transport = {
    .name = "rdma",
    .probe = gw_rdma_probe,
    .meet = gw_rdma_meet,
    .reaches = gw_transport_reaches_all,
    .open = open_rdma,
    .close = close_rdma,
    .listen = listen_rdma,
    .close_listener = close_listener,
    .listener_address = gw_listener_address,
    .dial = dial,
    .kick = kick,
    .pulse = gw_rdma_pulse,
    .close_link = close_link,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .export = gw_transport_exports_nothing,
    .import = gw_transport_imports_nothing,
    .takes = gw_rdma_takes,
};
