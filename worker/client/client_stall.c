/*
 * Waits that take too long: a line in the log and a report to the coordinator
 * that name the peer which is waited for. On the loop's thread.
 */
#include "config.h"

#include "worker/client/client_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WATCH_US 250000

struct gw_client_stalls {
    struct gw_timer watch;
    uint64_t told_us;   /* of the last report */
    uint64_t paused_us; /* pauses of this process, so far */
};

/* The peer that is waited for, a shard or, where a chunk is summed, perhaps
   another worker of this host; and "key layer4.weight" or another object. */
static const struct gw_peer *
waited_for(const struct gw_client *client, char *object, size_t room)
{
    const struct gw_map *map = client->map;
    const struct gw_client_wait wait = gw_client_waits_for(client);
    uint32_t c = GW_CHUNK_NONE;
    if (wait.reason == GW_WAITING_PULL)
        c = gw_client_first_pulled(client);
    else if (wait.reason != GW_WAITING_SCORE)
        c = gw_client_first_missing(client, wait.first, wait.n, wait.version);
    if (c != GW_CHUNK_NONE)
        snprintf(object, room, "key %s", map->key[map->chunk[c].key].name);
    else
        snprintf(object, room, "%s",
                 wait.reason == GW_WAITING_SCORE ? "evaluation" : "a decision");
    const struct gw_peer *neighbour =
        c != GW_CHUNK_NONE && wait.reason != GW_WAITING_PULL
            ? gw_host_group_waits_for(client->group, c)
            : NULL;
    if (neighbour)
        return neighbour;
    return gw_client_shard_peer(client,
                                c != GW_CHUNK_NONE ? map->chunk[c].shard : 0);
}

static uint64_t step_of(const struct gw_client *client,
                        const struct gw_client_wait *wait)
{
    if (wait->reason == GW_WAITING_SCORE)
        return gw_client_scored_step(client);
    if (wait->reason == GW_WAITING_PULL)
        return gw_client_standstill(client).step;
    if (wait->reason == GW_WAITING_WEIGHTS && wait->version)
        return wait->version - 1;
    return gw_client_first_step(client);
}

static void report(struct gw_client *client, double seconds)
{
    char object[GW_KEY_NAME_MAX + 8], text[GW_ERROR_TEXT_BYTES];
    const struct gw_client_wait wait = gw_client_waits_for(client);
    const struct gw_peer *peer = client->coordinator;
    uint64_t step = step_of(client, &wait);
    if (wait.reason == GW_WAITING_FILE)
        step = gw_client_file_name(client, object, sizeof object);
    else
        peer = waited_for(client, object, sizeof object);
    snprintf(text, sizeof text,
             "step %" PRIu64 ", %s: waiting for %s, last heard %.1f s ago, "
             "no progress for %.1f s",
             step, object, peer->name, (double)gw_peer_silent_us(peer) / 1e6,
             seconds);
    gw_log_info(client->log, "%s", text); /* the coordinator shows it */
    struct gw_message message = {
        .kind = GW_MESSAGE_STALL,
        .stall = {.clock = step, .seconds = seconds, .text = text}};
    if (gw_away_is_here(&client->away))
        gw_peer_tell(client->coordinator, &message);
}

/* cluster.step_deadline; 0: none, or the job is not known yet. */
static uint64_t limit_us(const struct gw_client *client)
{
    if (!client->job)
        return 0;
    return (uint64_t)(client->job->config.cluster.step_deadline * 1e6);
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_client *client = timer->owner;
    struct gw_client_stalls *stalls = client->stalls;
    uint64_t now = gw_loop_now(client->loop), limit = limit_us(client);
    gw_timer_start(client->loop, timer, WATCH_US);
    const char *reason = client->options.gives_up
                             ? client->options.gives_up(client->options.owner)
                             : NULL;
    if (reason)
        gw_client_fail(client, GW_EABORTED, "%s", reason);
    gw_client_home_judge(client);
    gw_member_excuse(client->member, now, &stalls->paused_us,
                     &client->progress_us);
    if (!gw_client_waits_for(client).reason || limit == 0 ||
        now - client->progress_us < limit || now - stalls->told_us < limit)
        return;
    stalls->told_us = now;
    report(client, (double)(now - client->progress_us) / 1e6);
}

void gw_client_stalls_watch(struct gw_client *client)
{
    gw_timer_start(client->loop, &client->stalls->watch, WATCH_US);
}

void gw_client_stalls_cancel(struct gw_client *client)
{
    gw_timer_stop(client->loop, &client->stalls->watch);
}

enum gw_status gw_client_stalls_open(struct gw_client *client)
{
    client->stalls = calloc(1, sizeof *client->stalls);
    if (!client->stalls)
        return GW_ENOMEM;
    client->stalls->watch.fire = on_watch;
    client->stalls->watch.owner = client;
    return GW_OK;
}

void gw_client_stalls_close(struct gw_client *client)
{
    free(client->stalls);
}
