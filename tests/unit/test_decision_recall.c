/*
 * What the leader of decisions tells of them to those who come later: a worker,
 * and a coordinator in the place of another.
 */
#include "config.h"

#include "tests/unit/leader.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What was told, and of which leader. */
struct told {
    const struct bench *bench;
    struct gw_decision decision[8];
    double values[8][16];
    uint64_t clocks[8][RANKS];
    char policy[8][GW_WORD_BYTES];
    size_t n;
};

/* It is the very decision of that number. */
static void is_as_emitted(const struct bench *bench,
                          const struct gw_decision *told)
{
    assert_true(told->number >= 1 && told->number <= bench->n);
    size_t at = (size_t)told->number - 1;
    const struct gw_decision *was = &bench->decision[at];
    assert_int_equal(told->kind, was->kind);
    assert_int_equal(told->reason, was->reason);
    assert_int_equal(told->apply, was->apply);
    assert_true(told->clock == was->clock);
    assert_int_equal(told->values_n, was->values_n);
    if (told->values_n > 0)
        assert_memory_equal(told->values, bench->values[at],
                            told->values_n * sizeof *told->values);
    assert_string_equal(told->policy, bench->policy[at]);
    assert_int_equal(told->ranks_n, 0);
}

static void note(void *owner, const struct gw_decision *decision)
{
    struct told *told = owner;
    assert_true(told->n < sizeof told->decision / sizeof *told->decision);
    if (told->n > 0)
        assert_true(decision->number > told->decision[told->n - 1].number);
    if (decision->kind != GW_DECIDE_PASSED)
        is_as_emitted(told->bench, decision);
    told->decision[told->n] = *decision;
    for (uint32_t i = 0; i < decision->values_n; i++)
        told->values[told->n][i] = decision->values[i];
    for (uint32_t i = 0; i < decision->clocks_n; i++)
        told->clocks[told->n][i] = decision->clocks[i];
    snprintf(told->policy[told->n], sizeof told->policy[0], "%s",
             decision->policy ? decision->policy : "");
    told->n++;
}

/* For a coordinator: decisions have their own numbers, and stand for
   themselves. */
static struct told recall_all(struct bench *bench, uint64_t after)
{
    struct told told = {.bench = bench};
    gw_leader_recall_all(bench->leader, after, note, &told);
    for (size_t i = 0; i < told.n; i++)
        assert_int_equal(told.decision[i].stands_for, 0);
    assert_true(gw_leader_number(bench->leader) == bench->n);
    return told;
}

/* These kinds, in this order, and nothing else. */
#define is_told(told, ...)                                                     \
    kinds_are(told, (const enum gw_decision_kind[]){__VA_ARGS__},              \
              sizeof((const enum gw_decision_kind[]){__VA_ARGS__}) /           \
                  sizeof(enum gw_decision_kind))

static void
kinds_are(const struct told *told, const enum gw_decision_kind *kind, size_t n)
{
    assert_int_equal(told->n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(told->decision[i].kind, kind[i]);
}

/* A job with checkpoints, whose versions are decided by this test alone. */
static void begin_with_cuts(struct bench *bench)
{
    leader_prepare(bench);
    leader_set(bench, "checkpoint.dir=x");
    leader_set(bench, "checkpoint.every=2");
    bench->options.regime.whole_step = 0;
    leader_begin(bench);
}

/* ---- the policy of a cut ---- */

static const struct gw_decision *last_cut(const struct bench *bench,
                                          const char **policy_p)
{
    size_t at = bench->n;
    while (at > 0 && bench->decision[at - 1].kind != GW_DECIDE_CUT)
        at--;
    assert_true(at > 0);
    *policy_p = bench->policy[at - 1];
    return &bench->decision[at - 1];
}

/* Where another policy begins, a checkpoint is of that one. */
static void a_cut_names_the_policy_of_its_clock(void **state)
{
    (void)state;
    static const struct {
        uint64_t version;
        const char *policy;
    } cuts[] = {{0, "sync"},     {1, "sync"},     {2, "sync"},
                {3, "local:4"},  {7, "local:4"},  {8, "backup:1"},
                {9, "backup:1"}, {10, "backup:1"}};
    struct bench bench;
    const char *policy;
    leader_plan(&bench, "sync until 3, local:4 until 8, backup:1");
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=1");
    leader_begin(&bench);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        gw_leader_before(bench.leader, cuts[i].version);
        assert_int_equal(last_cut(&bench, &policy)->clock, cuts[i].version);
        assert_string_equal(policy, cuts[i].policy);
        gw_leader_stored(bench.leader);
    }
    leader_end(&bench);
}

