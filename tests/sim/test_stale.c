/*
 * stale-lr and dc-async as whole jobs: they end and learn in every weather with
 * each push counted once, and without delay are nothing but async.
 */
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

#include "proto/random.h"
#include "tests/sim/stale.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS 400

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_RECONNECTS,
    COUNT_DUPLICATES,
    COUNT_SCORES,
    COUNT_CHECKPOINTS,
};

static const char *const happened[SWEEP_COUNTS] = {
    [COUNT_CUTS] = "cuts",
    [COUNT_PAUSES] = "pauses",
    [COUNT_RECONNECTS] = "reconnects",
    [COUNT_DUPLICATES] = "pushes twice",
    [COUNT_SCORES] = "scores",
    [COUNT_CHECKPOINTS] = "checkpoints of shards",
};

static struct cluster cluster;

/* Mean loss of the first or the last quarter of the steps that were told. */
static double mean_loss(int last)
{
    uint64_t told = 0, n = 0;
    double sum = 0;
    for (size_t i = 0; i < 200; i++)
        told = cluster.loss[i] > 0 ? i + 1 : told;
    uint64_t quarter = told / 4 + 1;
    for (uint64_t i = 0; i < quarter; i++) {
        double loss = cluster.loss[last ? told - 1 - i : i];
        sum += loss;
        n += loss > 0;
    }
    return n > 0 ? sum / (double)n : NAN;
}

static void jobs_end_and_learn(void **state)
{
    (void)state;
    unsigned n = 0;
    for (unsigned workers = 1; workers <= 5; workers += 2)
        for (unsigned which = 0; which < workers + 2; which++, n++) {
            struct stale_job job = {.n = 0};
            stale_add_policy(&job, workers, which);
            stale_add_optimizer(&job, n % 5);
            stale_add(&job, "cluster.servers=%u", 1 + n % 3);
            stale_add(&job, "train.steps=60");
            stale_add(&job, "train.eval_every=13 steps");
            cluster_open(&cluster, &stale_calm, job.setting, NULL);
            stale_be_unlike(&cluster);
            stale_end_well(&cluster);
            print_message("# %u workers, %s%s, %s: loss %.2f, then %.2f\n",
                          workers, cluster.config.cluster.policy,
                          which > workers ? " adaptive" : "",
                          stale_kinds[n % 5], mean_loss(0), mean_loss(1));
            assert_true(mean_loss(1) < 0.7 * mean_loss(0));
            assert_true(cluster.scores >= 4);
            cluster_close(&cluster);
        }
}

/* Who is alone is given what its own push made: there is no delay to divide by
   or to compensate. */
static void without_delay_all_are_async(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++) {
        char hex[4][65];
        for (unsigned which = 0; which < 4; which++) {
            struct stale_job job = {.n = 0};
            stale_add_policy(&job, 1, which % 3);
            stale_add_optimizer(&job, kind);
            if (which == 3)
                stale_add(&job, "cluster.policy=async");
            cluster_open(&cluster, &stale_calm, job.setting, NULL);
            stale_end_well(&cluster);
            cluster_digest(&cluster, hex[which]);
            cluster_close(&cluster);
        }
        for (unsigned which = 0; which < 3; which++)
            assert_string_equal(hex[which], hex[3]);
    }
}

/* ---- staleness ---- */

static uint64_t exponential_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct gw_world_worker *worker = owner;
    uint32_t bits[4], at = worker->options.client.rank;
    uint64_t steps = gw_metrics_get(&worker->metrics, GW_METRIC_STEPS);
    gw_random4(4, GW_RANDOM_TEST, at, (uint32_t)steps, bits);
    return (uint64_t)(-1e4 * log((bits[0] + 0.5) / 4294967296.0));
}

static double mean_staleness(void)
{
    return gw_staleness_mean(cluster.staleness, cluster.workers);
}

/*
 * Zhang et al. 2016: the mean is about N. Exactly, W equal workers make W - 1
 * pushes between two of one of them, and W / N make an update.
 */
static void staleness_is_counted_in_updates(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 8; n *= 2) {
        struct stale_job job = {.n = 0};
        stale_add_policy(&job, 8, n - 1);
        stale_add(&job, "train.batch=1");
        stale_add(&job, "train.steps=400");
        stale_add(&job, "model.layers=[784, 2, 10]");
        cluster_open(&cluster, &stale_calm, job.setting, NULL);
        for (size_t i = 0; i < cluster.workers; i++)
            gw_sim_compute_model(cluster.worker[i].loop, exponential_us,
                                 &cluster.worker[i]);
        stale_end_well(&cluster);
        double mean = mean_staleness(), closed = 7.0 * n / 8;
        print_message("# stale-lr:%u: mean staleness %.3f, %.3f expected\n", n,
                      mean, closed);
        assert_true(fabs(mean - closed) < 0.03 * closed);
        cluster_close(&cluster);
    }
}

/* ---- weather ---- */

