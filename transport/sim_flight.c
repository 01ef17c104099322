/* Frames through virtual time: on the line, on their way, in the window. */
#include "config.h"

#include "transport/sim_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

uint64_t gw_sim_latency(const struct gw_sim_process *from,
                        const struct gw_sim_process *to)
{
    struct gw_sim *sim = from->sim;
    uint64_t us =
        sim->options.latency_us + gw_sim_draw(sim, sim->options.jitter_us + 1);
    if (to && to->host == from->host)
        return us;
    return us + from->host->options.latency_us +
           (to ? to->host->options.latency_us : 0);
}

static void arrive(struct gw_sim_event *event)
{
    struct gw_sim_flight *flight = event->owner;
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
        gw_sim_link_break(to, status, why);
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

static int is_abroad(const struct gw_sim_link *end)
{
    return end->peer && end->peer->process->host != end->process->host;
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
    double now = (double)sim->now_us;
    double free_us = now;
    if (is_abroad(end)) {
        struct gw_sim_host *host = end->process->host;
        free_us = gw_sim_host_pass(host, GW_SIM_OUT, now, wire);
        rate = slower(rate, host->options.bytes_per_us);
    }
    end->leaving_us = rate > 0 ? wire / rate : 0;
    if (free_us < now + end->leaving_us)
        free_us = now + end->leaving_us;
    end->leaving = send;
    end->line.run = line_free;
    gw_sim_schedule(sim, &end->line, (uint64_t)free_us);
}

/* It is at the host, whose interface may be busy with what came before. */
static void reach(struct gw_sim_event *event)
{
    struct gw_sim_flight *flight = event->owner;
    struct gw_sim_link *to = flight->to;
    struct gw_sim *sim = to->process->sim;
    double wire = (double)(GW_FRAME_BYTES + flight->frame.length);
    double now = (double)sim->now_us; /* its first byte was there earlier */
    double in_us = gw_sim_host_pass(to->process->host, GW_SIM_IN,
                                    now - flight->sent_us, wire);
    flight->event.process = to->process;
    flight->event.run = arrive;
    gw_sim_schedule(sim, &flight->event, (uint64_t)in_us);
}

static void take_off(struct gw_sim_link *end, const struct gw_send *send)
{
    struct gw_sim *sim = end->process->sim;
    struct gw_sim_link *to = end->peer;
    size_t bytes = send->payload ? send->frame.length : 0;
    struct gw_sim_flight *flight = malloc(sizeof *flight + bytes);
    assert(flight);
    *flight = (struct gw_sim_flight){
        .event = {.process = to->process, .run = arrive, .owner = flight},
        .to = to,
        .frame = send->frame,
        .sent_us = end->leaving_us,
        .has_bytes = send->payload != NULL,
    };
    if (is_abroad(end) && to->process->host->options.bytes_per_us > 0) {
        flight->event.process = NULL; /* also while the process stands still */
        flight->event.run = reach;
    }
    if (bytes)
        memcpy(flight->bytes, send->payload, bytes);
    /* it has stayed as it was until now */
    assert(!send->crc_known || send->payload == NULL ||
           gw_crc32c(0, flight->bytes, bytes) == send->frame.payload_crc);
    uint64_t at_us = sim->now_us + gw_sim_latency(end->process, to->process);
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

void gw_sim_link_kick(struct gw_link *base)
{
    struct gw_sim_link *end = gw_sim_link_of(base);
    if (!end->leaving)
        send_next(end);
}

void gw_sim_link_forget(struct gw_sim_link *end)
{
    while (end->incoming) {
        struct gw_sim_flight *flight = end->incoming;
        end->incoming = flight->next;
        gw_sim_cancel(end->process->sim, &flight->event);
        free(flight);
    }
    end->incoming_last = &end->incoming;
}
