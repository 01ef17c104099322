/*
 * The sim transport: frames through virtual time. A link has two ends; each
 * direction is a line with a rate, a latency drawn per frame, and its own
 * order. Payloads are copied when they leave (as a kernel would) and again
 * into the receiver's window; a payload of NULL is a length and nothing more.
 */
#include "config.h"

#include "transport/sim_link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making and unmaking ends ---- */

struct gw_sim_link *gw_sim_link_new(struct gw_sim_process *process,
                                    struct gw_transport *transport)
{
    struct gw_sim_link *end = aligned_alloc(GW_CACHE_LINE, sizeof *end);
    assert(end);
    memset(end, 0, sizeof *end);
    end->base.ops = &gw_sim_transport;
    end->base.transport = transport;
    end->base.heard_us = end->base.sent_us = process->sim->now_us;
    end->process = process;
    gw_sim_link_prepare(end);
    end->next = process->sim->links;
    if (end->next)
        end->next->back = &end->next;
    end->back = &process->sim->links;
    process->sim->links = end;
    end->sibling = process->links;
    if (end->sibling)
        end->sibling->sibling_back = &end->sibling;
    end->sibling_back = &process->links;
    process->links = end;
    return end;
}

void gw_sim_link_join(struct gw_sim_link *acceptor, struct gw_sim_link *opener)
{
    acceptor->peer = opener;
    opener->peer = acceptor;
    acceptor->abroad = opener->abroad =
        acceptor->process->host != opener->process->host;
}

/* Takes the end out of everything that could still reach it. */
void gw_sim_link_detach(struct gw_sim_link *end)
{
    struct gw_sim *sim = end->process->sim;
    struct gw_send *leaving = end->leaving;
    end->closed = 1;
    end->peer = NULL;
    *end->back = end->next;
    if (end->next)
        end->next->back = end->back;
    *end->sibling_back = end->sibling;
    if (end->sibling)
        end->sibling->sibling_back = end->sibling_back;
    gw_sim_cancel(sim, &end->line);
    gw_sim_cancel(sim, &end->news);
    gw_sim_dial_free(end);
    gw_sim_link_forget(end);
    gw_sim_turn_leave(&end->process->host->port[GW_SIM_OUT], &end->out);
    end->base.up = 0;
    end->leaving = NULL;
    if (leaving)
        leaving->done(leaving, GW_ECLOSED);
    gw_link_drop_queue(&end->base);
}

static void free_end(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    free(end->down_why);
    free(end);
}

/* Frees a detached end once the callbacks that may hold it have returned. */
void gw_sim_link_release(struct gw_sim_link *end)
{
    end->news.process = NULL;
    end->news.run = end->news.drop = free_end;
    gw_sim_schedule(end->process->sim, &end->news, end->process->sim->now_us);
}

void gw_sim_link_note_down(struct gw_sim_link *end,
                           enum gw_status status,
                           const char *why)
{
    free(end->down_why);
    end->down_status = status;
    end->down_why = strdup(why);
    assert(end->down_why);
}

void gw_sim_link_tell_down(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    end->tells_end = end->ends && end->incoming;
    if (end->tells_end)
        return; /* the host takes longer for them */
    gw_sim_link_detach(end);
    end->base.handler->down(&end->base, end->down_status, end->down_why);
    gw_sim_link_release(end);
}

/* The end will learn of its death when the news has travelled. */
void gw_sim_link_fail(struct gw_sim_link *end,
                      enum gw_status status,
                      const char *why,
                      uint64_t delay_us)
{
    struct gw_sim *sim = end->process->sim;
    end->peer = NULL;
    gw_sim_cancel(sim, &end->news);
    if (end->dial) /* nobody is to answer it any more */
        gw_sim_cancel(sim, &end->dial->knock);
    gw_sim_link_note_down(end, status, why);
    end->news.run = gw_sim_link_tell_down;
    gw_sim_schedule(sim, &end->news, sim->now_us + delay_us);
}

/* Half of a put that was on its way may lie in the window already. */
static void tear(struct gw_sim_link *to)
{
    struct gw_sim_flight *flight = to->incoming;
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
void gw_sim_link_break(struct gw_sim_link *end,
                       enum gw_status status,
                       const char *why)
{
    struct gw_sim_link *peer = end->peer;
    tear(end);
    gw_sim_link_forget(end);
    if (peer) {
        tear(peer);
        gw_sim_link_forget(peer);
        gw_sim_link_fail(peer, GW_ECLOSED, "connection reset",
                         gw_sim_latency(end->process, peer->process));
    }
    gw_sim_link_fail(end, status, why, 0);
}

/* What has left before an orderly close still arrives. */
void gw_sim_link_close(struct gw_link *base)
{
    struct gw_sim_link *end = gw_sim_link_of(base), *peer = end->peer;
    if (end->closed)
        return;
    if (peer) {
        struct gw_sim *sim = end->process->sim;
        peer->ends = 1;
        uint64_t arrives_us =
            sim->now_us + gw_sim_latency(end->process, peer->process);
        if (arrives_us < peer->incoming_us)
            arrives_us = peer->incoming_us;
        gw_sim_link_fail(peer, GW_ECLOSED, "closed by the peer",
                         arrives_us - sim->now_us);
    }
    gw_sim_link_detach(end);
    gw_sim_link_release(end);
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
            gw_sim_link_break(one, GW_ECLOSED, "connection reset");
            return 1;
        }
    }
    return 0;
}

void gw_sim_cut_process(struct gw_sim_process *process)
{
    for (struct gw_sim_link *one = process->links; one; one = one->sibling)
        if (one->peer)
            gw_sim_link_break(one, GW_ECLOSED, "connection reset");
}

static struct gw_sim_link *find_dial(const struct gw_sim_process *process)
{
    struct gw_sim_link *one = process->links;
    while (one && one->base.up)
        one = one->sibling;
    return one;
}

void gw_sim_fail_dials(struct gw_sim_process *process)
{
    for (struct gw_sim_link *one = find_dial(process); one;
         one = find_dial(process)) {
        if (one->peer)
            gw_sim_link_fail(one->peer, GW_ECLOSED, "connection reset", 0);
        gw_sim_link_detach(one);
        one->base.handler->down(&one->base, GW_EUNREACHABLE, "nobody answers");
        gw_sim_link_release(one);
    }
}
