/*
 * Latency and bandwidth to a host with gradweir doctor --serve, over each
 * transport of both hosts: first over tcp, where the other side tells its
 * addresses for the others. Every wait has a limit.
 */
#include "config.h"

#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOGIN_US   6000000
#define MEASURE_US 1000000 /* for each of three */
#define LIMIT_US   10000000
#define PINGS      1000

/* Further questions, asked over tcp. */
struct inquiry {
    const struct gw_doctor *doctor;
    const char *peer;
    struct gw_doctor_seen *seen;
    char *where; /* GW_DOCTOR_WHERE_MAX; the peer's list of transports */
};

struct probe {
    struct gw_loop *loop;
    const struct gw_transport_ops *ops;
    struct gw_doctor_end end;
    struct gw_timer limit, over;
    int done, down, late;
    enum gw_status status; /* reason why it went down */
    char why[512];
    int stopping; /* nothing new is begun */
    int back;     /* puts come from there */
    uint32_t pings, most, flying, posted, arrived;
    uint64_t asked_us, arrived_us;
    uint64_t ping_us[PINGS];
    uint64_t best_us;              /* shortest round trip; 0: none yet */
    const struct inquiry *inquiry; /* NULL: only measure */
};

/* Measured figures. */
struct figures {
    double trip_us, there, back; /* bytes per us */
};

/* ---- events ---- */

static void finish(struct probe *probe)
{
    probe->done = 1;
    gw_loop_stop(probe->loop);
}

static void on_limit(struct gw_timer *timer)
{
    struct probe *probe = timer->owner;
    probe->late = 1;
    gw_loop_stop(probe->loop);
}

static void ping(struct probe *probe)
{
    probe->asked_us = gw_loop_now(probe->loop);
    if (probe->stopping || probe->pings == PINGS ||
        !gw_doctor_tell(&probe->end, GW_DOCTOR_PING, 0))
        finish(probe);
}

/* Keeps as many puts in flight as have arrived before, up to all slots: on a
   slow link one takes long. */
static void pump(struct probe *probe)
{
    struct gw_doctor_end *end = &probe->end;
    int fits = 1;
    while (!probe->stopping && probe->flying < probe->most && fits) {
        uint64_t at =
            (uint64_t)(probe->posted % GW_DOCTOR_SLOTS) * GW_DOCTOR_PUT_BYTES;
        fits = probe->back ? gw_doctor_tell(end, GW_DOCTOR_GIVE, at)
                           : gw_doctor_put(end, GW_FRAME_PUSH, at);
        probe->posted += fits != 0;
        probe->flying += fits != 0;
    }
    if (probe->flying == 0)
        finish(probe);
}

static void on_over(struct gw_timer *timer)
{
    struct probe *probe = timer->owner;
    probe->stopping = 1;
}

static void take_put(struct probe *probe)
{
    if (probe->flying == 0)
        return; /* nobody asked */
    probe->flying--;
    probe->arrived++;
    probe->arrived_us = gw_loop_now(probe->loop);
    if (probe->most < GW_DOCTOR_SLOTS)
        probe->most++;
    pump(probe);
}

/* Estimates the clocks' difference. The other side read its clock during the
   round trip, so the shortest round trip is the most accurate. */
static void
take_pong(struct probe *probe, uint64_t trip_us, uint64_t their_clock)
{
    probe->ping_us[probe->pings++] = trip_us;
    if (!probe->inquiry || their_clock == 0 ||
        (probe->best_us > 0 && trip_us >= probe->best_us))
        return;
    uint64_t middle = gw_doctor_clock() - trip_us / 2;
    probe->best_us = trip_us + 1;
    struct gw_doctor_seen *seen = probe->inquiry->seen;
    seen->has_clock = 1;
    seen->ahead_us = (int64_t)(their_clock - middle);
    seen->within_us = trip_us / 2 + 1;
}

