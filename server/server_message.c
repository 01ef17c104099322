/* Control messages of a server: senders and handlers. */
#include "config.h"

#include "proto/dispatch.h"
#include "server/replace.h"
#include "server/server_state.h"
#include "proto/text.h"
#include "transport/member/remote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- joining and ending ---- */

static void
got_welcome(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    const struct gw_welcome *welcome = &message->welcome;
    struct gw_error error;
    (void)peer;
    if (server->has_config) {
        gw_server_finish(server, GW_EPROTO, "a welcome came twice");
        return;
    }
    gw_config_default(&server->config); /* for keys that the job does not set */
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
    if (!server->session || !server->clocks || gw_quiesce_open(server) != GW_OK)
        gw_server_finish(server, GW_ENOMEM, "no memory for %u workers",
                         server->ranks);
    else
        gw_log_info(server->log, "has joined %s, and waits for others",
                    server->options.coordinator);
    if (server->home.stop)
        gw_home_ask_stop(server, server->home.stop);
}

static void
got_end(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    const struct gw_end *end = &message->end;
    struct rusage usage;
    struct gw_metrics_snapshot counters = {0};
    (void)peer;
    getrusage(RUSAGE_SELF, &usage);
    if (server->metrics)
        gw_metrics_collect(server->metrics, &counters);
    const struct gw_message bye = {
        .kind = GW_MESSAGE_BYE,
        .bye = {.rss_bytes = (uint64_t)usage.ru_maxrss * 1024,
                .counters = counters.value,
                .counters_n = GW_METRICS}};
    char paused[GW_PAUSED_BYTES] = "";
    if (gw_status_is_death(
            end->status)) /* perhaps it was this one that was missed */
        gw_member_paused_words(server->member, paused);
    gw_peer_tell(server->coordinator, &bye);
    gw_server_ending_decided(server);
    gw_server_finish(server, end->status, "%s%s", paused, gw_reason(end->text));
}

/* ---- the others ---- */

/* A request to end the job comes as STOP. */
static void
got_request(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    const struct gw_request *wish = &message->request;
    struct gw_policy_word word;
    uint64_t clock;
    if (wish->kind == GW_REQUEST_CHECKPOINT && !wish->text[0])
        gw_leader_want_cut(server->leader);
    else if (wish->kind == GW_REQUEST_CHECKPOINT &&
             gw_text_number("step", wish->text, 0, GW_CLOCK_MAX, &clock,
                            NULL) == GW_OK)
        gw_leader_want_cut_at(server->leader, clock);
    else if (wish->kind == GW_REQUEST_POLICY &&
             gw_policy_word_parse(wish->text, &word, NULL) == GW_OK &&
             gw_config_check_word(&server->config, &word, NULL) == GW_OK)
        gw_leader_switch(server->leader, &word);
    else
        gw_peer_reject(peer, 0, "request that makes no sense");
}

/* One that names nobody is of another coordinator, which has all members. */
static void take_later_view(struct gw_server *server,
                            const struct gw_view *view)
{
    gw_replace_view(server, view);
    if (view->members_total == 0 && !gw_server_is_over(server))
        gw_home_back(server);
}

static void
got_view(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    (void)peer;
    if (gw_members_are_whole(server))
        take_later_view(server, &message->view);
    else
        gw_members_view(server, &message->view);
}

static void
got_start(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    (void)peer;
    gw_startup_begin(owner, &message->start);
}

static void got_file_reply(void *owner,
                           struct gw_peer *peer,
                           const struct gw_message *message)
{
    struct gw_server *server = owner;
    if (server->remote)
        gw_remote_reply(server->remote, &message->file_reply);
    else
        gw_peer_reject(peer, 0, GW_MESSAGE_UNEXPECTED);
}

static void
got_splits(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_divide_repeat(owner, peer, &message->decision);
}

