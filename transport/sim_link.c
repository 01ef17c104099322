/*
 * The sim transport: frames through virtual time. A link has two ends; each
 * direction is a line with a rate, a latency drawn per frame, and its own
 * order. Payloads are copied when they leave (as a kernel would) and again
 * into the receiver's window; a payload of NULL is a length and nothing more.
 */
#include "config.h"

#include "transport/sim_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time for a login. */
#define LOGIN_US 5000000

/* One end of a link. */
struct gw_sim_link {
    struct gw_link base;
    struct gw_sim_process *process;
    struct gw_sim_link *peer;         /* NULL while or when there is none */
    struct gw_sim_link *next, **back; /* in sim->links */
    struct gw_sim_event line;         /* the line is free again */
    struct gw_sim_event news;         /* up or down, to be told */
    struct gw_sim_event knock;        /* opener's hello, at the acceptor */
    struct gw_sim_event deadline;     /* opener: of the login */
    struct gw_send *leaving;
    struct sim_flight *incoming, **incoming_last;
    uint64_t incoming_us; /* when the last of them arrives */
    struct gw_reply reply;
    uint8_t hello[GW_HELLO_BYTES];
    enum gw_status down_status;
    char down_why[GW_REASON_TEXT_MAX];
    int closed;
};

/* A frame on its way. */
struct sim_flight {
    struct gw_sim_event event;
    struct gw_sim_link *to;
    struct sim_flight *next; /* in to->incoming */
    struct gw_frame frame;
    int has_bytes;
    uint8_t bytes[];
};

struct gw_listener {
    struct gw_sim *sim;
    struct gw_transport *transport;
    struct gw_sim_process *process;
    struct gw_acceptor *acceptor;
    struct gw_listener *next, **back;
    char address[GW_ADDRESS_MAX];
};

struct gw_sim_transport_state {
    struct gw_transport base;
    struct gw_sim_process *process;
};

const struct gw_transport_ops gw_sim_transport;

static struct gw_sim_link *sim_link_of(struct gw_link *link)
{
    return GW_CONTAINER(link, struct gw_sim_link, base);
}

static struct gw_sim_process *process_of(struct gw_transport *transport)
{
    return GW_CONTAINER(transport, struct gw_sim_transport_state, base)
        ->process;
}

static enum gw_status probe(char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "in simulation only");
    return GW_OK;
}

static uint64_t latency(struct gw_sim *sim)
{
    return sim->options.latency_us +
           gw_sim_draw(sim, sim->options.jitter_us + 1);
}

/* ---- making and unmaking ends ---- */

static struct gw_sim_link *new_end(struct gw_transport *transport)
{
    struct gw_sim_process *process = process_of(transport);
    struct gw_sim_link *end = calloc(1, sizeof *end);
    assert(end);
    end->base.ops = &gw_sim_transport;
    end->base.transport = transport;
    end->base.heard_us = end->base.sent_us = process->sim->now_us;
    end->process = process;
    end->incoming_last = &end->incoming;
    end->line.process = end->news.process = end->deadline.process = process;
    end->line.owner = end->news.owner = end->deadline.owner = end;
    end->knock.owner = end;
    end->next = process->sim->links;
    if (end->next)
        end->next->back = &end->next;
    end->back = &process->sim->links;
    process->sim->links = end;
    return end;
}

static void forget_incoming(struct gw_sim_link *end)
{
    while (end->incoming) {
        struct sim_flight *flight = end->incoming;
        end->incoming = flight->next;
        gw_sim_cancel(end->process->sim, &flight->event);
        free(flight);
    }
    end->incoming_last = &end->incoming;
}

/* Takes the end out of everything that could still reach it. */
static void detach(struct gw_sim_link *end)
{
    struct gw_sim *sim = end->process->sim;
    struct gw_send *leaving = end->leaving;
    end->closed = 1;
    end->peer = NULL;
    *end->back = end->next;
    if (end->next)
        end->next->back = end->back;
    gw_sim_cancel(sim, &end->line);
    gw_sim_cancel(sim, &end->news);
    gw_sim_cancel(sim, &end->knock);
    gw_sim_cancel(sim, &end->deadline);
    forget_incoming(end);
    end->base.up = 0;
    end->leaving = NULL;
    if (leaving)
        leaving->done(leaving, GW_ECLOSED);
    gw_link_drop_queue(&end->base);
}

static void free_end(struct gw_sim_event *event)
{
    free(event->owner);
}

/* Frees a detached end once the callbacks that may hold it have returned. */
static void release(struct gw_sim_link *end)
{
    end->news.process = NULL;
    end->news.run = end->news.drop = free_end;
    gw_sim_schedule(end->process->sim, &end->news, end->process->sim->now_us);
}

