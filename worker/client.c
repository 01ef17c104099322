/*
 * The client's life: joining, declaring, waiting, ending. The caller's calls
 * take the loop, wait for a condition, and give the loop back.
 */
#include "config.h"

#include "worker/client_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WATCH_US 250000

/* Time for the last words to leave before the links are closed. */
#define LINGER_US 500000

void gw_client_fail(struct gw_client *client,
                    enum gw_status status,
                    const char *format,
                    ...)
{
    va_list args;
    if (atomic_load(&client->failed))
        return;
    va_start(args, format);
    client->error.status = status;
    vsnprintf(client->error.text, sizeof client->error.text, format, args);
    va_end(args);
    atomic_store(&client->failed, 1);
}

void gw_client_tell(struct gw_client *client,
                    struct gw_peer *peer,
                    const struct gw_message *message)
{
    enum gw_status status = gw_peer_tell(peer, message);
    if (status != GW_OK && status != GW_ECLOSED)
        gw_client_fail(client, status, "cannot tell %s of a %s: %s", peer->name,
                       gw_message_name(message->kind), gw_status_text(status));
}

const struct gw_error *gw_client_error(const struct gw_client *client)
{
    return &client->error;
}

/* ---- waiting ---- */

static int has_waited_for(const struct gw_client *client)
{
    return gw_client_has(client, client->waits_first, client->waits_n,
                         client->waits_version);
}

/* Takes the loop until `done` or failure; only weights are watched for. */
static enum gw_status wait_for(struct gw_client *client,
                               int (*done)(const struct gw_client *client))
{
    gw_loop_enter(client->loop);
    client->waiting = done == has_waited_for;
    client->progress_us = gw_loop_now(client->loop);
    while (!atomic_load(&client->failed) && !done(client))
        gw_loop_turn(client->loop);
    client->waiting = 0;
    gw_loop_leave(client->loop);
    return atomic_load(&client->failed) ? client->error.status : GW_OK;
}

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
    if (gw_config_parse(&client->config, "job", client->job, &error) != GW_OK) {
        gw_client_fail(client, error.status, "the coordinator's job: %s",
                       error.text);
        return;
    }
    client->rank = welcome->rank;
    client->ranks = (uint32_t)client->config.cluster.workers;
    gw_member_set_rank(client->member, client->rank);
    if (client->log)
        atomic_store(&client->log->rank, (int)client->rank);
}

static void got_view(struct gw_client *client, const struct gw_view *view)
{
    if (view->members_first != client->members_seen || client->view_complete) {
        gw_client_fail(client, GW_EPROTO, "a view came out of order");
        return;
    }
    if (!client->shard) {
        client->members_total = view->members_total;
        client->shard = calloc(view->members_total + 1, sizeof *client->shard);
    }
    if (view->members_total != client->members_total) {
        gw_client_fail(client, GW_EPROTO, "a view came out of order");
        return;
    }
    if (!client->shard) {
        gw_client_fail(client, GW_ENOMEM, "no memory for the view");
        return;
    }
    for (uint32_t i = 0; i < view->members_n; i++) {
        const struct gw_view_member *member = &view->members[i];
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
}

static void got_start(struct gw_client *client, const struct gw_start *start)
{
    if (!client->view_complete || client->started) {
        gw_client_fail(client, GW_EPROTO, "a start came out of order");
        return;
    }
    client->start = *start;
    client->needs_seed = start->resume[0] == '\0';
    client->start.resume = client->start.dir = client->start.token = NULL;
    atomic_store(&client->loss_scale,
                 start->state.loss_scale > 0 ? start->state.loss_scale : 1);
    client->started = 1;
}

static void got_decision(struct gw_client *client,
                         const struct gw_decision *decision)
{
    if (decision->number != atomic_load(&client->decision) + 1) {
        gw_client_fail(client, GW_EPROTO, "decision %u came after decision %u",
                       decision->number, atomic_load(&client->decision));
        return;
    }
    switch (decision->kind) {
    case GW_DECIDE_STEP:
        if (decision->values_n > 1)
            atomic_store(&client->loss_scale, decision->values[1]);
        break;
    case GW_DECIDE_END:
        client->end_reason = decision->reason;
        atomic_store(&client->end_clock, decision->clock);
        break;
    case GW_DECIDE_SCORE:
        client->score.loss = decision->values_n > 0 ? decision->values[0] : 0;
        client->score.accuracy =
            decision->values_n > 1 ? decision->values[1] : 0;
        client->score.best = decision->reason;
        client->score_clock = decision->clock + 1;
        break;
    default:
        break; /* cuts and trust ratios concern shards */
    }
    atomic_store(&client->decision, decision->number);
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
    else if (from_coordinator && message->kind == GW_MESSAGE_END) {
        client->ended = 1;
        gw_client_fail(client, message->end.status, "%s", message->end.text);
    } else if (peer->role == GW_ROLE_SERVER &&
               message->kind == GW_MESSAGE_WINDOW)
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
                 .address = "",
                 .rank = options->rank},
    };
    gw_client_tell(client, client->coordinator, &message);
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_client *client = owner;
    if (peer != client->coordinator)
        gw_client_link_up(client, peer, link);
    else if (!client->joined) {
        client->joined = 1;
        join(client);
    }
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_client *client = owner;
    gw_metrics_add(client->metrics, GW_METRIC_RECONNECTS, 1);
    if (client->job && !atomic_load(&client->failed))
        gw_log_limited(client->log, &client->limit, GW_LOG_WARN,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)payload; /* in its window already */
    gw_client_frame(owner, peer, link, frame);
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_client *client = owner;
    if (peer == client->coordinator && status == GW_ETIMEOUT)
        gw_client_fail(client, GW_EDEAD,
                       "the coordinator (%s) died at step %" PRIu64
                       ": silent for %.1f s",
                       peer->address, gw_member_clock(client->member),
                       (double)gw_peer_silent_us(peer) / 1e6);
    else if (peer == client->coordinator)
        gw_client_fail(client, status, "cannot join %s: %s", peer->address,
                       why);
    else if (status == GW_ETIMEOUT)
        gw_log_warn(client->log, "%s: silent for %.1f s", peer->name,
                    (double)gw_peer_silent_us(peer) / 1e6);
    else
        gw_client_fail(client, status, "%s: %s", peer->name, why);
}

