/*
 * What a client hears from the coordinator and the servers, and what it says of
 * waits that take too long. Everything here runs on the loop's thread.
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

#define WATCH_US 250000

/* ---- messages in ---- */

static void got_welcome(struct gw_client *client,
                        const struct gw_welcome *welcome)
{
    struct gw_error error;
    size_t bytes = strlen(welcome->job) + 1;
    if (client->job)
        return;
    client->job = malloc(bytes);
    if (!client->job) {
        gw_client_fail(client, GW_ENOMEM, "no memory for the job");
        return;
    }
    memcpy(client->job, welcome->job, bytes);
    strcpy(client->tuned, welcome->tuned);
    if (welcome->silence_us)
        gw_member_set_silence(client->member, welcome->silence_us);
    client->from = welcome->from;
    gw_config_default(&client->config); /* for what the job does not say */
    if (gw_config_parse(&client->config, "job", client->job, &error) != GW_OK ||
        gw_config_check(&client->config, &error) != GW_OK) {
        gw_client_fail(client, error.status, "the coordinator's job: %s",
                       error.text);
        return;
    }
    client->ranks = (uint32_t)client->config.cluster.workers;
    if (welcome->rank >= client->ranks) {
        gw_client_fail(client, GW_EPROTO,
                       "the coordinator gave out rank %u, its job has %u "
                       "workers",
                       welcome->rank, client->ranks);
        return;
    }
    client->rank = welcome->rank;
    gw_member_set_rank(client->member, client->rank);
    if (client->log)
        atomic_store(&client->log->rank, (int)client->rank);
}

/* Every number below the count of shards has been named. */
static int view_is_whole(const struct gw_client *client)
{
    for (uint32_t s = 0; s < client->shards; s++)
        if (!client->shard[s].incarnation)
            return 0;
    return client->shards > 0;
}

static enum gw_status begin_view(struct gw_client *client, uint32_t members)
{
    client->members_total = members;
    client->shard = calloc((size_t)members + 1, sizeof *client->shard);
    return client->shard ? gw_met_open(&client->met, members) : GW_ENOMEM;
}

static void got_view(struct gw_client *client, const struct gw_view *view)
{
    if (!client->job || view->members_first != client->members_seen ||
        client->view_complete ||
        view->members_total > gw_config_members_max(&client->config) ||
        (client->shard && view->members_total != client->members_total)) {
        gw_client_fail(client, GW_EPROTO,
                       "a view came out of order, or names more members than "
                       "the job has");
        return;
    }
    if (!client->shard && begin_view(client, view->members_total) != GW_OK) {
        gw_client_fail(client, GW_ENOMEM, "no memory for the view");
        return;
    }
    for (uint32_t i = 0; i < view->members_n; i++) {
        const struct gw_view_member *member = &view->members[i];
        gw_met_add(&client->met, client->options.machine,
                   member->role == GW_ROLE_WORKER && member->id == client->rank,
                   member);
        if (member->role == GW_ROLE_WORKER && client->node)
            gw_node_view(client->node, member);
        if (member->role != GW_ROLE_SERVER || member->id >= view->members_total)
            continue;
        struct gw_client_shard *shard = &client->shard[member->id];
        shard->incarnation = member->incarnation;
        shard->server = member->server;
        snprintf(shard->address, sizeof shard->address, "%s", member->address);
        snprintf(shard->host, sizeof shard->host, "%s", member->host);
        client->shards++;
    }
    client->members_seen += view->members_n;
    gw_member_set_epoch(client->member, view->epoch);
    client->view_complete = client->members_seen == view->members_total;
    if (client->view_complete && !view_is_whole(client))
        gw_client_fail(client, GW_EPROTO, "the view does not name every shard");
}

static void take_scale(struct gw_client *client, double loss_scale)
{
    if (gw_schedule_is_scale(loss_scale))
        atomic_store(&client->loss_scale, loss_scale);
    else
        gw_client_fail(client, GW_EPROTO, "a loss scale of %g came",
                       loss_scale);
}

static void got_start(struct gw_client *client, const struct gw_start *start)
{
    struct gw_error error;
    struct gw_policy_plan plan;
    if (!client->view_complete || client->started) {
        gw_client_fail(client, GW_EPROTO, "a start came out of order");
        return;
    }
    client->start = *start;
    client->needs_seed = start->resume[0] == '\0';
    client->start.resume = client->start.dir = client->start.token = NULL;
    client->start.clocks = NULL;
    client->start.split = NULL;
    client->start.groups = NULL;
    if (start->silence_us)
        gw_member_set_silence(client->member, start->silence_us);
    enum gw_status status = gw_client_split_begin(client, start);
    if (status == GW_OK && client->node)
        status = gw_node_start(client->node, start);
    if (status != GW_OK) {
        gw_client_fail(client, status, "the start's split or groups: %s",
                       gw_status_text(status));
        return;
    }
    client->first_clock = start->clocks_n == client->ranks
                              ? start->clocks[client->rank]
                              : start->state.clock;
    take_scale(client,
               start->state.loss_scale != 0 ? start->state.loss_scale : 1);
    if (gw_policy_plan_parse(client->config.cluster.policy, &plan, &error) !=
        GW_OK) {
        gw_client_fail(client, error.status, "the coordinator's job: %s",
                       error.text);
        return;
    }
    const struct gw_policy_word word = gw_policy_at(&plan, start->state.clock);
    gw_client_follow_word(client, &word, start->state.clock);
    client->started = 1;
}

