/*
 * The life of a server thread.
 *
 *   dial the coordinator, JOIN > WELCOME (the job) > VIEW (the members) >
 *   DECLARE (the keys) > START > pages >
 *   [load a checkpoint] > READY > run > END > BYE
 */
#include "config.h"

#include "server/commit.h"
#include "transport/member/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the member's handler ---- */

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct gw_server *server = owner;
    const struct gw_secret *secret;
    /* members know their job by the time that they come here */
    if (hello->job == 0 || hello->role == GW_ROLE_OBSERVER) {
        snprintf(why, why_bytes,
                 "a server of a job listens here; join its coordinator, at "
                 "%.64s",
                 server->coordinator->address);
        return GW_EREFUSED;
    }
    if (!server->running) {
        snprintf(why, why_bytes, "not ready yet");
        return GW_EAGAIN;
    }
    if (hello->role == GW_ROLE_WORKER && hello->rank < server->ranks &&
        server->session[hello->rank].incarnation == hello->incarnation &&
        server->session[hello->rank].has_secret) {
        const struct gw_session *session = &server->session[hello->rank];
        snprintf(peer->name, sizeof peer->name, "worker %u (%.60s)",
                 hello->rank, session->host);
        enum gw_status status =
            gw_peer_admit(peer, hello, &session->secret, why, why_bytes);
        return status == GW_OK ? gw_session_admit(server, peer) : status;
    }
    if (hello->role == GW_ROLE_SERVER && server->number == 0 &&
        hello->rank > 0 && hello->rank < server->shards &&
        gw_members_shard(server, hello->rank, hello->incarnation, &secret)) {
        enum gw_status status =
            gw_peer_admit(peer, hello, secret, why, why_bytes);
        if (status == GW_OK)
            gw_members_shard_comes(server);
        return status;
    }
    int is_replaced = hello->role == GW_ROLE_WORKER &&
                      hello->rank < server->ranks &&
                      server->session[hello->rank].begins_late;
    snprintf(why, why_bytes,
             is_replaced ? "another worker has taken the place of this one"
                         : "not a member of this job's view");
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_server *server = owner;
    (void)link;
    if (peer == server->coordinator)
        gw_home_link_up(server);
    else if (server->running && !gw_members_are_present(server))
        gw_session_present(server);
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_server *server = owner;
    gw_metrics_add(server->metrics, GW_METRIC_RECONNECTS, 1);
    if (peer == server->coordinator)
        gw_home_link_down(server, status);
    /* before it has joined, and where the end is decided and members leave
       one by one, nothing is wrong with that */
    int leaving = gw_server_is_over(server) || !server->has_config ||
                  gw_server_is_ending(server);
    if (status == GW_EPROTO)
        gw_tell_fault(server, peer, why);
    else
        gw_log_limited(server->log, &server->links.limit,
                       leaving ? GW_LOG_DEBUG : GW_LOG_INFO,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
    if (peer->role == GW_ROLE_WORKER && server->shard &&
        server->session[peer->id].peer == peer)
        gw_session_link_down(server, peer, link);
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_server *server = owner;
    if (peer == server->coordinator && status == GW_ETIMEOUT)
        gw_home_lost(server);
    else if (peer == server->coordinator)
        gw_server_finish(server, status, "cannot join %s: %s", peer->address,
                         why);
    else if (peer == server->leader_peer && status != GW_ETIMEOUT)
        gw_server_finish(server, status,
                         "shard %u cannot reach shard 0 at %s: %s",
                         server->number, peer->address, why);
    else
        gw_log_info(server->log, "%s: %s", peer->name, why);
}

static void stuck(void *owner, struct gw_peer *peer, const char *text)
{
    gw_tell_stuck(owner, peer, text);
}

static void starves(void *owner, const char *why)
{
    struct gw_server *server = owner;
    gw_server_finish(server, GW_ENOMEM,
                     "%s, for %d s: others cannot be answered", why,
                     GW_MEMBER_STARVES_US / 1000000);
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_server *server = owner;
    if (peer != server->coordinator)
        gw_session_frame(server, peer, link, frame, payload);
    else if (frame->kind != GW_FRAME_FILE || !server->remote ||
             !gw_remote_frame(server->remote, frame))
        gw_peer_reject(peer, link, "frame that nobody waits for");
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = gw_server_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = stuck,
};

/* ---- opening and closing ---- */

static void halt(struct gw_server *server)
{
    gw_stall_stop(server);
    gw_home_stop(server);
    gw_quiesce_stop(server);
    gw_startup_stop(server);
}

enum gw_status gw_server_open(const struct gw_server_options *options,
                              struct gw_server **server_p,
                              struct gw_error *error)
{
    struct gw_server *server = calloc(1, sizeof *server);
    if (!server)
        return gw_fail(error, GW_ENOMEM, "no memory for a server");
    server->options = *options;
    server->loop = options->loop;
    server->log = options->log;
    if (!server->loop->log)
        server->loop->log = options->log; /* for what strangers do */
    if (!server->loop->metrics)
        server->loop->metrics = options->metrics;
    server->metrics = options->metrics;
    server->number = GW_RANK_NONE;
    server->links.limit.per_second = 2;
    gw_server_ending_open(server, halt);
    struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->transport,
        .data = options->data,
        .transport_config = {.interface = options->interface},
        .control_interface = options->control_interface,
        .role = GW_ROLE_SERVER,
        .rank = GW_RANK_NONE,
        .join_us = options->join_us,
        .silence_us = options->silence_us,
        .quiet = options->thread > 0,
        .handler = &handler,
        .owner = server,
    };
    enum gw_status status = gw_member_open(&member, &server->member, error);
    if (status == GW_OK)
        status = gw_member_listen(server->member, options->listen, error);
    if (status == GW_OK)
        status = gw_member_dial(server->member, options->coordinator,
                                GW_ROLE_COORDINATOR, 0, 1, NULL,
                                &server->coordinator, error);
    if (status != GW_OK) {
        gw_member_close(server->member);
        free(server);
        return status;
    }
    gw_stall_watch(server);
    *server_p = server;
    return GW_OK;
}

void gw_server_stop(struct gw_server *server, const char *why)
{
    if (!gw_server_is_over(server))
        gw_home_ask_stop(server, why);
}

void gw_server_close(struct gw_server *server)
{
    if (!server)
        return;
    gw_server_ending_close(server);
    gw_member_close(server->member);
    gw_save_close(server);
    gw_load_close(server);
    gw_remote_close(server->remote);
    gw_follow_close(server);
    gw_whole_close(server);
    gw_session_close(server);
    gw_map_destroy(server->map);
    gw_startup_close(server);
    gw_members_close(server);
    gw_sum_close(server);
    gw_terms_close(server);
    free(server->session);
    free(server->clocks);
    gw_quiesce_close(server);
    gw_divide_close(server);
    free(server);
}
