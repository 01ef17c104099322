/*
 * A coordinator, or a shard 0, that lies to a server: whatever it says, the
 * server ends with a line, or turns it away, and touches no memory that is not
 * its own.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/policy/decision_state.h"
#include "server/server_state.h"
#include "tests/fuzz/session.h"

#define TURN_US 20000

/* ---- a coordinator ---- */

static void tell_start(struct session_world *world, struct gw_start start)
{
    start.resume = start.dir = start.token = "";
    start.total_steps = 5;
    start.course = (struct gw_course){.batch = 8, .samples = 40};
    session_coordinate(
        world, &(struct gw_message){.kind = GW_MESSAGE_START, .start = start});
}

static void before_start(struct session_world *world)
{
    session_welcome(world);
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
    session_keys(world);
}

static void half_a_view(struct session_world *world)
{
    session_welcome(world);
    session_view(world, 1, SESSION_MEMBERS);
    session_keys(world);
    session_start(world);
}

/* Half of it, but not the server's own half. */
static void a_view_of_others(struct session_world *world)
{
    session_welcome(world);
    world->member[0].incarnation++;
    session_view(world, 1, SESSION_MEMBERS);
    session_keys(world);
    session_start(world);
}

static void no_workers(struct session_world *world)
{
    session_welcome(world);
    session_view(world, 2, 2);
}