static void got_standing(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    (void)peer;
    gw_follow_standing(owner, &message->standing);
}

static void got_decision(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    (void)peer;
    gw_follow_decision(owner, &message->decision);
}

static void
got_stop(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    (void)peer;
    if (message->stop.finished > 0)
        gw_leader_finish(server->leader, message->stop.finished - 1);
    else
        gw_leader_stop(server->leader);
}

static void
got_stored(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_server *server = owner;
    (void)peer;
    (void)message;
    gw_leader_stored(server->leader);
}

static void
got_vote(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_vote_step(owner, peer, &message->vote);
}

static void
got_arrived(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_vote_arrived(owner, peer, &message->arrived);
}

static void got_quiesced(void *owner,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    gw_vote_quiesced(owner, peer, &message->quiesced);
}

static void
got_score(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_vote_score(owner, peer, &message->score);
}

static void
got_speed(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    gw_divide_speed(owner, peer, &message->speed);
}

static const struct gw_message_handler handlers[] = {
    {GW_FROM_COORDINATOR, GW_MESSAGE_WELCOME, got_welcome},
    {GW_FROM_COORDINATOR, GW_MESSAGE_VIEW, got_view},
    {GW_FROM_COORDINATOR, GW_MESSAGE_DECLARE, gw_startup_keys},
    {GW_FROM_COORDINATOR, GW_MESSAGE_START, got_start},
    {GW_FROM_COORDINATOR, GW_MESSAGE_END, got_end},
    {GW_FROM_COORDINATOR, GW_MESSAGE_FILE_REPLY, got_file_reply},
    {GW_FROM_COORDINATOR, GW_MESSAGE_DECISION, got_splits},
    {GW_FROM_LEADER, GW_MESSAGE_DECISION, got_decision},
    {GW_FROM_SHARD, GW_MESSAGE_WINDOW, gw_copy_got_window},
    {GW_FROM_LEADER, GW_MESSAGE_STANDING, got_standing},
};

/* Shard 0 alone takes these. */
static const struct gw_message_handler leader_handlers[] = {
    {GW_FROM_COORDINATOR, GW_MESSAGE_STOP, got_stop},
    {GW_FROM_COORDINATOR, GW_MESSAGE_REQUEST, got_request},
    {GW_FROM_COORDINATOR, GW_MESSAGE_STORED, got_stored},
    {GW_FROM_SHARD, GW_MESSAGE_VOTE, got_vote},
    {GW_FROM_SHARD, GW_MESSAGE_ARRIVED, got_arrived},
    {GW_FROM_SHARD, GW_MESSAGE_QUIESCED, got_quiesced},
    {GW_FROM_WORKER, GW_MESSAGE_SCORE, got_score},
    {GW_FROM_WORKER, GW_MESSAGE_SPEED, got_speed},
};

static unsigned sender_of(const struct gw_server *server,
                          const struct gw_peer *peer)
{
    if (peer == server->coordinator)
        return GW_FROM_COORDINATOR;
    if (peer == server->leader_peer)
        return GW_FROM_SHARD | GW_FROM_LEADER;
    return peer->role == GW_ROLE_SERVER   ? GW_FROM_SHARD
           : peer->role == GW_ROLE_WORKER ? GW_FROM_WORKER
                                          : GW_FROM_STRANGER;
}

#define DISPATCH(table)                                                        \
    gw_message_dispatch(table, sizeof table / sizeof *table, sender, server,   \
                        peer, message)

void gw_server_message(void *owner,
                       struct gw_peer *peer,
                       const struct gw_message *message)
{
    struct gw_server *server = owner;
    unsigned sender = sender_of(server, peer);
    gw_metrics_add(server->metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (gw_server_is_over(server))
        return;
    if (!DISPATCH(handlers) && !(server->leader && DISPATCH(leader_handlers)))
        gw_peer_reject(peer, 0, GW_MESSAGE_UNEXPECTED);
}