/* A cut for a rank that waits, of a version before another policy begins, which
   is decided already. */
static void a_cut_before_another_policy_names_its_own(void **state)
{
    (void)state;
    struct bench bench;
    const char *policy;
    leader_plan(&bench, "sync until 3, local:4");
    leader_set(&bench, "checkpoint.dir=x");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_SWITCH);
    gw_leader_want_cut_at(bench.leader, 2);
    assert_int_equal(last_cut(&bench, &policy)->clock, 2);
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_CUT);
    assert_string_equal(policy, "sync");
    leader_end(&bench);
}

/* A step that cannot be applied ends the job where another policy would have
   begun: the shards have gone over there. */
static void a_cut_of_the_end_names_the_policy_of_its_clock(void **state)
{
    (void)state;
    struct bench bench;
    const char *policy;
    leader_plan(&bench, "sync until 3, local:4");
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 1;
    leader_begin(&bench);
    for (uint64_t clock = 0; clock < 3; clock++) {
        gw_leader_before(bench.leader, clock);
        leader_vote(&bench, 0, clock, clock == 2 ? NAN : 1);
        leader_vote(&bench, 1, clock, 1);
    }
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[bench.n - 1].reason, GW_END_NONFINITE);
    assert_int_equal(last_cut(&bench, &policy)->clock, 3);
    assert_string_equal(policy, "local:4");
    const struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_SWITCH, GW_DECIDE_CUT, GW_DECIDE_END);
    leader_end(&bench);
}

/* Per push: a step may have two cuts, of different policies. */
static void cuts_of_one_step_name_their_policies(void **state)
{
    (void)state;
    struct bench bench;
    const char *policy;
    const uint64_t clocks[RANKS] = {2, 2, 2}, more[RANKS] = {3, 2, 2};
    leader_plan(&bench, "async");
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=2");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    leader_settle(&bench, clocks);
    assert_int_equal(last_cut(&bench, &policy)->clock, 2);
    assert_string_equal(policy, "async");
    gw_leader_stored(bench.leader);
    leader_ask(&bench, "sync");
    gw_leader_pushed(bench.leader, 7, 7);
    leader_settle(&bench, more);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(last_cut(&bench, &policy)->clock, 3);
    assert_string_equal(policy, "sync");
    leader_end(&bench);
}

/* ---- for another coordinator ---- */

static void nothing_is_recalled_of_nothing(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_begin(&bench);
    assert_int_equal(recall_all(&bench, 0).n, 0);
    /* steps are of no use to one who comes later, but have numbers */
    leader_vote(&bench, 0, 0, 1);
    leader_vote(&bench, 1, 0, 1);
    assert_int_equal(bench.n, 1);
    assert_int_equal(recall_all(&bench, 0).n, 0);
    leader_end(&bench);
}

