/*
 * Ends of links of the sim transport. A link has two ends; each direction is a
 * line with a rate, a latency drawn per frame, and its own order. Payloads are
 * copied when they leave (as a kernel would) and again into the receiver's
 * window; a payload of NULL is a length and nothing more.
 */
#include "config.h"

#include "transport/sim/sim_link.h"

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
    end->base.heard_us = end->base.sent_us = gw_sim_time(process->host);
    end->process = process;
    process->users++;
    gw_sim_link_prepare(end);
    end->sibling = process->links;
    if (end->sibling)
        end->sibling->sibling_back = &end->sibling;
    end->sibling_back = &process->links;
    process->links = end;
    return end;
}

void gw_sim_link_join(struct gw_sim_link *end,
                      struct gw_sim_link *peer,
                      struct gw_sim_host *there)
{
    end->peer = peer;
    end->there = there;
    end->abroad = there != end->process->host;
}

void gw_sim_deadline_free(struct gw_sim_link *opener)
{
    if (!opener->deadline)
        return;
    gw_sim_cancel(opener->process->host, opener->deadline);
    free(opener->deadline);
    opener->deadline = NULL;
}

static void say_last(struct gw_sim_link *end, int is_reset);

void gw_sim_link_detach(struct gw_sim_link *end)
{
    struct gw_sim_host *host = end->process->host;
    struct gw_send *leaving = end->leaving;
    say_last(end, 0);
    end->closed = 1;
    *end->sibling_back = end->sibling;
    if (end->sibling)
        end->sibling->sibling_back = end->sibling_back;
    gw_sim_cancel(host, &end->line);
    gw_sim_cancel(host, &end->news);
    gw_sim_deadline_free(end);
    gw_sim_link_forget(end);
    gw_sim_turn_leave(&host->port[GW_SIM_OUT], &end->out);
    end->base.up = 0;
    end->leaving = NULL;
    if (leaving)
        leaving->done(leaving, GW_ECLOSED);
    gw_link_drop_queue(&end->base);
}

void gw_sim_link_free_if_last(struct gw_sim_link *end)
{
    if (!end->released || end->unanswered || end->owed)
        return;
    gw_sim_process_release(end->process);
    free(end->down_why);
    free(end);
}

static void is_released(struct gw_sim_event *event)
{
    struct gw_sim_link *end = event->owner;
    end->released = 1;
    gw_sim_link_free_if_last(end);
}

void gw_sim_link_release(struct gw_sim_link *end)
{
    end->news.process = NULL;
    end->news.run = end->news.drop = is_released;
    gw_sim_schedule(end->process->host, &end->news, 0);
}

/* ---- its end ---- */

void gw_sim_link_note_down(struct gw_sim_link *end,
                           enum gw_status status,
                           const char *why)
{
    free(end->down_why);
    end->down_status = status;
    end->down_why = strdup(why);
    assert(end->down_why);
}

void gw_sim_link_tell_down(struct gw_sim_link *end)
{
    end->tells_end = end->ends && end->incoming;
    if (end->tells_end)
        return; /* frames still wait in line at the host */
    gw_sim_link_detach(end);
    end->base.handler->down(&end->base, end->down_status, end->down_why);
    gw_sim_link_release(end);
}

void gw_sim_link_fail(struct gw_sim_link *end,
                      enum gw_status status,
                      const char *why)
{
    gw_sim_cancel(end->process->host, &end->news);
    gw_sim_link_note_down(end, status, why);
    gw_sim_schedule(end->process->host, &end->news, 0);
}

/* Writes a part of the first incoming put into its window, as a break may. All
   frames on their way must be known: not while a region runs, unless the peer
   has said its last word. */
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
           gw_sim_host_draw(to->process->host, flight->frame.length));
}

static void lose_incoming(struct gw_sim_link *to)
{
    gw_sim_link_forget(to);
    to->deaf = 1;
}

void gw_sim_link_break(struct gw_sim_link *end,
                       enum gw_status status,
                       const char *why)
{
    lose_incoming(end);
    gw_sim_link_reset(end);
    gw_sim_link_fail(end, status, why);
}

void gw_sim_link_close(struct gw_link *base)
{
    struct gw_sim_link *end = gw_sim_link_of(base);
    if (end->closed)
        return;
    gw_sim_link_detach(end);
    gw_sim_link_release(end);
}

/* ---- last words ---- */

struct last_word {
    struct gw_sim_note note;
    struct gw_sim_link *to;
    int is_reset; /* frames on their way are lost; else it comes behind them */
};