/* The clock of ours at which a decision holds. */
static uint64_t clock_of(const struct gw_client *client,
                         const struct gw_decision *decision)
{
    return client->rank < decision->clocks_n ? decision->clocks[client->rank]
                                             : decision->clock;
}

/* backup: it is decided who counts. What we compute, if we do, is of this clock
   or an older one, for nobody has newer weights. */
static void got_count(struct gw_client *client,
                      const struct gw_decision *decision)
{
    for (uint32_t i = 0; i < decision->ranks_n; i++) {
        if (decision->ranks[i] == client->rank) {
            atomic_store(&client->counted_clock, decision->clock + 1);
            return;
        }
    }
    atomic_store(&client->late_clock, decision->clock + 1);
    gw_loop_interrupt(client->loop);
}

/* Those of many steps, in which we did not take part. */
static void got_passed(struct gw_client *client,
                       const struct gw_decision *decision)
{
    if (decision->values_n > 1)
        atomic_store(&client->loss_scale, decision->values[1]);
    if (decision->clocks_n > 0 && decision->clocks[0] > 0)
        atomic_store(&client->counted_clock, decision->clocks[0]);
    if (decision->clocks_n < 2 || decision->clocks[1] == 0)
        return;
    atomic_store(&client->late_clock, decision->clocks[1]);
    gw_loop_interrupt(client->loop);
}

/* Single pushes: where all ranks stand still, for a reason or to go on. */
static void
meet(struct gw_client *client, const struct gw_decision *decision, int calls)
{
    client->meeting = (struct gw_client_meeting){
        .step = decision->clock,
        .name = decision->number,
    };
    atomic_store(&client->called, calls ? clock_of(client, decision) + 1 : 0);
}

static void got_resume(struct gw_client *client,
                       const struct gw_decision *decision)
{
    int ends = atomic_load(&client->end_clock) != UINT64_MAX;
    client->scores = decision->reason != 0;
    if (!ends)
        atomic_store(&client->drained, 0);
    meet(client, decision, client->scores || ends);
    if (client->scores || ends || client->next.renumbers)
        gw_client_void(client, decision->number);
    if (client->next.renumbers)
        atomic_store(&client->renews, 1);
}

static void got_decision(struct gw_client *client,
                         const struct gw_decision *decision)
{
    uint32_t stands_for = decision->stands_for ? decision->stands_for : 1;
    if (decision->number != atomic_load(&client->decision) + stands_for) {
        gw_client_fail(client, GW_EPROTO,
                       "decision %" PRIu64 " came after decision %" PRIu64,
                       decision->number, atomic_load(&client->decision));
        return;
    }
    switch (decision->kind) {
    case GW_DECIDE_STEP:
        if (decision->values_n > 1)
            take_scale(client, decision->values[1]);
        break;
    case GW_DECIDE_COUNT:
        got_count(client, decision);
        break;
    case GW_DECIDE_PASSED:
        got_passed(client, decision);
        break;
    case GW_DECIDE_DRAIN:
        atomic_store(&client->drained, 1);
        break;
    case GW_DECIDE_SPLIT:
        gw_client_split_decided(client, decision);
        break;
    case GW_DECIDE_RESUME:
        got_resume(client, decision);
        break;
    case GW_DECIDE_SWITCH:
        gw_client_switch_decided(client, decision);
        break;
    case GW_DECIDE_END:
        client->end_reason = decision->reason;
        meet(client, decision, 0); /* none resumes what had not begun */
        atomic_store(&client->end_clock, clock_of(client, decision));
        break;
    case GW_DECIDE_CUT:
        gw_client_cut_decided(client, clock_of(client, decision),
                              decision->clock);
        break;
    case GW_DECIDE_SCORE:
        client->score.loss = decision->values_n > 0 ? decision->values[0] : 0;
        client->score.accuracy =
            decision->values_n > 1 ? decision->values[1] : 0;
        client->score.best = decision->reason;
        client->score_clock = decision->clock + 1;
        break;
    default:
        break; /* trust ratios concern shards */
    }
    if (!gw_decision_is_of_each_step(decision))
        atomic_store(&client->told_decision, decision->number);
    atomic_store(&client->decision, decision->number);
}

