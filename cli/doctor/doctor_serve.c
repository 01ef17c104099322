/*
 * The measured side: listens on every working transport and takes part in
 * measurements until a signal ends the process. It keeps four windows at most,
 * never reads their contents, and answers nothing outside the protocol. It
 * dials back the asking host only, at one port at a time.
 */
#include "config.h"

#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "proto/text.h"
#include "transport/member/place.h"

#define ENDS_MAX      4
#define ENDPOINTS_MAX 4
#define IDLE_US       10000000

struct serve;

/* A transport and its listener. */
struct endpoint {
    struct serve *serve;
    const struct gw_transport_ops *ops;
    struct gw_transport *transport; /* NULL: unavailable, with `error` */
    struct gw_listener *listener;
    struct gw_acceptor acceptor;
    struct gw_error error;
};

struct guest {
    struct gw_doctor_end end;
    struct serve *serve;
    struct gw_timer idle;
    struct gw_link *dial_back; /* link to the guest's host; NULL: none */
    int taken; /* set from the login on; end.link is set once it is up */
    uint64_t puts;
};

struct serve {
    struct gw_loop *loop;
    struct gw_log log;
    struct gw_log_limit limit; /* for lines that guests provoke */
    char host[GW_ADDRESS_MAX];
    uint64_t port;
    size_t endpoints;
    struct endpoint endpoint[ENDPOINTS_MAX];
    struct guest guest[ENDS_MAX];
    uint8_t *source;
};

static int is_tcp(const struct endpoint *endpoint)
{
    return strcmp(endpoint->ops->name, "tcp") == 0;
}

/* ---- a guest ---- */

static void leave(struct guest *guest)
{
    gw_timer_stop(guest->serve->loop, &guest->idle);
    if (guest->dial_back)
        gw_link_close(guest->dial_back);
    guest->dial_back = NULL;
    gw_doctor_end_close(&guest->end);
    guest->taken = 0;
}

static void drop(struct guest *guest, const char *why)
{
    struct gw_link *link = guest->end.link;
    if (link) {
        gw_transport_refused(link->transport, link->remote, why);
        gw_link_close(link);
    }
    leave(guest);
}

/* Also for links that broke before they were up, which nothing reports. */
static void on_idle(struct gw_timer *timer)
{
    drop(timer->owner, "it says nothing any more");
}

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct guest *guest = link->owner;
    (void)reply;
    guest->end.link = link;
    gw_doctor_tell(&guest->end, GW_DOCTOR_WINDOW, guest->end.mine);
}

/* ---- dialing back a guest's host ---- */

static void dialed_back(struct guest *guest, const char *text)
{
    guest->dial_back = NULL;
    snprintf(guest->end.dialed_back, sizeof guest->end.dialed_back, "%.200s",
             text);
    if (!gw_doctor_tell_text(&guest->end, guest->end.dialed_back))
        drop(guest, "it asks for too much at once");
}

static void on_dial_back_up(struct gw_link *link, const struct gw_reply *reply)
{
    (void)reply;
    gw_link_close(link);
    dialed_back(link->owner, GW_DOCTOR_REACHED);
}

static void on_dial_back_frame(struct gw_link *link,
                               const struct gw_frame *frame,
                               const void *payload)
{
    (void)link, (void)frame, (void)payload; /* it was closed at once */
}

static void
on_dial_back_down(struct gw_link *link, enum gw_status status, const char *why)
{
    (void)status;
    dialed_back(link->owner, why);
}

static const struct gw_link_handler dial_back_handler = {
    .up = on_dial_back_up,
    .frame = on_dial_back_frame,
    .down = on_dial_back_down};

/* Knocks at the guest's own host and nowhere else, so that nobody can aim it at
   others. Returns 0 for an invalid port, or while another dial runs. */
static int dial_back(struct guest *guest, uint64_t port)
{
    struct serve *serve = guest->serve;
    struct gw_hello hello;
    struct gw_error error;
    char address[GW_ADDRESS_MAX + 24];
    const char *remote = guest->end.link->remote;
    const struct endpoint *tcp = serve->endpoint;
    const char *colon = strrchr(remote, ':');
    while (tcp < serve->endpoint + serve->endpoints && !is_tcp(tcp))
        tcp++;
    if (guest->dial_back || !colon || port == 0 || port > UINT16_MAX ||
        tcp == serve->endpoint + serve->endpoints || !tcp->transport)
        return 0;
    snprintf(address, sizeof address, "%.*s:%" PRIu64, (int)(colon - remote),
             remote, port);
    gw_doctor_hello(serve->loop, &hello);
    if (tcp->ops->dial(tcp->transport, address, &hello, &dial_back_handler,
                       guest, NULL, &guest->dial_back, &error) != GW_OK)
        dialed_back(guest, error.text);
    return 1;
}

/* ---- a guest's words ---- */

