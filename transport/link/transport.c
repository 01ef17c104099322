#include "config.h"

#include "transport/link/transport.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/metrics.h"
#include "transport/link/limits.h"

#define REFUSALS_PER_SECOND 2
#define MESSAGE_ROOM_MIN    ((size_t)4 << 10)

static struct gw_send *send_of(const struct gw_heap_node *node)
{
    return GW_CONTAINER(node, struct gw_send, node);
}

static int send_before(const struct gw_heap_node *a,
                       const struct gw_heap_node *b)
{
    const struct gw_send *first = send_of(a), *second = send_of(b);
    if (first->rank != second->rank)
        return first->rank < second->rank;
    return first->order < second->order;
}

void gw_link_send(struct gw_link *link, struct gw_send *send)
{
    assert(!send->queued);
    if (!link->up) {
        send->done(send, GW_ECLOSED);
        return;
    }
    link->queue.before = send_before;
    send->frame.session = link->session;
    send->rank = (uint64_t)send->priority << 32 | send->frame.chunk;
    send->order = link->queue_order++;
    send->queued = 1;
    int idle = !gw_heap_first(&link->queue);
    gw_heap_insert(&link->queue, &send->node);
    if (idle)
        link->ops->kick(link);
}

struct gw_send *gw_link_next(struct gw_link *link)
{
    struct gw_heap_node *first = gw_heap_first(&link->queue);
    if (!first)
        return NULL;
    gw_heap_remove(&link->queue, first);
    struct gw_send *send = send_of(first);
    send->queued = 0;
    if (link->up && link->transport->loop->metrics)
        gw_metrics_add(link->transport->loop->metrics, GW_METRIC_FRAMES_OUT, 1);
    return send;
}

struct gw_send *gw_link_first(const struct gw_link *link)
{
    struct gw_heap_node *first = gw_heap_first(&link->queue);
    return first ? send_of(first) : NULL;
}

int gw_message_room(uint8_t **message, size_t *room, size_t bytes)
{
    size_t wanted =
        bytes > MESSAGE_ROOM_MIN ? GW_MESSAGE_BYTES_MAX : MESSAGE_ROOM_MIN;
    if (bytes <= *room)
        return 1;
    uint8_t *larger = realloc(*message, wanted);
    if (!larger)
        return 0;
    *message = larger;
    *room = wanted;
    return 1;
}

void gw_send_check(struct gw_send *send)
{
    struct gw_frame *frame = &send->frame;
    if (frame->length > 0 && !send->crc_known &&
        !(frame->flags & GW_FLAG_NO_CRC))
        frame->payload_crc = gw_crc32c(0, send->payload, frame->length);
}

void gw_send_seal(struct gw_send *send, uint8_t header[GW_FRAME_BYTES])
{
    gw_send_check(send);
    gw_frame_encode(&send->frame, header);
}

void gw_link_drop_queue(struct gw_link *link)
{
    link->up = 0;
    for (struct gw_send *send = gw_link_next(link); send;
         send = gw_link_next(link))
        send->done(send, GW_ECLOSED);
}

void gw_link_close(struct gw_link *link)
{
    link->ops->close_link(link);
}

enum gw_status gw_link_place(struct gw_link *link,
                             const struct gw_frame *frame,
                             void **place_p,
                             const char **why_p)
{
    if (frame->session != link->session) {
        *why_p = "frame of another session";
        return GW_EPROTO;
    }
    void *place = NULL;
    if (frame->window != GW_WINDOW_NONE) {
        if (link->windows)
            place = gw_window_at(link->windows, frame->kind, frame->window,
                                 frame->offset, frame->length);
        if (!place) {
            *why_p = "put outside of the windows it was given";
            return GW_EPROTO;
        }
    }
    *place_p = place;
    return GW_OK;
}

int gw_transport_reaches_all(const char *address)
{
    (void)address;
    return 1;
}

int gw_transport_pulses_nothing(struct gw_link *link, struct gw_send *beat)
{
    (void)link, (void)beat;
    return 0;
}

void gw_transport_registers_nothing(struct gw_transport *transport,
                                    const struct gw_memory *memory)
{
    (void)transport, (void)memory;
}

