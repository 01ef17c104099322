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

/* NULL: now. A member that comes while decisions wait for the standby would
   hear of them before it. */
static const char *why_not_yet(const struct gw_server *server,
                               const struct gw_hello *hello)
{
    if (!server->running)
        return "not ready yet";
    if (server->stands_by)
        return "stands by for the server of its shard";
    return gw_recent_waits(server) && !gw_copy_is_of(server, hello->incarnation)
               ? "the copy of shard 0 has not all decisions"
               : NULL;
}

/* NULL: the view has no worker of that rank and process. */
static const struct gw_session *find_worker(const struct gw_server *server,
                                            const struct gw_hello *hello)
{
    const struct gw_session *session =
        hello->role == GW_ROLE_WORKER && hello->rank < server->ranks
            ? &server->session[hello->rank]
            : NULL;
    return session && session->incarnation == hello->incarnation &&
                   session->has_secret
               ? session
               : NULL;
}

static enum gw_status admit_worker(struct gw_server *server,
                                   const struct gw_session *session,
                                   struct gw_peer *peer,
                                   const struct gw_hello *hello,
                                   char *why,
                                   size_t why_bytes)
{
    snprintf(peer->name, sizeof peer->name, "worker %u (%.60s)", hello->rank,
             session->host);
    enum gw_status status =
        gw_peer_admit(peer, hello, &session->secret, why, why_bytes);
    return status == GW_OK ? gw_session_admit(server, peer) : status;
}

/* A standby that has taken over does not know who else has come late. */
static enum gw_status admit_shard(struct gw_server *server,
                                  struct gw_shard_name *shard,
                                  struct gw_peer *peer,
                                  const struct gw_hello *hello,
                                  char *why,
                                  size_t why_bytes)
{
    enum gw_status status =
        gw_peer_admit(peer, hello, &shard->secret, why, why_bytes);
    if (status != GW_OK)
        return status;
    if (gw_copy_is_of(server, hello->incarnation))
        gw_copy_admit(server, peer);
    if (server->leader)
        gw_follow_begin(server, peer, shard->is_late || server->start.again);
    shard->is_here = 1;
    return GW_OK;
}

static const char *why_refused(const struct gw_server *server,
                               const struct gw_hello *hello)
{
    int is_replaced = hello->role == GW_ROLE_WORKER &&
                      hello->rank < server->ranks &&
                      server->session[hello->rank].begins_late;
    return is_replaced ? "another worker has taken the place of this one"
                       : "not a member of this job's view";
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct gw_server *server = owner;
    /* members know their job by the time that they come here */
    if (hello->job == 0 || hello->role == GW_ROLE_OBSERVER) {
        snprintf(why, why_bytes,
                 "a server of a job listens here; join its coordinator, at "
                 "%.64s",
                 server->coordinator->address);
        return GW_EREFUSED;
    }
    const char *not_yet = why_not_yet(server, hello);
    if (not_yet) {
        snprintf(why, why_bytes, "%s", not_yet);
        return GW_EAGAIN;
    }
    const struct gw_session *session = find_worker(server, hello);
    if (session)
        return admit_worker(server, session, peer, hello, why, why_bytes);
    struct gw_shard_name *shard =
        hello->role == GW_ROLE_SERVER
            ? gw_members_shard(server, hello->rank, hello->incarnation)
            : NULL;
    if (shard)
        return admit_shard(server, shard, peer, hello, why, why_bytes);
    snprintf(why, why_bytes, "%s", why_refused(server, hello));
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_server *server = owner;
    (void)link;
    if (gw_server_is_over(server))
        return; /* another coordinator need not know it */
    if (peer == server->coordinator)
        gw_home_link_up(server);
    else if (peer == server->standby.primary)
        gw_standby_link_up(server);
    else if (peer == server->copy.peer)
        gw_copy_link_up(server);
    if (server->running && !gw_members_are_present(server))
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
    if (peer == server->coordinator && gw_server_is_over(server))
        gw_server_ending_unheard(server);
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

/* Another process listens at the address: a view will say who leads. */
static int awaits_another(const struct gw_server *server, enum gw_status status)
{
    return status == GW_EREFUSED && server->config.cluster.copies > 1;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_server *server = owner;
    if (peer == server->coordinator && status == GW_ETIMEOUT)
        gw_home_lost(server, why);
    else if (peer == server->coordinator && status == GW_EREFUSED &&
             gw_home_begin_anew(server, why))
        return;
    else if (peer == server->coordinator)
        gw_server_finish(server, status, "cannot join %s: %s", peer->address,
                         why);
    else if (peer == server->leader_peer && status != GW_ETIMEOUT &&
             !awaits_another(server, status))
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
    if (peer == server->standby.primary)
        gw_standby_frame(server, link, frame, payload);
    else if (peer == server->copy.peer)
        gw_copy_frame(server, link, frame);
    else if (peer != server->coordinator)
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

void gw_server_leave(struct gw_server *server, const char *why)
{
    if (!gw_server_is_over(server))
        gw_home_ask_to_leave(server, why);
}

void gw_server_close(struct gw_server *server)
{
    if (!server)
        return;
    gw_server_ending_close(server);
    gw_member_close(server->member);
    gw_recent_close(server);
    gw_copy_close(server);
    gw_standby_close(server);
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