static void tell_down(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    detach(end);
    end->base.handler->down(&end->base, end->down_status, end->down_why);
    release(end);
}

/* The end will learn of its death when the news has travelled. */
static void fail_end(struct gw_sim_link *end,
                     enum gw_status status,
                     const char *why,
                     uint64_t delay_us)
{
    struct gw_sim *sim = end->process->sim;
    end->peer = NULL;
    gw_sim_cancel(sim, &end->news);
    gw_sim_cancel(sim, &end->knock); /* nobody is to answer it any more */
    end->down_status = status;
    snprintf(end->down_why, sizeof end->down_why, "%s", why);
    end->news.run = tell_down;
    gw_sim_schedule(sim, &end->news, sim->now_us + delay_us);
}

/* Half of a put that was on its way may lie in the window already. */
static void tear(struct gw_sim_link *to)
{
    struct sim_flight *flight = to->incoming;
    void *place = NULL;
    const char *why;
    if (!flight || !flight->has_bytes || !to->base.up || to->process->dead ||
        gw_link_place(&to->base, &flight->frame, &place, &why) != GW_OK ||
        !place)
        return;
    memcpy(place, flight->bytes,
           gw_sim_draw(to->process->sim, flight->frame.length));
}

/* Breaks a link: what is on its way in either direction is lost. */
static void
break_link(struct gw_sim_link *end, enum gw_status status, const char *why)
{
    struct gw_sim_link *peer = end->peer;
    tear(end);
    forget_incoming(end);
    if (peer) {
        tear(peer);
        forget_incoming(peer);
        fail_end(peer, GW_ECLOSED, "connection reset",
                 latency(end->process->sim));
    }
    fail_end(end, status, why, 0);
}

/* What has left before an orderly close still arrives. */
static void close_link(struct gw_link *base)
{
    struct gw_sim_link *end = sim_link_of(base), *peer = end->peer;
    if (end->closed)
        return;
    if (peer) {
        struct gw_sim *sim = end->process->sim;
        uint64_t arrives_us = sim->now_us + latency(sim);
        if (arrives_us < peer->incoming_us)
            arrives_us = peer->incoming_us;
        fail_end(peer, GW_ECLOSED, "closed by the peer",
                 arrives_us - sim->now_us);
    }
    detach(end);
    release(end);
}

/* ---- frames ---- */

static void arrive(struct gw_sim_event *event)
{
    struct sim_flight *flight = event->owner;
    struct gw_sim_link *to = flight->to;
    void *place = NULL;
    const char *why = "";
    to->incoming = flight->next;
    if (!to->incoming)
        to->incoming_last = &to->incoming;
    to->base.heard_us = to->process->sim->now_us;
    enum gw_status status =
        gw_link_place(&to->base, &flight->frame, &place, &why);
    if (status == GW_OK) {
        if (place && flight->has_bytes)
            memcpy(place, flight->bytes, flight->frame.length);
        if (!place && flight->frame.length > 0)
            place = flight->bytes;
        to->base.handler->frame(&to->base, &flight->frame, place);
    } else {
        break_link(to, status, why);
    }
    free(flight);
}

static void line_free(struct gw_sim_event *event);

static double slower(double rate, double other)
{
    return rate == 0 || (other > 0 && other < rate) ? other : rate;
}

/* Of the slower end, 0: unlimited. */
static double rate_of(const struct gw_sim_link *end)
{
    double rate = slower(end->process->sim->options.bytes_per_us,
                         end->process->bytes_per_us);
    return end->peer ? slower(rate, end->peer->process->bytes_per_us) : rate;
}

/* Puts the next send on the line, which is busy until it has left. */
static void send_next(struct gw_sim_link *end)
{
    struct gw_sim *sim = end->process->sim;
    struct gw_send *send = gw_link_next(&end->base);
    if (!send)
        return;
    double rate = rate_of(end);
    double wire = (double)(GW_FRAME_BYTES + send->frame.length);
    end->leaving = send;
    end->line.run = line_free;
    gw_sim_schedule(sim, &end->line,
                    sim->now_us + (rate > 0 ? (uint64_t)(wire / rate) : 0));
}

