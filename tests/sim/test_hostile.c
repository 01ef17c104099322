/*
 * Members that are logged in, or try to be, and lie: the coordinator and the
 * servers turn them away in words, and the job does not suffer.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"
#include "server/policy/decision_state.h"
#include "server/server_state.h"
#include "tests/sim/stranger.h"

#define LIMIT_US 20000000

static struct cluster cluster;

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .bytes_per_us = 1000};

static int has_ended(void *owner)
{
    return ((struct stranger *)owner)->ended != GW_OK;
}

static int is_finished(void *owner)
{
    (void)owner;
    return cluster.finished;
}

static uint64_t job_of_the_cluster(void)
{
    char text[4096] = "";
    gw_coordinator_status(cluster.coordinator, text, sizeof text);
    assert_int_equal(strncmp(text, "job ", 4), 0);
    return strtoull(text + 4, NULL, 16);
}

/* The servers listen on the ports behind the coordinator's. */
static const char *const server_address[] = {"disk:50001", "disk:50002"};

/* Who is not in the view is no member, whatever it calls itself. */
static void strangers_are_no_members(void **state)
{
    (void)state;
    static const struct {
        uint8_t role;
        uint32_t rank;
    } claims[] = {{GW_ROLE_WORKER, 0},     {GW_ROLE_WORKER, 1},
                  {GW_ROLE_WORKER, 77},    {GW_ROLE_WORKER, GW_RANK_NONE},
                  {GW_ROLE_SERVER, 0},     {GW_ROLE_SERVER, 1},
                  {GW_ROLE_OBSERVER, 0},   {GW_ROLE_COORDINATOR, 0},
                  {GW_ROLE_SERVER, 100000}};
    const char *settings[] = {"train.steps=200", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    uint64_t job = job_of_the_cluster();
    for (size_t i = 0; i < 2 * sizeof claims / sizeof *claims; i++) {
        struct stranger stranger;
        stranger_open(&stranger, &cluster, job, server_address[i % 2],
                      claims[i / 2].role, claims[i / 2].rank, GW_ROLE_SERVER);
        assert_true(
            cluster_run_until(&cluster, stranger_is_lost, &stranger, LIMIT_US));
        assert_int_equal(stranger.lost, GW_EREFUSED);
        if (claims[i / 2].role != GW_ROLE_OBSERVER)
            assert_string_equal(stranger.why,
                                "not a member of this job's view");
        assert_int_equal(stranger.up, 0);
        stranger_close(&stranger);
    }
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    assert_true(cluster.steps > 100);
    cluster_close(&cluster);
}

/* Who takes a server's port for the coordinator's learns it at once, also
   before the job begins. */
static void who_means_the_coordinator_is_sent_there(void **state)
{
    (void)state;
    cluster_open(&cluster, &calm, NULL, NULL);
    for (uint8_t role = GW_ROLE_SERVER; role <= GW_ROLE_OBSERVER; role++) {
        struct stranger stranger;
        stranger_open(&stranger, &cluster, 0, server_address[0], role,
                      GW_RANK_NONE, GW_ROLE_COORDINATOR);
        assert_true(
            cluster_run_until(&cluster, stranger_is_lost, &stranger, LIMIT_US));
        assert_int_equal(stranger.lost, GW_EREFUSED);
        assert_string_equal(stranger.why,
                            "a server of a job listens here; join its "
                            "coordinator, at disk:50000");
        stranger_close(&stranger);
    }
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

/* What only members, or only others, may say ends the connection; the last
   words of one who never joined bear on nobody. */
static void messages_out_of_place_are_refused(void **state)
{
    (void)state;
    static const struct gw_message messages[] = {
        {.kind = GW_MESSAGE_READY},
        {.kind = GW_MESSAGE_REPORT},
        {.kind = GW_MESSAGE_SAVED, .saved = {.file = "x", .text = ""}},
        {.kind = GW_MESSAGE_DECISION, .decision = {.kind = GW_DECIDE_END}},
        {.kind = GW_MESSAGE_STOP, .stop = {.text = "stop"}},
        {.kind = GW_MESSAGE_REQUEST,
         .request = {.kind = GW_REQUEST_STOP, .text = ""}},
        {.kind = GW_MESSAGE_START,
         .start = {.resume = "", .dir = "", .token = ""}},
        {.kind = GW_MESSAGE_WELCOME, .welcome = {.job = ""}},
    };
    static const struct gw_message bye = {.kind = GW_MESSAGE_BYE};
    static const struct gw_message over = {
        .kind = GW_MESSAGE_END, .end = {.status = GW_EABORTED, .text = "over"}};
    const char *settings[] = {"train.steps=300", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct stranger stranger;
        stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_WORKER,
                      GW_RANK_NONE, GW_ROLE_COORDINATOR);
        assert_true(
            cluster_run_until(&cluster, stranger_is_up, &stranger, LIMIT_US));
        stranger_tell(&stranger, &bye);
        stranger_tell(&stranger, &over);
        stranger_tell(&stranger, &messages[i]);
        assert_true(
            cluster_run_until(&cluster, stranger_is_down, &stranger, LIMIT_US));
        stranger_close(&stranger);
    }
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

/* Everybody who reaches the port may look. The end is for members to ask for,
   and for the user, through the local socket. */
static void observers_end_no_job(void **state)
{
    (void)state;
    static const struct gw_message messages[] = {
        {.kind = GW_MESSAGE_STOP, .stop = {.text = "stop"}},
        {.kind = GW_MESSAGE_END, .end = {.status = GW_EDEAD, .text = "over"}},
        {.kind = GW_MESSAGE_BYE},
    };
    const char *settings[] = {"train.steps=300", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        struct stranger stranger;
        stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_OBSERVER,
                      GW_RANK_NONE, GW_ROLE_COORDINATOR);
        assert_true(
            cluster_run_until(&cluster, stranger_is_up, &stranger, LIMIT_US));
        stranger_tell(&stranger, &messages[i]);
        if (messages[i].kind == GW_MESSAGE_STOP)
            assert_true(cluster_run_until(&cluster, stranger_is_down, &stranger,
                                          LIMIT_US));
        stranger_close(&stranger);
    }
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.final.step, 300);
    cluster_close(&cluster);
}

