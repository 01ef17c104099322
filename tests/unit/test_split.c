/*
 * Splits of a step: parts that add up, a leader that follows measured speeds
 * and no noise, a worker's pace, sequences and their files.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/random.h"
#include "proto/split.h"
#include "server/decision.h"
#include "server/delay.h"
#include "server/splits.h"
#include "worker/pace.h"
#include "worker/plan.h"

#define RANKS_MAX 4096

static struct gw_error error;

/* ---- parts ---- */

static void even_weights_give_even_parts(void **state)
{
    static uint32_t weight[RANKS_MAX];
    static const uint32_t ranks[] = {1, 2, 3, 5, 7, 16, 100, 4096};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        gw_split_even(ranks[i], weight);
        assert_true(gw_split_is_whole(weight, ranks[i]));
        for (uint64_t n = 0; n < 500; n += 1 + n / 7) {
            const struct gw_plan_run run = {.first = 1000, .n = n};
            uint64_t next = run.first;
            for (uint32_t rank = 0; rank < ranks[i]; rank++) {
                struct gw_plan_run part =
                    gw_plan_share(run, gw_split_range_of(weight, rank));
                assert_int_equal(part.first, next);
                assert_in_range(part.n, n / ranks[i],
                                n / ranks[i] + (n % ranks[i] != 0));
                next += part.n;
            }
            assert_int_equal(next, run.first + n);
        }
    }
}

/* Any weights: contiguous, in order, the whole run, to a sample what they
   say. */
static void parts_follow_the_weights(void **state)
{
    (void)state;
    for (uint32_t draw = 0; draw < 300; draw++) {
        uint32_t bits[4], weight[4];
        gw_random4(7, GW_RANDOM_TEST, draw, 0, bits);
        weight[0] = bits[0] % GW_SPLIT_TOTAL;
        weight[1] = bits[1] % (GW_SPLIT_TOTAL - weight[0] + 1);
        weight[2] = 0;
        weight[3] = GW_SPLIT_TOTAL - weight[0] - weight[1];
        const struct gw_plan_run run = {.first = bits[2], .n = bits[3] % 5000};
        uint64_t next = run.first;
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct gw_plan_run part =
                gw_plan_share(run, gw_split_range_of(weight, rank));
            double exact = (double)run.n * weight[rank] / GW_SPLIT_TOTAL;
            assert_int_equal(part.first, next);
            assert_true((double)part.n > exact - 1 &&
                        (double)part.n < exact + 1);
            next += part.n;
        }
        assert_int_equal(next, run.first + run.n);
    }
    /* nothing is lost beyond 64 bits */
    const struct gw_plan_run all = {.n = UINT64_MAX};
    struct gw_plan_run most =
        gw_plan_share(all, (struct gw_split_range){1, GW_SPLIT_TOTAL});
    assert_true(most.first == (UINT64_MAX >> 20) + 1 &&
                most.n == UINT64_MAX - most.first);
}

static void known_parts(void **state)
{
    (void)state;
    /* 80 % and 20 % of ten and of a short step; halves go up */
    const uint32_t weight[] = {838861, 209715};
    const struct gw_plan_run ten = {.n = 10}, three = {.n = 3}, one = {.n = 1};
    struct gw_split_range slow = gw_split_range_of(weight, 1);
    assert_int_equal(slow.begin, 838861);
    assert_int_equal(slow.end, GW_SPLIT_TOTAL);
    assert_int_equal(gw_plan_share(ten, slow).first, 8);
    assert_int_equal(gw_plan_share(ten, slow).n, 2);
    assert_int_equal(gw_plan_share(three, slow).first, 2);
    assert_int_equal(gw_plan_share(one, slow).n, 0);
    const uint32_t half[] = {GW_SPLIT_TOTAL / 2, GW_SPLIT_TOTAL / 2};
    assert_int_equal(gw_plan_share(one, gw_split_range_of(half, 0)).n, 1);
}

