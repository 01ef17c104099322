/* Splits of a step: a leader that follows measured speeds and no noise. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "proto/split.h"
#include "server/policy/decision.h"
#include "server/policy/delay.h"
#include "server/policy/splits.h"
#include "worker/trainer/plan.h"

#define RANKS_MAX 4096

static struct gw_error error;

/* ---- the leader ---- */

struct bench {
    struct gw_config config;
    struct gw_map *map;
    struct gw_leader *leader;
    struct gw_leader_options options;
    uint64_t clock;             /* of the last split decided */
    uint32_t weight[RANKS_MAX]; /* and what it was */
    size_t splits, others;
};

static void emitted(void *owner, const struct gw_decision *decision)
{
    struct bench *bench = owner;
    if (decision->kind != GW_DECIDE_SPLIT) {
        bench->others++;
        return;
    }
    bench->splits++;
    bench->clock = decision->clock;
    assert_int_equal(decision->values_n, bench->options.ranks);
    assert_true(gw_split_from_values(decision->values, decision->values_n,
                                     bench->weight));
}

static void become(struct bench *bench, const char *policy)
{
    struct gw_policy_word word;
    assert_int_equal(gw_policy_word_parse(policy, &word, &error), GW_OK);
    assert_int_equal(gw_regime_make(&bench->config, &word, 0,
                                    &bench->options.regime, &error),
                     GW_OK);
}

static void begin(struct bench *bench, uint32_t ranks, uint64_t batch)
{
    static const struct gw_key keys[] = {
        {.name = "a", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {40}}};
    memset(bench, 0, sizeof *bench);
    gw_config_default(&bench->config);
    assert_int_equal(gw_config_set(&bench->config, "train.split=speed", &error),
                     GW_OK);
    bench->config.checkpoint.dir[0] = '\0';
    bench->config.train.global_batch = batch;
    assert_int_equal(gw_map_create(keys, 1, 1, &bench->map, &error), GW_OK);
    bench->options = (struct gw_leader_options){.config = &bench->config,
                                                .map = bench->map,
                                                .ranks = ranks,
                                                .shards = 1,
                                                .total_steps = 1000,
                                                .course = {.batch = batch},
                                                .emit = emitted,
                                                .owner = bench};
    become(bench, "sync");
}

static void create(struct bench *bench)
{
    assert_int_equal(gw_leader_create(&bench->options, &bench->leader, &error),
                     GW_OK);
    gw_split_even(bench->options.ranks, bench->weight);
}

static void end(struct bench *bench)
{
    gw_leader_destroy(bench->leader);
    gw_map_destroy(bench->map);
}

static void
tell(struct bench *bench, uint32_t rank, uint64_t clock, double samples_per_s)
{
    const struct gw_speed speed = {.clock = clock,
                                   .samples_per_s = samples_per_s};
    assert_int_equal(gw_leader_speed(bench->leader, rank, &speed), GW_OK);
}

/* A step ahead, when all have been measured in the split that is in force. */
static void decided_a_step_ahead(void **state)
{
    struct bench bench;
    (void)state;
    begin(&bench, 2, 100);
    create(&bench);
    gw_leader_before(bench.leader, 0);
    tell(&bench, 0, 0, 400);
    gw_leader_before(bench.leader, 1);
    assert_int_equal(bench.splits, 0);
    tell(&bench, 1, 0, 100);
    gw_leader_before(bench.leader, 1); /* it has been answered */
    assert_int_equal(bench.splits, 0);
    gw_leader_before(bench.leader, 2);
    assert_int_equal(bench.splits, 1);
    assert_int_equal(bench.clock, 3);
    assert_in_range(bench.weight[0], GW_SPLIT_TOTAL * 4 / 5 - 1,
                    GW_SPLIT_TOTAL * 4 / 5 + 1);
    /* what was measured before does not count any more */
    tell(&bench, 0, 2, 100);
    tell(&bench, 1, 2, 100);
    gw_leader_before(bench.leader, 3);
    assert_int_equal(bench.splits, 1);
    /* each change takes twice the measurements of the one before */
    for (uint64_t version = 4; version < 6; version++) {
        tell(&bench, 0, 3, 100);
        tell(&bench, 1, 3, 100);
        gw_leader_before(bench.leader, version);
        assert_int_equal(bench.splits, version - 3);
    }
    assert_int_equal(bench.clock, 6);
    assert_int_equal(bench.others, 0);
    end(&bench);
}

/* Between exchanges nobody hears of one. */
static void decided_a_round_ahead(void **state)
{
    struct bench bench;
    (void)state;
    begin(&bench, 2, 100);
    become(&bench, "local:16");
    create(&bench);
    gw_leader_before(bench.leader, 0);
    tell(&bench, 0, 0, 400);
    tell(&bench, 1, 0, 100);
    gw_leader_before(bench.leader, 16);
    assert_int_equal(bench.clock, 32);
    gw_leader_before(bench.leader, 992); /* the last round is short */
    tell(&bench, 0, 32, 100);
    tell(&bench, 1, 32, 100);
    assert_int_equal(bench.splits, 1);
    end(&bench);
}