/* 0: the word is not allowed, or there are too many. */
static int answer(struct guest *guest, const struct gw_frame *frame)
{
    struct gw_doctor_end *end = &guest->end;
    if (frame->kind == GW_FRAME_PUSH) {
        guest->puts++;
        return gw_doctor_tell(end, GW_DOCTOR_GOT, 0);
    }
    if (frame->kind != GW_FRAME_ACK)
        return 0;
    switch (frame->count) {
    case GW_DOCTOR_WINDOW:
        end->peers = (uint32_t)frame->clock;
        return end->peers != GW_WINDOW_NONE;
    case GW_DOCTOR_PING:
        return gw_doctor_tell(end, GW_DOCTOR_PONG, gw_doctor_clock());
    case GW_DOCTOR_GIVE:
        return end->peers != GW_WINDOW_NONE &&
               gw_doctor_put(end, GW_FRAME_WEIGHTS, frame->clock);
    case GW_DOCTOR_WHERE:
        return gw_doctor_tell_text(end, end->where);
    case GW_DOCTOR_KNOCK:
        return dial_back(guest, frame->clock);
    default:
        return 0;
    }
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct guest *guest = link->owner;
    (void)payload;
    gw_timer_start(guest->serve->loop, &guest->idle, IDLE_US);
    if (!answer(guest, frame))
        drop(guest, "that is no part of a measurement");
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct guest *guest = link->owner;
    (void)status, (void)why;
    gw_log_limited(&guest->serve->log, &guest->serve->limit, GW_LOG_INFO,
                   "%s measured over %s, %" PRIu64 " MiB from there",
                   link->remote, link->ops->name, guest->puts);
    leave(guest);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static void list_doors(const struct serve *serve, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < serve->endpoints && used < room; i++) {
        const struct endpoint *endpoint = &serve->endpoint[i];
        if (endpoint->listener)
            used += (size_t)snprintf(
                text + used, room - used, "%s %s\n", endpoint->ops->name,
                endpoint->ops->listener_address(endpoint->listener));
        else
            used += (size_t)snprintf(text + used, room - used, "%s - %s\n",
                                     endpoint->ops->name, endpoint->error.text);
    }
}

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct serve *serve = ((struct endpoint *)acceptor->owner)->serve;
    struct guest *guest = serve->guest;
    if (hello->role != GW_ROLE_OBSERVER || hello->job != GW_DOCTOR_JOB) {
        snprintf(reply->reason, sizeof reply->reason,
                 "this is gradweir doctor --serve, and no job");
        return GW_EREFUSED;
    }
    while (guest < serve->guest + ENDS_MAX && guest->taken)
        guest++;
    if (guest == serve->guest + ENDS_MAX) {
        snprintf(reply->reason, sizeof reply->reason,
                 "others are measuring, try again in a moment");
        return GW_EREFUSED;
    }
    memset(guest->end.busy, 0, sizeof guest->end.busy);
    if (gw_doctor_end_open(&guest->end, GW_FRAME_PUSH) != GW_OK)
        return GW_ENOMEM;
    guest->taken = 1;
    guest->puts = 0;
    guest->end.source = serve->source;
    list_doors(serve, guest->end.where, sizeof guest->end.where);
    link->handler = &handler;
    link->owner = guest;
    link->windows = &guest->end.windows;
    reply->job = hello->job;
    gw_timer_start(serve->loop, &guest->idle, IDLE_US);
    return GW_OK;
}

/* ---- opening ---- */

/* Reads an interface or address, and an optional port. */
static enum gw_status
read_where(struct serve *serve, const char *where, struct gw_error *error)
{
    char name[GW_ADDRESS_MAX], host[GW_HOST_ADDRESS_MAX];
    const char *colon = strrchr(where, ':');
    const char *bracket = strrchr(where, ']');
    int has_port =
        colon && (bracket ? colon > bracket : strchr(where, ':') == colon);
    size_t bytes = has_port ? (size_t)(colon - where) : strlen(where);
    serve->port = GW_DOCTOR_PORT;
    if (has_port && gw_text_number("--serve: its port", colon + 1, 0, 65535,
                                   &serve->port, error) != GW_OK)
        return error->status;
    snprintf(name, sizeof name, "%.*s", (int)bytes, where);
    if (bytes == 0 || bytes >= sizeof name ||
        gw_host_interface("--serve", name, host, error) != GW_OK)
        return gw_fail(error, GW_EUSAGE,
                       "--serve: \"%.*s\" is neither the name nor an address "
                       "of a network interface of this host (see: ip addr)",
                       (int)bytes, where);
    snprintf(serve->host, sizeof serve->host, "%s", host);
    return GW_OK;
}

