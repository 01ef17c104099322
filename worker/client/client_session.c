/*
 * The talk with the coordinator, up to the first step and at the end:
 *
 *   join --> welcome: the job --> view: the members --> declare -->
 *       start: the first clock --> .. --> good-bye --> end
 *
 * Messages come on the loop's thread.
 */
#include "config.h"

#include "worker/client/client_session.h"

#include <stdlib.h>
#include <string.h>

#include "proto/colocated.h"
#include "proto/policy.h"

/* Time for the last words to leave before the links are closed. */
#define LINGER_US 500000

struct gw_client_session {
    struct gw_client_job job;
    int ended;
    /* what another coordinator has to hear, too */
    int said_bye, asked_stop;
    struct gw_bye bye;
    uint64_t finished; /* + 1: the clock of rank 0's end; 0: none */
    uint32_t members_seen, members_total;
    int view_complete, started;
    struct gw_colocation colocated; /* members of this host */
    struct gw_start start;          /* its values, without texts and arrays */
    struct gw_course_cut from;
    uint64_t first_clock;
    int needs_seed;
    struct gw_task stop_task;
    uint64_t linger_until_us;
};

/* ---- join ---- */

void gw_client_session_join(struct gw_client *client)
{
    const struct gw_client_options *options = &client->options;
    struct gw_message message = {
        .kind = GW_MESSAGE_JOIN,
        .join = {.role = GW_ROLE_WORKER,
                 .host = options->host,
                 .machine = options->machine,
                 .pid = options->pid,
                 .threads = 1,
                 .address = gw_host_group_address(client->group),
                 .rank = options->rank,
                 .need = options->need,
                 .epoch = client->session->started
                              ? gw_member_epoch(client->member)
                              : 0},
    };
    if (gw_member_sign(client->member, client->coordinator, options->secret,
                       &message.join) == GW_OK)
        gw_client_tell(client, client->coordinator, &message);
    else
        gw_client_fail(client, GW_ENOMEM, "no memory to join");
}

/* ---- welcome ---- */

static int take_job(struct gw_client *client, const char *text)
{
    struct gw_client_job *job = &client->session->job;
    struct gw_error error;
    gw_config_default(&job->config); /* for keys that the job does not set */
    if (gw_config_parse(&job->config, "job", text, &error) != GW_OK ||
        gw_config_check(&job->config, &error) != GW_OK) {
        gw_client_fail(client, error.status, "the coordinator's job: %s",
                       error.text);
        return 0;
    }
    job->ranks = (uint32_t)job->config.cluster.workers;
    job->payload_free = job->config.train.arithmetic == GW_ARITHMETIC_NONE;
    return 1;
}

void gw_client_got_welcome(void *actor,
                           struct gw_peer *peer,
                           const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_client_session *session = client->session;
    struct gw_client_job *job = &session->job;
    const struct gw_welcome *welcome = &message->welcome;
    size_t bytes = strlen(welcome->job) + 1;
    (void)peer;
    if (client->job)
        return;
    job->text = malloc(bytes);
    if (!job->text) {
        gw_client_fail(client, GW_ENOMEM, "no memory for the job");
        return;
    }
    memcpy(job->text, welcome->job, bytes);
    strcpy(job->tuned, welcome->tuned);
    client->job = job;
    if (welcome->silence_us)
        gw_member_set_silence(client->member, welcome->silence_us);
    session->from = welcome->from;
    if (!take_job(client, job->text))
        return;
    if (welcome->rank >= job->ranks) {
        gw_client_fail(client, GW_EPROTO,
                       "the coordinator gave out rank %u, its job has %u "
                       "workers",
                       welcome->rank, job->ranks);
        return;
    }
    job->rank = welcome->rank;
    gw_member_set_rank(client->member, job->rank);
    if (client->log)
        atomic_store(&client->log->rank, (int)job->rank);
}

/* ---- view ---- */

