/* Frames through virtual time: leaving, and arriving at the window. */
#include "config.h"

#include "transport/sim/sim_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct gw_sim_port *port_of(const struct gw_sim_link *end,
                                   enum gw_sim_direction way)
{
    return &end->process->host->port[way];
}

/* Handles the first incoming frame, as an event of its own. */
static void arrive(struct gw_sim_link *to)
{
    struct gw_sim_flight *flight = to->incoming;
    struct gw_sim_host *host = to->process->host;
    void *place = NULL;
    const char *why = "";
    to->incoming = flight->next;
    if (!to->incoming)
        to->incoming_last = &to->incoming;
    if (!to->incoming && to->tells_end)
        gw_sim_schedule(host, &to->news, 0);
    to->base.heard_us = gw_sim_time(host);
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
    gw_sim_flight_free(host->region, flight);
}

/* ---- out ---- */

static double slower(double rate, double other)
{
    return rate == 0 || (other > 0 && other < rate) ? other : rate;
}

/* The rate of the slower end, 0: unlimited. */
static double rate_of(const struct gw_sim_link *end)
{
    const struct gw_sim *sim = end->process->host->sim;
    double rate = sim->options.bytes_per_us;
    if (!sim->has_slow)
        return rate;
    /* both processes exist while this end has a peer, and rates change only
       while no region runs */
    rate = slower(rate, end->process->bytes_per_us);
    return end->peer ? slower(rate, end->peer->process->bytes_per_us) : rate;
}

static int is_abroad(const struct gw_sim_link *end)
{
    return end->peer && end->abroad;
}

static double wire_bytes(const struct gw_frame *frame)
{
    return (double)(GW_FRAME_BYTES + frame->length);
}

/* Takes the next send, which keeps the line busy. Returns its bytes. */
static double begin_send(struct gw_sim_link *end, double rate)
{
    end->leaving = gw_link_next(&end->base);
    double wire = end->leaving ? wire_bytes(&end->leaving->frame) : 0;
    end->leaving_us = rate > 0 ? wire / rate : 0;
    end->left_us = gw_sim_time(end->process->host) + (uint64_t)end->leaving_us;
    return wire;
}

/* Begins the next send, or waits in line for the host's interface. */
static void send_next(struct gw_sim_link *end)
{
    if (is_abroad(end) && end->process->host->options.bytes_per_us > 0) {
        end->asked = 1;
        gw_sim_turn_ask(port_of(end, GW_SIM_OUT), &end->out);
        return;
    }
    begin_send(end, rate_of(end));
    if (end->leaving)
        gw_sim_schedule(end->process->host, &end->line, end->left_us);
}

/* Non-zero if frames enter the peer at once. */
static int is_at_hand(const struct gw_sim_link *peer,
                      const struct gw_sim_link *end)
{
    return peer && end->there->region == end->process->host->region;
}

/* Prefetches ends first, then the memory they point to, and so on. */
static void prefetch_turn_out(const struct gw_sim_turn *turn, int times)
{
    const struct gw_sim_link *end = GW_CONTAINER(turn, struct gw_sim_link, out);
    const struct gw_heap_node *next = end->base.queue.root;
    if (times == 3) {
        gw_sim_link_prefetch(end);
    } else if (times == 2) {
        if (next)
            gw_sim_prefetch(GW_CONTAINER(next, struct gw_send, node),
                            sizeof(struct gw_send));
        if (end->leaving)
            gw_sim_prefetch(end->leaving, sizeof *end->leaving);
        if (is_at_hand(end->peer, end))
            gw_sim_link_prefetch(end->peer);
    } else if (is_at_hand(end->peer, end) && end->peer->incoming) {
        gw_sim_prefetch(end->peer->incoming_last, 1);
    }
}

static double take_turn_out(struct gw_sim_turn *turn, double *from_us)
{
    struct gw_sim_link *end = GW_CONTAINER(turn, struct gw_sim_link, out);
    (void)from_us;
    end->asked = 0;
    return begin_send(
        end, slower(rate_of(end), end->process->host->options.bytes_per_us));
}

static void has_left(struct gw_sim_link *end);

/* The interface has passed the frame; the link itself may be slower. */
static void turn_out_done(struct gw_sim_turn *turn)
{
    struct gw_sim_link *end = GW_CONTAINER(turn, struct gw_sim_link, out);
    if (!end->leaving)
        return;
    struct gw_sim_process *process = end->process;
    if (end->left_us > gw_sim_time(process->host)) {
        gw_sim_schedule(process->host, &end->line, end->left_us);
    } else if (process->paused || process->dead) {
        end->line.place = gw_sim_place(process->host);
        gw_sim_deliver(&end->line);
    } else {
        has_left(end);
        gw_sim_caller_wake_sent(process);
    }
}

/* ---- in ---- */

/* Handles one frame that came during a pause; links take turns. */
static void take_kept(struct gw_sim_event *event)
{
    struct gw_sim_link *to = event->owner;
    if (--to->kept > 0)
        gw_sim_schedule(to->process->host, event, 0);
    arrive(to);
}

static void keep(struct gw_sim_link *to)
{
    if (to->kept++ > 0)
        return;
    to->takes.place = gw_sim_place(to->process->host);
    gw_sim_deliver(&to->takes);
}