void gw_transport_deregisters_nothing(struct gw_transport *transport,
                                      void *base)
{
    (void)transport, (void)base;
}

enum gw_status gw_transport_exports_nothing(struct gw_link *link,
                                            uint32_t window)
{
    (void)link, (void)window;
    return GW_EUNSUPPORTED;
}

const void *gw_transport_imports_nothing(struct gw_link *link,
                                         uint32_t window,
                                         size_t bytes)
{
    (void)link, (void)window, (void)bytes;
    return NULL;
}

enum gw_status gw_transport_takes_host(struct gw_transport *transport,
                                       const struct gw_memory *memory,
                                       char *why,
                                       size_t why_bytes)
{
    (void)transport;
    if (gw_memory_is_host_accessible(memory->kind))
        return GW_OK;
    snprintf(why, why_bytes, "it moves bytes that are in host memory alone");
    return GW_EUNSUPPORTED;
}

void gw_listener_enter(struct gw_listener **list, struct gw_listener *listener)
{
    listener->next = *list;
    if (listener->next)
        listener->next->back = &listener->next;
    listener->back = list;
    *list = listener;
}

void gw_listener_leave(struct gw_listener *listener)
{
    *listener->back = listener->next;
    if (listener->next)
        listener->next->back = listener->back;
}

const char *gw_listener_address(const struct gw_listener *listener)
{
    return listener->address;
}

void gw_transport_refused(struct gw_transport *transport,
                          const char *remote,
                          const char *why)
{
    transport->limit.per_second = REFUSALS_PER_SECOND;
    if (transport->loop->metrics)
        gw_metrics_add(transport->loop->metrics, GW_METRIC_LOGINS_REFUSED, 1);
    gw_log_limited(transport->loop->log, &transport->limit, GW_LOG_WARN,
                   "connection from %s refused: %s", remote, why);
}

void gw_listener_starves(struct gw_listener *listener, const char *why)
{
    if (listener->acceptor->starves)
        listener->acceptor->starves(listener->acceptor, why);
}

void gw_listener_lacks(struct gw_listener *listener, int number)
{
    struct gw_transport *transport = listener->transport;
    char why[GW_LIMITS_WHY_BYTES];
    transport->limit.per_second = REFUSALS_PER_SECOND;
    gw_log_limited(transport->loop->log, &transport->limit, GW_LOG_WARN,
                   "cannot accept who connects to %s: %s", listener->address,
                   gw_limits_why_no_file(number, why));
}

enum gw_status gw_link_judge(struct gw_link *link,
                             struct gw_acceptor *acceptor,
                             const uint8_t hello_bytes[GW_HELLO_BYTES],
                             struct gw_reply *reply)
{
    struct gw_hello hello;
    *reply = (struct gw_reply){.status = GW_OK};
    snprintf(reply->version, sizeof reply->version, "%s", PACKAGE_VERSION);
    enum gw_status status = gw_hello_decode(hello_bytes, &hello);
    if (status == GW_EVERSION)
        snprintf(reply->reason, sizeof reply->reason,
                 "protocol versions differ: this is gradweir %s with wire "
                 "version %d, you are gradweir %s with %u",
                 PACKAGE_VERSION, GW_WIRE_VERSION, hello.version, hello.wire);
    if (status == GW_OK)
        status = acceptor->judge(acceptor, link, &hello, reply);
    /* the peer need not know about this process's memory: it comes again */
    reply->status = status == GW_ENOMEM ? GW_EAGAIN : status;
    if (status == GW_EAGAIN) /* it comes again, so this needs no warning */
        gw_log_debug(link->transport->loop->log,
                     "connection from %s put off: %s", link->remote,
                     reply->reason);
    else if (status != GW_OK)
        gw_transport_refused(link->transport, link->remote,
                             reply->reason[0] ? reply->reason
                                              : "not a login of gradweir");
    if (status != GW_OK)
        return status;
    assert(link->handler);
    while (link->session == 0)
        gw_loop_random(link->transport->loop, &link->session,
                       sizeof link->session);
    reply->session = link->session;
    return GW_OK;
}

