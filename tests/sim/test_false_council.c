/*
 * Members that lie to the coordinator: a shard 0 that decides what cannot be,
 * and whoever speaks of checkpoints that nobody makes. The job ends with a line
 * that names the liar, or goes on as if nothing had been said.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"
#include "tests/fuzz/council.h"

#define TURN_US 20000
#define LONG_US 3000000

static const double good_state[] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
static const double mad_state[] = {2.8e180, 1, 0, 0, 0, 0, 0, 0, 0, 0};
static const double nan_state[] = {0, 1, 0, 0, NAN, 0, 0, 0, 0, 0};
static const double mad_pushes[] = {-3};
static const double good_pushes[] = {6};
static const uint64_t both[] = {2, 2};
static const uint64_t three[] = {2, 2, 2};

static void decide(struct council *council, struct gw_decision decision)
{
    if (!decision.policy)
        decision.policy = "";
    council_tell(council, COUNCIL_SHARD,
                 &(struct gw_message){.kind = GW_MESSAGE_DECISION,
                                      .decision = decision});
    council_pass_time(council, TURN_US);
}

#define CUT(n, at, state)                                                      \
    {                                                                          \
        .number = (n), .kind = GW_DECIDE_CUT, .clock = (at), .policy = "sync", \
        .values = (state), .values_n = 10                                      \
    }
#define SWITCH(n, at, word, pushes)                                            \
    {                                                                          \
        .number = (n), .kind = GW_DECIDE_SWITCH, .clock = (at),                \
        .policy = (word), .values = (pushes), .values_n = 1                    \
    }
#define SIMPLE(n, what, at)                                                    \
    {                                                                          \
        .number = (n), .kind = GW_DECIDE_##what, .clock = (at)                 \
    }

static const struct {
    const char *policy;
    const char *text; /* in the last line */
    struct gw_decision decision[3];
} lies[] = {
    {"sync", "of no known kind", {{.number = 1, .kind = 99}}},
    {"sync", "does not come to its step", {CUT(1, 1000000000000, good_state)}},
    {"sync", "does not come to its step", {SIMPLE(1, END, 1000000000000)}},
    {"sync",
     "clocks of another number",
     {{.number = 1, .kind = GW_DECIDE_END, .clocks = three, .clocks_n = 3}}},
    {"sync",
     "one that was before",
     {SIMPLE(1, QUIESCE, 1), SIMPLE(1, QUIESCE, 1)}},
    {"sync", "one that was before", {SIMPLE(0, QUIESCE, 1)}},
    {"sync", "a cut makes no sense", {CUT(1, 1, mad_state)}},
    {"sync", "a cut makes no sense", {CUT(1, 1, nan_state)}},
    {"sync", "cut before", {CUT(1, 1, good_state), CUT(2, 1, good_state)}},
    {"sync", "cut before", {CUT(1, 2, good_state), CUT(2, 1, good_state)}},
    {"sync", "second end", {SIMPLE(1, END, 2), SIMPLE(2, END, 3)}},
    {"sync", "where none can be", {SWITCH(1, 4, "async", mad_pushes)}},
    {"sync",
     "where none can be",
     {SWITCH(1, 4, "local:2", good_pushes), SWITCH(2, 3, "sync", good_pushes)}},
    {"sync",
     "where none can be",
     {SWITCH(1, 4, "local:2", good_pushes), SWITCH(2, 5, "sync", good_pushes),
      SWITCH(3, 5, "local:3", good_pushes)}},
    {"sync",
     "where none can be",
     {{.number = 1,
       .kind = GW_DECIDE_SWITCH,
       .clock = 2,
       .policy = "async",
       .clocks = both,
       .clocks_n = 2}}},
    {"async", "where none can be", {SWITCH(1, 4, "sync", good_pushes)}},
    {"sync", "decision 1", {SWITCH(1, 4, "no word", good_pushes)}},
    {"sync", "decision 1", {SWITCH(1, 4, "backup:2", good_pushes)}},
    {"sync",
     "decision 1: ",
     {{.number = 1, .kind = GW_DECIDE_CUT, .clock = 1, .policy = "no word"}}},
    {"sync", "split that makes no sense", {SIMPLE(1, SPLIT, 3)}},
};

