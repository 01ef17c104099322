/*
 * The life of a server thread.
 *
 *   dial the coordinator, JOIN > WELCOME (the job) > VIEW (who is who) >
 *   DECLARE (the keys) > START > pages >
 *   [load a checkpoint] > READY > run > END > BYE
 */
#include "config.h"

#include "server/server_state.h"
#include "transport/member/remote.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Time for the last words to leave before the owner closes the links. */
#define LINGER_US      500000
#define LINGER_TURN_US 5000

static void on_linger(struct gw_timer *timer)
{
    struct gw_server *server = timer->owner;
    const struct gw_peer *coordinator = server->coordinator;
    if (coordinator && gw_peer_is_up(coordinator, 0) &&
        !gw_peer_flushed(coordinator) &&
        gw_loop_now(server->loop) < server->linger_until_us) {
        gw_timer_start(server->loop, timer, LINGER_TURN_US);
        return;
    }
    server->options.finished(server->options.owner, server->end_status,
                             server->end_text);
}

void gw_server_finish(struct gw_server *server,
                      enum gw_status status,
                      const char *format,
                      ...)
{
    va_list args;
    if (server->finished)
        return;
    server->finished = 1;
    server->running = 0;
    gw_timer_stop(server->loop, &server->watch);
    gw_timer_stop(server->loop, &server->settle_timer);
    gw_settling_stop(&server->pages);
    va_start(args, format);
    gw_text_print(server->end_text, sizeof server->end_text, format, args);
    va_end(args);
    server->end_status = status;
    struct gw_message message = {
        .kind = GW_MESSAGE_END,
        .end = {.status = status, .clock = 0, .text = server->end_text}};
    if (status != GW_OK && server->coordinator && !server->ended &&
        gw_peer_tell(server->coordinator, &message) != GW_OK)
        /* nobody else can say it then */
        gw_log_error(server->log, "%s", server->end_text);
    server->linger_until_us = gw_loop_now(server->loop) + LINGER_US;
    server->linger.fire = on_linger;
    server->linger.owner = server;
    gw_timer_start(server->loop, &server->linger, 0);
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
                 .need = options->need},
    };
    if (gw_member_sign(server->member, server->coordinator, options->secret,
                       &message.join) == GW_OK)
        gw_server_tell(server, server->coordinator, &message);
    else
        gw_server_finish(server, GW_ENOMEM, "no memory to join");
}

static void got_welcome(struct gw_server *server,
                        const struct gw_welcome *welcome)
{
    struct gw_error error;
    if (server->has_config) {
        gw_server_finish(server, GW_EPROTO, "a welcome came twice");
        return;
    }
    gw_config_default(&server->config); /* for what the job does not say */
    enum gw_status status =
        gw_config_parse(&server->config, "job", welcome->job, &error);
    if (status == GW_OK)
        status = gw_config_check(&server->config, &error);
    if (status != GW_OK) {
        gw_server_finish(server, status, "the coordinator's job: %s",
                         error.text);
        return;
    }
    server->has_config = 1;
    if (welcome->silence_us)
        gw_member_set_silence(server->member, welcome->silence_us);
    server->ranks = (uint32_t)server->config.cluster.workers;
    server->session = calloc(server->ranks, sizeof *server->session);
    server->clocks = calloc(server->ranks, sizeof *server->clocks);
    server->settled_clocks =
        calloc(server->ranks, sizeof *server->settled_clocks);
    server->settled_blocked =
        calloc(server->ranks, sizeof *server->settled_blocked);
    if (!server->session || !server->clocks || !server->settled_clocks ||
        !server->settled_blocked)
        gw_server_finish(server, GW_ENOMEM, "no memory for %u workers",
                         server->ranks);
    else
        gw_log_info(server->log, "has joined %s, and waits for others",
                    server->options.coordinator);
}

static void got_keys(struct gw_server *server, const struct gw_declare *declare)
{
    if (!server->keys) {
        server->keys_total = declare->keys_total;
        server->keys = calloc(declare->keys_total + 1, sizeof *server->keys);
    }
    if (!server->keys || declare->keys_first != server->keys_seen ||
        declare->keys_total != server->keys_total) {
        gw_server_finish(server, GW_EPROTO, "keys came out of order");
        return;
    }
    memcpy(server->keys + server->keys_seen, declare->keys,
           declare->keys_n * sizeof *server->keys);
    server->keys_seen += declare->keys_n;
}

/* ---- ending ---- */

static void got_end(struct gw_server *server, const struct gw_end *end)
{
    struct rusage usage;
    struct gw_metrics_snapshot counters = {0};
    getrusage(RUSAGE_SELF, &usage);
    if (server->metrics)
        gw_metrics_collect(server->metrics, &counters);
    struct gw_message message = {
        .kind = GW_MESSAGE_BYE,
        .bye = {.rss_bytes = (uint64_t)usage.ru_maxrss * 1024,
                .counters = counters.value,
                .counters_n = GW_METRICS}};
    char paused[GW_PAUSED_BYTES] = "";
    if (end->status == GW_EDEAD) /* perhaps it was this one that was missed */
        gw_member_paused_words(server->member, paused);
    gw_peer_tell(server->coordinator, &message);
    server->ended = 1;
    gw_server_finish(server, end->status, "%s%s", paused, gw_reason(end->text));
}

