/*
 * Words of a server on itself and on others: its counters, faults, and its end.
 * Everybody calls this file, so it calls none of the others.
 */
#include "config.h"

#include "server/server_state.h"

#include <stdarg.h>
#include <sys/resource.h>

#define REPORT_US 1000000

/* For `gradweir status`; lost where the coordinator is slow to take it. */
void gw_tell_counters(struct gw_server *server)
{
    uint64_t now = gw_loop_now(server->loop);
    struct rusage usage;
    struct gw_metrics_snapshot counters = {0};
    if (!server->running || server->end.over ||
        !gw_away_is_here(&server->home.away) ||
        now - server->end.reported_us < REPORT_US)
        return;
    server->end.reported_us = now;
    getrusage(RUSAGE_SELF, &usage);
    if (server->metrics)
        gw_metrics_collect(server->metrics, &counters);
    struct gw_message message = {
        .kind = GW_MESSAGE_REPORT,
        .report = {.rss_bytes = (uint64_t)usage.ru_maxrss * 1024,
                   .counters = counters.value,
                   .counters_n = GW_METRICS}};
    gw_peer_tell(server->coordinator, &message);
}

void gw_tell_fault(struct gw_server *server,
                   const struct gw_peer *peer,
                   const char *why)
{
    /* a standby logs in as a server of its shard */
    int stands_by = peer->role == GW_ROLE_SERVER &&
                    gw_members_is_standby(server, peer->incarnation);
    struct gw_message message = {
        .kind = GW_MESSAGE_FAULT,
        .fault = {.role = stands_by ? GW_ROLE_STANDBY : peer->role,
                  .id = peer->id,
                  .text = why}};
    if (peer != server->coordinator && !server->end.over &&
        gw_away_is_here(&server->home.away))
        gw_peer_tell(server->coordinator, &message);
}

void gw_tell_stuck(struct gw_server *server,
                   const struct gw_peer *peer,
                   const char *text)
{
    struct gw_message message = {.kind = GW_MESSAGE_STALL,
                                 .stall = {.text = text, .stuck = 1}};
    if (server->end.over)
        return;
    if (text[0])
        gw_log_info(server->log, "%s", text);
    if (peer != server->coordinator && gw_away_is_here(&server->home.away))
        gw_peer_tell(server->coordinator, &message);
}

void gw_tell_decision(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_decision *decision)
{
    struct gw_message message = {.kind = GW_MESSAGE_DECISION,
                                 .decision = *decision};
    /* trust ratios are long, and nobody but shards needs them */
    if (decision->kind == GW_DECIDE_TRUST && peer->role != GW_ROLE_SERVER)
        message.decision.values_n = 0;
    gw_server_tell(server, peer, &message);
}

/* ---- the end ---- */

/* Time for the last words to leave before the owner closes the links. */
#define LINGER_US      500000
#define LINGER_TURN_US 5000

static void on_linger(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    const struct gw_peer *coordinator = server->coordinator;
    if (coordinator && gw_peer_is_up(coordinator, 0) &&
        !gw_peer_flushed(coordinator) &&
        gw_loop_now(server->loop) < server->end.until_us) {
        gw_timer_start(server->loop, timer, LINGER_TURN_US);
        return;
    }
    server->end.is_told = 1;
    server->options.finished(server->options.owner, server->end.status,
                             server->end.text);
}

void gw_server_finish(struct gw_server *server,
                      enum gw_status status,
                      const char *format,
                      ...)
{
    va_list args;
    if (server->end.over)
        return;
    server->end.over = 1;
    server->running = 0;
    server->end.halt(server);
    va_start(args, format);
    gw_text_print(server->end.text, sizeof server->end.text, format, args);
    va_end(args);
    server->end.status = status;
    struct gw_message message = {
        .kind = GW_MESSAGE_END,
        .end = {.status = status, .clock = 0, .text = server->end.text}};
    if (status != GW_OK && server->coordinator && !server->end.decided &&
        gw_peer_tell(server->coordinator, &message) != GW_OK)
        /* nobody else can say it then */
        gw_log_error(server->log, "%s", server->end.text);
    server->end.until_us = gw_loop_now(server->loop) + LINGER_US;
    server->end.linger.fire = on_linger;
    server->end.linger.owner = server;
    gw_timer_start(server->loop, &server->end.linger, 0);
}

void gw_server_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_message *message)
{
    enum gw_status status = gw_peer_tell(peer, message);
    if (status == GW_OK || status == GW_ECLOSED)
        return;
    gw_server_finish(server, status, "cannot tell %s of a %s: %s", peer->name,
                     gw_message_name(message->kind), gw_status_text(status));
}

int gw_server_is_over(const struct gw_server *server)
{
    return server->end.over;
}

void gw_server_ending_decided(struct gw_server *server)
{
    struct gw_peer *peer = gw_member_peers(server->member);
    server->end.decided = 1;
    for (; peer; peer = gw_peer_next(peer))
        if (peer != server->coordinator)
            gw_peer_rest(peer);
}

/* Nobody is there who could take the last words. */
void gw_server_ending_unheard(struct gw_server *server)
{
    if (!server->end.decided || server->end.is_told)
        return;
    gw_peer_rest(server->coordinator);
    gw_timer_start(server->loop, &server->end.linger, 0);
}

void gw_server_ending_open(struct gw_server *server,
                           void (*halt)(struct gw_server *server))
{
    server->end.halt = halt;
}

void gw_server_ending_close(struct gw_server *server)
{
    server->end.over = 1;
    server->running = 0;
    server->end.halt(server);
    gw_timer_stop(server->loop, &server->end.linger);
}

void gw_server_ending_at(struct gw_server *server, uint64_t clock)
{
    server->end.clock = clock;
}

int gw_server_is_ending(const struct gw_server *server)
{
    return server->end.clock != GW_NEVER_CLOCK;
}
