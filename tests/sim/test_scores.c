/*
 * Evaluations change nothing but what they tell: a job that is scored on the
 * way comes to the weights of one that is not, also where all ranks are brought
 * to a stand for it.
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

/* Answers come apart, with several connections, and a drain between them. */
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

#define POLICY(word)                                                           \
    {                                                                          \
        "scored_jobs_come_to_the_same_weights/" word,                          \
            scored_jobs_come_to_the_same_weights, NULL, NULL,                  \
            (void *)(uintptr_t) "cluster.policy=\"" word "\""                  \
    }

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        POLICY("sync"),     POLICY("async"),    POLICY("ssp:1"),
        POLICY("dc-async"), POLICY("easgd:1"),  POLICY("easgd:3"),
        POLICY("local:3"),  POLICY("diloco:4"),
    };
    int failed = cmocka_run_group_tests_name("scores", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