/* ---- the member's handler ---- */

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
        server->shard_name[hello->rank].incarnation == hello->incarnation &&
        server->shard_name[hello->rank].has_secret) {
        enum gw_status status =
            gw_peer_admit(peer, hello, &server->shard_name[hello->rank].secret,
                          why, why_bytes);
        server->shards_present += status == GW_OK;
        return status;
    }
    snprintf(why, why_bytes, "not a member of this job's view");
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_server *server = owner;
    (void)link;
    if (peer == server->coordinator && !server->joined) {
        server->joined = 1;
        join(server);
    }
    if (peer == server->coordinator && server->remote)
        gw_remote_link_up(server->remote);
    if (peer != server->coordinator && server->running && !server->all_present)
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
    /* before it has joined, and where the end is decided and members leave
       one by one, nothing is wrong with that */
    int leaving = server->finished || !server->has_config ||
                  server->end_clock != GW_NEVER_CLOCK;
    if (status == GW_EPROTO)
        gw_server_tell_fault(server, peer, why);
    else
        gw_log_limited(server->log, &server->limit,
                       leaving ? GW_LOG_DEBUG : GW_LOG_INFO,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
    if (peer->role == GW_ROLE_WORKER && server->shard)
        gw_session_link_down(server, peer, link);
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_server *server = owner;
    if (peer == server->coordinator && status == GW_ETIMEOUT)
        gw_server_lost_coordinator(server);
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
    gw_server_tell_stuck(owner, peer, text);
}

static void starves(void *owner, const char *why)
{
    struct gw_server *server = owner;
    gw_server_finish(server, GW_ENOMEM,
                     "%s, for %d s: others cannot be answered", why,
                     GW_MEMBER_STARVES_US / 1000000);
}

/* The end of a job it asks for by STOP. */
static void got_request(struct gw_server *server,
                        const struct gw_request *request)
{
    struct gw_policy_word word;
    if (request->kind == GW_REQUEST_CHECKPOINT)
        gw_leader_want_cut(server->leader);
    else if (request->kind == GW_REQUEST_POLICY &&
             gw_policy_word_parse(request->text, &word, NULL) == GW_OK &&
             gw_config_check_word(&server->config, &word, NULL) == GW_OK)
        gw_leader_switch(server->leader, &word);
    else
        gw_peer_reject(server->coordinator, 0, "request that makes no sense");
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    int from_coordinator = peer == server->coordinator;
    gw_metrics_add(server->metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (server->finished)
        return;
    if (from_coordinator && message->kind == GW_MESSAGE_WELCOME)
        got_welcome(server, &message->welcome);
    else if (from_coordinator && message->kind == GW_MESSAGE_VIEW)
        gw_server_view(server, &message->view);
    else if (from_coordinator && message->kind == GW_MESSAGE_DECLARE)
        got_keys(server, &message->declare);
    else if (from_coordinator && message->kind == GW_MESSAGE_START)
        gw_server_start(server, &message->start);
    else if (from_coordinator && message->kind == GW_MESSAGE_END)
        got_end(server, &message->end);
    else if (from_coordinator && message->kind == GW_MESSAGE_STOP &&
             server->leader)
        gw_leader_stop(server->leader);
    else if (from_coordinator && message->kind == GW_MESSAGE_REQUEST &&
             server->leader)
        got_request(server, &message->request);
    else if (from_coordinator && message->kind == GW_MESSAGE_STORED &&
             server->leader)
        gw_leader_stored(server->leader);
    else if (from_coordinator && message->kind == GW_MESSAGE_FILE_REPLY &&
             server->remote)
        gw_remote_reply(server->remote, &message->file_reply);
    else if (from_coordinator && message->kind == GW_MESSAGE_DECISION)
        gw_divide_repeat(server, peer, &message->decision);
    else if (peer == server->leader_peer &&
             message->kind == GW_MESSAGE_DECISION)
        gw_follow_decision(server, &message->decision);
    else if (peer->role == GW_ROLE_SERVER && server->leader &&
             message->kind == GW_MESSAGE_VOTE)
        gw_follow_vote(server, peer, &message->vote);
    else if (peer->role == GW_ROLE_SERVER && server->leader &&
             message->kind == GW_MESSAGE_ARRIVED)
        gw_follow_arrived(server, peer, &message->arrived);
    else if (peer->role == GW_ROLE_SERVER && server->leader &&
             message->kind == GW_MESSAGE_SETTLED)
        gw_follow_settled(server, peer, &message->settled);
    else if (peer->role == GW_ROLE_WORKER && server->leader &&
             message->kind == GW_MESSAGE_SCORE)
        gw_follow_score(server, peer, &message->score);
    else if (peer->role == GW_ROLE_WORKER && server->leader &&
             message->kind == GW_MESSAGE_SPEED)
        gw_divide_speed(server, peer, &message->speed);
    else
        gw_peer_reject(peer, 0, "message that its role does not send");
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
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = stuck,
};

/* ---- opening and closing ---- */

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
    server->limit.per_second = 2;
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
    struct gw_message message = {.kind = GW_MESSAGE_STOP,
                                 .stop = {.text = why}};
    if (!server->finished)
        gw_peer_tell(server->coordinator, &message);
}

void gw_server_close(struct gw_server *server)
{
    if (!server)
        return;
    server->finished = 1;
    server->running = 0;
    gw_timer_stop(server->loop, &server->watch);
    gw_timer_stop(server->loop, &server->settle_timer);
    gw_settling_stop(&server->pages);
    gw_timer_stop(server->loop, &server->linger);
    gw_member_close(server->member);
    gw_save_close(server);
    gw_load_close(server);
    gw_remote_close(server->remote);
    gw_follow_close(server);
    gw_whole_close(server);
    gw_session_close(server);
    gw_map_destroy(server->map);
    free(server->keys);
    free(server->memory);
    free(server->shard_name);
    gw_met_close(&server->met);
    gw_sum_close(server);
    free(server->session);
    free(server->clocks);
    free(server->settled_clocks);
    free(server->settled_blocked);
    gw_divide_close(server);
    free(server);
}
