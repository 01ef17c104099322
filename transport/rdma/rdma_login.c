/*
 * From an address to a link that is up.
 *
 *   opener    name - address - route - connect
 *             then hello > ... < reply - up
 *   acceptor  accept
 *             then < hello, judge, reply > - up
 *
 * The connect names the opener's incarnation, so that the queue pair is made in
 * its peer's domain; until the hello was judged, which has to name the same,
 * this queue pair may write nowhere. Before login a link holds a fixed buffer,
 * a deadline, and a place among at most logins_max.
 */
#include "config.h"

#include "transport/rdma/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS    2000
#define PRIVATE_MAGIC 0x4d445247u /* "GRDM" as bytes */

/* The device repeats so often, first after 4.096 us * 2^ACK_TIMEOUT (67 ms); a
   busy receiver is waited for, as long as it is heard. */
#define RETRIES     7
#define RNR_RETRIES 7
#define ACK_TIMEOUT 14

/* Events of librdmacm handled before the rest of the loop has its turn:
   strangers can cause them. */
#define EVENTS_OF_TURN 8

/* Masked as in librdmacm's own workaround in ucma_modify_qp_rtr: bits that some
   kernels set and verbs does not know. */
#define STRAY_BITS 0xe00000

/* ---- queue pairs ---- */

static int move_to(struct gw_rdma_link *link, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask = 0;
    if (link->rdma->lib.init_qp_attr(link->id, &attr, &mask) != 0)
        return -1;
    mask &= ~STRAY_BITS;
    if (state == IBV_QPS_INIT)
        attr.qp_access_flags = 0; /* until the login */
    if (state == IBV_QPS_RTS && mask & IBV_QP_TIMEOUT)
        attr.timeout = ACK_TIMEOUT;
    int failed = link->rdma->lib.modify_qp(link->qp, &attr, mask);
    if (failed)
        errno = failed;
    return failed ? -1 : 0;
}

/* From now on the peer may write into its windows. */
static int let_write(struct gw_rdma_link *link)
{
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    return link->rdma->lib.modify_qp(link->qp, &attr, IBV_QP_ACCESS_FLAGS) == 0;
}

static int make_memory(struct gw_rdma_link *link)
{
    const struct gw_rdma_library *lib = &link->rdma->lib;
    struct ibv_pd *pd = link->domain->pd;
    size_t slots = (GW_RDMA_RECEIVES + GW_RDMA_DEPTH) * GW_RDMA_SLOT_BYTES;
    size_t ring = GW_RDMA_DEPTH * GW_FRAME_BYTES;
    if (posix_memalign((void **)&link->memory, 4096, slots + ring) != 0) {
        link->memory = NULL;
        errno = ENOMEM;
        return -1;
    }
    memset(link->memory, 0, slots + ring);
    uint8_t *headers = gw_rdma_ring(link);
    link->mr = lib->reg_mr(pd, link->memory, slots, IBV_ACCESS_LOCAL_WRITE);
    if (link->mr)
        link->ring_mr =
            lib->reg_mr_iova(pd, headers, ring, gw_rdma_first_offset(headers),
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return link->ring_mr ? 0 : -1;
}

static int make_queue_pair(struct gw_rdma_link *link)
{
    const struct gw_rdma_library *lib = &link->rdma->lib;
    struct ibv_cq *cq = link->domain->device->cq;
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = GW_RDMA_SENDS,
                .max_recv_wr = GW_RDMA_RECEIVES,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = GW_RDMA_INLINE_BYTES},
    };
    link->qp = lib->create_qp(link->domain->pd, &attr);
    if (!link->qp) {
        attr.cap.max_inline_data = 0; /* some devices have none */
        link->qp = lib->create_qp(link->domain->pd, &attr);
    }
    link->inline_bytes = attr.cap.max_inline_data;
    return link->qp ? 0 : -1;
}

/* Reads the port's rate, which limits the bytes in flight. */
static void ask_line(struct gw_rdma_link *link)
{
    struct ibv_port_attr port;
    uint32_t mbit = 0;
    if (gw_rdma_query_port(&link->rdma->lib, link->id->verbs,
                           link->id->port_num, &port) == 0)
        mbit = gw_rdma_line_mbit(port.active_speed, port.active_width);
    gw_rdma_flight_begin(&link->out.flight, mbit);
    gw_log_debug(link->rdma->base.loop->log,
                 "%s: over %s port %u, which says %u Mbit/s: up to %zu KiB are "
                 "on their way, %zu where it needs more",
                 link->base.remote, link->id->verbs->device->name,
                 (unsigned)link->id->port_num, (unsigned)mbit,
                 link->out.flight.room >> 10, link->out.flight.most >> 10);
}

/*
 * Makes a link's state on its device, with the receives posted and the queue
 * pair ready to be connected. After a failure the finished part is freed with
 * the link.
 */
