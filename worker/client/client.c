/*
 * The client's life: joining, declaring, pushing, ending. Calls that wait for
 * something take the loop for it (client_wait.c).
 */
#include "config.h"

#include "worker/client/client_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/policy.h"

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
    /* to a step "again" would mean that it is called elsewhere, for ever */
    client->error.status = status == GW_EAGAIN ? GW_ETIMEOUT : status;
    gw_text_print(client->error.text, sizeof client->error.text, format, args);
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
        .data = options->data,
        .transport_config = {.interface = options->interface},
        .control_interface = options->control_interface,
        .role = GW_ROLE_WORKER,
        .rank = options->rank,
        .join_us = options->join_us,
        .silence_us = options->silence_us,
        .handler = &gw_client_handler,
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
    if (status == GW_OK)
        status = gw_node_open(client, &client->node, error);
    if (status == GW_OK)
        gw_client_watch(client);
    gw_loop_leave(client->loop);
    if (status == GW_OK) {
        status = gw_client_wait_for(client, has_job, GW_WAITING_UNWATCHED);
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
    if (gw_peer_tell(client->coordinator, &message) != GW_OK)
        /* nobody else can say it then */
        gw_log_error(client->log, "%s", client->error.text);
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
    /* it may have failed before they ran */
    gw_loop_unpost(client->loop, &client->runs_task);
    gw_loop_unpost(client->loop, &client->stop_task);
    gw_timer_stop(client->loop, &client->watch);
    gw_member_close(client->member); /* gives back what the node has sent */
    gw_node_close(client->node);
    gw_client_files_close(client);
    gw_client_data_close(client);
    gw_client_split_close(client);
    gw_map_destroy(client->map);
    gw_met_close(&client->met);
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

const struct gw_course_cut *gw_client_from(const struct gw_client *client)
{
    return &client->from;
}

const char *gw_client_tuned(const struct gw_client *client)
{
    return client->tuned;
}

static int has_view(const struct gw_client *client)
{
    return client->view_complete;
}

enum gw_status gw_client_meet(struct gw_client *client,
                              struct gw_mates *mates_p)
{
    enum gw_status status =
        gw_client_wait_for(client, has_view, GW_WAITING_UNWATCHED);
    if (status == GW_OK)
        gw_met_mates(&client->met, GW_ROLE_WORKER, client->rank, mates_p);
    return status;
}

static void declare(struct gw_client *client,
                    const struct gw_client_declaration *from)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_DECLARE,
        .declare = {.keys_hash = gw_keys_hash(from->keys, from->n_keys),
                    .course = from->course,
                    .total_steps = from->total_steps,
                    .device = from->device,
                    .tuned = from->tuned,
                    .note = from->note,
                    .test_samples = from->test_samples,
                    .shares = client->node != NULL,
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
    struct gw_error error;
    client->connections = declaration->connections;
    gw_loop_enter(client->loop);
    declare(client, declaration);
    gw_loop_leave(client->loop);
    enum gw_status status =
        gw_client_wait_for(client, has_started, GW_WAITING_UNWATCHED);
    if (status != GW_OK)
        return status;
    status = gw_map_create(declaration->keys, declaration->n_keys,
                           client->shards, &client->map, &error);
    if (status == GW_OK)
        status = gw_client_data_open(client, &error);
    if (status != GW_OK)
        gw_client_fail_with(client, &error);
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
    return client->first_clock;
}

uint64_t gw_client_evaluations(const struct gw_client *client)
{
    return client->start.state.evaluations;
}

int gw_client_needs_seed(const struct gw_client *client)
{
    return client->needs_seed;
}

enum gw_memory_kind gw_client_memory_kind(const struct gw_client *client)
{
    return client->hollow ? GW_MEMORY_HOST
                          : gw_ways_memory(client->options.data);
}

enum gw_memory_kind gw_client_gradients_kind(const struct gw_client *client)
{
    return client->hollow || !gw_client_has_neighbours(client)
               ? gw_client_memory_kind(client)
               : GW_MEMORY_SHARED;
}

int gw_client_has_neighbours(const struct gw_client *client)
{
    return gw_node_ranks(client->node) > 1;
}

/* Memory that others of this host write, and see, by themselves. */
static void lend(struct gw_client *client,
                 const struct gw_client_arenas *arenas)
{
    if (client->hollow)
        return;
    gw_member_lend(client->member, &arenas->gradients);
    if (client->device && client->device->pages.bytes > 0)
        gw_member_lend(client->member, &client->device->pages);
    if (arenas->weights.kind == GW_MEMORY_SHARED)
        gw_member_lend(client->member, &arenas->weights);
    if (client->bf16 && arenas->bf16.kind == GW_MEMORY_SHARED)
        gw_member_lend(client->member, &arenas->bf16);
}

enum gw_status gw_client_attach(struct gw_client *client,
                                const struct gw_client_arenas *arenas,
                                const struct gw_device_arenas *device,
                                int seed)
{
    struct gw_error error;
    client->weights = arenas->weights.base;
    client->gradients = arenas->gradients.base;
    client->device = device;
    if (gw_client_bf16_bytes(client) > 0) {
        assert(arenas->bf16.base &&
               arenas->bf16.bytes >= gw_client_bf16_bytes(client));
        client->bf16 = arenas->bf16.base;
        client->bf16_stays = arenas->bf16_stays;
    }
    gw_loop_enter(client->loop);
    lend(client, arenas);
    gw_client_connect(client);
    if (gw_client_has_neighbours(client) &&
        gw_node_connect(client->node, arenas, device, &error) != GW_OK)
        gw_client_fail(client, error.status, "a worker of this host: %s",
                       error.text);
    gw_loop_leave(client->loop);
    enum gw_status status = gw_client_wait_for(client, gw_client_windows_open,
                                               GW_WAITING_UNWATCHED);
    if (status != GW_OK)
        return status;
    gw_loop_enter(client->loop);
    gw_client_tell_far(client);
    gw_client_tell_shown(client);
    gw_client_want_all(client, client->first_clock, seed && client->rank == 0);
    gw_loop_leave(client->loop);
    return GW_OK;
}

int gw_client_is_late(const struct gw_client *client, uint64_t clock)
{
    return atomic_load(&client->late_clock) > clock;
}

int gw_client_counts(const struct gw_client *client, uint64_t clock)
{
    return !client->may_jump ||
           atomic_load(&client->counted_clock) == clock + 1;
}

void gw_client_computed(struct gw_client *client,
                        const struct gw_computed *part)
{
    gw_loop_computed(client->loop, part);
}

static int has_room(const struct gw_client *client)
{
    return atomic_load(&client->runs_in) - atomic_load(&client->runs_out) <
           GW_CLIENT_RUNS;
}

int gw_client_pushes_sums(const struct gw_client *client)
{
    return client->word.kind == GW_POLICY_SYNC &&
           gw_client_has_neighbours(client);
}

void gw_client_begin_step(struct gw_client *client, uint64_t clock)
{
    gw_member_set_clock(client->member, clock);
}

enum gw_status gw_client_push(struct gw_client *client,
                              size_t first,
                              size_t n,
                              uint64_t clock,
                              uint64_t next,
                              uint32_t samples)
{
    gw_member_set_clock(client->member, clock);
    if (!has_room(client)) {
        enum gw_status status =
            gw_client_wait_for(client, has_room, GW_WAITING_UNWATCHED);
        if (status != GW_OK)
            return status;
    }
    if (gw_policy_is_local(client->word.kind))
        gw_client_made_on_host(client, first, n);
    uint64_t to = atomic_load(&client->next_clock); /* asked for */
    uint32_t in = atomic_load(&client->runs_in);
    client->run[in % GW_CLIENT_RUNS] = (struct gw_client_run){
        .first = first,
        .n = n,
        .clock = clock,
        .next = next,
        .samples = samples,
        .sums = gw_client_pushes_sums(client),
        .still = client->word.kind == GW_POLICY_SYNC,
        .apart = next >= client->until || (to > 0 && next >= to - 1)};
    atomic_store(&client->runs_in, in + 1);
    gw_loop_post(client->loop, &client->runs_task);
    return atomic_load(&client->failed) ? client->error.status : GW_OK;
}

int gw_client_is_each(const struct gw_client *client)
{
    return client->each;
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
    struct gw_message message = {
        .kind = GW_MESSAGE_SCORE,
        .score = {.loss = loss, .correct = correct, .samples = samples}};
    gw_loop_enter(client->loop);
    /* ranks at clocks of their own meet at one step */
    message.score.clock = client->each ? client->meeting.step : clock;
    client->scored_clock = message.score.clock;
    gw_client_tell(client, client->shard[0].peer, &message);
    gw_loop_leave(client->loop);
    enum gw_status status =
        gw_client_wait_for(client, has_score, GW_WAITING_SCORE);
    if (status == GW_OK)
        *score = client->score;
    return status;
}

void gw_client_stepped(struct gw_client *client, uint64_t clock)
{
    gw_member_set_clock(client->member, clock);
}

void gw_client_report(struct gw_client *client,
                      uint64_t clock,
                      double loss,
                      uint64_t correct,
                      uint64_t samples,
                      uint64_t rss_bytes)
{
    struct gw_metrics_snapshot counters = {0};
    uint64_t staleness[GW_STALENESS_BUCKETS];
    for (size_t i = 0; i < GW_STALENESS_BUCKETS; i++)
        staleness[i] = atomic_load(&client->staleness[i]);
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
                   .decision = atomic_load(&client->told_decision)}};
    if (client->each) {
        message.report.staleness = staleness;
        message.report.staleness_n = GW_STALENESS_BUCKETS;
    }
    gw_loop_enter(client->loop);
    gw_peer_tell(client->coordinator, &message);
    gw_loop_leave(client->loop);
}