static void a_false_shard_0_ends_the_job_in_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char policy[64];
        const char *settings[] = {policy, NULL};
        snprintf(policy, sizeof policy, "cluster.policy=%s", lies[i].policy);
        struct council *council = council_open(settings);
        for (size_t n = 0; n < 3 && lies[i].decision[n].kind; n++) {
            assert_true(council->coordinator->phase == GW_PHASE_RUNNING);
            decide(council, lies[i].decision[n]);
        }
        council_pass_time(council, LONG_US);
        if (council->status != GW_EPROTO ||
            !strstr(council->text, lies[i].text))
            fail_msg("lie %zu: %d \"%s\"", i, council->status, council->text);
        council_close(council);
    }
}

/* ---- checkpoints ---- */

static void tell_saved(struct council *council, unsigned member, uint64_t clock)
{
    council_tell(council, member,
                 &(struct gw_message){.kind = GW_MESSAGE_SAVED,
                                      .saved = {.clock = clock,
                                                .file = council_file(member),
                                                .bytes = 1,
                                                .text = ""}});
    council_pass_time(council, TURN_US);
}

/* The end finds that what was said to be saved is not there, as it is not. */
static void leave_and_end(struct council *council)
{
    for (unsigned i = 0; i < COUNCIL_MEMBERS; i++)
        council_tell(council, i,
                     &(struct gw_message){.kind = GW_MESSAGE_BYE,
                                          .bye = {.has_sha256 = 1}});
    council_pass_time(council, LONG_US);
    assert_true(council->finished);
    assert_int_equal(council->status, GW_EIO);
}

static const char *const local_first[] = {
    "cluster.policy=\"local:2 until 3, sync\"", NULL};

/* Where workers keep nothing, a file of one does not stand for a shard's. */
static void files_of_others_do_not_count(void **state)
{
    (void)state;
    struct council *council = council_open(local_first);
    struct gw_coordinator *self = council->coordinator;
    decide(council, (struct gw_decision)SWITCH(1, 3, "sync", good_pushes));
    tell_saved(council, 1, 5); /* before it is decided */
    decide(council, (struct gw_decision){.number = 2,
                                         .kind = GW_DECIDE_CUT,
                                         .clock = 5,
                                         .policy = "sync"});
    assert_false(gw_final_checkpoint(self, NULL));
    assert_true(gw_keeper_is_busy(self));
    tell_saved(council, 2, 5); /* and after */
    assert_int_equal(council->member[2].down, 1);
    assert_false(gw_final_checkpoint(self, NULL));
    tell_saved(council, COUNCIL_SHARD, 5);
    assert_true(gw_final_checkpoint(self, NULL));
    assert_false(gw_keeper_is_busy(self));
    decide(council, (struct gw_decision)SIMPLE(3, END, 5));
    leave_and_end(council);
    council_close(council);
}

/* The end does not wait for what only one member has spoken of. */
static void checkpoints_that_nobody_decided_are_not_waited_for(void **state)
{
    (void)state;
    for (unsigned liar = 0; liar < COUNCIL_MEMBERS; liar++) {
        struct council *council = council_open(local_first);
        for (uint64_t clock = 100; clock < 103; clock++)
            tell_saved(council, liar, clock);
        decide(council, (struct gw_decision)SWITCH(1, 3, "sync", good_pushes));
        decide(council, (struct gw_decision){.number = 2,
                                             .kind = GW_DECIDE_CUT,
                                             .clock = 9,
                                             .policy = "sync"});
        tell_saved(council, COUNCIL_SHARD, 9);
        decide(council, (struct gw_decision)SIMPLE(3, END, 9));
        leave_and_end(council);
        council_close(council);
    }
}