static enum gw_status make_device_side(struct gw_rdma_link *link,
                                       uint64_t incarnation,
                                       struct gw_error *error)
{
    struct gw_rdma_device *device;
    enum gw_status status =
        gw_rdma_device_get(link->rdma, link->id, &device, error);
    if (status == GW_OK)
        status = gw_rdma_device_reserve(device, error);
    if (status != GW_OK)
        return status;
    status = gw_rdma_domain_get(device, link, incarnation, error);
    if (status != GW_OK) {
        gw_rdma_device_release(device);
        return status;
    }
    if (make_memory(link) != 0) {
        /* a limit: another dial would meet it again */
        gw_rdma_register_why(GW_RDMA_RECEIVES * GW_RDMA_SLOT_BYTES, errno,
                             error);
        error->status = GW_EUNSUPPORTED;
        return error->status;
    }
    if (make_queue_pair(link) != 0 || move_to(link, IBV_QPS_INIT) != 0 ||
        gw_rdma_read_open(link) != GW_OK)
        return gw_fail(error, GW_EIO, "cannot make a queue pair on %s: %s",
                       device->device->name, strerror(errno));
    ask_line(link);
    return GW_OK;
}

/* ---- the opener ---- */

static void connect_to(struct gw_rdma_link *link)
{
    uint8_t greeting[GW_RDMA_PRIVATE_BYTES];
    gw_put_u32(greeting, PRIVATE_MAGIC);
    gw_put_u32(greeting + 4, GW_RDMA_VERSION);
    gw_put_u64(greeting + 8, link->hello.incarnation);
    enum gw_status status = make_device_side(link, 0, &link->error);
    if (status != GW_OK) {
        gw_rdma_fail(link, status, link->error.text);
        return;
    }
    if (link->base.windows)
        gw_rdma_domain_bind(link->domain, link->base.windows);
    struct rdma_conn_param param = {
        .private_data = greeting,
        .private_data_len = sizeof greeting,
        .retry_count = RETRIES,
        .rnr_retry_count = RNR_RETRIES,
        .qp_num = link->qp->qp_num,
    };
    if (link->rdma->lib.connect(link->id, &param) != 0)
        gw_rdma_fail(link, GW_EUNREACHABLE, strerror(errno));
}

/* An id that is on its way there from one of our addresses, NULL: from any. */
static struct rdma_cm_id *resolve_from(struct gw_rdma_link *link,
                                       const struct gw_place *own,
                                       const struct gw_place *to)
{
    const struct gw_rdma_library *lib = &link->rdma->lib;
    struct rdma_cm_id *id;
    struct sockaddr_storage from, at = to->at;
    if (own)
        from = own->at;
    if (lib->create_id(link->rdma->channel, &id, link, RDMA_PS_TCP) != 0)
        return NULL;
    if (lib->resolve_addr(id, own ? (struct sockaddr *)&from : NULL,
                          (struct sockaddr *)&at, RESOLVE_MS) == 0)
        return id;
    int number = errno;
    lib->destroy_id(id);
    errno = number;
    return NULL;
}

/* Begins with the current address, from the interface that leads there, or the
   next one if that has no device; the loop tells the result. */
static int try_address(struct gw_rdma_link *link)
{
    const struct gw_place *to = &link->found->place[link->trying], *own;
    unsigned again = 0;
    do {
        own = gw_own_places_towards(&link->rdma->own,
                                    (const struct sockaddr *)&to->at,
                                    link->hello.link, again++);
        if (own || again == 1)
            link->id = resolve_from(link, own, to);
    } while (own && !link->id);
    return link->id ? 0 : -1;
}

/* Tries one address after the other; the last failure is reported. */
static void try_rest(struct gw_rdma_link *link, const char *why)
{
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s", why);
    for (; link->trying < link->found->n; link->trying++) {
        if (try_address(link) == 0) {
            gw_connection_connect(&link->connection);
            return;
        }
        snprintf(text, sizeof text,
                 "no RDMA device leads there: %s; set cluster.interface to "
                 "that of one which does",
                 strerror(errno));
    }
    gw_rdma_fail(link, GW_EUNREACHABLE, text);
}

/* Goes on with the next address: nothing was made yet but the id, or all of it
   is freed with the id. */
static int go_on(struct gw_rdma_link *link, const char *why)
{
    if (link->qp || link->trying + 1 >= link->found->n)
        return 0;
    link->trying++;
    link->rdma->lib.destroy_id(link->id);
    link->id = NULL;
    try_rest(link, why);
    return 1;
}

int gw_rdma_goes_on(struct gw_link *base)
{
    return go_on(gw_rdma_link_of(base), "no answer in time");
}

static void resolve_run(struct gw_work *work)
{
    struct gw_rdma_link *link = work->owner;
    gw_address_resolve(link->base.remote, 0, 0, &link->found, &link->error);
}

