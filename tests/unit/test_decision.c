/* The leader of the stream of decisions: votes and scores in, decisions out. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/leader.h"

static void a_step_is_decided_by_the_last_vote(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.clip=0.5");
    leader_begin(&bench);
    double total = (double)bench.map->chunks * 36;
    double norm = sqrt(total) / 12;
    for (uint64_t clock = 0; clock < 3; clock++) {
        uint32_t first = clock % 2;
        assert_int_equal(leader_vote(&bench, first, clock, 36), GW_OK);
        assert_int_equal(bench.n, clock);
        assert_int_equal(leader_vote(&bench, !first, clock, 36), GW_OK);
        assert_int_equal(bench.n, clock + 1);
        const struct gw_decision *step = &bench.decision[clock];
        assert_int_equal(step->kind, GW_DECIDE_STEP);
        assert_int_equal(step->clock, clock);
        assert_int_equal(step->apply, 1);
        assert_true(fabs(bench.values[clock][2] - norm) < 1e-12);
        assert_true(fabs(bench.values[clock][0] - 0.5 / (norm + 1e-6)) < 1e-9);
    }
    leader_end(&bench);
}

static void small_gradients_are_not_clipped(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.clip=0.5");
    leader_begin(&bench);
    leader_vote(&bench, 0, 0, 1e-6);
    leader_vote(&bench, 1, 0, 1e-6);
    assert_true(bench.values[0][0] == 1);
    leader_vote(&bench, 0, 1, 0);
    leader_vote(&bench, 1, 1, 0);
    assert_true(bench.values[1][0] == 1 && bench.values[1][2] == 0);
    leader_end(&bench);
}

static void votes_out_of_turn_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    double values[64] = {0};
    leader_prepare(&bench);
    leader_begin(&bench);
    uint32_t n = bench.map->shard_chunks[1];
    const struct gw_vote good = {
        .phase = 1, .total = n, .samples = 1, .values = values, .values_n = n};
    struct gw_vote wrong[] = {good, good, good, good, good, good};
    wrong[0].clock = 1;
    wrong[1].phase = 2;
    wrong[2].total = n + 1;
    wrong[3].first = 1;
    wrong[4].values_n = n + 1;
    wrong[5].phase = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gw_leader_vote(bench.leader, 1, &wrong[i], NULL),
                         GW_EPROTO);
    assert_int_equal(gw_leader_vote(bench.leader, SHARDS, &good, NULL),
                     GW_EPROTO);
    assert_int_equal(gw_leader_vote(bench.leader, 1, &good, NULL), GW_OK);
    assert_int_equal(gw_leader_vote(bench.leader, 1, &good, NULL), GW_EPROTO);
    assert_int_equal(bench.n, 0);
    leader_end(&bench);
}

/* Gradients are divided by what votes count: the first one says it, whoever
   comes with another number is named. */
static void votes_of_other_samples_are_refused(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {0, 1, 11, 13, 97, UINT64_MAX};
    for (uint32_t first = 0; first < SHARDS; first++) {
        struct gw_error error = {.text = ""};
        struct bench bench;
        double values[64] = {0};
        leader_prepare(&bench);
        leader_set(&bench, "train.global_batch=96");
        leader_begin(&bench);
        uint32_t n = bench.map->shard_chunks[!first];
        struct gw_vote vote = {
            .phase = 1, .total = n, .values = values, .values_n = n};
        vote.samples = 97;
        assert_int_equal(gw_leader_vote(bench.leader, !first, &vote, &error),
                         GW_EPROTO);
        assert_non_null(strstr(error.text, "counts 97 samples in step 0, which "
                                           "has 1 to 96"));
        assert_int_equal(leader_vote(&bench, first, 0, 36), GW_OK);
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            vote.samples = wrong[i];
            assert_int_equal(
                gw_leader_vote(bench.leader, !first, &vote, &error), GW_EPROTO);
            assert_true(error.text[6] == (first ? '0' : '1'));
        }
        assert_int_equal(bench.n, 0);
        /* one in parts, which do not agree */
        vote.samples = 12;
        vote.values_n = 1;
        assert_int_equal(gw_leader_vote(bench.leader, !first, &vote, &error),
                         GW_OK);
        vote.samples = 13;
        vote.first = 1;
        assert_int_equal(gw_leader_vote(bench.leader, !first, &vote, &error),
                         GW_EPROTO);
        leader_end(&bench);
    }
}