static enum gw_status open_endpoint(struct endpoint *endpoint,
                                    const char *address)
{
    struct serve *serve = endpoint->serve;
    struct gw_transport *transport;
    enum gw_status status =
        endpoint->ops->probe(endpoint->error.text, sizeof endpoint->error.text);
    if (status != GW_OK)
        return status;
    /* a device would listen there, but nobody could dial it */
    if (!is_tcp(endpoint) && gw_host_is_loopback(address))
        return gw_fail(&endpoint->error, GW_EUNSUPPORTED,
                       "it serves on loopback, which is of no device");
    status =
        endpoint->ops->open(serve->loop, NULL, &transport, &endpoint->error);
    if (status != GW_OK)
        return status;
    endpoint->acceptor =
        (struct gw_acceptor){.judge = judge, .owner = endpoint};
    status = endpoint->ops->listen(transport, address, &endpoint->acceptor,
                                   &endpoint->listener, &endpoint->error);
    if (status != GW_OK) {
        endpoint->listener = NULL;
        endpoint->ops->close(transport);
        return status;
    }
    endpoint->transport = transport;
    const struct gw_memory source =
        gw_memory_host(serve->source, GW_DOCTOR_PUT_BYTES);
    endpoint->ops->register_memory(transport, &source);
    return GW_OK;
}

/* Other transports stay within the host. */
static int is_between_hosts(const struct gw_transport_ops *ops)
{
    return strcmp(ops->name, "sim") != 0 && strcmp(ops->name, "shm") != 0;
}

/* Only tcp must work; it tells the others' addresses. */
static enum gw_status open_endpoints(struct serve *serve,
                                     struct gw_error *error)
{
    enum gw_status status = GW_OK;
    char address[GW_ADDRESS_MAX + 24];
    for (size_t i = 0; gw_transports[i] && serve->endpoints < ENDPOINTS_MAX;
         i++) {
        struct endpoint *endpoint = &serve->endpoint[serve->endpoints];
        if (!is_between_hosts(gw_transports[i]))
            continue;
        *endpoint = (struct endpoint){.serve = serve, .ops = gw_transports[i]};
        serve->endpoints++;
        snprintf(address, sizeof address, "%s:%" PRIu64, serve->host,
                 is_tcp(endpoint) ? serve->port : 0);
        enum gw_status opened = open_endpoint(endpoint, address);
        if (opened != GW_OK && is_tcp(endpoint)) {
            *error = endpoint->error;
            status = opened;
        }
    }
    return status;
}

static void close_doors(struct serve *serve)
{
    for (size_t i = 0; i < serve->endpoints; i++)
        if (serve->endpoint[i].transport)
            serve->endpoint[i].ops->close(serve->endpoint[i].transport);
}

static void say_doors(const struct serve *serve)
{
    for (size_t i = 0; i < serve->endpoints; i++) {
        const struct endpoint *endpoint = &serve->endpoint[i];
        if (!endpoint->listener)
            printf("not over %s: %s\n", endpoint->ops->name,
                   endpoint->error.text);
        else if (is_tcp(endpoint))
            printf("serves measurements until Ctrl-C; on the other host: "
                   "gradweir doctor --peer %s\n",
                   endpoint->ops->listener_address(endpoint->listener));
        else
            printf("also over %s\n", endpoint->ops->name);
    }
}

static uint64_t wall_us(void *clock)
{
    (void)clock;
    return gw_doctor_clock();
}

static void write_line(void *context, const char *line, size_t bytes)
{
    fwrite(line, 1, bytes, context);
}

enum gw_status gw_doctor_serve(const struct gw_config *config,
                               const char *where,
                               struct gw_error *error)
{
    char address[GW_ADDRESS_MAX + 24];
    struct serve *serve = calloc(1, sizeof *serve);
    if (!serve)
        return gw_fail(error, GW_ENOMEM, "no memory to serve measurements");
    serve->log = (struct gw_log){.level = GW_LOG_INFO,
                                 .rank = -1,
                                 .role = "doctor",
                                 .now_us = wall_us,
                                 .sink = write_line,
                                 .context = stdout};
    serve->limit.per_second = 5;
    for (size_t i = 0; i < ENDS_MAX; i++) {
        serve->guest[i].serve = serve;
        serve->guest[i].idle =
            (struct gw_timer){.fire = on_idle, .owner = &serve->guest[i]};
    }
    enum gw_status status = read_where(serve, where, error);
    if (status != GW_OK)
        goto out;
    snprintf(address, sizeof address, "%s:%" PRIu64, serve->host, serve->port);
    status = gw_place_guard(config, address, error);
    if (status != GW_OK)
        goto out;
    serve->source = gw_doctor_source();
    if (!serve->source) {
        status = gw_fail(error, GW_ENOMEM, "no memory to serve measurements");
        goto out;
    }
    status = gw_loop_open_uv(&serve->loop, error);
    if (status != GW_OK)
        goto out;
    serve->loop->log = &serve->log;
    status = open_endpoints(serve, error);
    if (status == GW_OK) {
        setvbuf(stdout, NULL, _IOLBF, 0);
        say_doors(serve);
        gw_loop_run(serve->loop);
    }
    close_doors(serve);
    gw_loop_close(serve->loop);

out:
    free(serve->source);
    free(serve);
    return status;
}