static void drop_last(struct gw_sim_event *event)
{
    struct last_word *word = event->owner;
    word->to->owed = 0;
    gw_sim_link_free_if_last(word->to);
    free(word);
}

static void hear_last(struct gw_sim_event *event)
{
    const struct last_word *word = event->owner;
    struct gw_sim_link *to = word->to;
    if (!to->closed && !to->news.scheduled) { /* it has not been told yet */
        to->ends = !word->is_reset;
        gw_sim_link_note_down(to, GW_ECLOSED,
                              to->ends ? "closed by the peer"
                                       : "connection reset");
        gw_sim_link_tell_down(to);
    }
    drop_last(event);
}

static void last_comes(struct gw_sim_event *event)
{
    const struct last_word *word = event->owner;
    if (!word->to->closed) {
        event->process = word->to->process;
        if (word->is_reset) {
            tear(word->to);
            lose_incoming(word->to);
        }
    }
    event->run = hear_last;
    event->drop = drop_last;
    gw_sim_deliver(event);
}

static void say_last(struct gw_sim_link *end, int is_reset)
{
    struct gw_sim_host *host = end->process->host;
    if (!end->peer)
        return;
    uint64_t at_us = gw_sim_time(host) + gw_sim_latency(host, end->there);
    struct last_word *word = calloc(1, sizeof *word);
    assert(word);
    word->note.to = end->there;
    word->note.event.run = last_comes;
    word->note.event.drop = drop_last;
    word->note.event.owner = word;
    word->to = end->peer;
    word->is_reset = is_reset;
    end->peer = NULL;
    if (at_us < end->answered_us)
        at_us = end->answered_us;
    if (!is_reset && at_us < end->arrives_us)
        at_us = end->arrives_us;
    gw_sim_mail_note(host, &word->note, at_us);
}

void gw_sim_link_reset(struct gw_sim_link *end)
{
    say_last(end, 1);
}

/* ---- faults ---- */

static int is_up(const struct gw_sim_link *end)
{
    return end->peer && end->base.up && end->peer->base.up;
}

static uint64_t count_up(const struct gw_sim *sim)
{
    uint64_t n = 0;
    for (const struct gw_sim_process *process = sim->processes; process;
         process = process->next)
        for (struct gw_sim_link *one = process->links; one; one = one->sibling)
            n += (uint64_t)is_up(one);
    return n;
}

static struct gw_sim_link *find_up(const struct gw_sim *sim, uint64_t skip)
{
    for (const struct gw_sim_process *process = sim->processes; process;
         process = process->next)
        for (struct gw_sim_link *one = process->links; one; one = one->sibling)
            if (is_up(one) && skip-- == 0)
                return one;
    return NULL;
}

static void cut(struct gw_sim_link *end)
{
    tear(end);
    gw_sim_link_break(end, GW_ECLOSED, "connection reset");
}

int gw_sim_cut(struct gw_sim *sim)
{
    assert(!sim->divided);
    uint64_t n = count_up(sim);
    if (n == 0)
        return 0;
    cut(find_up(sim, gw_sim_draw(sim, n)));
    return 1;
}

void gw_sim_cut_process(struct gw_sim_process *process)
{
    for (struct gw_sim_link *one = process->links; one; one = one->sibling)
        if (one->peer)
            cut(one);
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
        gw_sim_link_detach(one);
        one->base.handler->down(&one->base, GW_EUNREACHABLE, "nobody answers");
        gw_sim_link_release(one);
    }
}

/* ---- windows read in place ---- */

enum gw_status gw_sim_link_export(struct gw_link *base, uint32_t id)
{
    struct gw_sim_link *end = gw_sim_link_of(base);
    if (id == GW_WINDOW_NONE ||
        base->windows->window[id % GW_WINDOWS_MAX].id != id)
        return GW_EINVAL;
    if (end->abroad)
        return GW_EUNSUPPORTED;
    end->exported[id % GW_WINDOWS_MAX] = id;
    return GW_OK;
}

const void *gw_sim_link_import(struct gw_link *base, uint32_t id, size_t bytes)
{
    const struct gw_sim_link *end = gw_sim_link_of(base);
    if (!end->peer || end->abroad || end->peer->closed ||
        id == GW_WINDOW_NONE || end->peer->exported[id % GW_WINDOWS_MAX] != id)
        return NULL;
    const struct gw_window *window =
        &end->peer->base.windows->window[id % GW_WINDOWS_MAX];
    return window->id == id && window->bytes >= bytes ? window->base : NULL;
}