/* A part of twice the mean is one batch; memory is bounded by that. */
static void batches_are_of_twice_the_mean(void **state)
{
    (void)state;
    static const struct {
        uint64_t global_batch, accumulate, samples, workers, wanted;
    } cases[] = {{120, 1, 1000, 4, 60},  {120, 1, 1000, 2, 120},
                 {120, 1, 1000, 1, 120}, {120, 3, 1000, 4, 20},
                 {120, 1, 30, 4, 16},    {5, 1, 1000, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gw_config config = {
            .train = {.global_batch = cases[i].global_batch,
                      .accumulate = cases[i].accumulate,
                      .split = "speed",
                      .epochs = 1}};
        struct gw_plan plan;
        assert_int_equal(gw_plan_make(&config, cases[i].samples,
                                      cases[i].workers, &plan, &error),
                         GW_OK);
        assert_int_equal(plan.max_batch, cases[i].wanted);
        assert_int_equal(plan.global_batch, cases[i].global_batch);
    }
}

static void weights_from_outside(void **state)
{
    uint32_t weight[2];
    (void)state;
    static const double good[] = {1, GW_SPLIT_TOTAL - 1};
    static const double bad[][2] = {{0.5, GW_SPLIT_TOTAL - 0.5},
                                    {-1, GW_SPLIT_TOTAL + 1},
                                    {0, GW_SPLIT_TOTAL - 1},
                                    {0.0 / 0.0, GW_SPLIT_TOTAL},
                                    {1e300, 0}};
    assert_true(gw_split_from_values(good, 2, weight));
    assert_int_equal(weight[1], GW_SPLIT_TOTAL - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(gw_split_from_values(bad[i], 2, weight));
    const uint32_t wraps[] = {UINT32_MAX, GW_SPLIT_TOTAL + 1};
    assert_false(gw_split_is_whole(wraps, 2));
}

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

/* ---- a worker's pace ---- */

struct runner {
    struct gw_pace pace;
    struct gw_pace_window said;
    uint64_t now_us, clock, share;
    unsigned times; /* that something was said */
};

static void run(struct runner *runner,
                uint64_t wall_us,
                uint64_t busy_us,
                uint64_t samples,
                int gave_up)
{
    const struct gw_pace_step step = {.clock = runner->clock++,
                                      .began_us = runner->now_us,
                                      .ended_us = runner->now_us + wall_us,
                                      .busy_us = busy_us,
                                      .samples = samples,
                                      .share = runner->share,
                                      .gave_up = gave_up};
    runner->now_us += wall_us;
    runner->times += gw_pace_take(&runner->pace, &step, &runner->said) != 0;
}

static void waiting_is_no_computing(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        run(&runner, 40000, 10000, 50, 0);
    assert_true(runner.said.samples_per_s == 5000);
    /* 4 s: four times a second at most */
    assert_in_range(runner.times, 8, 14);
}

/* A process that runs 20 ms of 80, in steps of 7 ms of computing: some steps
   take 7 ms and some 67. */
static void stops_count_as_much_as_they_last(void **state)
{
    struct runner runner = {0};
    uint64_t cpu_us = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        uint64_t stops = (cpu_us + 7000) / 20000 - cpu_us / 20000;
        cpu_us += 7000;
        run(&runner, 7000 + stops * 60000, 7000 + stops * 60000, 28, 0);
        if (runner.times)
            assert_true(runner.said.samples_per_s > 850 &&
                        runner.said.samples_per_s < 1150);
    }
    assert_true(runner.times > 100);
}

static void one_window_decides_nothing(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 60; i++)
        run(&runner, i == 30 ? 9000000 : 100000, i == 30 ? 9000000 : 100000,
            100, 0);
    assert_true(runner.said.samples_per_s == 1000);
    assert_true(runner.times > 10);
}

static void another_share_is_measured_anew(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 300, 0);
    assert_int_equal(runner.times, 8);
    assert_int_equal(runner.said.clock, 7);
    runner.share = 10;
    run(&runner, 300000, 300000, 600, 0);
    run(&runner, 300000, 300000, 600, 0);
    assert_int_equal(runner.times, 8);
    run(&runner, 300000, 300000, 600, 0);
    assert_int_equal(runner.times, 9);
    assert_int_equal(runner.said.clock, 10);
    assert_true(runner.said.samples_per_s == 2000);
}

/* Steps without samples say nothing; who always gives up is slow. */
static void idle_and_late_steps(void **state)
{
    struct runner runner = {0};
    (void)state;
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 0, 0);
    assert_int_equal(runner.times, 0);
    for (int i = 0; i < 10; i++)
        run(&runner, 300000, 300000, 300, 1);
    assert_true(runner.said.samples_per_s == 500);
    /* a step that was done says more than those that were not */
    for (int i = 0; i < 30; i++)
        run(&runner, 100000, 100000, 300, i % 3 != 0);
    assert_true(runner.said.samples_per_s == 3000);
}

/* ---- sequences ---- */

static void later_splits_make_room(void **state)
{
    struct gw_splits splits = {.ranks = 1};
    const uint32_t weight = GW_SPLIT_TOTAL;
    (void)state;
    for (uint64_t clock = 0; clock < 100; clock += 10)
        assert_int_equal(gw_splits_add(&splits, clock, &weight), GW_OK);
    assert_int_equal(splits.n, 10);
    assert_int_equal(gw_splits_add(&splits, 35, &weight), GW_OK);
    assert_int_equal(splits.n, 5);
    assert_int_equal(splits.clock[4], 35);
    assert_int_equal(gw_splits_add(&splits, 35, &weight), GW_OK);
    assert_int_equal(splits.n, 5);
    assert_ptr_equal(gw_splits_at(&splits, 9), splits.weight);
    assert_ptr_equal(gw_splits_at(&splits, 10), splits.weight + 1);
    assert_ptr_equal(gw_splits_at(&splits, 1000), splits.weight + 4);
    gw_splits_free(&splits);
    splits.ranks = 1;
    assert_int_equal(gw_splits_add(&splits, 5, &weight), GW_OK);
    assert_null(gw_splits_at(&splits, 4));
    gw_splits_free(&splits);
}

