/*
 * What policies ask of the leader of decisions: who counts, where all stand
 * still, which policy comes next.
 */
#include "config.h"

#include "tests/unit/leader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* ---- backup workers ---- */

static enum gw_status
arrive(struct bench *bench, uint32_t shard, uint64_t clock, uint32_t rank)
{
    const struct gw_arrived arrived = {
        .clock = clock, .ranks = &rank, .ranks_n = 1};
    return gw_leader_arrived(bench->leader, shard, &arrived);
}

/* Who is whole at all shards first counts, wherever it came first, and once. */
static void the_first_that_are_whole_count(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    bench.options.regime.quorum = 2;
    leader_begin(&bench);
    for (uint64_t clock = 0; clock < 3; clock++) {
        size_t before = bench.n;
        assert_int_equal(arrive(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 0), GW_OK);
        assert_int_equal(arrive(&bench, 1, clock, 2), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 2), GW_OK);
        assert_int_equal(bench.n, before);
        assert_int_equal(leader_vote(&bench, 0, clock, 1), GW_EPROTO);
        assert_int_equal(arrive(&bench, 1, clock, 0), GW_OK);
        assert_int_equal(bench.n, before + 1);
        assert_int_equal(arrive(&bench, 1, clock, 1), GW_OK); /* late */
        assert_int_equal(bench.n, before + 1);
        const struct gw_decision *count = &bench.decision[before];
        assert_int_equal(count->kind, GW_DECIDE_COUNT);
        assert_int_equal(count->clock, clock);
        assert_int_equal(count->ranks_n, 2);
        assert_int_equal(bench.ranks[before][0], 0);
        assert_int_equal(bench.ranks[before][1], 2);
        assert_int_equal(leader_vote(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(leader_vote(&bench, 1, clock, 1), GW_OK);
        assert_int_equal(bench.decision[before + 1].kind, GW_DECIDE_STEP);
        assert_int_equal(arrive(&bench, 1, clock, 1), GW_OK); /* later still */
        assert_int_equal(bench.n, before + 2);
    }
    leader_end(&bench);
}

static void arrivals_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_begin(&bench);
    assert_int_equal(arrive(&bench, 0, 0, 0), GW_EPROTO); /* not this policy */
    gw_leader_destroy(bench.leader);
    bench.options.regime.quorum = 2;
    leader_begin(&bench);
    assert_int_equal(arrive(&bench, SHARDS, 0, 0), GW_EPROTO);
    assert_int_equal(arrive(&bench, 0, 0, RANKS), GW_EPROTO);
    assert_int_equal(arrive(&bench, 0, 1, 0), GW_EPROTO);
    leader_end(&bench);
}

/* A shard without chunks says nothing, and nobody waits for it. */
static void empty_shards_are_not_waited_for(void **state)
{
    (void)state;
    const struct gw_key key = {
        .name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {5}};
    struct bench bench;
    struct gw_error error;
    leader_prepare(&bench);
    gw_map_destroy(bench.map);
    assert_int_equal(gw_map_create(&key, 1, SHARDS, &bench.map, &error), GW_OK);
    bench.options.map = bench.map;
    bench.options.regime.quorum = 1;
    leader_begin(&bench);
    uint32_t full = bench.map->shard_chunks[0] == 0;
    assert_int_equal(arrive(&bench, !full, 0, 0), GW_EPROTO);
    assert_int_equal(arrive(&bench, full, 0, 2), GW_OK);
    assert_int_equal(bench.n, 1);
    assert_int_equal(bench.ranks[0][0], 2);
    leader_end(&bench);
}

/* ---- meetings ---- */

/* Who waits for a score is kept from nothing by a quiesce, so none begins
   before all have theirs, whatever is asked for. */