/* Ranks that need step_us for a step and sample_us for a sample of it; the
   leader hears of each every step. */
static double follow(struct bench *bench,
                     const double *sample_us,
                     double step_us,
                     double spread,
                     uint64_t steps)
{
    double last = 0;
    uint32_t ranks = bench->options.ranks;
    for (uint64_t clock = 0; clock < steps; clock++) {
        gw_leader_before(bench->leader, clock);
        last = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint32_t bits[4];
            gw_random4(5, GW_RANDOM_TEST, rank, clock, bits);
            double samples = (double)bench->config.train.global_batch *
                             bench->weight[rank] / GW_SPLIT_TOTAL;
            double us = step_us + samples * sample_us[rank];
            last = us > last ? us : last;
            us *= 1 + spread * (bits[0] / 2147483648.0 - 1);
            tell(bench, rank, clock, samples * 1e6 / us);
        }
    }
    return last;
}

static void converges(void **state)
{
    static const double sample_us[] = {100, 250, 400, 1600, 100};
    struct bench bench;
    (void)state;
    begin(&bench, 5, 1000);
    create(&bench);
    double last = follow(&bench, sample_us, 0, 0.05, 200);
    double ideal = 1000 / (2 / 100.0 + 1 / 250.0 + 1 / 400.0 + 1 / 1600.0);
    printf("# %.3f of the ideal step, %zu changes\n", last / ideal,
           bench.splits);
    assert_true(last / ideal < 1.06);
    assert_in_range(bench.splits, 1, 3);
    end(&bench);
    /* half of an even step is overhead: several changes, and then no more */
    begin(&bench, 5, 1000);
    create(&bench);
    last = follow(&bench, sample_us, 100000, 0.02, 200);
    assert_in_range(bench.splits, 2, 12);
    assert_in_range(bench.clock, 1, 100);
    printf("# with overhead %.3f of the ideal step, %zu changes until step "
           "%u\n",
           last / (ideal + 100000), bench.splits, (unsigned)bench.clock);
    assert_true(last / (ideal + 100000) < 1.08);
    end(&bench);
}

/* Noise of some percent moves nothing. */
static void noise_is_not_followed(void **state)
{
    static const double sample_us[] = {100, 101, 99, 100};
    struct bench bench;
    (void)state;
    begin(&bench, 4, 1000);
    create(&bench);
    follow(&bench, sample_us, 0, 0.02, 900);
    assert_int_equal(bench.splits, 0);
    end(&bench);
}

static void everybody_has_a_little(void **state)
{
    struct bench bench;
    (void)state;
    begin(&bench, 4, 1000);
    create(&bench);
    gw_leader_before(bench.leader, 0);
    for (uint32_t rank = 0; rank < 4; rank++)
        tell(&bench, rank, 0, rank < 2 ? 1e-6 : 1000);
    gw_leader_before(bench.leader, 1);
    assert_int_equal(bench.splits, 1);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_in_range(bench.weight[rank], GW_SPLIT_TOTAL / 256 - 1,
                        GW_SPLIT_TOTAL / 256 + 1);
    end(&bench);
    /* a sample at least, of every full step */
    begin(&bench, 3, 7);
    create(&bench);
    gw_leader_before(bench.leader, 0);
    for (uint32_t rank = 0; rank < 3; rank++)
        tell(&bench, rank, 0, rank == 1 ? 1e-6 : 1000);
    gw_leader_before(bench.leader, 1);
    const struct gw_plan_run seven = {.n = 7};
    assert_int_equal(gw_plan_share(seven, gw_split_range_of(bench.weight, 1)).n,
                     1);
    end(&bench);
    /* where there are fewer samples than ranks it stays even */
    begin(&bench, 4, 3);
    create(&bench);
    gw_leader_before(bench.leader, 0);
    for (uint32_t rank = 0; rank < 4; rank++)
        tell(&bench, rank, 0, rank == 1 ? 1e-6 : 1000);
    gw_leader_before(bench.leader, 1);
    assert_int_equal(bench.splits, 0);
    end(&bench);
}

static void no_speeds_are_refused(void **state)
{
    struct bench bench;
    (void)state;
    begin(&bench, 2, 100);
    create(&bench);
    static const double wrong[] = {0, -1, 0.0 / 0.0, 1e308 * 10};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct gw_speed speed = {.samples_per_s = wrong[i]};
        assert_int_equal(gw_leader_speed(bench.leader, 0, &speed), GW_EPROTO);
    }
    const struct gw_speed good = {.samples_per_s = 1};
    assert_int_equal(gw_leader_speed(bench.leader, 2, &good), GW_EPROTO);
    end(&bench);
    /* where parts are even nobody asks */
    begin(&bench, 2, 100);
    strcpy(bench.config.train.split, "even");
    create(&bench);
    assert_int_equal(gw_leader_speed(bench.leader, 0, &good), GW_EPROTO);
    end(&bench);
}

