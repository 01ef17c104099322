/*
 * A leader that follows another one's decisions, as the standby of shard 0
 * does, and takes its place.
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

#define NO_SAMPLES (-1) /* as a loss: all programs have left */

static const struct row {
    double loss[4]; /* at steps 2, 4, 6 and 8 */
    const char *early_stop;
    const char *dir;
} rows[] = {
    {{3, 2, 1, 0.5}, "train.early_stop=0", "checkpoint.dir=x"},
    {{3, 4, 2, 2}, "train.early_stop=0", "checkpoint.dir=x"},
    {{3, 4, 2, 5}, "train.early_stop=0", "checkpoint.dir=\"\""},
    {{NAN, INFINITY, 3, NAN}, "train.early_stop=0", "checkpoint.dir=x"},
    {{3, 4, 5, 1}, "train.early_stop=2", "checkpoint.dir=x"},
    {{3, 2, 4, 5}, "train.early_stop=2", "checkpoint.dir=\"\""},
    {{3, NO_SAMPLES, 2, NO_SAMPLES}, "train.early_stop=0", "checkpoint.dir=x"},
};
#define ROWS (sizeof rows / sizeof *rows)

static void begin(struct bench *bench, const struct row *row)
{
    leader_prepare(bench);
    leader_set(bench, "cluster.copies=2");
    leader_set(bench, "train.eval_every=2 steps");
    leader_set(bench, row->early_stop);
    leader_set(bench, row->dir);
    bench->options.regime.whole_step = 0;
    leader_begin(bench);
}

static int is_over(const struct bench *bench)
{
    return bench->n > 0 &&
           bench->decision[bench->n - 1].kind == GW_DECIDE_SCORE &&
           bench->n > 1 && bench->decision[bench->n - 2].kind == GW_DECIDE_END;
}

static void score(struct bench *bench, uint64_t clock, double loss)
{
    const struct gw_score none = {.clock = clock};
    if (loss != NO_SAMPLES) {
        leader_score(bench, clock, loss);
        return;
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(gw_leader_score(bench->leader, rank, &none), GW_OK);
}

/* The job from a step on, until it ends. */
static void go_on(struct bench *bench, const struct row *row, uint64_t from)
{
    for (uint64_t clock = from; clock <= 8 && !is_over(bench); clock++) {
        gw_leader_before(bench->leader, clock);
        if (clock > 0 && clock % 2 == 0)
            score(bench, clock, row->loss[clock / 2 - 1]);
        gw_leader_stored(bench->leader);
        gw_leader_stored(bench->leader);
    }
}

static void assert_same_state(const struct bench *one,
                              const struct bench *other)
{
    const struct gw_decision_state *a = gw_leader_state(one->leader);
    const struct gw_decision_state *b = gw_leader_state(other->leader);
    assert_int_equal(a->evaluations, b->evaluations);
    assert_int_equal(a->evaluations_without_progress,
                     b->evaluations_without_progress);
    assert_int_equal(a->best_clock, b->best_clock);
    assert_memory_equal(&a->best_loss, &b->best_loss, sizeof a->best_loss);
}

/* The first n decisions of the other. */
static void follow(struct bench *bench, const struct bench *other, size_t n)
{
    for (; bench->n < n; bench->n++) {
        struct gw_decision decision = other->decision[bench->n];
        decision.values = other->values[bench->n];
        decision.policy = other->policy[bench->n];
        gw_leader_follow(bench->leader, &decision);
        bench->decision[bench->n] = decision;
        memcpy(bench->values[bench->n], decision.values,
               sizeof bench->values[0]);
    }
}

static void a_follower_knows_what_its_leader_knows(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct bench leader, follower;
        begin(&leader, &rows[i]);
        begin(&follower, &rows[i]);
        go_on(&leader, &rows[i], 0);
        follow(&follower, &leader, leader.n);
        assert_same_state(&leader, &follower);
        leader_end(&leader);
        leader_end(&follower);
    }
}

/* The leader dies between any two decisions; what it was told of the step at
   which it stood is told again. */
static void a_follower_in_its_place_decides_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct bench leader;
        begin(&leader, &rows[i]);
        go_on(&leader, &rows[i], 0);
        for (size_t n = 0; n <= leader.n; n++) {
            struct bench follower;
            begin(&follower, &rows[i]);
            follow(&follower, &leader, n);
            uint64_t clock = n > 0 ? leader.decision[n - 1].clock : 0;
            int is_scored =
                n > 0 && leader.decision[n - 1].kind == GW_DECIDE_SCORE;
            gw_leader_take_over(follower.leader, clock);
            go_on(&follower, &rows[i], clock + (is_scored != 0));
            assert_int_equal(follower.n, leader.n);
            for (size_t k = 0; k < leader.n; k++) {
                const struct gw_decision *one = &leader.decision[k];
                const struct gw_decision *other = &follower.decision[k];
                assert_int_equal(one->kind, other->kind);
                assert_int_equal(one->clock, other->clock);
                assert_int_equal(one->reason, other->reason);
                assert_memory_equal(leader.values[k], follower.values[k],
                                    one->values_n * sizeof(double));
            }
            leader_end(&follower);
        }
        leader_end(&leader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follower_knows_what_its_leader_knows),
        cmocka_unit_test(a_follower_in_its_place_decides_the_same),
    };
    return cmocka_run_group_tests_name("follow", tests, NULL, NULL);
}