static void whoever_names_too_many_is_named(void **state)
{
    (void)state;
    for (unsigned liar = 0; liar < COUNCIL_MEMBERS; liar++) {
        static const char *const names[COUNCIL_MEMBERS] = {
            "server 0 (h, pid 100)", "worker 0 (h, pid 101)",
            "worker 1 (h, pid 102)"};
        struct council *council = council_open(local_first);
        for (uint64_t clock = 100; clock < 104; clock++)
            tell_saved(council, liar, clock);
        decide(council, (struct gw_decision){.number = 1,
                                             .kind = GW_DECIDE_CUT,
                                             .clock = 2,
                                             .policy = "sync"});
        council_pass_time(council, LONG_US);
        assert_int_equal(council->status, GW_EPROTO);
        assert_non_null(strstr(council->text, names[liar]));
        council_close(council);
    }
}

/* ---- reports ---- */

static void report(struct council *council, unsigned member, uint64_t clock)
{
    council_tell(council, member,
                 &(struct gw_message){.kind = GW_MESSAGE_REPORT,
                                      .report = {.clock = clock,
                                                 .loss = 2,
                                                 .samples = 4,
                                                 .decision = 0}});
    council_pass_time(council, TURN_US);
}

/* The job's step is that of whoever is furthest: one that never comes would be
   it for ever, and policies would begin in the books long before they do. */
static void steps_to_come_for_ever_are_not_believed(void **state)
{
    (void)state;
    static const char *const policies[] = {"sync", "async", "local:2",
                                           "backup:1"};
    static const uint64_t clocks[] = {(uint64_t)1 << 52, GW_CLOCK_MAX - 1,
                                      (uint64_t)1 << 40};
    for (size_t i = 0; i < 4 * 3; i++) {
        char policy[64];
        const char *settings[] = {policy, NULL};
        snprintf(policy, sizeof policy, "cluster.policy=%s", policies[i / 3]);
        struct council *council = council_open(settings);
        struct gw_coordinator *self = council->coordinator;
        report(council, 1, 0);
        report(council, 2, clocks[i % 3]);
        assert_int_equal(council->member[2].down, 1);
        assert_int_equal(council->member[1].down, 0);
        assert_in_range(gw_steps_known(self), 0, 1);
        report(council, 1, 1);
        assert_in_range(gw_coordinator_step(self), 0, 2);
        council_close(council);
    }
}

/* Sums of what they count would wrap. */
static void more_samples_than_a_part_are_not_believed(void **state)
{
    (void)state;
    static const char *const policies[] = {"sync", "async"};
    for (size_t i = 0; i < 2; i++) {
        char policy[64];
        const char *settings[] = {policy, NULL};
        snprintf(policy, sizeof policy, "cluster.policy=%s", policies[i]);
        struct council *council = council_open(settings);
        council_tell(council, 1,
                     &(struct gw_message){.kind = GW_MESSAGE_REPORT,
                                          .report = {.samples = 5}});
        council_pass_time(council, TURN_US);
        assert_int_equal(council->member[1].down, 1);
        council_close(council);
    }
}

/* A rank may be alone for long, where nobody waits for it; and one that begins
   behind others has not taken the steps before. */
static void ranks_of_their_own_pace_are_believed(void **state)
{
    (void)state;
    static const char *const async[] = {"cluster.policy=async", NULL};
    struct council *council = council_open(async);
    struct gw_coordinator *self = council->coordinator;
    gw_steps_set_first(self, 1, 7);
    report(council, 2, 3);
    assert_int_equal(council->member[2].down, 0);
    assert_int_equal(gw_steps_known(self), 0);
    report(council, 1, 2 * COUNCIL_STEPS - 1);
    assert_int_equal(council->member[1].down, 0);
    assert_int_equal(gw_steps_known(self), COUNCIL_STEPS);
    council_close(council);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_false_shard_0_ends_the_job_in_words),
        cmocka_unit_test(files_of_others_do_not_count),
        cmocka_unit_test(checkpoints_that_nobody_decided_are_not_waited_for),
        cmocka_unit_test(whoever_names_too_many_is_named),
        cmocka_unit_test(steps_to_come_for_ever_are_not_believed),
        cmocka_unit_test(more_samples_than_a_part_are_not_believed),
        cmocka_unit_test(ranks_of_their_own_pace_are_believed),
    };
    return cmocka_run_group_tests_name("false council", tests, NULL, NULL);
}