static void take_word(struct probe *probe, const struct gw_frame *frame)
{
    if (frame->count == GW_DOCTOR_WINDOW &&
        probe->end.peers == GW_WINDOW_NONE) {
        probe->end.peers = (uint32_t)frame->clock;
        finish(probe);
    } else if (frame->count == GW_DOCTOR_PONG && probe->pings < PINGS) {
        take_pong(probe, gw_loop_now(probe->loop) - probe->asked_us,
                  frame->clock);
        ping(probe);
    } else if (frame->count == GW_DOCTOR_GOT && !probe->back) {
        take_put(probe);
    }
}

static void
take_text(struct probe *probe, const struct gw_frame *frame, const char *text)
{
    size_t bytes = frame->length < GW_DOCTOR_WHERE_MAX
                       ? frame->length
                       : GW_DOCTOR_WHERE_MAX - 1;
    memcpy(probe->end.where, text, bytes);
    probe->end.where[bytes] = '\0';
    finish(probe);
}

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct probe *probe = link->owner;
    (void)reply;
    gw_doctor_tell(&probe->end, GW_DOCTOR_WINDOW, probe->end.mine);
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct probe *probe = link->owner;
    if (frame->kind == GW_FRAME_ACK)
        take_word(probe, frame);
    else if (frame->kind == GW_FRAME_WEIGHTS && probe->back)
        take_put(probe);
    else if (frame->kind == GW_FRAME_CONTROL)
        take_text(probe, frame, payload);
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct probe *probe = link->owner;
    probe->down = 1;
    probe->status = status;
    probe->end.link = NULL;
    snprintf(probe->why, sizeof probe->why, "%s", why);
    gw_loop_stop(probe->loop);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

/* ---- in order ---- */

/* Runs the loop until the current step is done; 0: it failed, with
   probe->why. */