static const struct gw_member_handler handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
};

/* ---- stalls ---- */

static void report_stall(struct gw_client *client, double seconds)
{
    uint32_t c = gw_client_first_missing(
        client, client->waits_first, client->waits_n, client->waits_version);
    const struct gw_map *map = client->map;
    uint32_t s = c == GW_CHUNK_NONE ? 0 : map->chunk[c].shard;
    const struct gw_peer *peer = client->shard[s].peer;
    uint64_t step = client->waits_version ? client->waits_version - 1 : 0;
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text,
             "step %" PRIu64 ", key %s: waiting for %s, last heard %.1f s ago, "
             "no progress for %.1f s",
             step,
             c == GW_CHUNK_NONE ? "(a decision)"
                                : map->key[map->chunk[c].key].name,
             peer->name, (double)gw_peer_silent_us(peer) / 1e6, seconds);
    gw_log_warn(client->log, "%s", text);
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

/* ---- calls ---- */

static int has_job(const struct gw_client *client)
{
    return client->job != NULL;
}

static void stop_run(struct gw_task *task)
{
    struct gw_client *client = task->owner;
    struct gw_message message = {.kind = GW_MESSAGE_STOP,
                                 .stop = {.text = "a worker got a signal"}};
    if (!atomic_load(&client->failed))
        gw_client_tell(client, client->coordinator, &message);
}

static enum gw_status open_member(struct gw_client *client,
                                  struct gw_error *error)
{
    const struct gw_client_options *options = &client->options;
    struct gw_member_options member = {
        .loop = options->loop,
        .transport = options->transport,
        .transport_config = {.interface = options->interface},
        .role = GW_ROLE_WORKER,
        .rank = options->rank,
        .join_us = options->join_us,
        .handler = &handler,
        .owner = client,
    };
    enum gw_status status = gw_member_open(&member, &client->member, error);
    if (status == GW_OK)
        status = gw_member_dial(client->member, options->coordinator,
                                GW_ROLE_COORDINATOR, 0, 1, NULL,
                                &client->coordinator, error);
    return status;
}

enum gw_status gw_client_open(const struct gw_client_options *options,
                              struct gw_client **client_p,
                              struct gw_error *error)
{
    struct gw_client *client = calloc(1, sizeof *client);
    if (!client)
        return gw_fail(error, GW_ENOMEM, "no memory for a client");
    client->options = *options;
    client->loop = options->loop;
    client->log = options->log;
    client->metrics = options->metrics;
    client->limit.per_second = 2;
    atomic_store(&client->end_clock, UINT64_MAX);
    client->stop_task.run = stop_run;
    client->stop_task.owner = client;
    enum gw_status status = gw_loop_share(client->loop, error);
    if (status != GW_OK) {
        free(client);
        return status;
    }
    gw_loop_enter(client->loop);
    status = open_member(client, error);
    client->watch.fire = on_watch;
    client->watch.owner = client;
    if (status == GW_OK)
        gw_timer_start(client->loop, &client->watch, WATCH_US);
    gw_loop_leave(client->loop);
    if (status == GW_OK) {
        status = wait_for(client, has_job);
        if (status != GW_OK && error)
            *error = client->error;
    }
    if (status != GW_OK) {
        gw_client_close(client);
        return status;
    }
    *client_p = client;
    return GW_OK;
}