static int is_answered(void *owner)
{
    return ((struct stranger *)owner)->answer[0] != '\0';
}

/* An observer that did not come through the local socket may look, and is told
   where to go with what he wants. */
static void orders_from_the_network_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct gw_request request;
        const char *name;
    } orders[] = {
        {{GW_REQUEST_POLICY, "async"}, "policy: only who comes through "},
        {{GW_REQUEST_POLICY, "no word"}, "policy: only who comes through "},
        {{GW_REQUEST_CHECKPOINT, ""}, "checkpoint: only who comes through "},
        {{GW_REQUEST_STOP, ""}, "stop: only who comes through "},
    };
    const char *settings[] = {"train.steps=300", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    struct stranger stranger;
    stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_OBSERVER,
                  GW_RANK_NONE, GW_ROLE_COORDINATOR);
    assert_true(
        cluster_run_until(&cluster, stranger_is_up, &stranger, LIMIT_US));
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        stranger.answer[0] = '\0';
        stranger_tell(&stranger,
                      &(struct gw_message){.kind = GW_MESSAGE_REQUEST,
                                           .request = orders[i].request});
        assert_true(
            cluster_run_until(&cluster, is_answered, &stranger, LIMIT_US));
        assert_int_equal(stranger.answered, GW_EREFUSED);
        assert_int_equal(
            strncmp(stranger.answer, orders[i].name, strlen(orders[i].name)),
            0);
    }
    stranger.answer[0] = '\0';
    stranger_tell(
        &stranger,
        &(struct gw_message){.kind = GW_MESSAGE_STATUS,
                             .status = {.request = GW_ASK_STATUS, .text = ""}});
    assert_true(cluster_run_until(&cluster, is_answered, &stranger, LIMIT_US));
    assert_int_equal(stranger.answered, GW_OK);
    assert_int_equal(stranger.down, 0);
    stranger_close(&stranger);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    assert_int_equal(cluster.final.step, 300);
    cluster_close(&cluster);
}

/* ---- one word after the other ---- */

static int is_decided(void *owner)
{
    const struct gw_server *server = owner;
    return !gw_switch_is_asked(server->leader);
}

static int is_switched(void *owner)
{
    const struct gw_coordinator *coordinator = owner;
    return gw_regimes_at(coordinator, GW_CLOCK_MAX)->word.kind ==
           GW_POLICY_ASYNC;
}

/* As the coordinator hears it from its local socket. */
static void ask(struct stranger *stranger, const char *word)
{
    struct gw_peer *peer = gw_member_peers(cluster.coordinator->member);
    const struct gw_request request = {GW_REQUEST_POLICY, word};
    while (peer->role != GW_ROLE_OBSERVER)
        peer = gw_peer_next(peer);
    peer->local = 1;
    stranger->answer[0] = '\0';
    gw_coordinator_requested(cluster.coordinator, peer, &request);
}