static void open_seed(struct storm *storm, struct stale_job *job, uint64_t seed)
{
    struct gw_sim_options lines;
    storm_begin(storm, seed, &lines);
    unsigned workers = 1 + (unsigned)storm_draw(storm, 4);
    stale_add_policy(job, workers, (unsigned)storm_draw(storm, workers + 2));
    stale_add_optimizer(job, (unsigned)storm_draw(storm, 5));
    stale_add(job, "cluster.servers=%u", 1 + (unsigned)storm_draw(storm, 3));
    stale_add(job, "cluster.connections=%u",
              1 + (unsigned)storm_draw(storm, 3));
    stale_add(job, "train.steps=%u", 8 + (unsigned)storm_draw(storm, 30));
    stale_add(job, "train.eval_every=%u steps",
              2 + (unsigned)storm_draw(storm, 12));
    if (storm_draw(storm, 2)) {
        stale_add(job, "checkpoint.dir=ck");
        stale_add(job, "checkpoint.every=%u steps",
                  1 + (unsigned)storm_draw(storm, 9));
    }
    cluster_open(&cluster, &lines, job->setting, NULL);
    storm_blow(storm, &cluster);
}

static void count_what_happened(const struct storm *storm,
                                struct sweep_outcome *outcome)
{
    outcome->count[COUNT_CUTS] = storm->cuts;
    outcome->count[COUNT_PAUSES] = storm->pauses + storm->stops;
    outcome->count[COUNT_RECONNECTS] =
        cluster_at_workers(&cluster, GW_METRIC_RECONNECTS);
    outcome->count[COUNT_DUPLICATES] =
        cluster_at_servers(&cluster, GW_METRIC_PUSHES_DUPLICATE);
    outcome->count[COUNT_SCORES] = cluster.scores;
    outcome->count[COUNT_CHECKPOINTS] =
        cluster_at_servers(&cluster, GW_METRIC_CHECKPOINTS);
}

static void judge(struct sweep_outcome *outcome)
{
    const char *policy = cluster.config.cluster.policy;
    const char *why = stale_audit(&cluster);
    if (why)
        snprintf(outcome->why, sizeof outcome->why, "%.40s: %s", policy, why);
    else if (cluster.config.train.steps >= 20 && !(mean_loss(1) < mean_loss(0)))
        snprintf(outcome->why, sizeof outcome->why,
                 "%.40s: the loss goes from %.2f to %.2f", policy, mean_loss(0),
                 mean_loss(1));
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct stale_job job = {.n = 0};
    open_seed(&storm, &job, seed);
    if (storm_run(&cluster, STALE_LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome))
        judge(outcome);
    count_what_happened(&storm, outcome);
    cluster_close(&cluster);
}

static void each_push_counts_once_in_every_weather(void **state)
{
    (void)state;
    sweep_all("stale", SEEDS, one, happened);
}

/* ---- meetings ---- */

/* On slow lines, with a meeting at every few steps: none takes a rank for
   standing that is on its way, and nobody goes on without scoring. */
static void meetings_wait_for_all(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        const struct gw_sim_options slow = {.seed = seed,
                                            .latency_us = 50,
                                            .jitter_us = seed % 3 * 1000,
                                            .bytes_per_us = 30};
        struct stale_job job = {.n = 0};
        stale_add_policy(&job, 4, seed % 6);
        stale_add(&job, "cluster.servers=%u", 1 + seed % 4);
        stale_add(&job, "train.steps=20");
        stale_add(&job, "train.eval_every=%u steps", 1 + seed % 5);
        stale_add(&job, "checkpoint.dir=ck");
        stale_add(&job, "checkpoint.every=%u steps", 1 + seed % 2);
        cluster_open(&cluster, &slow, job.setting, NULL);
        stale_be_unlike(&cluster);
        stale_end_well(&cluster);
        cluster_close(&cluster);
    }
}

/* ---- what is not finite ---- */

static void who_sends_what_is_not_finite_is_named(void **state)
{
    (void)state;
    for (unsigned which = 0; which < 5; which++) {
        struct stale_job job = {.n = 0};
        stale_add_policy(&job, 3, which);
        stale_add(&job, "optimizer.kind=sgd");
        stale_add(&job, "optimizer.lr=1e6");
        stale_add(&job, "model.layers=[784, 64, 64, 64, 64, 64, 10]");
        stale_add(&job, "train.steps=50");
        cluster_open(&cluster, &stale_calm, job.setting, NULL);
        assert_true(cluster_run(&cluster, STALE_LIMIT_US));
        assert_int_equal(cluster.final.status, GW_ENONFINITE);
        print_message("# %s: %s\n", cluster.config.cluster.policy,
                      cluster.text);
        /* a finite gradient may be compensated to one that is not */
        int named =
            strstr(cluster.text, ": worker ") ||
            (strstr(cluster.config.cluster.policy, "dc-async") &&
             strstr(cluster.text, "the sum of the gradients is not finite"));
        /* what sync may do is no advice here */
        if (!named || strstr(cluster.text, "skip"))
            fail_msg("%s", cluster.text);
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_end_and_learn),
        cmocka_unit_test(without_delay_all_are_async),
        cmocka_unit_test(staleness_is_counted_in_updates),
        cmocka_unit_test(each_push_counts_once_in_every_weather),
        cmocka_unit_test(meetings_wait_for_all),
        cmocka_unit_test(who_sends_what_is_not_finite_is_named),
    };
    int failed = cmocka_run_group_tests_name("stale", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