static void a_worker_twice(struct session_world *world)
{
    session_welcome(world);
    world->member[3].id = 0;
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void a_shard_twice(struct session_world *world)
{
    session_welcome(world);
    world->member[1].id = 0;
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void a_shard_out_of_range(struct session_world *world)
{
    session_welcome(world);
    world->member[0].id = 1000;
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void a_member_of_no_role(struct session_world *world)
{
    session_welcome(world);
    world->member[3].role = 77;
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void more_members_than_any_job(struct session_world *world)
{
    session_welcome(world);
    session_view(world, SESSION_MEMBERS, UINT32_MAX);
}

static void a_second_view(struct session_world *world)
{
    before_start(world);
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void a_later_view_too_early(struct session_world *world)
{
    before_start(world);
    session_coordinate(
        world, &(struct gw_message){.kind = GW_MESSAGE_VIEW,
                                    .view = {.epoch = 2,
                                             .members_total = 1,
                                             .members_n = 1,
                                             .members = &world->member[2]}});
}

static void a_view_before_the_job(struct session_world *world)
{
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
}

static void a_start_before_all(struct session_world *world)
{
    session_start(world);
}

static void a_start_without_keys(struct session_world *world)
{
    session_welcome(world);
    session_view(world, SESSION_MEMBERS, SESSION_MEMBERS);
    session_start(world);
}

static void a_second_start(struct session_world *world)
{
    before_start(world);
    session_start(world);
    session_start(world);
}

static void a_second_welcome(struct session_world *world)
{
    session_welcome(world);
    session_welcome(world);
}

static void groups_of_nobody(struct session_world *world)
{
    static const uint32_t group[] = {77};
    before_start(world);
    tell_start(world, (struct gw_start){.groups = group, .groups_n = 1});
}

static void a_split_of_nobody(struct session_world *world)
{
    static const uint32_t split[] = {1, 2, 3};
    before_start(world);
    tell_start(world, (struct gw_start){.split = split, .split_n = 3});
}

static void a_loss_scale_that_is_none(struct session_world *world)
{
    before_start(world);
    tell_start(world, (struct gw_start){.state = {.loss_scale = NAN}});
}

static void tell_job(struct session_world *world, const char *job)
{
    session_coordinate(
        world, &(struct gw_message){
                   .kind = GW_MESSAGE_WELCOME,
                   .welcome = {.rank = GW_RANK_NONE, .job = job, .tuned = ""}});
}

static void a_job_of_nothing(struct session_world *world)
{
    tell_job(world, "");
}

static void a_job_that_is_no_text(struct session_world *world)
{
    tell_job(world, "\x01{{{");
}

static void a_job_that_cannot_be(struct session_world *world)
{
    strcpy(world->config.cluster.policy, "backup:9");
    session_welcome(world);
}

#define LIE(name, word)                                                        \
    {                                                                          \
#name, name, word                                                      \
    }
static const struct {
    const char *name;
    void (*give)(struct session_world *world);
    const char *text; /* in the server's line */
} lies[] = {
    LIE(half_a_view, "start came out of order"),
    LIE(a_view_of_others, "start came out of order"),
    LIE(no_workers, "not every member"),
    LIE(a_worker_twice, "not every member"),
    LIE(a_shard_twice, "not every member"),
    LIE(a_shard_out_of_range, "does not name us"),
    LIE(a_member_of_no_role, "not every member"),
    LIE(more_members_than_any_job, "more members"),
    LIE(a_second_view, "a view of epoch 1 came after that of epoch 1"),
    LIE(a_later_view_too_early, "a view of epoch 2 came after that of epoch 1"),
    LIE(a_view_before_the_job, "view came out of order"),
    LIE(a_start_before_all, "start came out of order"),
    LIE(a_start_without_keys, "start came out of order"),
    LIE(a_second_start, "start came out of order"),
    LIE(a_second_welcome, "welcome came twice"),
    LIE(groups_of_nobody, "groups"),
    LIE(a_split_of_nobody, "split"),
    LIE(a_loss_scale_that_is_none, "loss scale"),
    LIE(a_job_of_nothing, "the coordinator's job"),
    LIE(a_job_that_is_no_text, "the coordinator's job"),
    LIE(a_job_that_cannot_be, "the coordinator's job"),
};

static void a_false_coordinator_ends_the_server_in_words(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 2; number++) {
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            const struct session_options options = {.number = number,
                                                    .give = lies[i].give};
            struct session_world *world = session_open(&options);
            session_pass_time(world, 1000000);
            if (!world->finished || !strstr(world->text, lies[i].text))
                fail_msg("shard %u, %s: \"%s\"", number, lies[i].name,
                         world->text);
            session_close(world);
        }
    }
}

/* A word that does not go with the job is no word, whoever should have said so
   before. */
static void requests_that_make_no_sense_are_refused(void **state)
{
    static const char *const words[] = {"backup:1", "backup:2", "stale-lr:9",
                                        "no word",  "",         "easgd:0"};
    static const char *const streaming[] = {"train.commit=streaming", NULL};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct session_options options = {.settings = streaming};
        struct session_world *world = session_open(&options);
        assert_true(world->ready);
        session_coordinate(
            world, &(struct gw_message){.kind = GW_MESSAGE_REQUEST,
                                        .request = {.kind = GW_REQUEST_POLICY,
                                                    .text = words[i]}});
        session_pass_time(world, TURN_US);
        assert_false(gw_switch_is_asked(world->server->leader));
        assert_true(gw_metrics_get(&world->metrics, GW_METRIC_PROTOCOL_ERRORS) >
                    0);
        session_close(world);
    }
}

/* ---- a shard 0 ---- */

static const double good_state[] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0};

struct decision_lie {
    const char *policy, *commit;
    const char *text; /* in the server's line */
    struct gw_decision decision[3];
};

static const uint64_t both[] = {0, 0};
static const uint64_t three[] = {0, 0, 0};
static const double mad_state[] = {2.8e180, 1, 0, 0, 0, 0, 0, 0, 0, 0};
static const double nan_state[] = {0, NAN, 0, 0, 0, 0, 0, 0, 0, 0};
static const uint32_t strange_ranks[] = {77};
static const uint32_t first_rank[] = {0};

#define CUT(at, state)                                                         \
    {                                                                          \
        .kind = GW_DECIDE_CUT, .clock = (at), .policy = "sync",                \
        .values = (state), .values_n = 10                                      \
    }
#define SWITCH(at, word)                                                       \
    {                                                                          \
        .kind = GW_DECIDE_SWITCH, .clock = (at), .policy = (word)              \
    }
#define SWITCH_ALL(word)                                                       \
    {                                                                          \
        .kind = GW_DECIDE_SWITCH, .clock = 0, .policy = (word),                \
        .clocks = both, .clocks_n = 2                                          \
    }
#define SIMPLE(what, at)                                                       \
    {                                                                          \
        .kind = GW_DECIDE_##what, .clock = (at)                                \
    }

/* The chunks are at version 1 where pushes count together. */
static const struct decision_lie decision_lies[] = {
    {"sync", "auto", "of no known kind", {{.kind = 99}}},
    {"sync", "auto", "of no known kind", {{.kind = 200}}},
    {"sync",
     "auto",
     "clocks of another number",
     {{.kind = GW_DECIDE_END, .clocks = three, .clocks_n = 3}}},
    {"sync", "auto", "a cut makes no sense", {CUT(1, mad_state)}},
    {"sync", "auto", "a cut makes no sense", {CUT(1, nan_state)}},
    {"sync", "auto", "a step that is over", {CUT(0, good_state)}},
    {"async", "auto", "a cut makes no sense", {CUT(1, mad_state)}},
    {"sync", "auto", "second end", {SIMPLE(END, 3), SIMPLE(END, 4)}},
    {"sync", "auto", "quiesce where none", {SIMPLE(QUIESCE, 1)}},
    {"async",
     "auto",
     "quiesce where none",
     {SIMPLE(QUIESCE, 1), SIMPLE(QUIESCE, 1)}},
    {"sync", "auto", "not quiesced", {SIMPLE(RESUME, 1)}},
    {"async", "auto", "not quiesced", {SIMPLE(RESUME, 1)}},
    {"sync", "auto", "where none can be", {SWITCH(0, "async")}},
    {"sync", "auto", "where none can be", {SWITCH(1, "async")}},
    {"sync",
     "auto",
     "where none can be",
     {SWITCH(4, "async"), SWITCH(3, "sync")}},
    {"sync",
     "auto",
     "where none can be",
     {SWITCH(3, "local:2"), SWITCH(4, "sync"), SWITCH(5, "local:2")}},
    {"sync", "auto", "decision 1", {SWITCH(4, "no word")}},
    {"sync", "auto", "decision 1", {SWITCH(4, "backup:2")}},
    {"sync", "auto", "decision 1", {SWITCH(4, "stale-lr:9")}},
    {"sync", "streaming", "decision 1", {SWITCH(4, "backup:1")}},
    {"async", "auto", "do not stand still", {SWITCH_ALL("sync")}},
    {"easgd:2", "auto", "do not stand still", {SWITCH_ALL("sync")}},
    {"dc-async", "auto", "do not stand still", {SWITCH_ALL("sync")}},
    {"sync", "auto", "has not voted", {{.kind = GW_DECIDE_STEP, .apply = 1}}},
    {"sync", "whole", "has not voted", {SIMPLE(TRUST, 1)}},
    {"sync", "auto", "names 0 workers", {SIMPLE(COUNT, 1)}},
    {"backup:1",
     "auto",
     "names 2 workers",
     {{.kind = GW_DECIDE_COUNT,
       .clock = 0,
       .ranks = (uint32_t[]){0, 1},
       .ranks_n = 2}}},
    {"backup:1",
     "auto",
     "names 1 workers",
     {{.kind = GW_DECIDE_COUNT,
       .clock = 0,
       .ranks = strange_ranks,
       .ranks_n = 1}}},
    {"backup:1",
     "auto",
     "names 1 workers",
     {{.kind = GW_DECIDE_COUNT, .clock = 0, .ranks = first_rank, .ranks_n = 1},
      {.kind = GW_DECIDE_COUNT,
       .clock = 0,
       .ranks = first_rank,
       .ranks_n = 1}}},
};

static void put_all(struct session_sender *sender, uint8_t kind)
{
    static const uint8_t zero[4];
    struct session_world *world = sender->world;
    const struct gw_shard *shard = world->server->shard;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_frame frame =
            session_put(sender, kind, shard->chunk[i].global, 0);
        session_send(sender, &frame, zero, sizeof zero);
    }
    session_pass_time(world, TURN_US);
}