/* backup: those who have the samples of a short step may be late in it. */
static void a_step_of_no_samples_is_one(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.clip=0.5");
    bench.options.regime.quorum = 2;
    leader_begin(&bench);
    const uint32_t ranks[] = {0, 1};
    const struct gw_arrived arrived = {.ranks = ranks, .ranks_n = 2};
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(gw_leader_arrived(bench.leader, shard, &arrived),
                         GW_OK);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        double values[64] = {0};
        uint32_t n = bench.map->shard_chunks[shard];
        const struct gw_vote vote = {
            .phase = 1, .total = n, .values = values, .values_n = n};
        assert_int_equal(gw_leader_vote(bench.leader, shard, &vote, NULL),
                         GW_OK);
    }
    assert_int_equal(bench.decision[1].kind, GW_DECIDE_STEP);
    assert_int_equal(bench.decision[1].apply, 1);
    assert_true(bench.values[1][0] == 1 && bench.values[1][2] == 0);
    leader_end(&bench);
}

/* The culprits by rank, each once, and the end after the first (stop). */
static void nonfinite_ranks_are_named_once(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_begin(&bench);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        double values[64] = {0};
        uint32_t n = bench.map->shard_chunks[shard], bad[] = {2, 0, 77};
        struct gw_vote message = {.phase = 1,
                                  .total = n,
                                  .samples = 1,
                                  .values = values,
                                  .values_n = n,
                                  .nonfinite_ranks = bad,
                                  .nonfinite_ranks_n = 3};
        assert_int_equal(gw_leader_vote(bench.leader, shard, &message, NULL),
                         GW_OK);
    }
    assert_int_equal(bench.n, 2);
    assert_int_equal(bench.decision[0].apply, 0);
    assert_int_equal(bench.decision[0].ranks_n, 2);
    assert_int_equal(bench.ranks[0][0], 0);
    assert_int_equal(bench.ranks[0][1], 2);
    assert_int_equal(bench.decision[1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[1].reason, GW_END_NONFINITE);
    assert_int_equal(bench.decision[1].clock, 1);
    leader_end(&bench);
}

/* Three skips in a row end it; a good step between begins the count anew. */
static void three_skips_in_a_row_end_the_job(void **state)
{
    (void)state;
    static const int finite[] = {0, 0, 1, 0, 0, 0};
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.nonfinite=skip");
    leader_begin(&bench);
    for (uint64_t clock = 0; clock < 6; clock++) {
        assert_int_equal(bench.n, clock);
        leader_vote(&bench, 0, clock, finite[clock] ? 1 : INFINITY);
        leader_vote(&bench, 1, clock, 1);
        assert_int_equal(bench.decision[clock].apply, finite[clock]);
    }
    assert_int_equal(bench.n, 7);
    assert_int_equal(bench.decision[6].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[6].clock, 6);
    leader_end(&bench);
}

/* A loss scale halves instead, and skips count at its minimum only. */
static void a_dynamic_loss_scale_halves_first(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.nonfinite=skip");
    leader_set(&bench, "train.loss_scale=dynamic");
    leader_begin(&bench);
    double scale = GW_LOSS_SCALE_FIRST;
    uint64_t clock = 0;
    for (; scale > GW_LOSS_SCALE_MIN; clock++) {
        leader_vote(&bench, 0, clock, NAN);
        leader_vote(&bench, 1, clock, 1);
        scale /= 2;
        assert_int_equal(bench.n, clock + 1);
        assert_true(bench.values[clock][1] == scale);
    }
    for (int i = 0; i < GW_SKIPS_MAX; i++, clock++) {
        assert_int_equal(bench.n, clock);
        leader_vote(&bench, 0, clock, NAN);
        leader_vote(&bench, 1, clock, 1);
    }
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[bench.n - 1].reason, GW_END_NONFINITE);
    leader_end(&bench);
}