static enum gw_status begin_view(struct gw_client *client, uint32_t members)
{
    client->session->members_total = members;
    enum gw_status status = gw_client_shards_expect(client, members);
    return status == GW_OK
               ? gw_colocation_open(&client->session->colocated, members)
               : status;
}

static int view_is_in_order(const struct gw_client *client,
                            const struct gw_view *view)
{
    const struct gw_client_session *session = client->session;
    return client->job && view->members_first == session->members_seen &&
           !session->view_complete &&
           view->members_total <= gw_config_members_max(&client->job->config) &&
           (!gw_client_shards_are_expected(client) ||
            view->members_total == session->members_total);
}

static void add_member(struct gw_client *client,
                       const struct gw_view_member *member)
{
    int worker = member->role == GW_ROLE_WORKER;
    gw_colocation_add(&client->session->colocated, client->options.machine,
                      worker && member->id == client->job->rank, member);
    if (worker && client->group)
        gw_host_group_view(client->group, member);
    if (member->role == GW_ROLE_SERVER &&
        member->id < client->session->members_total)
        gw_client_shard_named(client, member);
}

/* A later view: other servers of shards. */
static void take_later_view(struct gw_client *client,
                            const struct gw_view *view)
{
    gw_member_set_epoch(client->member, view->epoch);
    for (uint32_t i = 0; i < view->members_n; i++) {
        const struct gw_view_member *member = &view->members[i];
        if (member->role != GW_ROLE_SERVER ||
            member->id >= gw_client_shards(client) ||
            gw_client_shard_is(client, member))
            continue;
        gw_client_reconnect(client, member);
        if (member->id == 0 && !gw_client_is_over(client)) {
            gw_client_score_again(client);
            gw_client_save_renew(client);
        }
    }
}

void gw_client_got_view(void *actor,
                        struct gw_peer *peer,
                        const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_client_session *session = client->session;
    const struct gw_view *view = &message->view;
    (void)peer;
    if (session->view_complete && client->job->config.cluster.copies > 1 &&
        view->epoch > gw_member_epoch(client->member)) {
        take_later_view(client, view);
        return;
    }
    if (!view_is_in_order(client, view)) {
        gw_client_fail(client, GW_EPROTO,
                       "a view came out of order, or names more members than "
                       "the job has");
        return;
    }
    if (!gw_client_shards_are_expected(client) &&
        begin_view(client, view->members_total) != GW_OK) {
        gw_client_fail(client, GW_ENOMEM, "no memory for the view");
        return;
    }
    for (uint32_t i = 0; i < view->members_n; i++)
        add_member(client, &view->members[i]);
    session->members_seen += view->members_n;
    gw_member_set_epoch(client->member, view->epoch);
    session->view_complete = session->members_seen == session->members_total;
    if (session->view_complete && !gw_client_shards_are_named(client))
        gw_client_fail(client, GW_EPROTO, "the view does not name every shard");
}

/* ---- start ---- */

static void keep_start(struct gw_client_session *session,
                       const struct gw_start *start)
{
    session->start = *start;
    session->needs_seed = start->resume[0] == '\0' && !start->again;
    session->start.resume = session->start.dir = session->start.token = NULL;
    session->start.clocks = NULL;
    session->start.split = NULL;
    session->start.groups = NULL;
    session->start.optimizer = NULL;
}

static int begin_policy(struct gw_client *client, uint64_t step)
{
    struct gw_policy_plan plan;
    struct gw_error error;
    if (gw_policy_plan_parse(client->job->config.cluster.policy, &plan,
                             &error) != GW_OK) {
        gw_client_fail(client, error.status, "the coordinator's job: %s",
                       error.text);
        return 0;
    }
    const struct gw_policy_word word = gw_policy_at(&plan, step);
    gw_client_set_policy(client, &word, step);
    return 1;
}