/* Weights are there, and a step is made where each can be made alone. */
static struct session_world *open_follower(const struct decision_lie *lie)
{
    char policy[64], commit[64];
    const char *settings[] = {policy, commit, NULL};
    const struct session_options options = {.settings = settings, .number = 1};
    snprintf(policy, sizeof policy, "cluster.policy=\"%s\"", lie->policy);
    snprintf(commit, sizeof commit, "train.commit=%s", lie->commit);
    struct session_world *world = session_open(&options);
    assert_true(world->ready);
    put_all(&world->sender[0], GW_FRAME_SEED);
    for (uint32_t rank = 0; rank < SESSION_WORKERS; rank++) {
        const struct gw_shard *shard = world->server->shard;
        for (uint32_t i = 0; i < shard->chunks; i++)
            session_want(&world->sender[rank], shard->chunk[i].global, 0, 0);
        session_pass_time(world, TURN_US);
        put_all(&world->sender[rank], GW_FRAME_PUSH);
    }
    assert_false(gw_server_is_over(world->server));
    return world;
}

static void a_false_shard_0_ends_the_server_in_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decision_lies / sizeof *decision_lies; i++) {
        const struct decision_lie *lie = &decision_lies[i];
        struct session_world *world = open_follower(lie);
        for (uint32_t n = 0; n < 3 && lie->decision[n].kind; n++) {
            struct gw_message message = {.kind = GW_MESSAGE_DECISION,
                                         .decision = lie->decision[n]};
            assert_false(gw_server_is_over(world->server));
            message.decision.number = n + 1;
            if (!message.decision.policy)
                message.decision.policy = "";
            session_lead(world, &message);
            session_pass_time(world, TURN_US);
        }
        session_pass_time(world, 1000000); /* for its last words */
        if (world->status != GW_EPROTO || !strstr(world->text, lie->text))
            fail_msg("lie %zu, under %s: %d \"%s\"", i, lie->policy,
                     world->status, world->text);
        session_close(world);
    }
}