static void wants_answer(struct stranger *stranger, const char *answer)
{
    assert_true(cluster_run_until(&cluster, is_answered, stranger, LIMIT_US));
    if (strncmp(stranger->answer, answer, strlen(answer)) != 0)
        fail_msg("not \"%s\": %s", answer, stranger->answer);
}

static struct gw_server *leading(void)
{
    size_t i = 0;
    while (!cluster.server[i].server->leader)
        i++;
    return cluster.server[i].server;
}

/* A second word is asked for before the coordinator has heard that the first
   one is decided: the first one comes, but it is not what the job stays at. */
static void a_word_that_is_asked_for_is_not_forgotten(void **state)
{
    (void)state;
    const char *settings[] = {"train.steps=600", NULL};
    struct stranger stranger;
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_OBSERVER,
                  GW_RANK_NONE, GW_ROLE_COORDINATOR);
    assert_true(
        cluster_run_until(&cluster, stranger_is_up, &stranger, LIMIT_US));
    ask(&stranger, "sync");
    wants_answer(&stranger, "the policy is sync already");
    ask(&stranger, "backup:0");
    wants_answer(&stranger, "the policy is sync already");
    ask(&stranger, "async");
    wants_answer(&stranger, "switching to async");
    assert_true(cluster_run_until(&cluster, is_decided, leading(), LIMIT_US));
    assert_true(
        gw_regimes_is_asked(cluster.coordinator)); /* it has not heard so */
    ask(&stranger, "ssp:2");
    assert_true(cluster_run_until(&cluster, is_switched, cluster.coordinator,
                                  LIMIT_US));
    wants_answer(&stranger, "switching to ssp:2");
    gw_coordinator_switch_reached(cluster.coordinator, UINT64_MAX);
    ask(&stranger, "async");
    wants_answer(&stranger, "switching to async");
    stranger_close(&stranger);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

/* A shard 0 that decides out of turn. */
static void decisions_before_their_votes_end_the_job(void **state)
{
    (void)state;
    static const uint8_t kinds[] = {GW_DECIDE_STEP, GW_DECIDE_TRUST};
    static const char *const commits[] = {"train.commit=whole",
                                          "train.commit=streaming"};
    for (size_t i = 0; i < 4; i++) {
        const char *settings[] = {"train.steps=600", commits[i / 2], NULL};
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run_until(&cluster, cluster_is_running, &cluster,
                                      LIMIT_US));
        const struct gw_leader *leader = leading()->leader;
        const struct gw_decision forged = {.kind = kinds[i % 2],
                                           .number =
                                               gw_stream_number(leader) + 1,
                                           .clock = leader->state.clock + 1,
                                           .apply = 1};
        leader->options.emit(leader->options.owner, &forged);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EPROTO);
        assert_non_null(strstr(cluster.text, "this shard has not voted"));
        cluster_close(&cluster);
    }
}

static void late_members_are_turned_away(void **state)
{
    (void)state;
    struct stranger stranger;
    const char *settings[] = {"train.steps=100", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US));
    stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_WORKER,
                  GW_RANK_NONE, GW_ROLE_COORDINATOR);
    stranger_tell(&stranger,
                  &(struct gw_message){.kind = GW_MESSAGE_JOIN,
                                       .join = {.role = GW_ROLE_WORKER,
                                                .host = "late",
                                                .address = "",
                                                .rank = GW_RANK_NONE}});
    assert_true(cluster_run_until(&cluster, has_ended, &stranger, LIMIT_US));
    assert_int_equal(stranger.ended, GW_EREFUSED);
    assert_non_null(strstr(stranger.text, "has all its members"));
    stranger_close(&stranger);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

static int is_declared(void *owner)
{
    (void)owner;
    return gw_declaration_is_here(cluster.coordinator);
}

/* A worker that counts other steps than the job has would train, and save, in
   places that are not its own. */
