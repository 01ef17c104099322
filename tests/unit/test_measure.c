/* server/measure: samples, scores and scales that a member may say. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/schedule.h"
#include "server/server_state.h"
#include "worker/trainer/plan.h"

static struct gw_server server;
static struct gw_shard shard;
static struct gw_shard_chunk chunk;

/* A shard of a job with these settings; training has `samples`. */
static void be(const char *const *settings, uint64_t samples)
{
    struct gw_error error = {.text = ""};
    memset(&server, 0, sizeof server);
    memset(&chunk, 0, sizeof chunk);
    shard.chunk = &chunk;
    server.shard = &shard;
    gw_config_default(&server.config);
    for (size_t i = 0; settings[i]; i++)
        if (gw_config_set(&server.config, settings[i], &error) != GW_OK)
            fail_msg("%s", error.text);
    server.ranks = (uint32_t)server.config.cluster.workers;
    server.start.course.samples = samples;
    if (gw_regime_at(&server.config, 0, &server.regime, &error) != GW_OK)
        fail_msg("%s", error.text);
}

static int takes(uint32_t samples)
{
    char why[GW_PEER_FAULT_MAX] = "";
    const struct gw_part part = {.rank = 1, .samples = samples};
    int fits = gw_measure_push(&server, 0, &part, 1, why, sizeof why);
    assert_int_equal(fits, why[0] == '\0');
    return fits;
}

#define JOB "cluster.workers=3", "train.batch=10", "optimizer.lr=0.1"

static void a_push_has_a_rank_s_part_at_most(void **state)
{
    (void)state;
    const char *const sync[] = {JOB, NULL};
    be(sync, 1000);
    assert_true(takes(0));
    assert_true(takes(10));
    assert_false(takes(11));
    assert_false(takes(UINT32_MAX));
    /* parts that do not divide: one has the rest */
    const char *const odd[] = {JOB, "train.batch=0", "train.global_batch=32",
                               NULL};
    be(odd, 1000);
    assert_true(takes(11));
    assert_false(takes(12));
    /* a set that is smaller than a step */
    be(sync, 9);
    assert_true(takes(3));
    assert_false(takes(4));
}

static void all_together_have_a_step_at_most(void **state)
{
    (void)state;
    const char *const speed[] = {JOB, "train.split=speed", NULL};
    be(speed, 1000);
    assert_true(takes(30)); /* the others may be as slow as that */
    assert_false(takes(31));
    chunk.samples = 20;
    assert_true(takes(10));
    assert_false(takes(11));
}

static void steps_of_a_worker_s_own_count(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        uint32_t most;
    } words[] = {
        {"cluster.policy=local:4", 40},    {"cluster.policy=diloco:5", 50},
        {"cluster.policy=downpour:2", 20}, {"cluster.policy=easgd:7", 7},
        {"cluster.policy=async", 10},      {"cluster.policy=ssp:3", 10},
        {"cluster.policy=backup:1", 10},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *const settings[] = {JOB, words[i].policy, NULL};
        be(settings, 1000);
        chunk.samples =
            server.regime.per_push ? 1000 : 0; /* of clocks long past */
        assert_int_equal(gw_measure_push_max(&server), words[i].most);
        assert_true(takes(words[i].most));
        assert_false(takes(words[i].most + 1));
    }
}

/* The parts of a sum are measured one by one, and together. */
static void parts_of_a_sum_are_measured(void **state)
{
    (void)state;
    char why[GW_PEER_FAULT_MAX];
    struct gw_part part[3] = {{0, 10, 0, 0}, {1, 10, 0, 0}, {2, 10, 0, 0}};
    const char *const sync[] = {JOB, NULL}, *const speed[] = {
                                                JOB, "train.split=speed", NULL};
    be(sync, 1000);
    assert_true(gw_measure_push(&server, 0, part, 3, why, sizeof why));
    part[2].samples = 11;
    assert_false(gw_measure_push(&server, 0, part, 3, why, sizeof why));
    assert_string_equal(why,
                        "push of 11 samples of rank 2, which has 10 at most");
    be(speed, 1000);
    assert_false(gw_measure_push(&server, 0, part, 3, why, sizeof why));
    assert_string_equal(why, "push of 31 samples beside 0 of others, all have "
                             "30 at most");
    part[0].samples = part[1].samples = UINT32_MAX;
    assert_false(gw_measure_push(&server, 0, part, 3, why, sizeof why));
}

static int takes_score(uint32_t rank, const struct gw_score *score)
{
    char why[GW_PEER_FAULT_MAX] = "";
    int fits = gw_measure_score(&server, rank, score, why, sizeof why);
    assert_int_equal(fits, why[0] == '\0');
    return fits;
}

static void scores_are_numbers_that_can_be(void **state)
{
    (void)state;
    const char *const sync[] = {JOB, NULL};
    struct gw_score score = {.loss = 2.5, .correct = 3, .samples = 3};
    be(sync, 1000);
    server.start.test_samples = 10;
    assert_true(takes_score(0, &score));
    score.loss = __builtin_nan(""); /* the model is lost, and says so */
    assert_true(takes_score(0, &score));
    score.loss = -1e300;
    assert_false(takes_score(0, &score));
    score.loss = 0;
    score.correct = 4;
    assert_false(takes_score(0, &score));
}

/* Each has its part of the test set, as workers take it. */
static void a_score_is_of_a_rank_s_part(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 2, 3, 10, 11, UINT64_MAX};
    const char *const sync[] = {JOB, NULL};
    be(sync, 1000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        server.start.test_samples = sizes[i];
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct gw_plan_run all = {.n = sizes[i]};
            struct gw_score score = {.samples = gw_plan_part(all, 3, rank).n};
            assert_true(takes_score(rank, &score));
            score.samples++;
            assert_false(takes_score(rank, &score));
            score.samples -= 2;
            assert_false(takes_score(rank, &score));
        }
    }
}

static void scales_are_numbers_that_can_be(void **state)
{
    (void)state;
    const double nan = __builtin_nan(""), inf = __builtin_inf();
    assert_true(gw_schedule_is_scale(1));
    assert_true(gw_schedule_is_scale(16777216));
    assert_false(gw_schedule_is_scale(0));
    assert_false(gw_schedule_is_scale(-2));
    assert_false(gw_schedule_is_scale(nan));
    assert_false(gw_schedule_is_scale(inf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_has_a_rank_s_part_at_most),
        cmocka_unit_test(all_together_have_a_step_at_most),
        cmocka_unit_test(steps_of_a_worker_s_own_count),
        cmocka_unit_test(parts_of_a_sum_are_measured),
        cmocka_unit_test(scores_are_numbers_that_can_be),
        cmocka_unit_test(a_score_is_of_a_rank_s_part),
        cmocka_unit_test(scales_are_numbers_that_can_be),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