/* Its words in order are followed: the lies above are none of these. */
static void a_true_shard_0_is_followed(void **state)
{
    (void)state;
    static const struct decision_lie truths[] = {
        {"sync", "auto", "", {CUT(1, good_state), CUT(2, good_state)}},
        {"sync", "auto", "", {SWITCH(3, "local:2"), SWITCH(4, "sync")}},
        {"sync", "auto", "", {SIMPLE(SCORE, 1), SIMPLE(END, 1)}},
        {"async", "auto", "", {SIMPLE(QUIESCE, 1), SIMPLE(RESUME, 1)}},
    };
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++) {
        struct session_world *world = open_follower(&truths[i]);
        for (uint32_t n = 0; n < 3 && truths[i].decision[n].kind; n++) {
            struct gw_message message = {.kind = GW_MESSAGE_DECISION,
                                         .decision = truths[i].decision[n]};
            double values[10];
            memcpy(values, good_state, sizeof values);
            values[9] = (double)message.decision.clock;
            if (message.decision.values)
                message.decision.values = values;
            message.decision.number = n + 1;
            if (!message.decision.policy)
                message.decision.policy = "";
            session_lead(world, &message);
            session_pass_time(world, TURN_US);
            if (gw_server_is_over(world->server))
                fail_msg("truth %zu: %s", i, world->server->end.text);
            assert_int_equal(world->server->decision, n + 1);
        }
        session_close(world);
    }
}

/* ---- a copy of shard 0 ---- */

static void tell_later_view(struct session_world *world,
                            struct gw_view_member member)
{
    member.role = GW_ROLE_SERVER;
    session_coordinate(world,
                       &(struct gw_message){.kind = GW_MESSAGE_VIEW,
                                            .view = {.epoch = 2,
                                                     .members_total = 1,
                                                     .members_n = 1,
                                                     .members = &member}});
}

static void a_place_before_the_start(struct session_world *world)
{
    session_welcome(world);
    session_view(world, world->members, world->members);
    tell_later_view(world, world->member[SESSION_MEMBERS]);
}

static void a_place_for_another(struct session_world *world)
{
    world->member[1].id = 0;
    tell_later_view(world, world->member[1]);
}

static void a_place_elsewhere(struct session_world *world)
{
    world->member[SESSION_MEMBERS].id = 1;
    tell_later_view(world, world->member[SESSION_MEMBERS]);
}

static void clocks_that_no_rank_has(struct session_world *world)
{
    for (uint64_t number = 1; number < 3; number++)
        session_lead(world, &(struct gw_message){
                                .kind = GW_MESSAGE_DECISION,
                                .decision = {.kind = GW_DECIDE_SCORE,
                                             .number = number,
                                             .policy = "",
                                             .clocks = both,
                                             .clocks_n = 2 * (number > 1)}});
}

/* It has followed that one, and is told of one of before. */
static void clocks_of_the_past(struct session_world *world)
{
    for (uint64_t number = 2; number > 0; number--)
        session_lead(world, &(struct gw_message){
                                .kind = GW_MESSAGE_DECISION,
                                .decision = {.kind = GW_DECIDE_CUT,
                                             .number = 1,
                                             .clock = 0,
                                             .policy = "sync",
                                             .values = good_state,
                                             .values_n = 10,
                                             .clocks = three,
                                             .clocks_n = 3 * (number < 2)}});
}

static void lies_to_a_copy_end_it_in_words(void **state)
{
    static const struct {
        void (*give)(struct session_world *world);
        void (*lie)(struct session_world *world);
        const char *text;
    } rows[] = {
        {a_place_before_the_start, NULL, "another server than its standby"},
        {NULL, a_place_for_another, "another server than its standby"},
        {NULL, a_place_elsewhere, "another server than its standby"},
        {NULL, clocks_that_no_rank_has, "decision 2 of shard 0 has clocks"},
        {NULL, clocks_of_the_past, "decision 1 of shard 0 has clocks"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct session_options options = {.give = rows[i].give,
                                                .stands_by = 1};
        struct session_world *world = session_open(&options);
        if (rows[i].lie)
            rows[i].lie(world);
        session_pass_time(world, 1000000);
        if (world->status != GW_EPROTO || !strstr(world->text, rows[i].text))
            fail_msg("lie %zu: %d \"%s\"", i, world->status, world->text);
        session_close(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_false_coordinator_ends_the_server_in_words),
        cmocka_unit_test(requests_that_make_no_sense_are_refused),
        cmocka_unit_test(a_false_shard_0_ends_the_server_in_words),
        cmocka_unit_test(a_true_shard_0_is_followed),
        cmocka_unit_test(lies_to_a_copy_end_it_in_words),
    };
    return cmocka_run_group_tests_name("false leaders", tests, NULL, NULL);
}