/* The last of each kind, in the order in which they were made. */
static void the_last_of_each_kind_is_recalled(void **state)
{
    (void)state;
    struct bench bench;
    begin_with_cuts(&bench);
    gw_leader_before(bench.leader, 0);
    struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_CUT);
    gw_leader_stored(bench.leader);
    leader_score(&bench, 1, 3);
    told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_CUT, GW_DECIDE_SCORE);
    assert_int_equal(told.decision[0].clock, 1); /* the best */
    assert_int_equal(told.decision[0].reason, 1);
    gw_leader_stored(bench.leader);
    leader_score(&bench, 2, 5); /* a worse one; its version has a cut */
    gw_leader_stored(bench.leader);
    told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_CUT, GW_DECIDE_SCORE);
    assert_int_equal(told.decision[0].clock, 2);
    gw_leader_before(bench.leader, 4);
    told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_SCORE, GW_DECIDE_CUT);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 5);
    told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_SCORE, GW_DECIDE_CUT, GW_DECIDE_END);
    assert_int_equal(told.decision[1].clock, 5);
    assert_int_equal(told.decision[2].reason, GW_END_STOPPED);
    assert_true(told.decision[2].number == bench.n);
    leader_end(&bench);
}

/* A cut carries the whole state, so all its values come back. */
static void a_recalled_cut_is_read_as_the_first_time(void **state)
{
    (void)state;
    struct bench bench;
    struct gw_cut again;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.state = (struct gw_decision_state){
        .clock = 3,
        .applied = 2,
        .loss_scale = 8,
        .good_steps = 4,
        .skipped_in_a_row = 1,
        .best_loss = 0.5,
        .best_clock = 2,
        .evaluations = 6,
        .evaluations_without_progress = 1,
        .pushes = 9,
    };
    leader_begin(&bench);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 1);
    struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_CUT);
    told.decision[0].values = told.values[0];
    assert_int_equal(gw_cut_read(&told.decision[0], &again), GW_OK);
    assert_int_equal(again.state.applied, 2);
    assert_true(again.state.loss_scale == 8 && again.state.best_loss == 0.5);
    assert_int_equal(again.state.good_steps, 4);
    assert_int_equal(again.state.skipped_in_a_row, 1);
    assert_int_equal(again.state.best_clock, 2);
    assert_int_equal(again.state.evaluations_without_progress, 1);
    assert_int_equal(again.state.evaluations, 6);
    assert_int_equal(again.state.pushes, 9);
    assert_int_equal(again.version, 3);
    leader_end(&bench);
}

/* Another coordinator says "stored" of the last cut alone, and the job does not
   wait for the one before. */
static void only_the_last_cut_is_waited_for(void **state)
{
    (void)state;
    for (int is_recalled = 0; is_recalled < 2; is_recalled++) {
        struct bench bench;
        begin_with_cuts(&bench);
        gw_leader_before(bench.leader, 0);
        leader_score(&bench, 1, 3);
        assert_int_equal(bench.n, 3); /* two cuts and a score */
        for (int times = 0; times < 2 * is_recalled; times++) {
            const struct told told = recall_all(&bench, 0);
            is_told(&told, GW_DECIDE_CUT, GW_DECIDE_SCORE);
            assert_int_equal(told.decision[0].clock, 1);
        }
        gw_leader_stored(bench.leader);
        gw_leader_before(bench.leader, 2);
        assert_int_equal(bench.n, 3 + is_recalled);
        if (is_recalled)
            assert_int_equal(bench.decision[3].clock, 2);
        leader_end(&bench);
    }
}

/* The one that is open stays so, and is waited for. */
static void the_last_cut_is_still_waited_for(void **state)
{
    (void)state;
    struct bench bench;
    begin_with_cuts(&bench);
    gw_leader_before(bench.leader, 0);
    recall_all(&bench, 0);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.n, 1);
    gw_leader_stored(bench.leader);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 2);
    assert_int_equal(bench.decision[1].kind, GW_DECIDE_CUT);
    leader_end(&bench);
}

/* One that was stored already may be said to be so once more. */
static void a_cut_may_be_stored_twice(void **state)
{
    (void)state;
    struct bench bench;
    begin_with_cuts(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    const struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_CUT);
    gw_leader_stored(bench.leader);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.n, 2);
    gw_leader_before(bench.leader, 4);
    assert_int_equal(bench.n, 2); /* one is open, not minus one */
    leader_end(&bench);
}