/* That all is well is for those to hear who have said that they are done: for
   the others it would be as if every wait were over. */
static void got_end(struct gw_client *client, const struct gw_end *end)
{
    char paused[GW_PAUSED_BYTES] = "";
    client->ended = 1;
    if (end->status == GW_EDEAD) /* perhaps it was this one that was missed */
        gw_member_paused_words(client->member, paused);
    if (end->status == GW_OK && !client->said_bye)
        gw_client_fail(client, GW_EPROTO,
                       "the coordinator ended the job before this worker was "
                       "done: %s",
                       gw_reason(end->text));
    else
        gw_client_fail(client, end->status, "%s%s", paused,
                       gw_reason(end->text));
}

static int is_leader(const struct gw_client *client, const struct gw_peer *peer)
{
    return client->shards > 0 && peer == client->shard[0].peer;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_client *client = owner;
    int from_coordinator = peer == client->coordinator;
    gw_metrics_add(client->metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (from_coordinator && message->kind == GW_MESSAGE_WELCOME)
        got_welcome(client, &message->welcome);
    else if (from_coordinator && message->kind == GW_MESSAGE_VIEW)
        got_view(client, &message->view);
    else if (from_coordinator && message->kind == GW_MESSAGE_START)
        got_start(client, &message->start);
    else if (from_coordinator && message->kind == GW_MESSAGE_POLL)
        atomic_store(&client->polled, message->poll.clock + 1);
    else if (from_coordinator && message->kind == GW_MESSAGE_END)
        got_end(client, &message->end);
    else if (from_coordinator && message->kind == GW_MESSAGE_FILE_REPLY &&
             gw_client_files_reply(client, &message->file_reply))
        return;
    else if (peer->role == GW_ROLE_SERVER && message->kind == GW_MESSAGE_WINDOW)
        gw_client_window(client, peer, &message->window);
    else if (is_leader(client, peer) && message->kind == GW_MESSAGE_DECISION)
        got_decision(client, &message->decision);
    else
        gw_peer_reject(peer, 0, "message that its role does not send");
}

/* ---- the member's handler ---- */

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner;
    (void)peer;
    (void)hello;
    snprintf(why, why_bytes, "a worker takes no connections");
    return GW_EREFUSED;
}

static void join(struct gw_client *client)
{
    const struct gw_client_options *options = &client->options;
    struct gw_message message = {
        .kind = GW_MESSAGE_JOIN,
        .join = {.role = GW_ROLE_WORKER,
                 .host = options->host,
                 .machine = options->machine,
                 .pid = options->pid,
                 .threads = 1,
                 .address = gw_node_address(client->node),
                 .rank = options->rank,
                 .need = options->need},
    };
    if (gw_member_sign(client->member, client->coordinator, options->secret,
                       &message.join) == GW_OK)
        gw_client_tell(client, client->coordinator, &message);
    else
        gw_client_fail(client, GW_ENOMEM, "no memory to join");
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_client *client = owner;
    if (peer != client->coordinator) {
        gw_client_link_up(client, peer, link);
    } else if (!client->joined) {
        client->joined = 1;
        join(client);
    } else {
        gw_client_files_link_up(client);
    }
}

void gw_client_tell_fault(struct gw_client *client,
                          const struct gw_peer *peer,
                          const char *why)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_FAULT,
        .fault = {.role = peer->role, .id = peer->id, .text = why}};
    if (peer != client->coordinator && !atomic_load(&client->failed))
        gw_peer_tell(client->coordinator, &message);
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_client *client = owner;
    gw_metrics_add(client->metrics, GW_METRIC_RECONNECTS, 1);
    if (status == GW_EPROTO)
        gw_client_tell_fault(client, peer, why);
    else if (client->job && !atomic_load(&client->failed))
        gw_log_limited(client->log, &client->limit, GW_LOG_INFO,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_client *client = owner;
    (void)payload; /* in its window already */
    if (peer != client->coordinator)
        gw_client_frame(client, peer, link, frame);
    else if (!gw_client_files_frame(client, frame))
        gw_peer_reject(peer, link, "frame that nobody waits for");
}