static int await(struct probe *probe, uint64_t limit_us)
{
    gw_timer_start(probe->loop, &probe->limit, limit_us);
    while (!probe->done && !probe->down && !probe->late)
        gw_loop_run(probe->loop);
    gw_timer_stop(probe->loop, &probe->limit);
    gw_timer_stop(probe->loop, &probe->over);
    if (probe->late && !probe->down && !probe->done)
        snprintf(probe->why, sizeof probe->why, "no answer within %u s",
                 (unsigned)(limit_us / 1000000));
    if (probe->late)
        probe->status = GW_ETIMEOUT;
    int done = probe->done && !probe->down;
    probe->done = probe->stopping = 0;
    return done;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int measure_trips(struct probe *probe, double *us_p)
{
    gw_timer_start(probe->loop, &probe->over, MEASURE_US);
    ping(probe);
    if (!await(probe, LIMIT_US) || probe->pings == 0)
        return 0;
    qsort(probe->ping_us, probe->pings, sizeof *probe->ping_us, compare);
    *us_p = (double)probe->ping_us[probe->pings / 2];
    return 1;
}

static int measure_puts(struct probe *probe, int back, double *rate_p)
{
    uint64_t start = gw_loop_now(probe->loop);
    probe->back = back;
    probe->most = 1;
    probe->flying = probe->posted = probe->arrived = 0;
    gw_timer_start(probe->loop, &probe->over, MEASURE_US);
    pump(probe);
    if (!await(probe, LIMIT_US) || probe->arrived == 0)
        return 0;
    *rate_p = (double)probe->arrived * GW_DOCTOR_PUT_BYTES /
              (double)(probe->arrived_us - start + 1);
    return 1;
}

/* Errors of this process itself have their own advice. */
static enum gw_status say_why(const struct probe *probe,
                              const char *before,
                              const char *advice,
                              struct gw_error *error)
{
    int own = probe->status == GW_ENOMEM || probe->status == GW_EUNSUPPORTED ||
              probe->status == GW_EVERSION;
    return gw_fail(error, probe->status == GW_OK ? GW_ECLOSED : probe->status,
                   "%s%s%s", before,
                   probe->why[0] ? probe->why : "nothing came back",
                   own ? "" : advice);
}

static enum gw_status dial(struct probe *probe,
                           struct gw_transport *transport,
                           const char *address,
                           struct gw_error *error)
{
    struct gw_hello hello;
    gw_doctor_hello(probe->loop, &hello);
    if (gw_doctor_end_open(&probe->end, GW_FRAME_WEIGHTS) != GW_OK)
        return gw_fail(error, GW_ENOMEM, "no memory to measure");
    enum gw_status status =
        probe->ops->dial(transport, address, &hello, &handler, probe,
                         &probe->end.windows, &probe->end.link, error);
    if (status != GW_OK)
        return status;
    return await(probe, LOGIN_US)
               ? GW_OK
               : say_why(probe, "",
                         "; start gradweir doctor --serve there, and let its "
                         "firewall pass the port",
                         error);
}

/* Lets the other side dial back. An older version closes the link instead. */
static void be_dialed_back(struct probe *probe, struct gw_transport *transport)
{
    const struct inquiry *inquiry = probe->inquiry;
    struct gw_doctor_dial_back *dial_back = gw_doctor_dial_back_open(
        inquiry->doctor, inquiry->peer, transport, inquiry->seen);
    if (!dial_back)
        return;
    int told = gw_doctor_tell(&probe->end, GW_DOCTOR_KNOCK,
                              gw_doctor_dial_back_port(dial_back)) &&
               await(probe, LIMIT_US);
    gw_doctor_dial_back_judge(dial_back, told ? probe->end.where : NULL,
                              inquiry->seen);
    gw_doctor_dial_back_close(dial_back);
}

/* 0: the peer did not tell its other transports. */
static int inquire(struct probe *probe, struct gw_transport *transport)
{
    const struct inquiry *inquiry = probe->inquiry;
    if (!gw_doctor_tell(&probe->end, GW_DOCTOR_WHERE, 0) ||
        !await(probe, LIMIT_US))
        return 0;
    snprintf(inquiry->where, GW_DOCTOR_WHERE_MAX, "%s", probe->end.where);
    inquiry->seen->reached = 1;
    be_dialed_back(probe, transport);
    return 1;
}

static enum gw_status run(struct probe *probe,
                          struct gw_transport *transport,
                          const char *address,
                          struct figures *figures,
                          struct gw_error *error)
{
    enum gw_status status = dial(probe, transport, address, error);
    if (status != GW_OK)
        return status;
    int done = measure_trips(probe, &figures->trip_us) &&
               measure_puts(probe, 0, &figures->there) &&
               measure_puts(probe, 1, &figures->back);
    if (done && probe->inquiry)
        done = inquire(probe, transport);
    return done ? GW_OK
                : say_why(probe, "the link came up, and then: ",
                          "; if small messages pass and large ones do not, the "
                          "MTU of the two hosts or of the network between them "
                          "differs (ip link)",
                          error);
}

static enum gw_status measure(const struct gw_transport_ops *ops,
                              const char *address,
                              struct figures *figures,
                              const struct inquiry *inquiry,
                              struct gw_error *error)
{
    struct gw_transport *transport;
    struct probe *probe = calloc(1, sizeof *probe);
    uint8_t *source = gw_doctor_source();
    enum gw_status status = GW_OK;
    if (!probe || !source) {
        status = gw_fail(error, GW_ENOMEM, "no memory to measure");
        goto out;
    }
    probe->ops = ops;
    probe->inquiry = inquiry;
    probe->end.source = source;
    probe->limit = (struct gw_timer){.fire = on_limit, .owner = probe};
    probe->over = (struct gw_timer){.fire = on_over, .owner = probe};
    status = gw_loop_open_uv(&probe->loop, error);
    if (status != GW_OK)
        goto out;
    const struct gw_memory memory = gw_memory_host(source, GW_DOCTOR_PUT_BYTES);
    status = ops->open(probe->loop, NULL, &transport, error);
    if (status == GW_OK) {
        ops->register_memory(transport, &memory);
        status = run(probe, transport, address, figures, error);
        if (probe->end.link)
            gw_link_close(probe->end.link);
        gw_doctor_end_close(&probe->end);
        ops->close(transport);
    }
    gw_loop_close(probe->loop);

out:
    if (probe)
        gw_doctor_end_free(&probe->end);
    free(probe);
    free(source);
    return status;
}

/* ---- report ---- */

static void print_rate(double bytes_per_us, char *text, size_t room)
{
    if (bytes_per_us >= 1000)
        snprintf(text, room, "%.2f GB/s", bytes_per_us / 1000);
    else
        snprintf(text, room, "%.1f MB/s", bytes_per_us);
}

/* Returns the smaller of the two rates; 0: not measured. */
static double measure_and_say(struct gw_doctor *doctor,
                              const struct gw_transport_ops *ops,
                              const char *address,
                              const struct inquiry *inquiry)
{
    struct figures figures = {0};
    struct gw_error error;
    char there[32], back[32];
    if (measure(ops, address, &figures, inquiry, &error) != GW_OK) {
        gw_doctor_say(doctor, GW_VERDICT_FIX, "%s over %s: %s", address,
                      ops->name, error.text);
        return 0;
    }
    print_rate(figures.there, there, sizeof there);
    print_rate(figures.back, back, sizeof back);
    gw_doctor_say(doctor, GW_VERDICT_OK,
                  "%s over %s: round trip %.0f us, %s there, %s back", address,
                  ops->name, figures.trip_us, there, back);
    return figures.there < figures.back ? figures.there : figures.back;
}

static const struct gw_transport_ops *find_ops(const char *name)
{
    size_t i = 0;
    while (gw_transports[i] && strcmp(gw_transports[i]->name, name) != 0)
        i++;
    return gw_transports[i];
}

/* Measures by a line "NAME ADDRESS" or "NAME - WHY NOT" of the other side. */
static void measure_other(struct gw_doctor *doctor,
                          char *line,
                          const char *peer,
                          double tcp)
{
    char why[256];
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    const struct gw_transport_ops *ops = find_ops(line);
    if (!ops || strcmp(line, "tcp") == 0 || strcmp(line, "sim") == 0)
        return;
    if (ops->probe(why, sizeof why) != GW_OK) {
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s over %s is not measured: here, %s", peer, ops->name,
                      why);
        return;
    }
    if (strncmp(rest, "- ", 2) == 0 || !*rest) {
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s over %s is not measured: there, %s", peer, ops->name,
                      *rest ? rest + 2 : "it is not said where");
        return;
    }
    double rate = measure_and_say(doctor, ops, rest, NULL);
    if (rate > 0 && rate < tcp)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "%s is slower than tcp to %s: look at its path MTU above "
                      "and at flow control of the network (PFC), or set "
                      "cluster.transport = \"tcp\"",
                      ops->name, peer);
}

static void check_peer(struct gw_doctor *doctor, size_t i)
{
    char where[GW_DOCTOR_WHERE_MAX];
    char *line, *rest = where;
    const char *peer = doctor->peer[i];
    const struct inquiry inquiry = {.doctor = doctor,
                                    .peer = peer,
                                    .seen = &doctor->seen[i],
                                    .where = where};
    doctor->seen[i] =
        (struct gw_doctor_seen){.dialed_back = GW_VERDICT_UNKNOWN};
    const struct gw_transport_ops *tcp = find_ops("tcp");
    double rate = measure_and_say(doctor, tcp, peer, &inquiry);
    if (rate <= 0)
        return;
    while ((line = strsep(&rest, "\n")) != NULL)
        if (*line)
            measure_other(doctor, line, peer, rate);
}

void gw_doctor_check_peers(struct gw_doctor *doctor)
{
    for (size_t i = 0; i < doctor->peers; i++)
        check_peer(doctor, i);
    if (doctor->peers == 0)
        gw_doctor_say(doctor, GW_VERDICT_NOTE,
                      "no other host was measured: gradweir doctor --serve "
                      "INTERFACE there, gradweir doctor --peer HOST here");
}
