/* train.split = speed, in simulation: unlike workers finish a step together. */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/sim/paces.h"

/* Samples of all workers per microsecond, once the job has gone on for a
   while. */
static double rate_of(const char *split, const char *policy)
{
    paces_open(
        paces_job(split, policy, "train.steps=1000000", "log.every=1000"),
        NULL);
    cluster_pass(&cluster, 6000000);
    uint64_t before =
        gw_metrics_get(&cluster.worker[0].metrics, GW_METRIC_STEPS);
    uint64_t begun_us = gw_sim_now(cluster.sim);
    cluster_pass(&cluster, 20000000);
    uint64_t steps =
        gw_metrics_get(&cluster.worker[0].metrics, GW_METRIC_STEPS) - before;
    double took_us = (double)(gw_sim_now(cluster.sim) - begun_us);
    return (double)(steps * PACES_SAMPLES) / took_us;
}

static void a_slow_worker_gets_less(void **state)
{
    (void)state;
    static const char *const policies[] = {"cluster.policy=sync",
                                           "cluster.policy=\"local:4\""};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        paces_set(0.05, 0);
        double even = rate_of("train.split=even", policies[i]);
        double sum = paces_sum();
        cluster_close(&cluster);
        double speed = rate_of("train.split=speed", policies[i]);
        printf("# %s: of the sum of the speeds evenly %.3f, by speed %.3f, "
               "after %u changes\n",
               policies[i], even / sum, speed / sum,
               (unsigned)cluster.splits - 1);
        /* all at the pace of the slow one: 4 / (3 * 4 + 1) */
        assert_true(fabs(even / sum - 4.0 / 13) < 0.03);
        assert_true(speed / sum > 0.9);
        assert_in_range(cluster.splits - 1, 1, 3);
        assert_in_range(cluster.split[cluster.splits - 1].step, 1, 60);
        cluster_close(&cluster);
    }
}

static uint64_t steps_of(size_t worker)
{
    return gw_metrics_get(&cluster.worker[worker].metrics, GW_METRIC_STEPS);
}

/* With backup workers the slow one would be late in every step; with less to do
   it is not. */
static void who_is_always_late_gets_less(void **state)
{
    (void)state;
    double part[2];
    for (size_t i = 0; i < 2; i++) {
        paces_set(0.1, 0);
        for (size_t rank = 0; rank < 4; rank++)
            pace[rank].jumps = 1;
        rate_of(i ? "train.split=speed" : "train.split=even",
                "cluster.policy=\"backup:1\"");
        part[i] = (double)steps_of(2) /
                  (double)(steps_of(0) + steps_of(1) + steps_of(3));
        printf("# backup:1, %s: the slow one finishes %.3f of the steps of the "
               "mean other\n",
               i ? "by speed" : "evenly", 3 * part[i]);
        cluster_close(&cluster);
    }
    assert_true(3 * part[0] < 0.05);
    assert_true(3 * part[1] > 0.5);
}

/* Where a step costs something beside its samples, parts in proportion to the
   speeds would let the slow one finish first: it takes some changes. */
static void steps_that_cost_more_than_samples(void **state)
{
    (void)state;
    paces_set(0.02, 30000);
    double rate = rate_of("train.split=speed", "cluster.policy=sync");
    /* the same time t for all: sum of (t - 30000) / sample_us is PACES_SAMPLES
     */
    double best = PACES_SAMPLES / (30000 + PACES_SAMPLES / paces_sum());
    printf("# with 30 ms for each step %.3f of the best, after %u changes\n",
           rate / best, (unsigned)cluster.splits - 1);
    assert_true(rate / best > 0.9);
    assert_in_range(cluster.splits - 1, 1, 8);
    cluster_close(&cluster);
}

/* One that computes as fast as the others, over a slow line: 31 KiB of weights
   and as much of gradients take 30 ms each, however many samples it has. */
static void a_slow_line_is_made_up_for(void **state)
{
    (void)state;
    double rate[2];
    for (size_t i = 0; i < 2; i++) {
        paces_set(0.02, 0);
        pace[2].sample_us = pace[0].sample_us;
        paces_slow_line = 1;
        rate[i] = rate_of(i ? "train.split=speed" : "train.split=even",
                          "cluster.policy=sync");
        paces_slow_line = 0;
        printf("# a slow line, %s: %.3f samples per ms after %u changes\n",
               i ? "by speed" : "evenly", 1000 * rate[i],
               i ? (unsigned)cluster.splits - 1 : 0);
        cluster_close(&cluster);
    }
    /* t for all: 3 t + (t - 60000) is PACES_SAMPLES of 1000 us each */
    double best = PACES_SAMPLES / ((PACES_SAMPLES * 1000 + 60000) / 4.0);
    assert_true(fabs(rate[0] / (PACES_SAMPLES / (75000 + 60000.0)) - 1) < 0.1);
    printf("# by speed %.3f of the best\n", rate[1] / best);
    assert_true(rate[1] / best > 0.9);
}

/* What is rare is not taken for slow, and what is small is not followed. */
static void equal_workers_stay_even(void **state)
{
    (void)state;
    paces_set(0.05, 0);
    pace[2].sample_us = pace[0].sample_us;
    pace[1].rare = 37;
    rate_of("train.split=speed", "cluster.policy=sync");
    assert_int_equal(cluster.splits, 1);
    assert_int_equal(cluster.split[0].step, 0);
    cluster_close(&cluster);
}

/* A rank that is a hundred times slower keeps being measured. */
static int is_over(void *owner)
{
    (void)owner;
    return cluster.splits > 2;
}

static void nobody_is_left_without_samples(void **state)
{
    (void)state;
    paces_set(0, 0);
    pace[2].sample_us = 200000;
    paces_open(paces_job("train.steps=1000000", "log.every=1", NULL, NULL),
               NULL);
    cluster_pass(&cluster, 120000000);
    assert_int_equal(cluster.splits, 2);
    assert_true(cluster.steps > 10);
    assert_in_range(cluster.split_samples[cluster.steps - 2][2], 1, 2);
    pace[2].sample_us = 1000; /* it is as fast as the others from now on */
    assert_true(cluster_run_until(&cluster, is_over, NULL, 60000000));
    cluster_pass(&cluster, 10000000);
    uint64_t last = cluster.steps - 2;
    assert_in_range(cluster.split_samples[last][2], 70, 80);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_worker_gets_less),
        cmocka_unit_test(who_is_always_late_gets_less),
        cmocka_unit_test(steps_that_cost_more_than_samples),
        cmocka_unit_test(a_slow_line_is_made_up_for),
        cmocka_unit_test(equal_workers_stay_even),
        cmocka_unit_test(nobody_is_left_without_samples),
    };
    int failed = cmocka_run_group_tests_name("split", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
