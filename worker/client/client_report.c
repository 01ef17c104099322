/*
 * Reports to the coordinator: of steps that are logged, and of one that it
 * polls for.
 */
#include "config.h"

#include "worker/client/client_session.h"

#include <stdlib.h>

#include "proto/staleness.h"

struct gw_client_report {
    _Atomic uint64_t polled; /* clock + 1 of the last poll */
    _Atomic uint64_t staleness[GW_STALENESS_BUCKETS]; /* per-push policies */
};

enum gw_status gw_client_report_open(struct gw_client *client)
{
    client->report = calloc(1, sizeof *client->report);
    return client->report ? GW_OK : GW_ENOMEM;
}

void gw_client_report_close(struct gw_client *client)
{
    free(client->report);
}

void gw_client_got_poll(void *actor,
                        struct gw_peer *peer,
                        const struct gw_message *message)
{
    struct gw_client *client = actor;
    (void)peer;
    atomic_store(&client->report->polled, message->poll.clock + 1);
}

uint64_t gw_client_polled(const struct gw_client *client)
{
    return atomic_load(&client->report->polled);
}

void gw_client_count_staleness(struct gw_client *client, uint32_t staleness)
{
    atomic_fetch_add_explicit(
        &client->report->staleness[gw_staleness_bucket(staleness)], 1,
        memory_order_relaxed);
}

void gw_client_report(struct gw_client *client,
                      uint64_t clock,
                      double loss,
                      uint64_t correct,
                      uint64_t samples,
                      uint64_t rss_bytes,
                      const double *lr)
{
    struct gw_metrics_snapshot counters = {0};
    uint64_t staleness[GW_STALENESS_BUCKETS];
    for (size_t i = 0; i < GW_STALENESS_BUCKETS; i++)
        staleness[i] = atomic_load(&client->report->staleness[i]);
    if (client->metrics)
        gw_metrics_collect(client->metrics, &counters);
    struct gw_message message = {
        .kind = GW_MESSAGE_REPORT,
        .report = {.clock = clock,
                   .loss = loss,
                   .correct = correct,
                   .samples = samples,
                   .rss_bytes = rss_bytes,
                   .counters = counters.value,
                   .counters_n = GW_METRICS,
                   .decision = gw_client_told_decision(client),
                   .has_lr = lr != NULL,
                   .lr = lr ? *lr : 0}};
    if (gw_client_is_per_push(client)) {
        message.report.staleness = staleness;
        message.report.staleness_n = GW_STALENESS_BUCKETS;
    }
    gw_loop_enter(client->loop);
    if (gw_away_is_here(&client->away))
        gw_peer_tell(client->coordinator, &message);
    gw_loop_leave(client->loop);
}