static void resolve_done(struct gw_work *work)
{
    struct gw_rdma_link *link = work->owner;
    struct gw_rdma *rdma = link->rdma;
    link->resolving = 0;
    if (link->connection.state == GW_CONNECTION_CLOSED)
        ; /* dropped meanwhile; the next poll frees it */
    else if (!link->found)
        gw_rdma_fail(link, link->error.status, link->error.text);
    else
        try_rest(link, "no address");
    gw_rdma_handle_gone(rdma);
}

void gw_rdma_dial(struct gw_rdma_link *link)
{
    link->resolving = 1;
    link->rdma->handles++;
    link->resolve = (struct gw_work){
        .run = resolve_run, .done = resolve_done, .owner = link, .alone = 1};
    gw_loop_work(link->rdma->base.loop, &link->resolve);
}

static void say_hello(struct gw_rdma_link *link)
{
    uint8_t bytes[GW_RDMA_HELLO_BYTES];
    if (move_to(link, IBV_QPS_RTR) != 0 || move_to(link, IBV_QPS_RTS) != 0 ||
        link->rdma->lib.establish(link->id) != 0) {
        gw_rdma_fail(link, GW_EUNREACHABLE, strerror(errno));
        return;
    }
    link->connection.state = GW_CONNECTION_GREETING;
    gw_hello_encode(&link->hello, bytes);
    gw_rdma_put_ring(link, bytes + GW_HELLO_BYTES);
    gw_rdma_send_own(link, GW_RDMA_HELLO, bytes, sizeof bytes);
}

void gw_rdma_got_reply(struct gw_rdma_link *link, const uint8_t *bytes)
{
    struct gw_reply reply;
    if (!gw_connection_got_reply(&link->connection, bytes, &reply))
        return;
    gw_rdma_get_ring(link, bytes + GW_REPLY_BYTES);
    if (let_write(link))
        gw_connection_go_up(&link->connection, &reply);
    else
        gw_rdma_fail(link, GW_EIO, "cannot open the queue pair to writes");
}

/* ---- the acceptor ---- */

static void send_reply(struct gw_rdma_link *link, const struct gw_reply *reply)
{
    uint8_t bytes[GW_RDMA_REPLY_BYTES];
    gw_reply_encode(reply, bytes);
    gw_rdma_put_ring(link, bytes + GW_REPLY_BYTES);
    gw_rdma_send_own(link, GW_RDMA_REPLY, bytes, sizeof bytes);
}

/* A refusal is given time to arrive: the opener closes, or the deadline. */
static void refuse(struct gw_rdma_link *link, const struct gw_reply *reply)
{
    if (!reply->reason[0]) {
        gw_connection_drop(&link->connection);
        return;
    }
    link->connection.refused = 1;
    send_reply(link, reply);
}

void gw_rdma_got_hello(struct gw_rdma_link *link, const uint8_t *bytes)
{
    struct gw_hello hello;
    struct gw_reply reply;
    if (gw_hello_decode(bytes, &hello) == GW_OK &&
        hello.incarnation != link->domain->incarnation) {
        gw_rdma_fail(link, GW_EPROTO, "claims to be two processes");
        return;
    }
    enum gw_status status = gw_link_judge(
        &link->base, link->connection.listener->acceptor, bytes, &reply);
    if (status != GW_OK) {
        refuse(link, &reply);
        return;
    }
    link->connection.owned =
        1; /* by the acceptor, which is told of failures from now on */
    gw_rdma_get_ring(link, bytes + GW_HELLO_BYTES);
    if ((link->base.windows &&
         !gw_rdma_domain_bind(link->domain, link->base.windows)) ||
        !let_write(link)) {
        gw_rdma_fail(link, GW_ECLOSED,
                     "connected before the connection that it replaces ended");
        return;
    }
    send_reply(link, &reply);
    if (link->connection.state == GW_CONNECTION_GREETING)
        gw_connection_go_up(&link->connection, NULL);
}

/* Private data of a connection request, as passed on by the kernel. */
struct greeting {
    uint8_t bytes[GW_RDMA_PRIVATE_BYTES];
    size_t n;
};

static int accept_id(struct gw_rdma_link *link, uint64_t incarnation)
{
    struct rdma_conn_param param = {.rnr_retry_count = RNR_RETRIES};
    if (make_device_side(link, incarnation, &link->error) != GW_OK)
        return -1;
    snprintf(link->error.text, sizeof link->error.text,
             "cannot accept the connection");
    param.qp_num = link->qp->qp_num;
    if (move_to(link, IBV_QPS_RTR) != 0 || move_to(link, IBV_QPS_RTS) != 0)
        return -1;
    return link->rdma->lib.accept(link->id, &param);
}