static int has_flushed(const struct gw_client *client)
{
    return gw_peer_flushed(client->coordinator) ||
           !gw_peer_is_up(client->coordinator, 0) ||
           gw_loop_now(client->loop) > client->linger_until_us;
}

/* A worker that fails by itself says why before it goes. */
static void last_words(struct gw_client *client)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_END,
        .end = {.status = client->error.status, .text = client->error.text}};
    gw_loop_enter(client->loop);
    gw_peer_tell(client->coordinator, &message);
    client->linger_until_us = gw_loop_now(client->loop) + LINGER_US;
    while (!has_flushed(client))
        gw_loop_turn(client->loop);
    gw_loop_leave(client->loop);
}

void gw_client_close(struct gw_client *client)
{
    if (!client)
        return;
    if (client->coordinator && !client->ended && atomic_load(&client->failed) &&
        gw_peer_is_up(client->coordinator, 0))
        last_words(client);
    gw_loop_unshare(client->loop);
    gw_timer_stop(client->loop, &client->watch);
    gw_member_close(client->member);
    gw_client_data_close(client);
    gw_map_destroy(client->map);
    free(client->shard);
    free(client->job);
    free(client);
}

const char *gw_client_job(const struct gw_client *client)
{
    return client->job;
}

uint32_t gw_client_rank(const struct gw_client *client)
{
    return client->rank;
}

static void declare(struct gw_client *client,
                    const struct gw_client_declaration *from)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_DECLARE,
        .declare = {.keys_hash = gw_keys_hash(from->keys, from->n_keys),
                    .samples = from->samples,
                    .steps_per_epoch = from->steps_per_epoch,
                    .total_steps = from->total_steps,
                    .device = from->device,
                    .keys_total = (uint32_t)from->n_keys}};
    memcpy(message.declare.data_digest, from->data_digest, GW_DIGEST_BYTES);
    uint32_t total = client->rank == 0 ? (uint32_t)from->n_keys : 0;
    uint32_t at = 0;
    do {
        uint32_t left = total - at;
        message.declare.keys_first = at;
        message.declare.keys = from->keys + at;
        message.declare.keys_n =
            left < GW_KEYS_PER_PART ? left : GW_KEYS_PER_PART;
        gw_client_tell(client, client->coordinator, &message);
        at += message.declare.keys_n;
    } while (at < total);
}

static int has_started(const struct gw_client *client)
{
    return client->started;
}

enum gw_status
gw_client_declare(struct gw_client *client,
                  const struct gw_client_declaration *declaration)
{
    client->connections = declaration->connections;
    gw_loop_enter(client->loop);
    declare(client, declaration);
    gw_loop_leave(client->loop);
    enum gw_status status = wait_for(client, has_started);
    if (status != GW_OK)
        return status;
    status = gw_map_create(declaration->keys, declaration->n_keys,
                           client->shards, &client->map, &client->error);
    if (status == GW_OK)
        status = gw_client_data_open(client);
    return status;
}

uint64_t gw_client_key_offset(const struct gw_client *client, size_t key)
{
    return client->map->key_offset[key];
}

uint64_t gw_client_arena_bytes(const struct gw_client *client)
{
    return client->map->arena_bytes;
}

uint64_t gw_client_first_clock(const struct gw_client *client)
{
    return client->start.state.clock;
}

int gw_client_needs_seed(const struct gw_client *client)
{
    return client->needs_seed;
}

enum gw_status gw_client_attach(struct gw_client *client,
                                float *weights,
                                float *gradients,
                                int seed)
{
    client->weights = weights;
    client->gradients = gradients;
    gw_loop_enter(client->loop);
    gw_client_connect(client);
    gw_loop_leave(client->loop);
    enum gw_status status = wait_for(client, gw_client_windows_open);
    if (status != GW_OK)
        return status;
    gw_loop_enter(client->loop);
    gw_client_want_all(client, client->start.state.clock,
                       seed && client->rank == 0);
    gw_loop_leave(client->loop);
    return GW_OK;
}