enum gw_status gw_reply_judge(const uint8_t reply_bytes[GW_REPLY_BYTES],
                              struct gw_reply *reply,
                              char *why,
                              size_t why_bytes)
{
    enum gw_status status = gw_reply_decode(reply_bytes, reply);
    if (status == GW_EPROTO)
        snprintf(why, why_bytes, "what answered there is not gradweir");
    else if (status == GW_EVERSION)
        snprintf(why, why_bytes,
                 "protocol versions differ: this is gradweir %s with wire "
                 "version %d, the peer is gradweir %s with %u; take the same "
                 "program on both sides",
                 PACKAGE_VERSION, GW_WIRE_VERSION, reply->version, reply->wire);
    else if (reply->status != GW_OK)
        snprintf(why, why_bytes, "%s",
                 reply->reason[0] ? reply->reason : "login refused");
    return status != GW_OK ? status : reply->status;
}

const struct gw_transport_ops *gw_transport_find(const char *name,
                                                 struct gw_error *error)
{
    int automatic = strcmp(name, "auto") == 0;
    char why[256] = "";
    for (size_t i = 0; gw_transports[i]; i++) {
        const struct gw_transport_ops *ops = gw_transports[i];
        int wanted = automatic ? strcmp(ops->name, "sim") != 0
                               : strcmp(ops->name, name) == 0;
        if (wanted && ops->probe(why, sizeof why) == GW_OK)
            return ops;
    }
    if (why[0])
        gw_fail(error, GW_EUNSUPPORTED,
                "cluster.transport %s: %s; gradweir doctor --set "
                "cluster.transport=%s says what to do, \"auto\" takes what is "
                "here",
                name, why, name);
    else
        gw_fail(error, GW_EUSAGE,
                "cluster.transport \"%s\": no transport of that name; it is "
                "auto, shm, rdma or tcp",
                name);
    return NULL;
}

extern const struct gw_transport_ops gw_shm_transport;
extern const struct gw_transport_ops gw_rdma_transport;
extern const struct gw_transport_ops gw_tcp_transport;
extern const struct gw_transport_ops gw_sim_transport;

const struct gw_transport_ops *const gw_transports[] = {
    &gw_shm_transport,
    &gw_rdma_transport,
    &gw_tcp_transport,
    &gw_sim_transport,
    NULL,
};

/* In the order of preference; names the transports that do not work. */
static enum gw_status
choose_all(struct gw_routes *routes, char *why, size_t why_bytes)
{
    unsigned n = 0;
    char reason[256];
    why[0] = '\0';
    for (size_t i = 0; gw_transports[i] && n < GW_ROUTES_MAX; i++) {
        const struct gw_transport_ops *ops = gw_transports[i];
        size_t used = strlen(why);
        if (strcmp(ops->name, "sim") == 0)
            continue;
        if (ops->probe(reason, sizeof reason) == GW_OK)
            routes->data[n++] = ops;
        else
            snprintf(why + used, why_bytes - used, "%snot %s, %s",
                     used ? "; " : "", ops->name, reason);
    }
    routes->data[n] = NULL;
    return GW_OK;
}

enum gw_status gw_routes_find(const char *name,
                              struct gw_routes *routes_p,
                              char *why,
                              size_t why_bytes,
                              struct gw_error *error)
{
    struct gw_routes routes = {.control = &gw_tcp_transport};
    char reason[256];
    const struct gw_transport_ops *only = gw_transport_find(name, error);
    if (!only)
        return error->status;
    if (strcmp(name, "auto") == 0) {
        choose_all(&routes, why, why_bytes);
    } else {
        if (strcmp(name, "sim") == 0)
            routes.control = only;
        routes.data[0] = only;
        snprintf(why, why_bytes, "as the job says");
    }
    if (routes.control == &gw_sim_transport ||
        gw_shm_transport.probe(reason, sizeof reason) == GW_OK)
        routes.host_group = routes.control == &gw_sim_transport
                                ? &gw_sim_transport
                                : &gw_shm_transport;
    *routes_p = routes;
    return GW_OK;
}

enum gw_memory_kind gw_routes_memory(const struct gw_transport_ops *const *data)
{
    for (size_t i = 0; data && data[i]; i++)
        if (data[i]->within_host)
            return GW_MEMORY_SHARED;
    return GW_MEMORY_HOST;
}