/* ---- switches of policy ---- */

/* A policy that has not begun is recalled, one that has begun is not: the
   caller knows the last decision that is in force. */
static void a_switch_to_come_is_recalled(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 3, local:4 until 8, backup:1");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.n, 1);
    struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_SWITCH);
    assert_string_equal(told.policy[0], "local:4");
    assert_int_equal(told.decision[0].clock, 3);
    assert_int_equal(recall_all(&bench, 1).n, 0);
    assert_int_equal(recall_all(&bench, UINT64_MAX).n, 0);
    leader_end(&bench);
}

/* Of phases of one exchange two may be to come; what each one says is its
   own. */
static void two_switches_to_come_are_recalled(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 2, local:2 until 4, local:3 until 7, sync");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 1);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.n, 2);
    for (int times = 0; times < 2; times++) {
        const struct told both = recall_all(&bench, 0);
        is_told(&both, GW_DECIDE_SWITCH, GW_DECIDE_SWITCH);
        assert_int_equal(both.decision[0].clock, 2);
        assert_int_equal(both.decision[1].clock, 4);
        assert_int_equal(recall_all(&bench, 1).n, 1);
        assert_int_equal(recall_all(&bench, 2).n, 0);
    }
    gw_leader_before(bench.leader, 4);
    assert_int_equal(bench.n, 3);
    const struct told last = recall_all(&bench, 0); /* the first has begun */
    is_told(&last, GW_DECIDE_SWITCH, GW_DECIDE_SWITCH);
    assert_int_equal(last.decision[0].clock, 4);
    assert_int_equal(last.decision[1].clock, 7);
    assert_int_equal(recall_all(&bench, 2).n, 1);
    leader_end(&bench);
}

/* A switch that is not told keeps none of the others from being told. */
static void a_switch_that_is_past_hides_nothing(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 3, local:4");
    leader_set(&bench, "checkpoint.dir=x");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_before(bench.leader, 2);
    gw_leader_before(bench.leader, 3);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 7);
    struct told told = recall_all(&bench, 0);
    is_told(&told, GW_DECIDE_SWITCH, GW_DECIDE_CUT, GW_DECIDE_END);
    told = recall_all(&bench, told.decision[0].number);
    is_told(&told, GW_DECIDE_CUT, GW_DECIDE_END);
    assert_string_equal(told.policy[0], "local:4");
    leader_end(&bench);
}

/* ---- per-push policies ---- */

/* A cut is of the clocks at which ranks stood then, wherever they stood since,
   and one of pushes together has none. */
static void a_recalled_cut_has_its_own_clocks(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {3, 1, 2}, more[RANKS] = {4, 2, 3};
    leader_plan(&bench, "async");
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=2");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    leader_settle(&bench, clocks);
    gw_leader_stored(bench.leader);
    leader_ask(&bench, "sync");
    gw_leader_pushed(bench.leader, 9, 9);
    leader_settle(&bench, more);
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_RESUME);
    assert_memory_equal(bench.clocks[bench.n - 1], more, sizeof more);
    struct told told = recall_all(&bench, UINT64_MAX);
    is_told(&told, GW_DECIDE_CUT);
    assert_int_equal(told.decision[0].clocks_n, RANKS);
    assert_memory_equal(told.clocks[0], clocks, sizeof clocks);
    assert_string_equal(told.policy[0], "async");
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 3);
    told = recall_all(&bench, UINT64_MAX);
    is_told(&told, GW_DECIDE_CUT, GW_DECIDE_END);
    assert_int_equal(told.decision[0].clocks_n, 0);
    assert_string_equal(told.policy[0], "sync");
    leader_end(&bench);
}

/* ---- for a worker ---- */

/* The last score and the end, and a number for all the others: together they
   stand for the whole stream. */