/* Cuts at the beginning, at every second step, and at the end before it. */
static void cuts_and_the_end_come_before_their_answers(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=4");
    bench.options.regime.whole_step = 0;
    leader_begin(&bench);
    for (uint64_t version = 0; version <= 10; version++) {
        gw_leader_before(bench.leader, version);
        gw_leader_before(bench.leader, version);
        gw_leader_stored(bench.leader);
    }
    static const struct {
        enum gw_decision_kind kind;
        uint64_t clock;
    } expected[] = {{GW_DECIDE_CUT, 0},
                    {GW_DECIDE_CUT, 4},
                    {GW_DECIDE_CUT, 8},
                    {GW_DECIDE_CUT, 10},
                    {GW_DECIDE_END, 10}};
    assert_int_equal(bench.n, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(bench.decision[i].kind, expected[i].kind);
        assert_int_equal(bench.decision[i].clock, expected[i].clock);
    }
    assert_int_equal(bench.decision[4].reason, GW_END_COMPLETE);
    leader_end(&bench);
}

/* A disk that is late makes the next checkpoint late, not two at once. */
static void one_cut_is_open_at_a_time(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    leader_set(&bench, "checkpoint.every=2");
    bench.options.regime.whole_step = 0;
    leader_begin(&bench);
    for (uint64_t version = 0; version <= 5; version++)
        gw_leader_before(bench.leader, version);
    assert_int_equal(bench.n, 1);
    gw_leader_stored(bench.leader);
    gw_leader_before(bench.leader, 6);
    assert_int_equal(bench.n, 2);
    assert_int_equal(bench.decision[1].clock, 6);
    gw_leader_stop(bench.leader);
    gw_leader_before(bench.leader, 7);
    assert_int_equal(bench.n, 4);
    assert_int_equal(bench.decision[2].kind, GW_DECIDE_CUT);
    assert_int_equal(bench.decision[3].reason, GW_END_STOPPED);
    assert_int_equal(bench.decision[3].clock, 7);
    leader_end(&bench);
}

/* The parts of a score in any order, each once; then no progress ends it. */
static void scores_are_summed_and_early_stop_counts(void **state)
{
    (void)state;
    static const double losses[] = {4, 2, 3, 2};
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "train.early_stop=2");
    bench.options.regime.whole_step = 0;
    leader_begin(&bench);
    for (uint64_t k = 0; k < 4; k++) {
        size_t before = bench.n;
        gw_leader_before(bench.leader, k);
        for (uint32_t i = 0; i < RANKS; i++) {
            uint32_t rank = (i + (uint32_t)k) % RANKS;
            struct gw_score part = {.clock = k,
                                    .loss = losses[k] * 10,
                                    .correct = 5,
                                    .samples = 10};
            assert_int_equal(bench.n, before);
            assert_int_equal(gw_leader_score(bench.leader, rank, &part), GW_OK);
            if (i + 1 < RANKS)
                assert_int_equal(gw_leader_score(bench.leader, rank, &part),
                                 GW_OK);
        }
        const struct gw_decision *score = &bench.decision[bench.n - 1];
        assert_int_equal(score->kind, GW_DECIDE_SCORE);
        assert_true(bench.values[bench.n - 1][0] == losses[k]);
        assert_true(bench.values[bench.n - 1][1] == 0.5);
        assert_int_equal(score->reason, k < 2);
    }
    assert_int_equal(bench.n, 5);
    assert_int_equal(bench.decision[3].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[3].reason, GW_END_EARLY);
    /* who is the first with a lie must not make the truth of others one */
    struct gw_score stray = {.clock = 9};
    assert_int_equal(gw_leader_score(bench.leader, 0, &stray), GW_EPROTO);
    stray.clock = 3;
    assert_int_equal(gw_leader_score(bench.leader, RANKS, &stray), GW_EPROTO);
    assert_int_equal(gw_leader_score(bench.leader, 0, &stray), GW_OK);
    stray.clock = 2;
    assert_int_equal(gw_leader_score(bench.leader, 1, &stray), GW_EPROTO);
    leader_end(&bench);
}