uint64_t gw_client_polled(const struct gw_client *client)
{
    return atomic_load(&client->polled);
}

int gw_client_ends_standing(const struct gw_client *client)
{
    return atomic_load(&client->drained) &&
           atomic_load(&client->end_clock) != UINT64_MAX;
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
                                         .has_sha256 = client->rank == 0,
                                         .rss_bytes = rss_bytes,
                                         .counters = counters.value,
                                         .counters_n = GW_METRICS}};
    memcpy(message.bye.sha256, digest, GW_DIGEST_BYTES);
    gw_loop_enter(client->loop);
    gw_node_let_go(client->node);
    for (uint32_t s = 0; s < client->shards; s++)
        gw_peer_rest(client->shard[s].peer);
    client->said_bye = 1;
    gw_client_tell(client, client->coordinator, &message);
    gw_loop_leave(client->loop);
    return gw_client_wait_for(client, never, GW_WAITING_UNWATCHED);
}

void gw_client_fail_with(struct gw_client *client, const struct gw_error *error)
{
    gw_loop_enter(client->loop); /* the loop's thread may fail it as well */
    gw_client_fail(client, error->status, "%s", error->text);
    gw_loop_leave(client->loop);
}

void gw_client_stop(struct gw_client *client)
{
    gw_loop_post(client->loop, &client->stop_task);
}

int gw_client_is_over(const struct gw_client *client)
{
    return atomic_load(&client->failed) != 0;
}