void gw_client_got_start(void *actor,
                         struct gw_peer *peer,
                         const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_client_session *session = client->session;
    const struct gw_start *start = &message->start;
    struct gw_error error;
    (void)peer;
    if (!session->view_complete || session->started) {
        gw_client_fail(client, GW_EPROTO, "a start came out of order");
        return;
    }
    const struct gw_program program = {start->optimizer, start->clip};
    if (gw_config_take_program(&session->job.config, &program, &error)) {
        gw_client_fail(client, GW_EPROTO, "the start's job: %s", error.text);
        return;
    }
    keep_start(session, start);
    if (start->silence_us)
        gw_member_set_silence(client->member, start->silence_us);
    enum gw_status status = gw_client_split_begin(client, start);
    if (status == GW_OK && client->group)
        status = gw_host_group_start(client->group, start);
    if (status != GW_OK) {
        gw_client_fail(client, status, "the start's split or groups: %s",
                       gw_status_text(status));
        return;
    }
    session->first_clock = start->clocks_n == client->job->ranks
                               ? start->clocks[client->job->rank]
                               : start->state.clock;
    client->again = start->again ? session->first_clock + 1 : 0;
    gw_client_set_loss_scale(
        client, start->state.loss_scale != 0 ? start->state.loss_scale : 1);
    if (start->outlives)
        gw_peer_may_renew(client->coordinator);
    if (begin_policy(client, start->state.clock))
        session->started = 1;
}

/* ---- the end ---- */

/* GW_OK ends the job only for workers that have said good-bye: for the others
   it would be as if every wait were over. */
void gw_client_got_end(void *actor,
                       struct gw_peer *peer,
                       const struct gw_message *message)
{
    struct gw_client *client = actor;
    struct gw_client_session *session = client->session;
    const struct gw_end *end = &message->end;
    char paused[GW_PAUSED_BYTES] = "";
    (void)peer;
    session->ended = 1;
    if (gw_status_is_death(
            end->status)) /* perhaps it was this one that was missed */
        gw_member_paused_words(client->member, paused);
    if (end->status == GW_OK && !session->said_bye)
        gw_client_fail(client, GW_EPROTO,
                       "the coordinator ended the job before this worker was "
                       "done: %s",
                       gw_reason(end->text));
    else
        gw_client_fail(client, end->status, "%s%s", paused,
                       gw_reason(end->text));
}

static void say_bye(struct gw_client *client)
{
    struct gw_metrics_snapshot counters = {0};
    struct gw_message message = {.kind = GW_MESSAGE_BYE,
                                 .bye = client->session->bye};
    if (client->metrics)
        gw_metrics_collect(client->metrics, &counters);
    message.bye.counters = counters.value;
    message.bye.counters_n = GW_METRICS;
    if (gw_away_is_known(&client->away))
        gw_client_tell(client, client->coordinator, &message);
}

void gw_client_session_bye(struct gw_client *client,
                           uint64_t clock,
                           const uint8_t digest[GW_DIGEST_BYTES],
                           uint64_t rss_bytes)
{
    struct gw_client_session *session = client->session;
    session->said_bye = 1;
    session->bye = (struct gw_bye){.clock = clock,
                                   .has_sha256 = client->job->rank == 0,
                                   .rss_bytes = rss_bytes};
    memcpy(session->bye.sha256, digest, GW_DIGEST_BYTES);
    say_bye(client);
}

static int has_flushed(const struct gw_client *client)
{
    return gw_peer_flushed(client->coordinator) ||
           !gw_peer_is_up(client->coordinator, 0) ||
           gw_loop_now(client->loop) > client->session->linger_until_us;
}

static void say_last_words(struct gw_client *client)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_END,
        .end = {.status = client->error.status, .text = client->error.text}};
    if (gw_peer_tell(client->coordinator, &message) != GW_OK)
        /* nobody else can say it then */
        gw_log_error(client->log, "%s", client->error.text);
    client->session->linger_until_us = gw_loop_now(client->loop) + LINGER_US;
    while (!has_flushed(client))
        gw_loop_turn(client->loop);
}

