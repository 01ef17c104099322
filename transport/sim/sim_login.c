/*
 * The sim transport: its table, listeners, dials and the login.
 */
#include "config.h"

#include "transport/sim/sim_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time for a login. */
#define LOGIN_US 5000000

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

/* ---- login: the opener asks for a link, the acceptor answers ---- */

struct request {
    struct gw_sim_note note;
    struct gw_sim_link *opener;
    struct gw_sim_host *from;
    uint8_t hello[GW_HELLO_BYTES];
    char address[GW_ADDRESS_MAX];
};

struct answer {
    struct gw_sim_note note;
    struct gw_sim_link *opener, *acceptor; /* NULL: refused */
    struct gw_sim_host *from;
    struct gw_reply reply;
};

/* The opener is gone or waits no more: the accepted link is reset. */
static void turn_away(struct gw_sim_event *event)
{
    struct answer *answer = event->owner;
    struct gw_sim_link *opener = answer->opener;
    opener->unanswered = 0;
    if (answer->acceptor) {
        gw_sim_link_join(opener, answer->acceptor, answer->from);
        gw_sim_link_reset(opener);
    }
    gw_sim_link_free_if_last(opener);
    free(answer);
}

static void tell_refused(struct gw_sim_link *opener,
                         const struct gw_reply *reply)
{
    gw_sim_link_note_down(opener, reply->status,
                          reply->reason[0] ? reply->reason : "login refused");
    gw_sim_link_tell_down(opener);
}

static void hear_answer(struct gw_sim_event *event)
{
    struct answer *answer = event->owner;
    struct gw_sim_link *opener = answer->opener;
    if (opener->closed ||
        opener->news.scheduled) { /* it does not wait any more */
        turn_away(event);
        return;
    }
    opener->unanswered = 0;
    gw_sim_deadline_free(opener);
    if (!answer->acceptor) {
        tell_refused(opener, &answer->reply);
    } else {
        gw_sim_link_join(opener, answer->acceptor, answer->from);
        opener->base.session = answer->reply.session;
        opener->base.up = 1;
        opener->base.heard_us = gw_sim_time(opener->process->host);
        opener->base.handler->up(&opener->base, &answer->reply);
    }
    free(answer);
}

static void answer_arrives(struct gw_sim_event *event)
{
    const struct answer *answer = event->owner;
    answer->opener->owed = answer->acceptor != NULL;
    if (!answer->opener->closed)
        event->process = answer->opener->process;
    event->run = hear_answer;
    event->drop = turn_away;
    gw_sim_deliver(event);
}

static void answer_is_lost(struct gw_sim_event *event)
{
    const struct answer *answer = event->owner;
    answer->opener->owed = answer->acceptor != NULL;
    turn_away(event);
}

static struct answer *new_answer(const struct request *request)
{
    struct answer *answer = calloc(1, sizeof *answer);
    assert(answer);
    answer->opener = request->opener;
    answer->from = request->note.to;
    answer->note.to = request->from;
    answer->note.event.run = answer_arrives;
    answer->note.event.drop = answer_is_lost;
    answer->note.event.owner = answer;
    return answer;
}

/* Returns the arrival time. */
static uint64_t send_answer(struct answer *answer)
{
    uint64_t at_us = gw_sim_time(answer->from) +
                     gw_sim_latency(answer->from, answer->note.to);
    gw_sim_mail_note(answer->from, &answer->note, at_us);
    return at_us;
}

static void nobody_there(struct gw_sim_event *event)
{
    struct request *request = event->owner;
    struct answer *answer = new_answer(request);
    answer->reply.status = GW_EUNREACHABLE;
    snprintf(answer->reply.reason, sizeof answer->reply.reason,
             "connection refused");
    send_answer(answer);
    free(request);
}

/* One of a process that is dead, if no other one has taken its address. */
static struct gw_listener *find_listener(const struct gw_sim_host *host,
                                         const char *address)
{
    struct gw_listener *dead = NULL;
    for (struct gw_listener *one = host->listeners; one; one = one->next) {
        if (strcmp(one->address, address) != 0)
            continue;
        if (!process_of(one->transport)->dead)
            return one;
        dead = one;
    }
    return dead;
}

static int is_in_use(const struct gw_sim_host *host, const char *address)
{
    const struct gw_listener *one = find_listener(host, address);
    return one && !process_of(one->transport)->dead;
}

static void accept_link(struct gw_sim_link *end, struct answer *answer)
{
    gw_sim_link_join(end, answer->opener, answer->note.to);
    end->owed = 1;
    end->base.up = 1;
    answer->acceptor = end;
    /* everything else that is sent comes behind it */
    end->answered_us = end->arrives_us = send_answer(answer);
    end->base.handler->up(&end->base, NULL);
}

