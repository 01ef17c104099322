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

#include "server/decision.h"

#define RANKS  3
#define SHARDS 2
#define KEPT   64

struct bench {
    struct gw_config config;
    struct gw_map *map;
    struct gw_leader *leader;
    struct gw_leader_options options;
    struct gw_decision decision[KEPT];
    double values[KEPT][16];
    uint32_t ranks[KEPT][RANKS];
    size_t n;
};

static void emitted(void *owner, const struct gw_decision *decision)
{
    struct bench *bench = owner;
    assert_true(bench->n < KEPT);
    assert_int_equal(decision->number, bench->n + 1);
    assert_true(decision->values_n <= 16);
    bench->decision[bench->n] = *decision;
    if (decision->values_n)
        memcpy(bench->values[bench->n], decision->values,
               decision->values_n * sizeof(double));
    if (decision->ranks_n)
        memcpy(bench->ranks[bench->n], decision->ranks,
               decision->ranks_n * sizeof(uint32_t));
    bench->n++;
}

static void set(struct bench *bench, const char *assignment)
{
    struct gw_error error = {.text = ""};
    if (gw_config_set(&bench->config, assignment, &error) != GW_OK)
        fail_msg("%s", error.text);
}

static void prepare(struct bench *bench)
{
    const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {40000}},
        {.name = "b", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {30000}}};
    struct gw_error error;
    memset(bench, 0, sizeof *bench);
    gw_config_default(&bench->config);
    set(bench, "checkpoint.dir=\"\"");
    assert_int_equal(gw_map_create(keys, 2, SHARDS, &bench->map, &error),
                     GW_OK);
    bench->options = (struct gw_leader_options){.config = &bench->config,
                                                .map = bench->map,
                                                .ranks = RANKS,
                                                .shards = SHARDS,
                                                .total_steps = 10,
                                                .emit = emitted,
                                                .owner = bench};
    assert_int_equal(
        gw_regime_at(&bench->config, 0, &bench->options.regime, &error), GW_OK);
    bench->options.regime.whole_step = 1;
}

static void begin(struct bench *bench)
{
    struct gw_error error;
    assert_int_equal(gw_leader_create(&bench->options, &bench->leader, &error),
                     GW_OK);
}

static void end(struct bench *bench)
{
    gw_leader_destroy(bench->leader);
    gw_map_destroy(bench->map);
}

/* A shard's vote: `square` for each of its chunks. */
static enum gw_status
vote(struct bench *bench, uint32_t shard, uint64_t clock, double square)
{
    double values[64];
    uint32_t n = bench->map->shard_chunks[shard];
    for (uint32_t i = 0; i < n; i++)
        values[i] = square;
    struct gw_vote message = {.clock = clock,
                              .phase = 1,
                              .total = n,
                              .samples = 12,
                              .values = values,
                              .values_n = n};
    return gw_leader_vote(bench->leader, shard, &message);
}

static void a_step_is_decided_by_the_last_vote(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "train.clip=0.5");
    begin(&bench);
    double total = (double)bench.map->chunks * 36;
    double norm = sqrt(total) / 12;
    for (uint64_t clock = 0; clock < 3; clock++) {
        uint32_t first = clock % 2;
        assert_int_equal(vote(&bench, first, clock, 36), GW_OK);
        assert_int_equal(bench.n, clock);
        assert_int_equal(vote(&bench, !first, clock, 36), GW_OK);
        assert_int_equal(bench.n, clock + 1);
        const struct gw_decision *step = &bench.decision[clock];
        assert_int_equal(step->kind, GW_DECIDE_STEP);
        assert_int_equal(step->clock, clock);
        assert_int_equal(step->apply, 1);
        assert_true(fabs(bench.values[clock][2] - norm) < 1e-12);
        assert_true(fabs(bench.values[clock][0] - 0.5 / (norm + 1e-6)) < 1e-9);
    }
    end(&bench);
}

static void small_gradients_are_not_clipped(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "train.clip=0.5");
    begin(&bench);
    vote(&bench, 0, 0, 1e-6);
    vote(&bench, 1, 0, 1e-6);
    assert_true(bench.values[0][0] == 1);
    vote(&bench, 0, 1, 0);
    vote(&bench, 1, 1, 0);
    assert_true(bench.values[1][0] == 1 && bench.values[1][2] == 0);
    end(&bench);
}

static void votes_out_of_turn_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    double values[64] = {0};
    prepare(&bench);
    begin(&bench);
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
        assert_int_equal(gw_leader_vote(bench.leader, 1, &wrong[i]), GW_EPROTO);
    assert_int_equal(gw_leader_vote(bench.leader, SHARDS, &good), GW_EPROTO);
    assert_int_equal(gw_leader_vote(bench.leader, 1, &good), GW_OK);
    assert_int_equal(gw_leader_vote(bench.leader, 1, &good), GW_EPROTO);
    assert_int_equal(bench.n, 0);
    end(&bench);
}

