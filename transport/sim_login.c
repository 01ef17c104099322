/*
 * How links of the sim transport come up: listeners, dials, the login; and the
 * transport's table.
 */
#include "config.h"

#include "transport/sim_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time for a login. */
#define LOGIN_US 5000000

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
    const struct gw_reply reply = end->dial->reply;
    gw_sim_dial_free(end);
    if (reply.status != GW_OK) {
        gw_sim_link_note_down(end, reply.status,
                              reply.reason[0] ? reply.reason : "login refused");
        gw_sim_link_tell_down(event);
        return;
    }
    end->base.session = reply.session;
    end->base.up = 1;
    end->base.heard_us = end->process->sim->now_us;
    end->base.handler->up(&end->base, &reply);
}

static void send_reply(struct gw_sim_link *opener)
{
    struct gw_sim *sim = opener->process->sim;
    opener->news.run = tell_up;
    uint64_t at_us = sim->now_us + gw_sim_latency(opener->process, NULL);
    opener->incoming_us = at_us; /* frames come behind the reply */
    gw_sim_schedule(sim, &opener->news, at_us);
}

static void nobody_there(struct gw_sim_event *event)
{
    struct gw_sim_link *opener = event->owner;
    struct gw_reply *reply = &opener->dial->reply;
    event->process = NULL; /* it may be freed before the opener is */
    *reply = (struct gw_reply){.status = GW_EUNREACHABLE};
    snprintf(reply->reason, sizeof reply->reason, "connection refused");
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
    struct gw_sim_link *end =
        gw_sim_link_new(listener->process, listener->transport);
    snprintf(end->base.remote, sizeof end->base.remote, "%.60s",
             opener->process->host->name);
    enum gw_status status =
        gw_link_judge(&end->base, listener->acceptor, opener->dial->hello,
                      &opener->dial->reply);
    send_reply(opener);
    if (status != GW_OK) {
        gw_sim_link_detach(end);
        gw_sim_link_release(end);
        return;
    }
    gw_sim_link_join(end, opener);
    end->base.up = 1;
    end->base.handler->up(&end->base, NULL);
}

/* The acceptor may have answered by now, too late. */
static void on_deadline(struct gw_sim_event *event)
{
    struct gw_sim_link *opener = event->owner;
    if (opener->peer)
        gw_sim_link_fail(
            opener->peer, GW_ECLOSED, "closed by the peer",
            gw_sim_latency(opener->process, opener->peer->process));
    gw_sim_link_fail(opener, GW_ETIMEOUT, "no answer to the login", 0);
}

void gw_sim_dial_free(struct gw_sim_link *opener)
{
    struct gw_sim_dial *dial = opener->dial;
    if (!dial)
        return;
    gw_sim_cancel(opener->process->sim, &dial->knock);
    gw_sim_cancel(opener->process->sim, &dial->deadline);
    free(dial);
    opener->dial = NULL;
}

static struct gw_sim_dial *new_dial(struct gw_sim_link *opener,
                                    const struct gw_hello *hello)
{
    struct gw_sim_dial *dial = calloc(1, sizeof *dial);
    assert(dial);
    gw_hello_encode(hello, dial->hello);
    dial->knock.run = knock;
    dial->knock.drop = nobody_there;
    dial->deadline.run = on_deadline;
    dial->deadline.process = opener->process;
    dial->knock.owner = dial->deadline.owner = opener;
    return dial;
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
    struct gw_sim_link *end = gw_sim_link_new(process_of(transport), transport);
    struct gw_sim *sim = end->process->sim;
    struct gw_listener *listener = find_listener(sim, address);
    end->base.handler = handler;
    end->base.owner = owner;
    end->base.windows = windows;
    snprintf(end->base.remote, sizeof end->base.remote, "%s", address);
    end->dial = new_dial(end, hello);
    *link_p = &end->base;
    if (end->process->dead)
        return GW_OK; /* nobody hears it */
    end->dial->knock.process = listener ? listener->process : NULL;
    gw_sim_schedule(sim, &end->dial->knock,
                    sim->now_us + gw_sim_latency(end->process, NULL));
    gw_sim_schedule(sim, &end->dial->deadline, sim->now_us + LOGIN_US);
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
        snprintf(whole, sizeof whole, "%s:%u", process->host->name,
                 50000 + process->sim->ports++);
    else
        snprintf(whole, sizeof whole, "%s%s", process->host->name, port);
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
    for (struct gw_sim_link *one = process_of(transport)->links; one;
         one = next_link) {
        next_link = one->sibling;
        if (one->base.transport == transport)
            gw_sim_link_close(&one->base);
    }
    free(GW_CONTAINER(transport, struct gw_sim_transport_state, base));
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
    .kick = gw_sim_link_kick,
    .close_link = gw_sim_link_close,
};