static void hear_request(struct gw_sim_event *event)
{
    struct request *request = event->owner;
    struct gw_listener *listener =
        find_listener(request->note.to, request->address);
    if (!listener) {
        nobody_there(event);
        return;
    }
    struct answer *answer = new_answer(request);
    struct gw_sim_link *end =
        gw_sim_link_new(process_of(listener->transport), listener->transport);
    snprintf(end->base.remote, sizeof end->base.remote, "%.60s",
             answer->note.to->name);
    enum gw_status status = gw_link_judge(&end->base, listener->acceptor,
                                          request->hello, &answer->reply);
    free(request);
    if (status == GW_OK) {
        accept_link(end, answer);
        return;
    }
    send_answer(answer);
    gw_sim_link_detach(end);
    gw_sim_link_release(end);
}

static void request_arrives(struct gw_sim_event *event)
{
    const struct request *request = event->owner;
    const struct gw_listener *listener =
        find_listener(request->note.to, request->address);
    event->process = listener ? process_of(listener->transport) : NULL;
    event->run = hear_request;
    gw_sim_deliver(event);
}

/* ---- an opener ---- */

static void on_deadline(struct gw_sim_event *event)
{
    gw_sim_link_break(event->owner, GW_ETIMEOUT, "no answer to the login");
}

static void set_deadline(struct gw_sim_link *opener)
{
    struct gw_sim_event *deadline = calloc(1, sizeof *deadline);
    assert(deadline);
    deadline->process = opener->process;
    deadline->run = on_deadline;
    deadline->owner = opener;
    opener->deadline = deadline;
    gw_sim_schedule(opener->process->host, deadline,
                    gw_sim_time(opener->process->host) + LOGIN_US);
}

/* The host in the address; or this one, which refuses an unknown address. */
static struct gw_sim_host *host_at(struct gw_sim_host *here,
                                   const char *address)
{
    char name[GW_ADDRESS_MAX];
    snprintf(name, sizeof name, "%s", address);
    char *port = strrchr(name, ':');
    if (port)
        *port = '\0';
    struct gw_sim_host *there = gw_sim_host_find(here->sim, name);
    return there ? there : here;
}

static void send_request(struct gw_sim_link *opener,
                         const char *address,
                         const struct gw_hello *hello)
{
    struct gw_sim_host *here = opener->process->host;
    struct gw_sim_host *there = host_at(here, address);
    struct request *request = calloc(1, sizeof *request);
    assert(request);
    request->note.to = there;
    request->note.event.run = request_arrives;
    request->note.event.drop = nobody_there;
    request->note.event.owner = request;
    request->opener = opener;
    request->from = here;
    gw_hello_encode(hello, request->hello);
    snprintf(request->address, sizeof request->address, "%s", address);
    opener->unanswered = 1;
    gw_sim_mail_note(here, &request->note,
                     gw_sim_time(here) + gw_sim_latency(here, there));
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
    end->base.handler = handler;
    end->base.owner = owner;
    end->base.windows = windows;
    snprintf(end->base.remote, sizeof end->base.remote, "%s", address);
    *link_p = &end->base;
    if (end->process->dead)
        return GW_OK; /* dials of the dead lead nowhere */
    set_deadline(end);
    send_request(end, address, hello);
    return GW_OK;
}

/* ---- listeners and the transport itself ---- */

static enum gw_status listen_sim(struct gw_transport *transport,
                                 const char *address,
                                 struct gw_acceptor *acceptor,
                                 struct gw_listener **listener_p,
                                 struct gw_error *error)
{
    struct gw_sim_host *host = process_of(transport)->host;
    const char *port = strrchr(address, ':');
    char whole[GW_ADDRESS_MAX];
    if (!port)
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is no address: expected HOST:PORT", address);
    if (strcmp(port, ":0") == 0)
        snprintf(whole, sizeof whole, "%s:%u", host->name,
                 50000 + host->ports++);
    else
        snprintf(whole, sizeof whole, "%s%s", host->name, port);
    if (is_in_use(host, whole))
        return gw_fail(error, GW_EADDRINUSE,
                       "cannot listen on %s: the port is in use", whole);
    struct gw_listener *listener = calloc(1, sizeof *listener);
    assert(listener);
    listener->transport = transport;
    listener->acceptor = acceptor;
    snprintf(listener->address, sizeof listener->address, "%s", whole);
    gw_listener_enter(&host->listeners, listener);
    *listener_p = listener;
    return GW_OK;
}

static void close_listener(struct gw_listener *listener)
{
    gw_listener_leave(listener);
    free(listener);
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
    struct gw_sim_link *next_link;
    struct gw_listener *next_listener;
    for (struct gw_listener *one = process_of(transport)->host->listeners; one;
         one = next_listener) {
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
    .reaches = gw_transport_reaches_all,
    .open = open_sim,
    .close = close_sim,
    .listen = listen_sim,
    .close_listener = close_listener,
    .listener_address = gw_listener_address,
    .dial = dial,
    .kick = gw_sim_link_kick,
    .pulse = gw_transport_pulses_nothing,
    .close_link = gw_sim_link_close,
    .register_memory = gw_transport_registers_nothing,
    .deregister_memory = gw_transport_deregisters_nothing,
    .export = gw_sim_link_export,
    .import = gw_sim_link_import,
    .takes = gw_transport_takes_host,
};