static void take_off(struct gw_sim_link *end, const struct gw_send *send)
{
    struct gw_sim *sim = end->process->sim;
    struct gw_sim_link *to = end->peer;
    size_t bytes = send->payload ? send->frame.length : 0;
    struct sim_flight *flight = malloc(sizeof *flight + bytes);
    assert(flight);
    *flight = (struct sim_flight){
        .event = {.process = to->process, .run = arrive, .owner = flight},
        .to = to,
        .frame = send->frame,
        .has_bytes = send->payload != NULL,
    };
    if (bytes)
        memcpy(flight->bytes, send->payload, bytes);
    /* it has stayed as it was until now */
    assert(!send->crc_known || send->payload == NULL ||
           gw_crc32c(0, flight->bytes, bytes) == send->frame.payload_crc);
    uint64_t at_us = sim->now_us + latency(sim);
    if (at_us < to->incoming_us)
        at_us = to->incoming_us;
    to->incoming_us = at_us;
    *to->incoming_last = flight;
    to->incoming_last = &flight->next;
    gw_sim_schedule(sim, &flight->event, at_us);
}

static void line_free(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    struct gw_send *send = end->leaving;
    end->leaving = NULL;
    end->base.sent_us = end->process->sim->now_us;
    if (end->peer)
        take_off(end, send);
    send->done(send, GW_OK);
    if (!end->closed && !end->leaving)
        send_next(end);
}

static void kick(struct gw_link *base)
{
    struct gw_sim_link *end = sim_link_of(base);
    if (!end->leaving)
        send_next(end);
}

/* ---- login ---- */

static struct gw_listener *find_listener(struct gw_sim *sim,
                                         const char *address)
{
    struct gw_listener *one = sim->listeners;
    while (one && strcmp(one->address, address) != 0)
        one = one->next;
    return one;
}

static void tell_up(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    gw_sim_cancel(end->process->sim, &end->deadline);
    if (end->reply.status != GW_OK) {
        end->down_status = end->reply.status;
        snprintf(end->down_why, sizeof end->down_why, "%s",
                 end->reply.reason[0] ? end->reply.reason : "login refused");
        tell_down(event);
        return;
    }
    end->base.session = end->reply.session;
    end->base.up = 1;
    end->base.heard_us = end->process->sim->now_us;
    end->base.handler->up(&end->base, &end->reply);
}

static void send_reply(struct gw_sim_link *opener)
{
    struct gw_sim *sim = opener->process->sim;
    opener->news.run = tell_up;
    uint64_t at_us = sim->now_us + latency(sim);
    opener->incoming_us = at_us; /* frames come behind the reply */
    gw_sim_schedule(sim, &opener->news, at_us);
}

static void nobody_there(struct gw_sim_event *event)
{
    struct gw_sim_link *opener = event->owner;
    event->process = NULL; /* it may be freed before the opener is */
    opener->reply = (struct gw_reply){.status = GW_EUNREACHABLE};
    snprintf(opener->reply.reason, sizeof opener->reply.reason,
             "connection refused");
    send_reply(opener);
}

static void knock(struct gw_sim_event *event)
{
    struct gw_sim_link *opener = event->owner;
    struct gw_listener *listener =
        find_listener(opener->process->sim, opener->base.remote);
    event->process = NULL;
    if (!listener) {
        nobody_there(event);
        return;
    }
    struct gw_sim_link *end = new_end(listener->transport);
    snprintf(end->base.remote, sizeof end->base.remote, "%.60s",
             opener->process->host);
    enum gw_status status = gw_link_judge(&end->base, listener->acceptor,
                                          opener->hello, &opener->reply);
    send_reply(opener);
    if (status != GW_OK) {
        detach(end);
        release(end);
        return;
    }
    end->peer = opener;
    opener->peer = end;
    end->base.up = 1;
    end->base.handler->up(&end->base, NULL);
}

/* The acceptor may have answered by now, too late. */
static void on_deadline(struct gw_sim_event *event)
{
    struct gw_sim_link *opener = event->owner;
    if (opener->peer)
        fail_end(opener->peer, GW_ECLOSED, "closed by the peer",
                 latency(opener->process->sim));
    fail_end(opener, GW_ETIMEOUT, "no answer to the login", 0);
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
    (void)error;
    struct gw_sim_link *end = new_end(transport);
    struct gw_sim *sim = end->process->sim;
    struct gw_listener *listener = find_listener(sim, address);
    end->base.handler = handler;
    end->base.owner = owner;
    end->base.windows = windows;
    snprintf(end->base.remote, sizeof end->base.remote, "%s", address);
    gw_hello_encode(hello, end->hello);
    *link_p = &end->base;
    if (end->process->dead)
        return GW_OK; /* nobody hears it */
    end->knock.process = listener ? listener->process : NULL;
    end->knock.run = knock;
    end->knock.drop = nobody_there;
    gw_sim_schedule(sim, &end->knock, sim->now_us + latency(sim));
    end->deadline.run = on_deadline;
    gw_sim_schedule(sim, &end->deadline, sim->now_us + LOGIN_US);
    return GW_OK;
}