/* A process that was paused does not know who was missed by whom. */
static void lost_coordinator(struct gw_client *client,
                             const struct gw_peer *peer)
{
    char paused[GW_PAUSED_BYTES];
    gw_member_paused_words(client->member, paused);
    gw_client_fail(
        client, GW_EDEAD,
        "%sthe coordinator (%s) %s at step %" PRIu64 ": silent for %.1f s",
        paused, peer->address, paused[0] ? "is heard no more" : "died",
        gw_member_clock(client->member), (double)gw_peer_silent_us(peer) / 1e6);
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_client *client = owner;
    if (peer == client->coordinator && status == GW_ETIMEOUT)
        lost_coordinator(client, peer);
    else if (peer == client->coordinator)
        gw_client_fail(client, status, "cannot join %s: %s", peer->address,
                       why);
    else if (status == GW_ETIMEOUT)
        gw_log_info(client->log, "%s: silent for %.1f s", peer->name,
                    (double)gw_peer_silent_us(peer) / 1e6);
    else
        gw_client_fail(client, status, "%s: %s", peer->name, why);
}

static void starves(void *owner, const char *why)
{
    gw_client_fail(owner, GW_ENOMEM, "%s, for %d s: no link can be opened", why,
                   GW_MEMBER_STARVES_US / 1000000);
}

/* A cause that stops others is to be seen where they are missed. */
void gw_client_stuck(struct gw_client *client,
                     const struct gw_peer *peer,
                     const char *text)
{
    struct gw_message message = {.kind = GW_MESSAGE_STALL,
                                 .stall = {.text = text, .stuck = 1}};
    if (atomic_load(&client->failed))
        return;
    if (text[0])
        gw_log_info(client->log, "%s", text);
    if (peer != client->coordinator)
        gw_peer_tell(client->coordinator, &message);
}

static void stuck(void *owner, struct gw_peer *peer, const char *text)
{
    gw_client_stuck(owner, peer, text);
}

const struct gw_member_handler gw_client_handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = stuck,
};

/* ---- stalls ---- */

/* Who is waited for: a shard, or where a chunk is summed perhaps another worker
   of this host; and "key layer4.weight" or what else of it. */
static const struct gw_peer *
waited_for(const struct gw_client *client, char *what, size_t room)
{
    const struct gw_map *map = client->map;
    uint32_t c = GW_CHUNK_NONE;
    if (client->waiting == GW_WAITING_PULL)
        c = gw_client_first_pulled(client);
    else if (client->waiting != GW_WAITING_SCORE)
        c = gw_client_first_missing(client, client->waits_first,
                                    client->waits_n, client->waits_version);
    if (c != GW_CHUNK_NONE)
        snprintf(what, room, "key %s", map->key[map->chunk[c].key].name);
    else
        snprintf(what, room, "%s",
                 client->waiting == GW_WAITING_SCORE ? "evaluation"
                                                     : "a decision");
    const struct gw_peer *neighbour =
        c != GW_CHUNK_NONE && client->waiting != GW_WAITING_PULL
            ? gw_node_waits_for(client->node, c)
            : NULL;
    if (neighbour)
        return neighbour;
    return client->shard[c != GW_CHUNK_NONE ? map->chunk[c].shard : 0].peer;
}

static void report_stall(struct gw_client *client, double seconds)
{
    char what[GW_KEY_NAME_MAX + 8], text[GW_ERROR_TEXT_BYTES];
    const struct gw_peer *peer = client->coordinator;
    uint64_t step = client->start.state.clock;
    if (client->waiting == GW_WAITING_FILE)
        step = gw_client_file_name(client, what, sizeof what);
    else
        peer = waited_for(client, what, sizeof what);
    if (client->waiting == GW_WAITING_SCORE)
        step = client->scored_clock;
    else if (client->waiting == GW_WAITING_PULL)
        step = client->meeting.step;
    else if (client->waiting == GW_WAITING_WEIGHTS && client->waits_version)
        step = client->waits_version - 1;
    snprintf(text, sizeof text,
             "step %" PRIu64 ", %s: waiting for %s, last heard %.1f s ago, "
             "no progress for %.1f s",
             step, what, peer->name, (double)gw_peer_silent_us(peer) / 1e6,
             seconds);
    gw_log_info(client->log, "%s", text); /* the coordinator shows it */
    struct gw_message message = {
        .kind = GW_MESSAGE_STALL,
        .stall = {.clock = step, .seconds = seconds, .text = text}};
    gw_peer_tell(client->coordinator, &message);
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_client *client = timer->owner;
    uint64_t now = gw_loop_now(client->loop);
    uint64_t limit_us = (uint64_t)(client->config.cluster.step_deadline * 1e6);
    gw_timer_start(client->loop, timer, WATCH_US);
    if (!client->waiting || limit_us == 0 ||
        gw_member_paused_us_ago(client->member) < limit_us ||
        now - client->progress_us < limit_us ||
        now - client->stalled_us < limit_us)
        return;
    client->stalled_us = now;
    report_stall(client, (double)(now - client->progress_us) / 1e6);
}

void gw_client_watch(struct gw_client *client)
{
    client->watch.fire = on_watch;
    client->watch.owner = client;
    gw_timer_start(client->loop, &client->watch, WATCH_US);
}