static void accept_request(struct gw_rdma_listener *listener,
                           struct rdma_cm_id *id,
                           const struct greeting *greeting)
{
    struct gw_rdma *rdma = gw_rdma_of(listener->base.transport);
    uint8_t ours[8];
    gw_put_u32(ours, PRIVATE_MAGIC);
    gw_put_u32(ours + 4, GW_RDMA_VERSION);
    struct gw_rdma_link *link = NULL;
    int is_one = greeting->n == sizeof greeting->bytes &&
                 memcmp(greeting->bytes, ours, sizeof ours) == 0 &&
                 gw_get_u64(greeting->bytes + 8) != 0;
    if (is_one)
        link = gw_rdma_link_new(rdma);
    else
        gw_transport_refused(&rdma->base, "somebody over RDMA",
                             "not a login of gradweir, or another version");
    if (is_one && !link)
        gw_listener_starves(&listener->base, "no memory for a link");
    if (!link) {
        rdma->lib.reject(id, ours, sizeof ours);
        rdma->lib.destroy_id(id);
        return;
    }
    const struct sockaddr *peer = rdma_get_peer_addr(id);
    link->id = id;
    id->context = link;
    gw_connection_accept(&link->connection, &listener->base);
    gw_address_name(peer, gw_address_bytes(peer), link->base.remote);
    if (accept_id(link, gw_get_u64(greeting->bytes + 8)) != 0) {
        rdma->lib.reject(id, ours, sizeof ours);
        gw_transport_refused(&rdma->base, link->base.remote, link->error.text);
        gw_rdma_fail(link, GW_EIO, link->error.text);
    }
}

/* ---- librdmacm's events ---- */

/* The address is no device's, or nobody listens at the port. */
static void connecting_failed(struct gw_rdma_link *link,
                              enum rdma_cm_event_type type,
                              int number)
{
    char why[160];
    if (type == RDMA_CM_EVENT_REJECTED)
        snprintf(why, sizeof why, "nobody accepts RDMA connections there");
    else
        snprintf(why, sizeof why, "no way there over RDMA: %s",
                 number < 0 ? strerror(-number)
                            : link->rdma->lib.cm_event_str(type));
    if (!go_on(link, why))
        gw_rdma_fail(link, GW_EUNREACHABLE, why);
}

/* Messages that came before the end are handled before it is told: all
   completions until now, but none that other links go on causing. */
static void disconnected(struct gw_rdma_link *link)
{
    struct gw_rdma *rdma = link->rdma;
    uint32_t serial = link->serial;
    int left = link->domain ? link->domain->device->cq_used : 0;
    while (left > 0 && link->domain) {
        int n = gw_rdma_device_poll(link->domain->device);
        left = n > 0 ? left - n : 0;
        link = gw_rdma_link_find(rdma, serial);
        if (!link)
            return;
    }
    gw_rdma_fail(link, GW_ECLOSED, "closed by the peer");
}

static void
link_event(struct gw_rdma_link *link, enum rdma_cm_event_type type, int number)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (link->rdma->lib.resolve_route(link->id, RESOLVE_MS) != 0)
            connecting_failed(link, RDMA_CM_EVENT_ROUTE_ERROR, -errno);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        connect_to(link);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        say_hello(link);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        connecting_failed(link, type, number);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        disconnected(link);
        break;
    default: /* established, or the last events of a closed one */
        break;
    }
}

static void take_event(struct gw_rdma *rdma, struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    enum rdma_cm_event_type type = event->event;
    int number = event->status;
    struct greeting greeting = {.n = 0};
    struct gw_rdma_listener *listener =
        event->listen_id ? event->listen_id->context : NULL;
    struct gw_rdma_link *link = id->context;
    struct ibv_context *theirs = id->verbs;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST &&
        event->param.conn.private_data &&
        event->param.conn.private_data_len >= sizeof greeting.bytes) {
        greeting.n = sizeof greeting.bytes;
        memcpy(greeting.bytes, event->param.conn.private_data, greeting.n);
    }
    /* an id cannot be destroyed before its events are acknowledged, and may be
       at once after it, by another thread */
    rdma->lib.ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        accept_request(listener, id, &greeting);
    else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL && theirs)
        gw_rdma_device_lost(rdma, theirs->device, theirs,
                            "the RDMA device was taken away");
    else if (type != RDMA_CM_EVENT_DEVICE_REMOVAL && link)
        link_event(link, type, number);
}

void gw_rdma_on_connection(struct gw_rdma *rdma)
{
    struct rdma_cm_event *event;
    const uv_handle_t *poll = (const uv_handle_t *)&rdma->cm_events;
    for (int i = 0; i < EVENTS_OF_TURN && !uv_is_closing(poll); i++) {
        if (rdma->lib.get_cm_event(rdma->channel, &event) != 0)
            return;
        take_event(rdma, event);
    }
}