static void read_text(const char *text,
                      uint64_t first,
                      enum gw_status wanted,
                      const char *line)
{
    char path[] = "/tmp/gw-test-split-XXXXXX";
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    struct gw_splits splits;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    error.text[0] = '\0';
    enum gw_status status =
        gw_splits_read(&disk, path, 2, first, &splits, &error);
    unlink(path);
    if (status != wanted || (line && !strstr(error.text, line)))
        fail_msg("%d: \"%s\" for %s", status, error.text, text);
    if (wanted == GW_OK)
        assert_int_equal(splits.n, 2);
    gw_splits_free(&splits);
}

#define EVEN  "{\"split_step\":0,\"split_weights\":[524288,524288]}\n"
#define LATER "{\"split_step\":7,\"split_weights\":[0,1048576]}"

static void files_of_runs(void **state)
{
    struct gw_splits splits;
    struct gw_disk disk = {.ops = &gw_disk_posix_ops};
    (void)state;
    read_text(EVEN LATER "\n", 0, GW_OK, NULL);
    read_text(EVEN "{\"step\":0,\"split\":[5,5]}\n\n" LATER, 100, GW_OK, NULL);
    /* one that went on from step 7 took the place of what came later */
    read_text(EVEN "{\"split_step\":9,\"split_weights\":[9,1048567]}\n" LATER,
              0, GW_OK, NULL);
    read_text("", 0, GW_EUSAGE, "has no split in it");
    read_text("{\"step\":0}\n", 0, GW_EUSAGE, "has no split in it");
    read_text(LATER, 6, GW_EUSAGE, "begins at step 7, this run at step 6");
    read_text("\n" EVEN "{\"split_step\":1,\"split_weights\":[1,2]}\n", 0,
              GW_ECORRUPT, ":3: the weights do not add up");
    read_text("{\"split_step\":1,\"split_weights\":[1048576]}", 0, GW_EMISMATCH,
              ":1: a split of 1 workers, this job has 2");
    read_text("{\"split_step\":1,\"split_weights\":[-1,1048577]}", 0,
              GW_ECORRUPT, "out of range");
    read_text("{\"split_step\":-1,\"split_weights\":[0,1048576]}", 0,
              GW_ECORRUPT, "no split");
    read_text("{\"split_weights\":3}", 0, GW_ECORRUPT, "no split");
    read_text("{\"split_step\":1,\"split_weights\":[0,10485", 0, GW_ECORRUPT,
              ":1: ");
    assert_int_equal(
        gw_splits_read(&disk, "/nonexistent/run.json", 2, 0, &splits, &error),
        GW_ENOENT);
    assert_true(strncmp(error.text, "train.split_from", 16) == 0);
    gw_splits_free(&splits);
}

/* More than is read at once, and a line that is longer than any may be. */
static void long_files(void **state)
{
    static char text[3 * GW_SPLITS_LINE_MAX + 256];
    size_t n = 0;
    (void)state;
    strcpy(text, EVEN);
    n = strlen(text);
    while (n < 2 * GW_SPLITS_LINE_MAX)
        n += (size_t)sprintf(text + n, "{\"step\":%zu,\"loss\":0.5}\n", n);
    strcpy(text + n, LATER);
    read_text(text, 0, GW_OK, NULL);
    memset(text, 'x', 2 * GW_SPLITS_LINE_MAX);
    read_text(text, 0, GW_ECORRUPT, ":1: the line is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_weights_give_even_parts),
        cmocka_unit_test(parts_follow_the_weights),
        cmocka_unit_test(known_parts),
        cmocka_unit_test(batches_are_of_twice_the_mean),
        cmocka_unit_test(weights_from_outside),
        cmocka_unit_test(decided_a_step_ahead),
        cmocka_unit_test(decided_a_round_ahead),
        cmocka_unit_test(converges),
        cmocka_unit_test(noise_is_not_followed),
        cmocka_unit_test(everybody_has_a_little),
        cmocka_unit_test(no_speeds_are_refused),
        cmocka_unit_test(repeats_what_was_decided),
        cmocka_unit_test(delays_are_what_is_not_computing),
        cmocka_unit_test(delays_are_made_up_for),
        cmocka_unit_test(waiting_is_no_computing),
        cmocka_unit_test(stops_count_as_much_as_they_last),
        cmocka_unit_test(one_window_decides_nothing),
        cmocka_unit_test(another_share_is_measured_anew),
        cmocka_unit_test(idle_and_late_steps),
        cmocka_unit_test(later_splits_make_room),
        cmocka_unit_test(files_of_runs),
        cmocka_unit_test(long_files),
    };
    return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
