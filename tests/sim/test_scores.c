/*
 * Evaluations change nothing but what they tell: a job that is scored on the
 * way comes to the weights of one that is not, also where all ranks are brought
 * to a stand for it; and one that goes on from a checkpoint is scored as often
 * as its own job file says.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

#define LIMIT_US 120000000
#define SEEDS    40

static struct cluster cluster;

/* Answers come apart, with several connections, and a quiesce between them. */
static struct gw_sim_options uneven_lines(uint64_t seed)
{
    return (struct gw_sim_options){.seed = seed,
                                   .latency_us = 50,
                                   .jitter_us = 1000,
                                   .bytes_per_us = 1000};
}

static void finish(void)
{
    if (!cluster_run(&cluster, LIMIT_US))
        fail_msg("the job does not end: %s", cluster.note);
    if (cluster.final.status != GW_OK)
        fail_msg("%s", cluster.text);
}

/* ---- weights ---- */

/* One worker: there is one order of everything, so one result. */
static void run_alone(const char *policy,
                      const char *servers,
                      const char *eval_every,
                      uint64_t seed,
                      char hex[65])
{
    const struct gw_sim_options lines = uneven_lines(seed);
    const char *settings[] = {policy,
                              servers,
                              eval_every,
                              "cluster.workers=1",
                              "cluster.connections=3",
                              "model.layers=[784, 16, 16, 16, 10]",
                              "train.steps=24",
                              NULL};
    cluster_open(&cluster, &lines, settings, NULL);
    finish();
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

static void scored_jobs_come_to_the_same_weights(void **state)
{
    const char *const policy = *state;
    char whole[65], scored[65];
    run_alone(policy, "cluster.servers=1", "train.eval_every=never", 1, whole);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        char servers[40];
        snprintf(servers, sizeof servers, "cluster.servers=%u",
                 1 + (unsigned)seed % 4);
        run_alone(policy, servers, "train.eval_every=2 steps", seed, scored);
        if (strcmp(scored, whole) != 0)
            fail_msg("%s, seed %u, %s: other weights", policy, (unsigned)seed,
                     servers);
    }
}

/* ---- how often ---- */

/* A job that was scored at each step goes on with another interval: the next
   score is the next that is due by it, and not when as many would have been. */
static void the_interval_may_change_at_a_resume(void **state)
{
    const struct gw_sim_options lines = uneven_lines(1);
    const char *settings[] = {*state,
                              "cluster.workers=2",
                              "checkpoint.dir=ck",
                              "train.eval_every=1 steps",
                              "train.steps=10",
                              NULL,
                              NULL};
    cluster_open(&cluster, &lines, settings, NULL);
    finish();
    assert_int_equal(cluster.scores, 10);
    cluster_end(&cluster);
    settings[3] = "train.eval_every=8 steps";
    settings[4] = "train.steps=40";
    cluster_open(&cluster, &lines, settings, "ck");
    finish();
    assert_int_equal(cluster.scores, 4);
    for (uint64_t i = 0; i < cluster.scores; i++)
        assert_in_range(cluster.score[i].step, 16 + 8 * i, 16 + 8 * i + 3);
    cluster_end(&cluster);
    settings[3] = "train.eval_every=1 steps";
    settings[4] = "train.steps=50";
    cluster_open(&cluster, &lines, settings, "ck");
    finish();
    assert_in_range(cluster.scores, 10, 11); /* perhaps where it begins */
    cluster_close(&cluster);
}

/* ---- when ---- */

/* Scores come from shard 0, and steps from workers, in any order. */
static void a_step_is_told_when_its_score_is(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct gw_sim_options lines = uneven_lines(seed);
        const char *settings[] = {*state,
                                  "cluster.workers=2",
                                  "cluster.servers=2",
                                  "train.eval_every=1 steps",
                                  "train.steps=20",
                                  NULL};
        cluster_open(&cluster, &lines, settings, NULL);
        finish();
        for (size_t step = 1; step < 20; step++)
            if (cluster.scored[step] < step)
                fail_msg("seed %u: step %zu is told before its score",
                         (unsigned)seed, step);
        cluster_close(&cluster);
    }
}

#define WITH(test, word)                                                       \
    {                                                                          \
#test "/" word, test, NULL, NULL,                                      \
            (void *)(uintptr_t) "cluster.policy=\"" word "\""                  \
    }
#define SAME(word)     WITH(scored_jobs_come_to_the_same_weights, word)
#define WHOLE(word)    WITH(a_step_is_told_when_its_score_is, word)
#define INTERVAL(word) WITH(the_interval_may_change_at_a_resume, word)

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        SAME("sync"),        SAME("async"),       SAME("ssp:1"),
        SAME("dc-async"),    SAME("easgd:1"),     SAME("easgd:3"),
        SAME("local:3"),     SAME("diloco:4"),    INTERVAL("sync"),
        INTERVAL("async"),   INTERVAL("local:1"), INTERVAL("backup:1"),
        INTERVAL("easgd:1"), SAME("downpour:1"),  SAME("downpour:3"),
        WHOLE("sync"),       WHOLE("backup:0"),
    };
    int failed = cmocka_run_group_tests_name("scores", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