enum gw_status gw_client_wait_last(struct gw_client *client,
                                   size_t first,
                                   size_t n,
                                   uint64_t version)
{
    if (atomic_load(&client->failed))
        return client->error.status;
    if (gw_client_has(client, first, n, version))
        return GW_OK;
    uint64_t before = gw_loop_now(client->loop);
    client->waits_first = first;
    client->waits_n = n;
    client->waits_version = version;
    enum gw_status status = wait_for(client, has_waited_for);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    return status;
}

enum gw_status gw_client_wait(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t version)
{
    enum gw_status status = gw_client_wait_last(client, first, n, version);
    if (status == GW_OK && atomic_load(&client->end_clock) <= version)
        return GW_EEND;
    return status;
}

static int has_room(const struct gw_client *client)
{
    return atomic_load(&client->runs_in) - atomic_load(&client->runs_out) <
           GW_CLIENT_RUNS;
}

enum gw_status gw_client_push(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint32_t samples)
{
    gw_member_set_clock(client->member, clock);
    if (!has_room(client)) {
        enum gw_status status = wait_for(client, has_room);
        if (status != GW_OK)
            return status;
    }
    uint32_t in = atomic_load(&client->runs_in);
    client->run[in % GW_CLIENT_RUNS] = (struct gw_client_run){
        .first = first, .n = n, .clock = clock, .samples = samples};
    atomic_store(&client->runs_in, in + 1);
    gw_loop_post(client->loop, &client->runs_task);
    return atomic_load(&client->failed) ? client->error.status : GW_OK;
}

static int has_score(const struct gw_client *client)
{
    return client->score_clock == client->scored_clock + 1;
}

enum gw_status gw_client_score(struct gw_client *client,
                               uint64_t clock,
                               double loss,
                               uint64_t correct,
                               uint64_t samples,
                               struct gw_client_score *score)
{
    struct gw_message message = {.kind = GW_MESSAGE_SCORE,
                                 .score = {.clock = clock,
                                           .loss = loss,
                                           .correct = correct,
                                           .samples = samples}};
    gw_loop_enter(client->loop);
    client->scored_clock = clock;
    gw_client_tell(client, client->shard[0].peer, &message);
    gw_loop_leave(client->loop);
    enum gw_status status = wait_for(client, has_score);
    if (status == GW_OK)
        *score = client->score;
    return status;
}

void gw_client_report(struct gw_client *client,
                      uint64_t clock,
                      double loss,
                      uint64_t correct,
                      uint64_t samples,
                      uint64_t rss_bytes)
{
    struct gw_metrics_snapshot counters = {0};
    if (client->metrics)
        gw_metrics_collect(client->metrics, &counters);
    struct gw_message message = {.kind = GW_MESSAGE_REPORT,
                                 .report = {.clock = clock,
                                            .loss = loss,
                                            .correct = correct,
                                            .samples = samples,
                                            .rss_bytes = rss_bytes,
                                            .counters = counters.value,
                                            .counters_n = GW_METRICS}};
    gw_loop_enter(client->loop);
    gw_peer_tell(client->coordinator, &message);
    gw_loop_leave(client->loop);
}

uint64_t gw_client_end_clock(const struct gw_client *client)
{
    return atomic_load(&client->end_clock);
}

int gw_client_end_reason(const struct gw_client *client)
{
    return client->end_reason;
}

double gw_client_loss_scale(const struct gw_client *client)
{
    return atomic_load(&client->loss_scale);
}

static int never(const struct gw_client *client)
{
    (void)client;
    return 0;
}

enum gw_status gw_client_finish(struct gw_client *client,
                                uint64_t clock,
                                const uint8_t digest[GW_DIGEST_BYTES],
                                uint64_t rss_bytes)
{
    struct gw_metrics_snapshot counters = {0};
    if (client->metrics)
        gw_metrics_collect(client->metrics, &counters);
    struct gw_message message = {.kind = GW_MESSAGE_BYE,
                                 .bye = {.clock = clock,
                                         .rss_bytes = rss_bytes,
                                         .counters = counters.value,
                                         .counters_n = GW_METRICS}};
    memcpy(message.bye.sha256, digest, GW_DIGEST_BYTES);
    gw_loop_enter(client->loop);
    gw_client_tell(client, client->coordinator, &message);
    gw_loop_leave(client->loop);
    return wait_for(client, never);
}

void gw_client_fail_with(struct gw_client *client, const struct gw_error *error)
{
    gw_client_fail(client, error->status, "%s", error->text);
}

void gw_client_stop(struct gw_client *client)
{
    gw_loop_post(client->loop, &client->stop_task);
}

int gw_client_is_over(const struct gw_client *client)
{
    return atomic_load(&client->failed) != 0;
}