/* With the loop in hand: its thread may just lose the link. */
void gw_client_session_last_words(struct gw_client *client)
{
    gw_loop_enter(client->loop);
    if (!client->session->ended && gw_peer_is_up(client->coordinator, 0))
        say_last_words(client);
    gw_loop_leave(client->loop);
}

static void tell_stop(struct gw_client *client)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STOP, .stop = {.text = "a worker got a signal"}};
    if (!gw_client_is_over(client) && gw_away_is_known(&client->away))
        gw_client_tell(client, client->coordinator, &message);
}

static void stop_run(struct gw_task *task)
{
    struct gw_client *client = task->owner;
    client->session->asked_stop = 1;
    tell_stop(client);
}

void gw_client_stop(struct gw_client *client)
{
    gw_loop_post(client->loop, &client->session->stop_task);
}

static void tell_finished(struct gw_client *client)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STOP,
        .stop = {.text = "", .finished = client->session->finished}};
    if (gw_away_is_known(&client->away))
        gw_client_tell(client, client->coordinator, &message);
}

void gw_client_session_finished(struct gw_client *client, uint64_t clock)
{
    client->session->finished = clock + 1;
    tell_finished(client);
}

void gw_client_session_renew(struct gw_client *client)
{
    const struct gw_client_session *session = client->session;
    if (session->asked_stop)
        tell_stop(client);
    if (session->finished && !session->said_bye)
        tell_finished(client);
    if (session->said_bye)
        say_bye(client);
}

/* ---- what the coordinator said ---- */

int gw_client_has_job(const struct gw_client *client)
{
    return client->job != NULL;
}

int gw_client_has_view(const struct gw_client *client)
{
    return client->session->view_complete;
}

int gw_client_has_started(const struct gw_client *client)
{
    return client->session->started;
}

void gw_client_colocated(const struct gw_client *client,
                         struct gw_colocated *colocated_p)
{
    gw_colocation_seen_by(&client->session->colocated, GW_ROLE_WORKER,
                          client->job->rank, colocated_p);
}

const char *gw_client_job(const struct gw_client *client)
{
    return client->job ? client->job->text : NULL;
}

uint32_t gw_client_rank(const struct gw_client *client)
{
    return client->session->job.rank;
}

const char *gw_client_tuned(const struct gw_client *client)
{
    return client->session->job.tuned;
}

void gw_client_copy_program(const struct gw_client *client,
                            struct gw_config *config)
{
    gw_config_copy_program(config, &client->session->job.config);
}

const struct gw_course_cut *gw_client_from(const struct gw_client *client)
{
    return &client->session->from;
}

uint64_t gw_client_first_step(const struct gw_client *client)
{
    return client->session->start.state.clock;
}

uint64_t gw_client_first_clock(const struct gw_client *client)
{
    return client->session->first_clock;
}

uint64_t gw_client_evaluations(const struct gw_client *client)
{
    return client->session->start.state.evaluations;
}

int gw_client_outlives(const struct gw_client *client)
{
    return client->session->started && client->session->start.outlives;
}

int gw_client_needs_seed(const struct gw_client *client)
{
    return client->session->needs_seed;
}

int gw_client_has_inner(const struct gw_client *client)
{
    return client->session->start.has_inner;
}

/* ---- opening and closing ---- */

enum gw_status gw_client_session_open(struct gw_client *client)
{
    client->session = calloc(1, sizeof *client->session);
    if (!client->session)
        return GW_ENOMEM;
    client->session->stop_task.run = stop_run;
    client->session->stop_task.owner = client;
    return GW_OK;
}

void gw_client_session_cancel(struct gw_client *client)
{
    gw_loop_unpost(client->loop, &client->session->stop_task);
}

void gw_client_session_close(struct gw_client *client)
{
    struct gw_client_session *session = client->session;
    if (!session)
        return;
    gw_colocation_close(&session->colocated);
    free(session->job.text);
    free(session);
}