/* A model that has diverged has a score, but no best one, and what is kept of
   it is a number: manifests have no other. */
static void no_number_is_no_best(void **state)
{
    (void)state;
    static const double losses[] = {NAN, INFINITY, 3, NAN, 2};
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    bench.options.resumed = 1;
    leader_begin(&bench);
    for (uint64_t k = 0; k < 5; k++) {
        leader_score(&bench, k, losses[k]);
        const struct gw_decision *score = &bench.decision[bench.n - 1];
        assert_int_equal(score->kind, GW_DECIDE_SCORE);
        assert_int_equal(score->reason, losses[k] <= 3);
        gw_leader_stored(bench.leader);
        gw_leader_want_cut(bench.leader);
        gw_leader_before(bench.leader, k + 1);
        struct gw_decision *cut = &bench.decision[bench.n - 1];
        struct gw_cut kept;
        assert_int_equal(cut->kind, GW_DECIDE_CUT);
        cut->values = bench.values[bench.n - 1];
        assert_int_equal(gw_cut_read(cut, &kept), GW_OK);
        assert_true(isfinite(kept.state.best_loss));
        gw_leader_stored(bench.leader);
    }
    leader_end(&bench);
}

/* The best is cut whatever is being stored, but a third one waits. */
static void a_score_waits_for_a_disk_that_is_behind(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    leader_begin(&bench);
    gw_leader_before(bench.leader, 0);
    leader_score(&bench, 1, 3);
    assert_int_equal(bench.n, 3); /* two cuts and a score */
    leader_score(&bench, 2, 2);
    assert_int_equal(bench.n, 3);
    gw_leader_stored(bench.leader);
    assert_int_equal(bench.n, 5);
    assert_int_equal(bench.decision[3].kind, GW_DECIDE_CUT);
    assert_int_equal(bench.decision[3].clock, 2);
    assert_int_equal(bench.decision[4].kind, GW_DECIDE_SCORE);
    gw_leader_stored(bench.leader);
    assert_int_equal(bench.n, 5); /* and once only */
    leader_end(&bench);
}

/* A cut is read as a whole or not at all: its counts are whole numbers. */
static void a_cut_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        double value;
    } lies[] = {
        {0, -1},    {0, 2.8e180},  {0, 0.5},
        {0, NAN},   {1, INFINITY}, {1, NAN},
        {2, 1e300}, {3, 1e10},     {4, INFINITY},
        {5, -0.1},  {6, 1e10},     {7, 1e10},
        {8, 1e17},  {9, NAN},      {9, 9007199254740992},
        {3, -1e-9},
    };
    double values[10] = {3, 1, 4, 1, 0.5, 9, 2, 6, 5, 7};
    struct gw_decision decision = {
        .clock = 8, .values = values, .values_n = 10};
    struct gw_cut cut;
    assert_int_equal(gw_cut_read(&decision, &cut), GW_OK);
    assert_int_equal(cut.version, 7);
    assert_int_equal(cut.state.pushes, 5);
    decision.values_n = 9; /* of one who says no version */
    assert_int_equal(gw_cut_read(&decision, &cut), GW_OK);
    assert_int_equal(cut.version, 8);
    decision.values_n = 10;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        double was = values[lies[i].at];
        values[lies[i].at] = lies[i].value;
        if (gw_cut_read(&decision, &cut) != GW_EPROTO)
            fail_msg("value %zu, %g", lies[i].at, lies[i].value);
        values[lies[i].at] = was;
    }
}

