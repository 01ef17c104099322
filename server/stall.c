/*
 * Stalls: a shard that gets no further names the members that it waits for,
 * every cluster.step_deadline. It only reports; the coordinator may end the job
 * for it (cluster.abort_after).
 */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>
#include <stdio.h>

#define WATCH_US 250000

static int is_evaluating(const struct gw_server *server)
{
    for (uint32_t rank = 0; server->leader && rank < server->ranks; rank++)
        if (gw_leader_awaits_score(server->leader, rank))
            return 1;
    return 0;
}

/* Its part of an evaluation, or else its push of the chunk. */
static int
is_missing(const struct gw_server *server, uint32_t rank, uint32_t index)
{
    if (is_evaluating(server))
        return gw_leader_awaits_score(server->leader, rank);
    return gw_commit_of(server)->awaits(server, rank, index);
}

/* Appends "worker 5 (b7), last heard 0.1 s ago" for every missing rank. */
static void
name_missing(struct gw_server *server, uint32_t index, char *text, size_t room)
{
    size_t used = 0;
    for (uint32_t rank = 0; rank < server->ranks && used < room; rank++) {
        struct gw_session *session = &server->session[rank];
        int n;
        if (!is_missing(server, rank, index))
            continue;
        if (session->peer && session->peer->fault[0])
            n = snprintf(text + used, room - used,
                         "%sworker %u (%s), which broke the protocol: %s",
                         used ? "; " : "", rank, session->host,
                         session->peer->fault);
        else if (session->peer)
            n = snprintf(text + used, room - used,
                         "%sworker %u (%s), last heard %.1f s ago",
                         used ? "; " : "", rank, session->host,
                         (double)gw_peer_silent_us(session->peer) / 1e6);
        else
            n = snprintf(text + used, room - used,
                         "%sworker %u (%s), not connected", used ? "; " : "",
                         rank, session->host);
        used += n > 0 ? (size_t)n : 0;
    }
}

static void
add(char *text, size_t room, size_t *used, const char *what, uint32_t number)
{
    if (*used >= room)
        return;
    int n = snprintf(text + *used, room - *used, "%s%s %u", *used ? ", " : "",
                     what, number);
    *used += n > 0 ? (size_t)n : 0;
}

/* The same for every member that has not logged in here. */
static void name_absent(struct gw_server *server, char *text, size_t room)
{
    size_t used = 0;
    for (uint32_t rank = 0; rank < server->ranks && used < room; rank++) {
        if (server->session[rank].peer)
            continue;
        int n = snprintf(text + used, room - used, "%sworker %u (%s)",
                         used ? ", " : "", rank, server->session[rank].host);
        used += n > 0 ? (size_t)n : 0;
    }
    for (uint32_t shard = 0; server->leader && shard < server->shards;
         shard++) {
        if (shard > 0 && gw_members_misses(server, shard, 0))
            add(text, room, &used, "shard", shard);
        if (gw_members_misses(server, shard, 1))
            add(text, room, &used, "the copy of shard", shard);
    }
}

static void
tell(struct gw_server *server, uint64_t clock, double seconds, const char *text)
{
    gw_log_info(server->log, "%s", text); /* the coordinator shows it */
    struct gw_message message = {
        .kind = GW_MESSAGE_STALL,
        .stall = {.clock = clock, .seconds = seconds, .text = text}};
    if (gw_away_is_here(&server->home.away))
        gw_peer_tell(server->coordinator, &message);
}

static void report_absent(struct gw_server *server, double seconds)
{
    char absent[256] = "", text[GW_ERROR_TEXT_BYTES];
    uint64_t clock = server->start.state.clock;
    name_absent(server, absent, sizeof absent);
    snprintf(text, sizeof text,
             "step %" PRIu64 ": shard %u waits for %s to connect, for %.1f s",
             clock, server->number, absent, seconds);
    tell(server, clock, seconds, text);
}

/* All ranks have pushed. */
static const char *what_else(const struct gw_server *server)
{
    return gw_copy_waits(server) || gw_recent_waits(server)
               ? "the copy of this shard"
               : "a decision of shard 0";
}

/* All wait for the chunk that is furthest behind. */
static void report_stall(struct gw_server *server, double seconds)
{
    uint32_t index = 0;
    char missing[256] = "", what[GW_KEY_NAME_MAX + 8] = "evaluation";
    char text[GW_ERROR_TEXT_BYTES];
    for (uint32_t i = 1; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version <
            server->shard->chunk[index].version)
            index = i;
    const struct gw_shard_chunk *chunk = &server->shard->chunk[index];
    /* if all are missing, shard 0 knows whether they evaluate */
    if (!server->leader && !gw_commit_of(server)->can_miss(server, index))
        return;
    if (!is_evaluating(server))
        snprintf(what, sizeof what, "key %s",
                 server->map->key[server->map->chunk[chunk->global].key].name);
    name_missing(server, index, missing, sizeof missing);
    snprintf(text, sizeof text,
             "step %" PRIu64 ", %s: waiting for %s, no progress for %.1f s",
             gw_commit_of(server)->step(server, chunk->version), what,
             missing[0] ? missing : what_else(server), seconds);
    tell(server, gw_commit_of(server)->step(server, chunk->version), seconds,
         text);
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    uint64_t now = gw_loop_now(server->loop);
    uint64_t limit_us = (uint64_t)(server->config.cluster.step_deadline * 1e6);
    gw_timer_start(server->loop, timer, WATCH_US);
    gw_tell_counters(server);
    gw_copy_watch(server, now);
    gw_member_excuse(server->member, now, &server->stall.paused_us,
                     &server->stall.progress_us);
    if (!server->running || server->stands_by || gw_server_is_ending(server) ||
        now - server->stall.progress_us < limit_us ||
        now - server->stall.stalled_us < limit_us)
        return;
    double seconds = (double)(now - server->stall.progress_us) / 1e6;
    server->stall.stalled_us = now;
    if (!gw_members_are_present(server))
        report_absent(server, seconds);
    else if (server->shard->chunks > 0)
        report_stall(server, seconds);
}

void gw_stall_watch(struct gw_server *server)
{
    server->stall.watch.fire = on_watch;
    server->stall.watch.owner = server;
    gw_timer_start(server->loop, &server->stall.watch, WATCH_US);
}

void gw_stall_stop(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->stall.watch);
}

void gw_stall_moved(struct gw_server *server, uint64_t now)
{
    server->stall.progress_us = now;
}
