#include "config.h"

#include "server/home.h"

#include <inttypes.h>

#include "server/commit.h"
#include "transport/member/remote.h"

/* ---- joining ---- */

static void join(struct gw_server *server)
{
    const struct gw_server_options *options = &server->options;
    char address[GW_ADDRESSES_MAX];
    gw_member_advertise(server->member,
                        options->advertise ? options->advertise : "", address);
    struct gw_message message = {
        .kind = GW_MESSAGE_JOIN,
        .join = {.role = GW_ROLE_SERVER,
                 .host = options->host,
                 .machine = options->machine,
                 .pid = options->pid,
                 .process = options->process,
                 .threads = options->threads,
                 .thread = options->thread,
                 .address = address,
                 .rank = GW_RANK_NONE,
                 .need = options->need,
                 .epoch =
                     server->running ? gw_member_epoch(server->member) : 0},
    };
    if (gw_member_sign(server->member, server->coordinator, options->secret,
                       &message.join) == GW_OK)
        gw_server_tell(server, server->coordinator, &message);
    else
        gw_server_finish(server, GW_ENOMEM, "no memory to join");
}

/* ---- away ---- */

#define WATCH_US 250000

/* The furthest step of this shard, for people. */
static uint64_t step_of(const struct gw_server *server)
{
    uint64_t step = server->start.state.clock;
    for (uint32_t i = 0; server->shard && i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version > step)
            step = server->shard->chunk[i].version;
    return server->regime.policy ? gw_commit_of(server)->step(server, step)
                                 : step;
}

/* After a pause of this process the silence proves nothing. */
static void end_without(struct gw_server *server)
{
    const struct gw_peer *peer = server->coordinator;
    char paused[GW_PAUSED_BYTES], way[GW_AWAY_WAY_BYTES];
    gw_member_paused_words(server->member, paused);
    gw_away_way_on(server->running && server->start.outlives
                       ? server->config.checkpoint.dir
                       : "",
                   way);
    gw_server_finish(
        server, GW_EDEAD,
        "%sthe coordinator (%s) %s at step %" PRIu64 ": silent for %.1f s%s",
        paused, peer->address, paused[0] ? "is heard no more" : "died",
        step_of(server), (double)gw_peer_silent_us(peer) / 1e6, way);
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    uint64_t patience_us = (uint64_t)(server->config.cluster.patience * 1e6);
    if (gw_away_is_over(&server->home.away, gw_loop_now(server->loop),
                        server->stall.progress_us, patience_us))
        end_without(server);
    else if (!gw_away_is_here(&server->home.away))
        gw_timer_start(server->loop, timer, WATCH_US);
}

/* Until it is here again. */
static void watch(struct gw_server *server)
{
    server->home.watch.fire = on_watch;
    server->home.watch.owner = server;
    gw_timer_start(server->loop, &server->home.watch, WATCH_US);
}

void gw_home_stop(struct gw_server *server)
{
    gw_timer_stop(server->loop, &server->home.watch);
}

/* ---- links ---- */

/* Shard 0 has the keys of the job, whatever became of rank 0, and so has its
   standby, whatever became of shard 0. */
static void tell_keys(struct gw_server *server)
{
    const struct gw_key *keys = server->startup.keys;
    uint32_t n = server->startup.keys_seen, at = 0;
    while (at < n) {
        const struct gw_message message = {
            .kind = GW_MESSAGE_DECLARE,
            .declare = {.keys_hash = gw_keys_hash(keys, n),
                        .types_hash = gw_keys_types_hash(keys, n),
                        .device = "",
                        .tuned = "",
                        .note = "",
                        .optimizer = "",
                        .keys = keys + at,
                        .keys_total = n,
                        .keys_first = at,
                        .keys_n = gw_keys_in_part(keys + at, n - at)}};
        gw_server_tell(server, server->coordinator, &message);
        at += message.declare.keys_n;
    }
}

void gw_home_link_up(struct gw_server *server)
{
    struct gw_away *away = &server->home.away;
    const struct gw_peer *coordinator = server->coordinator;
    if (!gw_away_link_up(away, coordinator->incarnation,
                         gw_loop_now(server->loop))) {
        if (server->remote && gw_away_is_known(away))
            gw_remote_link_up(server->remote);
        return;
    }
    int is_new = !gw_away_is_known(away);
    if (is_new)
        gw_remote_hold(server->remote);
    join(server);
    if (is_new && (server->leader || server->led))
        tell_keys(server);
    if (is_new)
        watch(server);
}

void gw_home_link_down(struct gw_server *server, enum gw_status status)
{
    gw_away_link_down(&server->home.away,
                      status == GW_ETIMEOUT ||
                          gw_member_was_paused(server->member));
}

int gw_home_begin_anew(struct gw_server *server, const char *why)
{
    if (!server->options.again || server->running)
        return 0;
    gw_server_finish(server, GW_EAGAIN, "the coordinator that it joined: %s",
                     why);
    return 1;
}

void gw_home_lost(struct gw_server *server, const char *why)
{
    const struct gw_peer *coordinator = server->coordinator;
    if (gw_home_begin_anew(server, why))
        return;
    if (!server->running || server->config.cluster.patience <= 0 ||
        !gw_away_may_return(&server->home.away, server->start.outlives)) {
        end_without(server);
        return;
    }
    gw_away_silent(&server->home.away, coordinator->heard_us);
    gw_log_warn(server->log,
                "the coordinator (%s) is away, silent for %.1f s: the job goes "
                "on without it",
                coordinator->address,
                (double)gw_peer_silent_us(coordinator) / 1e6);
    watch(server);
}

/* ---- another one ---- */

static void tell(void *owner, const struct gw_decision *decision)
{
    struct gw_server *server = owner;
    const struct gw_message message = {.kind = GW_MESSAGE_DECISION,
                                       .decision = *decision};
    gw_server_tell(server, server->coordinator, &message);
}

void gw_home_back(struct gw_server *server)
{
    gw_away_back(&server->home.away);
    gw_log_info(server->log, "the coordinator is back, at %s",
                server->coordinator->address);
    if (server->leader)
        gw_leader_recall_all(server->leader, gw_switch_last_begun(server), tell,
                             server);
    gw_save_tell_again(server);
    gw_copy_tell_again(server);
    gw_remote_renew(server->remote);
    if (server->home.stop)
        gw_home_ask_stop(server, server->home.stop);
}

void gw_home_ask_stop(struct gw_server *server, const char *why)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STOP,
        .stop = {.text = why, .leaves = server->home.leaves}};
    server->home.stop = why;
    if (server->has_config && gw_away_is_known(&server->home.away))
        gw_peer_tell(server->coordinator, &message);
}

void gw_home_ask_to_leave(struct gw_server *server, const char *why)
{
    server->home.leaves = 1;
    gw_home_ask_stop(server, why);
}