/* A cut carries the state from which a job goes on. */
static void a_cut_carries_the_state(void **state)
{
    (void)state;
    struct bench bench;
    leader_prepare(&bench);
    leader_set(&bench, "checkpoint.dir=x");
    bench.options.resumed = 1;
    leader_set(&bench, "checkpoint.every=1");
    bench.options.state =
        (struct gw_decision_state){.clock = 3,
                                   .applied = 2,
                                   .loss_scale = 8,
                                   .good_steps = 4,
                                   .skipped_in_a_row = 1,
                                   .best_loss = 0.5,
                                   .best_clock = 2,
                                   .evaluations = 6,
                                   .evaluations_without_progress = 1};
    leader_begin(&bench);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 0); /* it is there already */
    assert_int_equal(leader_vote(&bench, 0, 3, 1), GW_OK);
    assert_int_equal(leader_vote(&bench, 1, 3, 1), GW_OK);
    gw_leader_before(bench.leader, 4);
    assert_int_equal(bench.n, 2);
    bench.decision[1].values = bench.values[1];
    struct gw_cut cut;
    assert_int_equal(gw_cut_read(&bench.decision[1], &cut), GW_OK);
    const struct gw_decision_state read = cut.state;
    assert_int_equal(read.clock, 4);
    assert_int_equal(read.applied, 3);
    assert_true(read.loss_scale == 8);
    assert_int_equal(read.skipped_in_a_row, 0);
    assert_true(read.best_loss == 0.5);
    assert_int_equal(read.best_clock, 2);
    assert_int_equal(read.evaluations, 6);
    assert_int_equal(read.evaluations_without_progress, 1);
    leader_end(&bench);
}

/* So many keys that their ratios are no message any more. */
static void lamb_has_a_limit_of_keys(void **state)
{
    (void)state;
    static struct gw_key keys[GW_TRUST_KEYS_MAX + 1];
    static struct gw_control_arena arena;
    static uint8_t bytes[GW_MESSAGE_BYTES_MAX];
    static double ratios[GW_TRUST_KEYS_MAX];
    struct gw_error error;
    size_t n;
    for (size_t i = 0; i <= GW_TRUST_KEYS_MAX; i++) {
        keys[i] =
            (struct gw_key){.dtype = GW_DTYPE_F32, .dims = 1, .shape = {1}};
        snprintf(keys[i].name, sizeof keys[i].name, "k%zu", i);
    }
    for (size_t more = 0; more < 2; more++) {
        struct bench bench;
        leader_prepare(&bench);
        gw_map_destroy(bench.map);
        assert_int_equal(gw_map_create(keys, GW_TRUST_KEYS_MAX + more, SHARDS,
                                       &bench.map, &error),
                         GW_OK);
        bench.options.map = bench.map;
        leader_set(&bench, "optimizer.kind=lamb");
        assert_int_equal(
            gw_leader_create(&bench.options, &bench.leader, &error),
            more ? GW_EUNSUPPORTED : GW_OK);
        if (more)
            assert_non_null(strstr(error.text, "8001 keys"));
        leader_end(&bench);
    }
    struct gw_message trust = {.kind = GW_MESSAGE_DECISION,
                               .decision = {.number = UINT32_MAX,
                                            .kind = GW_DECIDE_TRUST,
                                            .clock = UINT64_MAX,
                                            .values = ratios,
                                            .values_n = GW_TRUST_KEYS_MAX}};
    assert_int_equal(gw_message_encode(&trust, &arena, bytes, sizeof bytes, &n),
                     GW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_decided_by_the_last_vote),
        cmocka_unit_test(small_gradients_are_not_clipped),
        cmocka_unit_test(votes_out_of_turn_are_refused),
        cmocka_unit_test(votes_of_other_samples_are_refused),
        cmocka_unit_test(a_step_of_no_samples_is_one),
        cmocka_unit_test(nonfinite_ranks_are_named_once),
        cmocka_unit_test(three_skips_in_a_row_end_the_job),
        cmocka_unit_test(a_dynamic_loss_scale_halves_first),
        cmocka_unit_test(cuts_and_the_end_come_before_their_answers),
        cmocka_unit_test(one_cut_is_open_at_a_time),
        cmocka_unit_test(scores_are_summed_and_early_stop_counts),
        cmocka_unit_test(no_number_is_no_best),
        cmocka_unit_test(a_score_waits_for_a_disk_that_is_behind),
        cmocka_unit_test(a_cut_carries_the_state),
        cmocka_unit_test(a_cut_that_makes_no_sense_is_refused),
        cmocka_unit_test(lamb_has_a_limit_of_keys),
    };
    return cmocka_run_group_tests_name("decision", tests, NULL, NULL);
}