/* ---- backup workers ---- */

static enum gw_status
arrive(struct bench *bench, uint32_t shard, uint64_t clock, uint32_t rank)
{
    const struct gw_arrived arrived = {.clock = clock, .rank = rank};
    return gw_leader_arrived(bench->leader, shard, &arrived);
}

/* Who is whole at all shards first counts, wherever it came first, and once. */
static void the_first_that_are_whole_count(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    bench.options.regime.quorum = 2;
    begin(&bench);
    for (uint64_t clock = 0; clock < 3; clock++) {
        size_t before = bench.n;
        assert_int_equal(arrive(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 0), GW_OK);
        assert_int_equal(arrive(&bench, 1, clock, 2), GW_OK);
        assert_int_equal(arrive(&bench, 0, clock, 2), GW_OK);
        assert_int_equal(bench.n, before);
        assert_int_equal(vote(&bench, 0, clock, 1), GW_EPROTO);
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
        assert_int_equal(vote(&bench, 0, clock, 1), GW_OK);
        assert_int_equal(vote(&bench, 1, clock, 1), GW_OK);
        assert_int_equal(bench.decision[before + 1].kind, GW_DECIDE_STEP);
        assert_int_equal(arrive(&bench, 1, clock, 1), GW_OK); /* later still */
        assert_int_equal(bench.n, before + 2);
    }
    end(&bench);
}

static void arrivals_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    begin(&bench);
    assert_int_equal(arrive(&bench, 0, 0, 0), GW_EPROTO); /* not this policy */
    gw_leader_destroy(bench.leader);
    bench.options.regime.quorum = 2;
    begin(&bench);
    assert_int_equal(arrive(&bench, SHARDS, 0, 0), GW_EPROTO);
    assert_int_equal(arrive(&bench, 0, 0, RANKS), GW_EPROTO);
    assert_int_equal(arrive(&bench, 0, 1, 0), GW_EPROTO);
    end(&bench);
}

/* A shard without chunks says nothing, and nobody waits for it. */
static void empty_shards_are_not_waited_for(void **state)
{
    (void)state;
    const struct gw_key key = {
        .name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {5}};
    struct bench bench;
    struct gw_error error;
    prepare(&bench);
    gw_map_destroy(bench.map);
    assert_int_equal(gw_map_create(&key, 1, SHARDS, &bench.map, &error), GW_OK);
    bench.options.map = bench.map;
    bench.options.regime.quorum = 1;
    begin(&bench);
    uint32_t full = bench.map->shard_chunks[0] == 0;
    assert_int_equal(arrive(&bench, !full, 0, 0), GW_EPROTO);
    assert_int_equal(arrive(&bench, full, 0, 2), GW_OK);
    assert_int_equal(bench.n, 1);
    assert_int_equal(bench.ranks[0][0], 2);
    end(&bench);
}

/* The culprits by rank, each once, and the end after the first (stop). */
static void bad_ranks_are_named_once(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    begin(&bench);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        double values[64] = {0};
        uint32_t n = bench.map->shard_chunks[shard], bad[] = {2, 0, 77};
        struct gw_vote message = {.phase = 1,
                                  .total = n,
                                  .samples = 1,
                                  .values = values,
                                  .values_n = n,
                                  .bad_ranks = bad,
                                  .bad_ranks_n = 3};
        assert_int_equal(gw_leader_vote(bench.leader, shard, &message), GW_OK);
    }
    assert_int_equal(bench.n, 2);
    assert_int_equal(bench.decision[0].apply, 0);
    assert_int_equal(bench.decision[0].ranks_n, 2);
    assert_int_equal(bench.ranks[0][0], 0);
    assert_int_equal(bench.ranks[0][1], 2);
    assert_int_equal(bench.decision[1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[1].reason, GW_END_NONFINITE);
    assert_int_equal(bench.decision[1].clock, 1);
    end(&bench);
}

/* Three skips in a row end it; a good step between begins the count anew. */
static void three_skips_in_a_row_end_the_job(void **state)
{
    (void)state;
    static const int finite[] = {0, 0, 1, 0, 0, 0};
    struct bench bench;
    prepare(&bench);
    set(&bench, "train.nonfinite=skip");
    begin(&bench);
    for (uint64_t clock = 0; clock < 6; clock++) {
        assert_int_equal(bench.n, clock);
        vote(&bench, 0, clock, finite[clock] ? 1 : INFINITY);
        vote(&bench, 1, clock, 1);
        assert_int_equal(bench.decision[clock].apply, finite[clock]);
    }
    assert_int_equal(bench.n, 7);
    assert_int_equal(bench.decision[6].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[6].clock, 6);
    end(&bench);
}