static void nothing_is_quiesced_before_the_score(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {3, 1, 2};
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    bench.options.regime.per_push = 1;
    leader_set(&bench, "train.eval_every=2");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    size_t n = bench.n;
    assert_int_equal(bench.decision[n - 1].kind, GW_DECIDE_QUIESCE);
    leader_settle(&bench, clocks);
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_RESUME);
    assert_int_equal(bench.decision[bench.n - 1].reason, 1);
    n = bench.n;
    gw_leader_want_cut(bench.leader);
    gw_leader_stop(bench.leader);
    gw_leader_stored(bench.leader);
    assert_int_equal(bench.n, n);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct gw_score score = {
            .clock = 2, .loss = 1, .correct = 1, .samples = 1};
        gw_leader_want_cut(bench.leader);
        assert_int_equal(bench.n, n);
        assert_int_equal(gw_leader_score(bench.leader, rank, &score), GW_OK);
    }
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_SCORE);
    n = bench.n;
    gw_leader_pushed(bench.leader, 7, 7);
    assert_int_equal(bench.n, n + 1);
    assert_int_equal(bench.decision[n].kind, GW_DECIDE_QUIESCE);
    leader_end(&bench);
}

/* ---- from one policy to the next ---- */

/* The last decision is that this policy holds from this clock on. */
static void assert_switch(const struct bench *bench,
                          const char *policy,
                          uint64_t clock,
                          double pushes)
{
    size_t last = bench->n - 1;
    assert_true(bench->n > 0);
    assert_int_equal(bench->decision[last].kind, GW_DECIDE_SWITCH);
    assert_int_equal(bench->decision[last].clock, clock);
    assert_string_equal(bench->policy[last], policy);
    assert_true(bench->values[last][0] == pushes);
    assert_int_equal(bench->has_clocks[last], 0);
}

static void a_phase_is_announced_one_exchange_ahead(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 3, local:4 until 8, backup:1");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_before(bench.leader, 1);
    assert_int_equal(bench.n, 0);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.n, 1);
    assert_switch(&bench, "local:4", 3, 3 * RANKS);
    gw_leader_before(bench.leader, 3); /* from here to 7, 8 and 9 */
    assert_int_equal(bench.n, 1);
    gw_leader_before(bench.leader, 7);
    assert_int_equal(bench.n, 2);
    assert_switch(&bench, "backup:1", 8, 8 * RANKS);
    gw_leader_before(bench.leader, 7);
    assert_int_equal(bench.n, 2);
    leader_end(&bench);
}

/* What would begin with the end, or behind it, is not decided. */
static void nothing_is_announced_beyond_the_end(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 10, async");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 8);
    assert_int_equal(bench.n, 0);
    gw_leader_before(bench.leader, 9);
    leader_ask(&bench, "local:2");
    assert_int_equal(bench.n, 0);
    gw_leader_before(bench.leader, 10);
    assert_int_equal(bench.n, 1);
    assert_int_equal(bench.decision[0].kind, GW_DECIDE_END);
    leader_end(&bench);

    leader_plan(&bench, "sync until 5, async");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 3);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 4);
    assert_int_equal(bench.n, 1);
    assert_int_equal(bench.decision[0].kind, GW_DECIDE_END);
    leader_end(&bench);
}

/* The last word that was asked for goes before the plan's, once, and up to the
   plan's next. */
static void who_asks_goes_before_the_plan(void **state)
{
    (void)state;
    struct bench bench;
    leader_plan(&bench, "sync until 3, local:2 until 7, sync");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 1);
    leader_ask(&bench, "backup:1");
    leader_ask(&bench, "diloco:3");
    assert_int_equal(bench.n, 0);
    gw_leader_before(bench.leader, 2);
    assert_switch(&bench, "diloco:3", 3, 3 * RANKS);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 1);
    gw_leader_before(bench.leader, 6); /* the round ends with the phase */
    assert_int_equal(bench.n, 2);
    assert_switch(&bench, "sync", 7, 7 * RANKS);
    leader_end(&bench);
}