/* The first frame outside is in, and the next one becomes the first. */
static void come_in(struct gw_sim_link *to)
{
    struct gw_sim_process *process = to->process;
    struct gw_sim_flight *next = to->outside->next;
    to->outside = next;
    if (next && next->waits && next->at_us <= gw_sim_time(process->host))
        gw_sim_turn_ask(port_of(to, GW_SIM_IN), &to->in);
    else if (next)
        gw_sim_link_schedule_first(to);
    if (process->paused || process->dead) {
        keep(to);
        return;
    }
    arrive(to);
    gw_sim_caller_wake(process);
}

/* The first frame has reached the host, and may have to wait in line. */
static void reach(struct gw_sim_event *event)
{
    struct gw_sim_link *to = event->owner;
    if (!to->outside->waits ||
        gw_sim_turn_pass(port_of(to, GW_SIM_IN), &to->in))
        come_in(to);
}

static void prefetch_turn_in(const struct gw_sim_turn *turn, int times)
{
    const struct gw_sim_link *to = GW_CONTAINER(turn, struct gw_sim_link, in);
    if (times == 3)
        gw_sim_link_prefetch(to);
    if (times == 1 && to->outside)
        gw_sim_prefetch(to->outside->next, 1);
    if (times != 2)
        return;
    gw_sim_prefetch(to->outside, sizeof *to->outside);
    /* and the peer, whose fields for each frame lie behind its windows */
    gw_sim_prefetch(to->base.windows, sizeof *to->base.windows + GW_CACHE_LINE);
    gw_sim_prefetch(to->base.owner, GW_CACHE_LINE);
    gw_sim_prefetch(to->process, sizeof *to->process);
}

static void prefetch_first(const struct gw_sim_event *event, int times)
{
    const struct gw_sim_link *to = event->owner;
    if (times == 4)
        gw_sim_link_prefetch(to);
    if (times == 2)
        gw_sim_prefetch(to->outside, sizeof *to->outside);
}

static double take_turn_in(struct gw_sim_turn *turn, double *from_us)
{
    struct gw_sim_link *to = GW_CONTAINER(turn, struct gw_sim_link, in);
    const struct gw_sim_flight *flight = to->outside;
    /* its first byte was there earlier */
    *from_us = (double)flight->at_us - (double)flight->sent_us;
    return wire_bytes(&flight->frame);
}

static void turn_in_done(struct gw_sim_turn *turn)
{
    come_in(GW_CONTAINER(turn, struct gw_sim_link, in));
}

/* ---- from one to the other ---- */

static void take_off(struct gw_sim_link *end, const struct gw_send *send)
{
    struct gw_sim_host *host = end->process->host;
    size_t bytes = send->payload ? send->frame.length : 0;
    struct gw_sim_flight *flight = gw_sim_flight_new(host->region, bytes);
    uint64_t at_us = gw_sim_time(host) + gw_sim_latency(host, end->there);
    if (at_us < end->arrives_us)
        at_us = end->arrives_us;
    end->arrives_us = at_us;
    *flight = (struct gw_sim_flight){
        .at_us = at_us,
        .place = gw_sim_place(host),
        .frame = send->frame,
        .sent_us = (float)end->leaving_us,
        .waits = is_abroad(end) && end->there->options.bytes_per_us > 0,
        .has_bytes = bytes > 0,
    };
    if (bytes)
        memcpy(flight->bytes, send->payload, bytes);
    /* the payload has not changed until now */
    assert(!send->crc_known || !bytes ||
           gw_crc32c(0, flight->bytes, bytes) == send->frame.payload_crc);
    gw_sim_mail_flight(host->region, end->peer, end->there, flight);
}

static void has_left(struct gw_sim_link *end)
{
    struct gw_send *send = end->leaving;
    end->leaving = NULL;
    end->base.sent_us = gw_sim_time(end->process->host);
    if (end->peer)
        take_off(end, send);
    send->done(send, GW_OK);
    gw_sim_link_kick(&end->base);
}

static void line_free(struct gw_sim_event *event)
{
    has_left(event->owner);
}

void gw_sim_link_kick(struct gw_link *base)
{
    struct gw_sim_link *end = gw_sim_link_of(base);
    if (!end->closed && !end->leaving && !end->asked &&
        gw_heap_first(&base->queue))
        send_next(end);
}

static void tell_news(struct gw_sim_event *event)
{
    gw_sim_link_tell_down(event->owner);
}

void gw_sim_link_prepare(struct gw_sim_link *end)
{
    end->incoming_last = &end->incoming;
    end->line.process = end->takes.process = end->news.process = end->process;
    end->line.owner = end->takes.owner = end->news.owner = end;
    /* of no process: frames approach also during a pause */
    end->comes.owner = end;
    end->comes.run = reach;
    end->comes.prefetch = prefetch_first;
    end->takes.run = take_kept;
    end->line.run = line_free;
    end->news.run = tell_news;
    end->out.begin = take_turn_out;
    end->out.prefetch = prefetch_turn_out;
    end->in.prefetch = prefetch_turn_in;
    end->out.done = turn_out_done;
    end->in.begin = take_turn_in;
    end->in.done = turn_in_done;
}