/* A loss scale halves instead, and skips count at its minimum only. */
static void a_dynamic_loss_scale_halves_first(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "train.nonfinite=skip");
    set(&bench, "train.loss_scale=dynamic");
    begin(&bench);
    double scale = GW_LOSS_SCALE_FIRST;
    uint64_t clock = 0;
    for (; scale > GW_LOSS_SCALE_MIN; clock++) {
        vote(&bench, 0, clock, NAN);
        vote(&bench, 1, clock, 1);
        scale /= 2;
        assert_int_equal(bench.n, clock + 1);
        assert_true(bench.values[clock][1] == scale);
    }
    for (int i = 0; i < GW_SKIPS_MAX; i++, clock++) {
        assert_int_equal(bench.n, clock);
        vote(&bench, 0, clock, NAN);
        vote(&bench, 1, clock, 1);
    }
    assert_int_equal(bench.decision[bench.n - 1].kind, GW_DECIDE_END);
    assert_int_equal(bench.decision[bench.n - 1].reason, GW_END_NONFINITE);
    end(&bench);
}

/* Cuts at the beginning, at every second step, and at the end before it. */
static void cuts_and_the_end_come_before_their_answers(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.checkpoint_steps = 4;
    bench.options.regime.whole_step = 0;
    begin(&bench);
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
    end(&bench);
}

/* A disk that is late makes the next checkpoint late, not two at once. */
static void one_cut_is_open_at_a_time(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.checkpoint_steps = 2;
    bench.options.regime.whole_step = 0;
    begin(&bench);
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
    end(&bench);
}

/* The parts of a score in any order, each once; then no progress ends it. */
static void scores_are_summed_and_early_stop_counts(void **state)
{
    (void)state;
    static const double losses[] = {4, 2, 3, 2};
    struct bench bench;
    prepare(&bench);
    set(&bench, "train.early_stop=2");
    bench.options.regime.whole_step = 0;
    begin(&bench);
    for (uint64_t k = 0; k < 4; k++) {
        size_t before = bench.n;
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
    struct gw_score stray = {.clock = 9};
    assert_int_equal(gw_leader_score(bench.leader, RANKS, &stray), GW_EPROTO);
    assert_int_equal(gw_leader_score(bench.leader, 0, &stray), GW_OK);
    stray.clock = 8;
    assert_int_equal(gw_leader_score(bench.leader, 1, &stray), GW_EPROTO);
    end(&bench);
}

static void score_all(struct bench *bench, uint64_t clock, double loss)
{
    struct gw_score part = {.clock = clock, .loss = loss, .samples = 1};
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_int_equal(gw_leader_score(bench->leader, rank, &part), GW_OK);
}

/* A model that has diverged has a score, but no best one, and what is kept of
   it is a number: manifests have no other. */
static void no_number_is_no_best(void **state)
{
    (void)state;
    static const double losses[] = {NAN, INFINITY, 3, NAN, 2};
    struct bench bench;
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    bench.options.resumed = 1;
    begin(&bench);
    for (uint64_t k = 0; k < 5; k++) {
        score_all(&bench, k, losses[k]);
        const struct gw_decision *score = &bench.decision[bench.n - 1];
        assert_int_equal(score->kind, GW_DECIDE_SCORE);
        assert_int_equal(score->reason, losses[k] <= 3);
        gw_leader_stored(bench.leader);
        gw_leader_want_cut(bench.leader);
        gw_leader_before(bench.leader, k + 1);
        struct gw_decision *cut = &bench.decision[bench.n - 1];
        struct gw_decision_state kept;
        assert_int_equal(cut->kind, GW_DECIDE_CUT);
        cut->values = bench.values[bench.n - 1];
        gw_decision_state_read(cut, &kept);
        assert_true(isfinite(kept.best_loss));
        gw_leader_stored(bench.leader);
    }
    end(&bench);
}

/* The best is cut whatever is being stored, but a third one waits. */
static void a_score_waits_for_a_disk_that_is_behind(void **state)
{
    (void)state;
    struct bench bench;
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    begin(&bench);
    gw_leader_before(bench.leader, 0);
    score_all(&bench, 1, 3);
    assert_int_equal(bench.n, 3); /* two cuts and a score */
    score_all(&bench, 2, 2);
    assert_int_equal(bench.n, 3);
    gw_leader_stored(bench.leader);
    assert_int_equal(bench.n, 5);
    assert_int_equal(bench.decision[3].kind, GW_DECIDE_CUT);
    assert_int_equal(bench.decision[3].clock, 2);
    assert_int_equal(bench.decision[4].kind, GW_DECIDE_SCORE);
    gw_leader_stored(bench.leader);
    assert_int_equal(bench.n, 5); /* and once only */
    end(&bench);
}

/* A cut carries the state from which a job goes on. */
static void a_cut_carries_the_state(void **state)
{
    (void)state;
    struct bench bench;
    struct gw_decision_state read;
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.resumed = 1;
    bench.options.checkpoint_steps = 1;
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
    begin(&bench);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.n, 0); /* it is there already */
    assert_int_equal(vote(&bench, 0, 3, 1), GW_OK);
    assert_int_equal(vote(&bench, 1, 3, 1), GW_OK);
    gw_leader_before(bench.leader, 4);
    assert_int_equal(bench.n, 2);
    bench.decision[1].values = bench.values[1];
    gw_decision_state_read(&bench.decision[1], &read);
    assert_int_equal(read.clock, 4);
    assert_int_equal(read.applied, 3);
    assert_true(read.loss_scale == 8);
    assert_int_equal(read.skipped_in_a_row, 0);
    assert_true(read.best_loss == 0.5);
    assert_int_equal(read.best_clock, 2);
    assert_int_equal(read.evaluations, 6);
    assert_int_equal(read.evaluations_without_progress, 1);
    end(&bench);
}