static void steps_of_another_job_end_the_job(void **state)
{
    (void)state;
    static const struct gw_declare others[] = {
        {.course = {.batch = 20}, .total_steps = 10},
        {.course = {.batch = 21, .samples = 200}, .total_steps = 10},
        {.course = {.batch = 20, .samples = 200}, .total_steps = 11},
        {.course = {.epoch = 1, .batch = 20, .samples = 200},
         .total_steps = 10},
        {.course = {.sample = 3, .batch = 20, .samples = 200},
         .total_steps = 10},
        {.course = {.clock = 3, .batch = 20, .samples = 200},
         .total_steps = 10},
    };
    const char *settings[] = {"cluster.workers=2", NULL};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct stranger stranger;
        struct gw_message message = {.kind = GW_MESSAGE_DECLARE,
                                     .declare = others[i]};
        message.declare.device = message.declare.tuned = "";
        cluster_open(&cluster, &calm, settings, NULL);
        stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_WORKER, 0,
                      GW_ROLE_COORDINATOR);
        stranger_tell(&stranger,
                      &(struct gw_message){.kind = GW_MESSAGE_JOIN,
                                           .join = {.role = GW_ROLE_WORKER,
                                                    .host = "liar",
                                                    .address = "",
                                                    .rank = GW_RANK_NONE}});
        gw_sim_kill(cluster.worker[0].loop);
        gw_sim_kill(cluster.worker[1].loop);
        stranger_tell(&stranger, &message);
        assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EMISMATCH);
        assert_non_null(strstr(cluster.final.text, "counts other steps than"));
        stranger_close(&stranger);
        cluster_close(&cluster);
    }
}

/* A second part that speaks of more keys than the first made room for. */
static void more_keys_than_declared_end_the_job(void **state)
{
    (void)state;
    struct stranger stranger;
    struct gw_key keys[64] = {{.name = ""}};
    struct gw_message part = {
        .kind = GW_MESSAGE_DECLARE,
        .declare = {.course = {.batch = 20, .samples = 200},
                    .total_steps = 10,
                    .device = "a device",
                    .tuned = "a way",
                    .keys_total = 2,
                    .keys_n = 1,
                    .keys = keys}};
    const char *settings[] = {"cluster.workers=2", NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    /* before the real workers come */
    stranger_open(&stranger, &cluster, 0, "disk:50000", GW_ROLE_WORKER, 0,
                  GW_ROLE_COORDINATOR);
    stranger_tell(&stranger,
                  &(struct gw_message){.kind = GW_MESSAGE_JOIN,
                                       .join = {.role = GW_ROLE_WORKER,
                                                .host = "liar",
                                                .address = "",
                                                .rank = GW_RANK_NONE}});
    for (size_t i = 0; i < 64; i++)
        snprintf(keys[i].name, sizeof keys[i].name, "k%zu", i);
    gw_sim_kill(cluster.worker[0].loop);
    gw_sim_kill(cluster.worker[1].loop);
    stranger_tell(&stranger, &part);
    /* nothing is kept of a message, whose memory is used again */
    assert_true(cluster_run_until(&cluster, is_declared, NULL, LIMIT_US));
    assert_string_equal(gw_declaration(cluster.coordinator)->device, "");
    assert_string_equal(gw_declaration(cluster.coordinator)->tuned, "");
    part.declare.keys_total = 8000;
    part.declare.keys_first = 1;
    part.declare.keys_n = 64;
    stranger_tell(&stranger, &part);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EPROTO);
    stranger_close(&stranger);
    cluster_close(&cluster);
}

static const char *const impatient[] = {"cluster.step_deadline=1",
                                        "cluster.abort_after=3", NULL};

/* A job is done when its leader says so and not when one member does. */
static void no_member_declares_a_job_done(void **state)
{
    (void)state;
    struct stranger stranger;
    cluster_open(&cluster, &calm, impatient, NULL);
    gw_sim_kill(cluster.worker[1].loop);
    stranger_join(&stranger, &cluster, GW_ROLE_WORKER);
    stranger_tell(&stranger, &(struct gw_message){.kind = GW_MESSAGE_END,
                                                  .end = {.text = "done"}});
    assert_true(
        cluster_run_until(&cluster, stranger_is_down, &stranger, LIMIT_US));
    assert_false(cluster.finished);
    stranger_close(&stranger);
    assert_true(cluster_run_until(&cluster, is_finished, NULL, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_EDEAD);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_no_members),
        cmocka_unit_test(who_means_the_coordinator_is_sent_there),
        cmocka_unit_test(messages_out_of_place_are_refused),
        cmocka_unit_test(observers_end_no_job),
        cmocka_unit_test(orders_from_the_network_are_refused),
        cmocka_unit_test(a_word_that_is_asked_for_is_not_forgotten),
        cmocka_unit_test(decisions_before_their_votes_end_the_job),
        cmocka_unit_test(late_members_are_turned_away),
        cmocka_unit_test(steps_of_another_job_end_the_job),
        cmocka_unit_test(more_keys_than_declared_end_the_job),
        cmocka_unit_test(no_member_declares_a_job_done),
    };
    int failed = cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