/* ---- listeners and the transport itself ---- */

static enum gw_status listen_sim(struct gw_transport *transport,
                                 const char *address,
                                 struct gw_acceptor *acceptor,
                                 struct gw_listener **listener_p,
                                 struct gw_error *error)
{
    struct gw_sim_process *process = process_of(transport);
    const char *port = strrchr(address, ':');
    char whole[GW_ADDRESS_MAX];
    if (!port)
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is no address: expected HOST:PORT", address);
    if (strcmp(port, ":0") == 0)
        snprintf(whole, sizeof whole, "%s:%u", process->host,
                 50000 + process->sim->ports++);
    else
        snprintf(whole, sizeof whole, "%s%s", process->host, port);
    if (find_listener(process->sim, whole))
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: the port is in use", whole);
    struct gw_listener *listener = calloc(1, sizeof *listener);
    assert(listener);
    listener->sim = process->sim;
    listener->transport = transport;
    listener->process = process;
    listener->acceptor = acceptor;
    snprintf(listener->address, sizeof listener->address, "%s", whole);
    listener->next = process->sim->listeners;
    if (listener->next)
        listener->next->back = &listener->next;
    listener->back = &process->sim->listeners;
    process->sim->listeners = listener;
    *listener_p = listener;
    return GW_OK;
}

static void close_listener(struct gw_listener *listener)
{
    *listener->back = listener->next;
    if (listener->next)
        listener->next->back = listener->back;
    free(listener);
}

static const char *listener_address(const struct gw_listener *listener)
{
    return listener->address;
}

static enum gw_status open_sim(struct gw_loop *loop,
                               const struct gw_transport_config *config,
                               struct gw_transport **transport_p,
                               struct gw_error *error)
{
    (void)config;
    struct gw_sim_transport_state *state = calloc(1, sizeof *state);
    if (!state)
        return gw_fail(error, GW_ENOMEM, "no memory for the sim transport");
    state->base.ops = &gw_sim_transport;
    state->base.loop = loop;
    state->process = gw_sim_process_of(loop);
    *transport_p = &state->base;
    return GW_OK;
}

static void close_sim(struct gw_transport *transport)
{
    struct gw_sim *sim = process_of(transport)->sim;
    struct gw_sim_link *next_link;
    struct gw_listener *next_listener;
    for (struct gw_listener *one = sim->listeners; one; one = next_listener) {
        next_listener = one->next;
        if (one->transport == transport)
            close_listener(one);
    }
    for (struct gw_sim_link *one = sim->links; one; one = next_link) {
        next_link = one->next;
        if (one->base.transport == transport)
            close_link(&one->base);
    }
    free(GW_CONTAINER(transport, struct gw_sim_transport_state, base));
}

/* ---- faults ---- */

int gw_sim_cut(struct gw_sim *sim)
{
    uint64_t n = 0;
    for (struct gw_sim_link *one = sim->links; one; one = one->next)
        n += one->peer && one->base.up && one->peer->base.up;
    if (n == 0)
        return 0;
    uint64_t chosen = gw_sim_draw(sim, n);
    for (struct gw_sim_link *one = sim->links; one; one = one->next) {
        if (!one->peer || !one->base.up || !one->peer->base.up)
            continue;
        if (chosen-- == 0) {
            break_link(one, GW_ECLOSED, "connection reset");
            return 1;
        }
    }
    return 0;
}

void gw_sim_cut_process(struct gw_sim_process *process)
{
    for (struct gw_sim_link *one = process->sim->links; one; one = one->next)
        if (one->process == process && one->peer)
            break_link(one, GW_ECLOSED, "connection reset");
}

static struct gw_sim_link *find_dial(const struct gw_sim_process *process)
{
    struct gw_sim_link *one = process->sim->links;
    while (one && (one->process != process || one->base.up))
        one = one->next;
    return one;
}

void gw_sim_fail_dials(struct gw_sim_process *process)
{
    for (struct gw_sim_link *one = find_dial(process); one;
         one = find_dial(process)) {
        if (one->peer)
            fail_end(one->peer, GW_ECLOSED, "connection reset", 0);
        detach(one);
        one->base.handler->down(&one->base, GW_EUNREACHABLE, "nobody answers");
        release(one);
    }
}

const struct gw_transport_ops gw_sim_transport = {
    .name = "sim",
    .probe = probe,
    .open = open_sim,
    .close = close_sim,
    .listen = listen_sim,
    .close_listener = close_listener,
    .listener_address = listener_address,
    .dial = dial,
    .kick = kick,
    .close_link = close_link,
};