/* So many keys that their ratios are no message any more. */
/* ---- meetings ---- */

/* All ranks stand still at every shard. */
static void settle(struct bench *bench, const uint64_t clocks[RANKS])
{
    const uint32_t blocked[RANKS] = {0, 1, 2};
    const struct gw_settled settled = {.decision = (uint32_t)bench->n,
                                       .clocks = clocks,
                                       .clocks_n = RANKS,
                                       .blocked = blocked,
                                       .blocked_n = RANKS};
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        assert_int_equal(gw_leader_settled(bench->leader, shard, &settled),
                         GW_OK);
}

/* Who waits for a score is kept from nothing by a drain, so none begins before
   all have theirs, whatever is asked for. */
static void nothing_is_drained_before_the_score(void **state)
{
    (void)state;
    struct bench bench;
    const uint64_t clocks[RANKS] = {3, 1, 2};
    prepare(&bench);
    set(&bench, "checkpoint.dir=x");
    bench.options.regime.whole_step = 0;
    bench.options.regime.each = 1;
    bench.options.eval_steps = 2;
    begin(&bench);
    gw_leader_before(bench.leader, 0);
    gw_leader_stored(bench.leader);
    gw_leader_pushed(bench.leader, 6, 6);
    size_t n = bench.n;
    assert_int_equal(bench.decision[n - 1].kind, GW_DECIDE_DRAIN);
    settle(&bench, clocks);
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
    assert_int_equal(bench.decision[n].kind, GW_DECIDE_DRAIN);
    end(&bench);
}

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
        prepare(&bench);
        gw_map_destroy(bench.map);
        assert_int_equal(gw_map_create(keys, GW_TRUST_KEYS_MAX + more, SHARDS,
                                       &bench.map, &error),
                         GW_OK);
        bench.options.map = bench.map;
        bench.options.regime.two_phase = 1;
        assert_int_equal(
            gw_leader_create(&bench.options, &bench.leader, &error),
            more ? GW_EUNSUPPORTED : GW_OK);
        if (more)
            assert_non_null(strstr(error.text, "8001 keys"));
        end(&bench);
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
        cmocka_unit_test(the_first_that_are_whole_count),
        cmocka_unit_test(arrivals_that_cannot_be_are_refused),
        cmocka_unit_test(empty_shards_are_not_waited_for),
        cmocka_unit_test(bad_ranks_are_named_once),
        cmocka_unit_test(three_skips_in_a_row_end_the_job),
        cmocka_unit_test(a_dynamic_loss_scale_halves_first),
        cmocka_unit_test(cuts_and_the_end_come_before_their_answers),
        cmocka_unit_test(one_cut_is_open_at_a_time),
        cmocka_unit_test(scores_are_summed_and_early_stop_counts),
        cmocka_unit_test(no_number_is_no_best),
        cmocka_unit_test(a_score_waits_for_a_disk_that_is_behind),
        cmocka_unit_test(a_cut_carries_the_state),
        cmocka_unit_test(nothing_is_drained_before_the_score),
        cmocka_unit_test(lamb_has_a_limit_of_keys),
    };
    return cmocka_run_group_tests_name("decision", tests, NULL, NULL);
}
