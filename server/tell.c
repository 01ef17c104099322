/* A server's words to the coordinator on itself and on others, while the job
   goes on: its counters, and who breaks the protocol. */
#include "config.h"

#include "server/server_state.h"

#include <sys/resource.h>

#define REPORT_US 1000000

/* For `gradweir status`; lost where the coordinator is slow to take it. */
void gw_server_report(struct gw_server *server)
{
    uint64_t now = gw_loop_now(server->loop);
    struct rusage usage;
    struct gw_metrics_snapshot counters = {0};
    if (!server->running || server->finished ||
        now - server->reported_us < REPORT_US)
        return;
    server->reported_us = now;
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

void gw_server_tell_fault(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *why)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_FAULT,
        .fault = {.role = peer->role, .id = peer->id, .text = why}};
    if (peer != server->coordinator && !server->finished)
        gw_peer_tell(server->coordinator, &message);
}

void gw_server_tell_stuck(struct gw_server *server,
                          const struct gw_peer *peer,
                          const char *text)
{
    struct gw_message message = {.kind = GW_MESSAGE_STALL,
                                 .stall = {.text = text, .stuck = 1}};
    if (server->finished)
        return;
    if (text[0])
        gw_log_info(server->log, "%s", text);
    if (peer != server->coordinator)
        gw_peer_tell(server->coordinator, &message);
}
