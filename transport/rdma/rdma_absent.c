/* The rdma transport of a program that was built without rdma-core. */
#include "config.h"

#include <stdio.h>

#include "transport/link/transport.h"
#include "transport/rdma/rdma_port.h"

static enum gw_status probe(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes,
             "this program was built without rdma-core (configure says why)");
    return GW_EUNSUPPORTED;
}

static enum gw_status meet_nowhere(char host[GW_ADDRESS_MAX],
                                   struct gw_error *error)
{
    (void)host;
    return gw_fail(error, GW_EUNSUPPORTED, "built without rdma-core");
}

static enum gw_status open_nothing(struct gw_loop *loop,
                                   const struct gw_transport_config *config,
                                   struct gw_transport **transport_p,
                                   struct gw_error *error)
{
    (void)loop, (void)config, (void)transport_p;
    return gw_fail(error, GW_EUNSUPPORTED, "built without rdma-core");
}

/* Unreachable, because opening fails. */
static void close_nothing(struct gw_transport *transport)
{
    (void)transport;
}

static enum gw_status listen_nowhere(struct gw_transport *transport,
                                     const char *address,
                                     struct gw_acceptor *acceptor,
                                     struct gw_listener **listener_p,
                                     struct gw_error *error)
{
    (void)transport, (void)address, (void)acceptor, (void)listener_p;
    return gw_fail(error, GW_EUNSUPPORTED, "built without rdma-core");
}

static void close_no_listener(struct gw_listener *listener)
{
    (void)listener;
}

static enum gw_status dial_nobody(struct gw_transport *transport,
                                  const char *address,
                                  const struct gw_hello *hello,
                                  const struct gw_link_handler *handler,
                                  void *owner,
                                  struct gw_windows *windows,
                                  struct gw_link **link_p,
                                  struct gw_error *error)
{
    (void)transport, (void)address, (void)hello, (void)handler, (void)owner;
    (void)windows, (void)link_p;
    return gw_fail(error, GW_EUNSUPPORTED, "built without rdma-core");
}

static void no_link(struct gw_link *link)
{
    (void)link;
}

const struct gw_transport_ops gw_rdma_transport = {
    .name = "rdma",
    .probe = probe,
    .meet = meet_nowhere,
    .reaches = gw_transport_reaches_all,
    .open = open_nothing,
    .close = close_nothing,
    .listen = listen_nowhere,
    .close_listener = close_no_listener,
    .listener_address = gw_listener_address,
    .dial = dial_nobody,
    .kick = no_link,
    .pulse = gw_transport_pulses_nothing,
    .close_link = no_link,
    .register_memory = gw_transport_registers_nothing,
    .deregister_memory = gw_transport_deregisters_nothing,
    .export = gw_transport_exports_nothing,
    .import = gw_transport_imports_nothing,
    .takes = gw_transport_takes_host,
};

enum gw_status gw_rdma_gpu_memory(const char *device,
                                  int has_dma_buf,
                                  char *text,
                                  size_t text_bytes)
{
    (void)has_dma_buf;
    (void)device;
    snprintf(text, text_bytes, "this program was built without rdma-core");
    return GW_EIO;
}

unsigned gw_rdma_port_mtu(const char *device, unsigned number, unsigned *most_p)
{
    (void)device, (void)number, (void)most_p;
    return 0;
}