static void
is_recalled_for_a_worker(const struct bench *bench, size_t scores, size_t ends)
{
    struct told told = {.bench = bench};
    uint64_t number = 0;
    gw_leader_recall(bench->leader, note, &told);
    assert_int_equal(told.n > 0, bench->n > 0);
    for (size_t i = 0; i < told.n; i++) {
        const struct gw_decision *one = &told.decision[i];
        assert_int_equal(one->clocks_n, 0);
        scores -= one->kind == GW_DECIDE_SCORE;
        ends -= one->kind == GW_DECIDE_END;
        if (one->kind != GW_DECIDE_SCORE && one->kind != GW_DECIDE_END) {
            assert_int_equal(one->kind, GW_DECIDE_PASSED);
            assert_int_equal(i, told.n - 1);
        }
        number += one->stands_for;
        assert_true(one->number == number);
    }
    assert_true(number == gw_leader_number(bench->leader));
    assert_int_equal(scores + ends, 0);
}

static void a_worker_is_told_the_score_and_the_end(void **state)
{
    (void)state;
    for (int is_replaced = 0; is_replaced < 2; is_replaced++) {
        struct bench bench;
        leader_plan(&bench, "sync until 3, local:2");
        leader_set(&bench, "checkpoint.dir=x");
        leader_begin(&bench);
        is_recalled_for_a_worker(&bench, 0, 0);
        gw_leader_before(bench.leader, 0);
        is_recalled_for_a_worker(&bench, 0, 0);
        leader_score(&bench, 1, 3);
        gw_leader_stored(bench.leader);
        if (is_replaced)
            recall_all(&bench, 0);
        is_recalled_for_a_worker(&bench, 1, 0);
        gw_leader_stored(bench.leader);
        leader_score(&bench, 2, 2);
        gw_leader_stored(bench.leader);
        gw_leader_before(bench.leader, 3);
        if (is_replaced)
            recall_all(&bench, 0);
        is_recalled_for_a_worker(&bench, 1, 0);
        gw_leader_stop(bench.leader);
        gw_leader_before(bench.leader, 5);
        assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_END);
        if (is_replaced)
            recall_all(&bench, 0);
        is_recalled_for_a_worker(&bench, 1, 1);
        leader_end(&bench);
    }
}

/* Per push, the end says where ranks stood, which is no news for a worker that
   was not there. */
static void a_worker_is_told_no_clocks_of_others(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {3, 1, 2};
    leader_plan(&bench, "async");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stop(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    leader_settle(&bench, clocks);
    assert_int_equal(bench.decision[bench.n - 2].kind, GW_DECIDE_END);
    assert_true(bench.has_clocks[bench.n - 2]);
    is_recalled_for_a_worker(&bench, 0, 1);
    leader_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_names_the_policy_of_its_clock),
        cmocka_unit_test(a_cut_before_another_policy_names_its_own),
        cmocka_unit_test(a_cut_of_the_end_names_the_policy_of_its_clock),
        cmocka_unit_test(cuts_of_one_step_name_their_policies),
        cmocka_unit_test(nothing_is_recalled_of_nothing),
        cmocka_unit_test(the_last_of_each_kind_is_recalled),
        cmocka_unit_test(a_recalled_cut_is_read_as_the_first_time),
        cmocka_unit_test(only_the_last_cut_is_waited_for),
        cmocka_unit_test(the_last_cut_is_still_waited_for),
        cmocka_unit_test(a_cut_may_be_stored_twice),
        cmocka_unit_test(a_switch_to_come_is_recalled),
        cmocka_unit_test(two_switches_to_come_are_recalled),
        cmocka_unit_test(a_switch_that_is_past_hides_nothing),
        cmocka_unit_test(a_recalled_cut_has_its_own_clocks),
        cmocka_unit_test(a_worker_is_told_the_score_and_the_end),
        cmocka_unit_test(a_worker_is_told_no_clocks_of_others),
    };
    return cmocka_run_group_tests_name("decision_recall", tests, NULL, NULL);
}