/* Another optimizer makes its first step, the same one goes on. */
static void updates_are_counted_for_each_optimizer(void **state)
{
    (void)state;
    static const struct {
        const char *plan;
        uint64_t applied;
    } cases[] = {{"sync until 2, backup:0", 3}, {"sync until 2, diloco:1", 1}};
    for (size_t i = 0; i < 2; i++) {
        struct bench bench;
        leader_plan(&bench, cases[i].plan);
        leader_set(&bench, "checkpoint.dir=x");
        bench.options.resumed = 1;
        leader_begin(&bench);
        for (uint64_t version = 0; version < 3; version++)
            gw_leader_before(bench.leader, version);
        gw_leader_want_cut(bench.leader);
        gw_leader_before(bench.leader, 3);
        struct gw_decision *cut = &bench.decision[bench.n - 1];
        assert_int_equal(cut->kind, GW_DECIDE_CUT);
        cut->values = bench.values[bench.n - 1];
        struct gw_cut read;
        assert_int_equal(gw_cut_read(cut, &read), GW_OK);
        assert_int_equal(read.state.applied, cases[i].applied);
        assert_int_equal(read.state.pushes, 3 * RANKS);
        leader_end(&bench);
    }
}

/* From per-push policies: where all stand still, and no checkpoint is open. */
static void single_pushes_stand_still_first(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {3, 1, 3};
    leader_plan(&bench, "async");
    leader_set(&bench, "checkpoint.dir=x");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    assert_int_equal(bench.n, 1); /* the checkpoint of the beginning */
    leader_ask(&bench, "sync");
    gw_leader_pushed(bench.leader, 6, 6);
    assert_int_equal(bench.n, 1);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 7, 7);
    assert_int_equal(bench.n, 2);
    assert_int_equal(bench.decision[1].kind, GW_DECIDE_QUIESCE);
    leader_settle(&bench, clocks);
    assert_int_equal(bench.n, 4);
    assert_int_equal(bench.decision[2].kind, GW_DECIDE_SWITCH);
    assert_int_equal(bench.decision[2].clock, 2); /* 7 pushes of 3 ranks */
    assert_true(bench.values[2][0] == 7);
    assert_true(bench.has_clocks[2]);
    assert_int_equal(bench.decision[3].kind, GW_DECIDE_RESUME);
    assert_int_equal(bench.decision[3].clock, 2);
    gw_leader_before(bench.leader, 2);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 4);
    leader_end(&bench);
}

/*
 * A checkpoint of per-push policies, then a few pushes more, and the same step
 * goes on together: its checkpoint has the next step's name, and says at which
 * version chunks are.
 */
static void a_second_cut_of_a_step_names_its_version(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {2, 2, 2}, more[RANKS] = {3, 2, 2};
    leader_plan(&bench, "async");
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=2");
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    leader_settle(&bench, clocks);
    assert_int_equal(bench.decision[2].kind, GW_DECIDE_CUT);
    assert_int_equal(bench.decision[2].clock, 2);
    gw_leader_stored(bench.leader);
    leader_ask(&bench, "sync");
    gw_leader_pushed(bench.leader, 7, 7);
    leader_settle(&bench, more);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 2);
    struct gw_decision *cut = &bench.decision[bench.n - 2];
    assert_int_equal(cut->kind, GW_DECIDE_CUT);
    assert_int_equal(cut->clock, 3);
    cut->values = bench.values[bench.n - 2];
    struct gw_cut read;
    assert_int_equal(gw_cut_read(cut, &read), GW_OK);
    assert_int_equal(read.version, 2);
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[bench.n - 1].clock, 2);
    leader_end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_are_whole_count),
        cmocka_unit_test(arrivals_that_cannot_be_are_refused),
        cmocka_unit_test(empty_shards_are_not_waited_for),
        cmocka_unit_test(nothing_is_quiesced_before_the_score),
        cmocka_unit_test(a_phase_is_announced_one_exchange_ahead),
        cmocka_unit_test(nothing_is_announced_beyond_the_end),
        cmocka_unit_test(who_asks_goes_before_the_plan),
        cmocka_unit_test(updates_are_counted_for_each_optimizer),
        cmocka_unit_test(single_pushes_stand_still_first),
        cmocka_unit_test(a_second_cut_of_a_step_names_its_version),
    };
    return cmocka_run_group_tests_name("decision_policy", tests, NULL, NULL);
}