/* What was decided at a clock is decided again, and nothing is measured. */
static void repeats_what_was_decided(void **state)
{
    struct bench bench;
    static const uint32_t weight[][2] = {
        {GW_SPLIT_TOTAL / 2, GW_SPLIT_TOTAL / 2},
        {1, GW_SPLIT_TOTAL - 1},
        {2, GW_SPLIT_TOTAL - 2}};
    struct gw_splits splits = {.ranks = 2};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(gw_splits_add(&splits, 5 * i, weight[i]), GW_OK);
    begin(&bench, 2, 100);
    strcpy(bench.config.train.split_from, "run.json");
    bench.options.splits = &splits;
    create(&bench);
    tell(&bench, 0, 0, 400);
    tell(&bench, 1, 0, 100);
    for (uint64_t version = 0; version < 30; version++) {
        gw_leader_before(bench.leader, version);
        assert_int_equal(bench.splits, (version >= 4) + (version >= 9));
    }
    assert_int_equal(bench.clock, 10);
    assert_int_equal(bench.weight[0], 2);
    end(&bench);
    /* from where it goes on; what changes within a round does after it */
    begin(&bench, 2, 100);
    strcpy(bench.config.train.split_from, "run.json");
    become(&bench, "local:4");
    bench.options.splits = &splits;
    bench.options.split = weight[1];
    bench.options.state.clock = 8;
    create(&bench);
    gw_leader_before(bench.leader, 8);
    assert_int_equal(bench.splits, 1);
    assert_int_equal(bench.clock, 12);
    assert_int_equal(bench.weight[0], 2);
    end(&bench);
    gw_splits_free(&splits);
}

/* ---- delays ---- */

/* An exchange of a rank: the last of two answers at now, the last of two pushes
   so much later. */
static void exchange(struct gw_delays *delays,
                     uint64_t clock,
                     uint64_t now_us,
                     uint64_t took_us,
                     uint32_t samples)
{
    gw_delays_answered(delays, 1, clock, now_us - 100);
    gw_delays_answered(delays, 1, clock, now_us);
    gw_delays_pushed(delays, 1, clock, samples, now_us + took_us / 2);
    /* the next version of another chunk is given out before the last push */
    gw_delays_answered(delays, 1, clock + 4, now_us + took_us - 10);
    gw_delays_pushed(delays, 1, clock, samples, now_us + took_us);
}

static void delays_are_what_is_not_computing(void **state)
{
    struct gw_delays *delays = gw_delays_create(2);
    uint64_t now_us = 1000000;
    (void)state;
    assert_non_null(delays);
    assert_true(gw_delays_of(delays, 1, 1000) < 0);
    /* 100 samples a second, 20 ms besides; once something rare */
    for (uint64_t i = 0; i < 12; i++) {
        uint32_t samples = i % 3 ? 100 : 50;
        uint64_t rare = i == 8 ? 7000000 : 0;
        exchange(delays, 4 * i, now_us, samples * 10000 + 20000 + rare,
                 samples);
        now_us += 2000000 + rare;
    }
    double delay = gw_delays_of(delays, 1, 100);
    assert_true(delay > 0.0199 && delay < 0.0201);
    /* computing cannot take longer than all */
    assert_true(gw_delays_of(delays, 1, 10) == 0);
    assert_true(gw_delays_of(delays, 0, 100) < 0);
    /* without samples nothing is learnt */
    for (uint64_t i = 12; i < 40; i++)
        exchange(delays, 4 * i, now_us += 1000000, 900000, 0);
    assert_true(gw_delays_of(delays, 1, 100) == delay);
    gw_delays_destroy(delays);
}

/* Ranks as fast as each other, one of which is delayed by half of a step. */
static void delays_are_made_up_for(void **state)
{
    struct bench bench;
    uint64_t now_us = 1;
    (void)state;
    begin(&bench, 2, 100);
    create(&bench);
    for (uint64_t clock = 0; clock < 20; clock++) {
        gw_leader_before(bench.leader, clock);
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint32_t samples =
                (uint32_t)(100.0 * bench.weight[rank] / GW_SPLIT_TOTAL + 0.5);
            gw_leader_answered(bench.leader, rank, clock, now_us);
            gw_leader_took(bench.leader, rank, clock, samples,
                           now_us + samples * 1000 + (rank ? 25000 : 0));
            tell(&bench, rank, clock, 1000);
        }
        now_us += 200000;
    }
    assert_int_equal(bench.splits, 1);
    /* 0.0625 s for both: 62.5 and 37.5 samples */
    assert_in_range(bench.weight[0], GW_SPLIT_TOTAL * 5 / 8 - 2,
                    GW_SPLIT_TOTAL * 5 / 8 + 2);
    end(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decided_a_step_ahead),
        cmocka_unit_test(decided_a_round_ahead),
        cmocka_unit_test(converges),
        cmocka_unit_test(noise_is_not_followed),
        cmocka_unit_test(everybody_has_a_little),
        cmocka_unit_test(no_speeds_are_refused),
        cmocka_unit_test(repeats_what_was_decided),
        cmocka_unit_test(delays_are_what_is_not_computing),
        cmocka_unit_test(delays_are_made_up_for),
    };
    return cmocka_run_group_tests_name("split leader", tests, NULL, NULL);
}
