/*
 * Policies one after the other. Where they come to the same they give the same
 * bits, and in every weather, with checkpoints, evaluations, stops and requests
 * in between, every step of every worker is in the weights exactly once.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator_state.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS    600
#define WORKERS  3
#define LIMIT_US 120000000

enum {
    COUNT_CUTS,
    COUNT_SWITCHES,
    COUNT_DUPLICATES,
    COUNT_SCORES,
    COUNT_RESUMED,
    COUNT_ASKED,
};

static struct cluster cluster;

/* What a seed is about. */
static struct trial {
    struct storm storm, again; /* the second blows when the job goes on */
    struct sweep_outcome *outcome;
    struct gw_policy_word asked; /* kind GW_POLICY_KINDS: nobody asks */
    char plan[256];
    char parts[32], overlap[32]; /* of the model, where the plan has diloco */
} trial;

#define FAILS(...)                                                             \
    snprintf(trial.outcome->why, sizeof trial.outcome->why, __VA_ARGS__)

static uint64_t computed(void *owner)
{
    (void)owner;
    return trial.storm.compute_us
               ? storm_draw(&trial.storm, trial.storm.compute_us)
               : 0;
}

/* Of workers without late steps: what is in the weights is what they did. */
static void audit_chunks(uint64_t steps)
{
    for (size_t i = 0; i < cluster.servers; i++) {
        const struct gw_server *server = cluster.server[i].server;
        for (uint32_t c = 0; c < server->shard->chunks; c++) {
            uint64_t pushes =
                server->shard->chunk[c].pushes - server->start.state.pushes;
            if (pushes != steps)
                FAILS("%s: the workers made %u steps, a chunk has %u",
                      trial.plan, (unsigned)steps, (unsigned)pushes);
        }
    }
}

static void judge(enum gw_status wanted)
{
    uint64_t steps = 0;
    for (size_t i = 0; i < WORKERS; i++)
        steps += gw_metrics_get(&cluster.worker[i].metrics, GW_METRIC_STEPS);
    if (cluster.final.status != wanted) {
        FAILS("%.200s: it ends with: %.300s", trial.plan, cluster.text);
        return;
    }
    audit_chunks(steps);
    for (size_t i = 0; i < WORKERS; i++)
        if (cluster.worker[i].status != wanted)
            FAILS("%.200s: worker %zu: %.300s", trial.plan, i,
                  cluster.worker[i].error.text);
}

static void open_job(struct storm *storm,
                     const struct gw_sim_options *lines,
                     const char *servers,
                     const char *resume)
{
    const char *settings[] = {trial.plan,
                              servers,
                              trial.parts,
                              trial.overlap,
                              "train.batch=2",
                              "train.steps=16",
                              "train.eval_every=5 steps",
                              "checkpoint.dir=ck",
                              "checkpoint.every=4 steps",
                              NULL};
    cluster_open(&cluster, lines, settings, resume);
    storm_blow(storm, &cluster);
    for (size_t i = 0; i < WORKERS; i++)
        gw_sim_compute_model(cluster.worker[i].loop, computed,
                             &cluster.worker[i]);
}

static void stop_job(void *owner)
{
    (void)owner;
    gw_coordinator_stop(cluster.coordinator, "test");
}

/* What the coordinator does with it, and as shard 0 hears it. */
static void ask(void *owner)
{
    struct gw_server *server = cluster.server[0].server;
    (void)owner;
    gw_inner_expect(cluster.coordinator, &trial.asked);
    if (server->leader && !server->finished)
        gw_leader_switch(server->leader, &trial.asked);
}

static int is_running(void *owner)
{
    (void)owner;
    return cluster.running;
}

/* Returns 0 where the job does not end. */
static int run_on(void)
{
    if (cluster_run(&cluster, LIMIT_US))
        return 1;
    FAILS("%.200s: it does not end (step %u, last note: %.300s)", trial.plan,
          (unsigned)cluster.steps, cluster.note);
    return 0;
}

static const char *const words[] = {
    "sync",    "local:1",    "local:3",    "diloco:2",   "backup:0",
    "ssp:0",   "ssp:2",      "async",      "dc-async",   "easgd:1",
    "easgd:3", "stale-lr:1", "stale-lr:2", "stale-lr:3",
};
#define WORDS (sizeof words / sizeof *words)

/* Up to four phases of a few steps each. */
static void draw_plan(void)
{
    uint64_t phases = 1 + storm_draw(&trial.storm, 4), until = 0;
    size_t n =
        (size_t)snprintf(trial.plan, sizeof trial.plan, "cluster.policy=\"");
    for (uint64_t i = 0; i < phases; i++) {
        const char *word = words[storm_draw(&trial.storm, WORDS)];
        char end[32] = "\"";
        until += 1 + storm_draw(&trial.storm, 5);
        if (i + 1 < phases)
            snprintf(end, sizeof end, " until %u, ", (unsigned)until);
        n += (size_t)snprintf(trial.plan + n, sizeof trial.plan - n, "%s%s",
                              word, end);
    }
    int streams = strstr(trial.plan, "diloco") != NULL;
    snprintf(trial.parts, sizeof trial.parts, "policy.fragments=%u",
             streams ? 1 + (unsigned)storm_draw(&trial.storm, 3) : 1);
    snprintf(trial.overlap, sizeof trial.overlap, "policy.overlap=%u",
             streams ? (unsigned)storm_draw(&trial.storm, 2) : 0);
    trial.asked.kind = GW_POLICY_KINDS;
    if (storm_draw(&trial.storm, 2) == 0)
        return;
    const char *asked = words[storm_draw(&trial.storm, WORDS)];
    assert_int_equal(gw_policy_word_parse(asked, &trial.asked, NULL), GW_OK);
}

/* Decisions of shard 0 that were switches: one note of the coordinator each. */
static void count(struct sweep_outcome *outcome)
{
    for (size_t i = 0; i < cluster.servers; i++)
        outcome->count[COUNT_DUPLICATES] += gw_metrics_get(
            &cluster.server[i].metrics, GW_METRIC_PUSHES_DUPLICATE);
    outcome->count[COUNT_SCORES] += cluster.scores;
    outcome->count[COUNT_SWITCHES] +=
        cluster.server[0].server->base_clock !=
        cluster.server[0].server->start.state.clock;
}

static void go_on(uint64_t seed, const char *servers)
{
    struct gw_sim_options lines;
    trial.storm.calm_until_us = UINT64_MAX; /* it has blown */
    count(trial.outcome);
    cluster_end(&cluster);
    storm_begin(&trial.again, seed + 1000000, &lines);
    open_job(&trial.again, &lines, servers, "ck");
    if (run_on())
        judge(GW_OK);
    trial.outcome->count[COUNT_RESUMED]++;
}

/* A whole job, or one that is stopped on the way and then goes on. */
static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    static const char *const servers[] = {
        "cluster.servers=1", "cluster.servers=2", "cluster.servers=3"};
    struct gw_sim_options lines;
    memset(&trial, 0, sizeof trial);
    trial.outcome = outcome;
    storm_begin(&trial.storm, seed, &lines);
    draw_plan();
    uint64_t n = storm_draw(&trial.storm, 3);
    int stops = storm_draw(&trial.storm, 3) == 0;
    open_job(&trial.storm, &lines, servers[n], NULL);
    int runs = cluster_run_until(&cluster, is_running, NULL, LIMIT_US);
    if (stops && runs)
        gw_sim_at(cluster.sim, storm_draw(&trial.storm, 20000), stop_job, NULL);
    if (runs && trial.asked.kind != GW_POLICY_KINDS) {
        gw_sim_at(cluster.sim, storm_draw(&trial.storm, 10000), ask, NULL);
        outcome->count[COUNT_ASKED]++;
    }
    if (run_on()) {
        int stopped = stops && cluster.final.status == GW_EINTERRUPTED;
        judge(stopped ? GW_EINTERRUPTED : GW_OK);
        if (stopped && !outcome->why[0])
            go_on(seed, servers[(n + 1) % 3]);
        count(outcome);
    }
    outcome->count[COUNT_CUTS] = trial.storm.cuts + trial.again.cuts;
    cluster_close(&cluster);
}

static void every_step_counts_once(void **state)
{
    uint64_t sum[SWEEP_COUNTS];
    (void)state;
    uint64_t failed = sweep("policies one after the other", SEEDS, one, sum);
    printf("# %u cuts, %u jobs switched, %u pushes twice, %u scores, %u "
           "resumed, %u asked\n",
           (unsigned)sum[COUNT_CUTS], (unsigned)sum[COUNT_SWITCHES],
           (unsigned)sum[COUNT_DUPLICATES], (unsigned)sum[COUNT_SCORES],
           (unsigned)sum[COUNT_RESUMED], (unsigned)sum[COUNT_ASKED]);
    assert_int_equal(failed, 0);
    if (sweep_is_replay())
        return;
    for (size_t i = COUNT_CUTS; i <= COUNT_ASKED; i++)
        assert_true(sum[i] > 0);
}

/* ---- bits ---- */

static const struct gw_sim_options calm = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static void run_plan(const char *plan,
                     const char *servers,
                     const char *commit,
                     char hex[65])
{
    char policy[256];
    snprintf(policy, sizeof policy, "cluster.policy=\"%s\"", plan);
    const char *settings[] = {policy,
                              servers,
                              commit,
                              "train.batch=7",
                              "train.steps=20",
                              "train.eval_every=6 steps",
                              NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("%s: %s", plan, cluster.text);
    assert_true(cluster.final.step == 20);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
}

/* Plans of policies whose pushes are applied together. */
static void together_the_bits_do_not_depend_on_the_cluster(void **state)
{
    static const char *const plans[] = {
        "sync until 7, local:4",
        "local:3 until 10, sync until 13, diloco:3",
        "sync until 1, backup:0 until 2, sync",
        "diloco:5 until 3, diloco:2 until 14, local:3",
    };
    char one[65], other[65];
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        run_plan(plans[i], "cluster.servers=1", "train.commit=auto", one);
        run_plan(plans[i], "cluster.servers=3", "train.commit=auto", other);
        assert_string_equal(one, other);
        run_plan(plans[i], "cluster.servers=2", "train.commit=whole", other);
        assert_string_equal(one, other);
    }
}

/* A plan of one word in pieces is that word, with all that its optimizers have
   kept; also where a round ends at the switch. */
static void a_plan_in_pieces_is_the_whole(void **state)
{
    static const char *const plans[][2] = {
        {"sync", "sync until 3, sync until 4, sync"},
        {"sync", "backup:0 until 5, sync"},
        {"diloco:4", "diloco:4 until 8, diloco:4"},
        {"local:5", "local:5 until 10, local:5"},
    };
    char whole[65], pieces[65];
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        run_plan(plans[i][0], "cluster.servers=2", "train.commit=auto", whole);
        run_plan(plans[i][1], "cluster.servers=2", "train.commit=auto", pieces);
        assert_string_equal(whole, pieces);
    }
}

/* Stopped anywhere, before, at and behind a switch. */
static void a_plan_goes_on_where_it_was_stopped(void **state)
{
    static const char *const plans[][3] = {
        {"cluster.policy=\"sync until 7, local:4 until 15, sync\"",
         "policy.fragments=1", "policy.overlap=0"},
        {"cluster.policy=\"diloco:3 until 9, sync\"", "policy.fragments=1",
         "policy.overlap=0"},
        {"cluster.policy=\"local:5 until 5, backup:0 until 9, diloco:2\"",
         "policy.fragments=1", "policy.overlap=0"},
        {"cluster.policy=diloco:4", "policy.fragments=2", "policy.overlap=2"},
        {"cluster.policy=\"diloco:3 until 8, local:2\"", "policy.fragments=3",
         "policy.overlap=1"},
    };
    char whole[65], parts[65];
    unsigned stopped = 0;
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const char *settings[] = {
            plans[i][0],         plans[i][1],
            plans[i][2],         "checkpoint.every=5 steps",
            "train.batch=7",     "train.steps=20",
            "checkpoint.dir=ck", NULL};
        cluster_open(&cluster, &calm, settings, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        cluster_digest(&cluster, whole);
        cluster_close(&cluster);
        for (uint64_t us = 200; us < 4200; us += 300) {
            cluster_open(&cluster, &calm, settings, NULL);
            cluster_run_until(&cluster, is_running, NULL, LIMIT_US);
            gw_sim_at(cluster.sim, us, stop_job, NULL);
            assert_true(cluster_run(&cluster, LIMIT_US));
            if (cluster.final.status == GW_EINTERRUPTED) {
                stopped++;
                cluster_end(&cluster);
                cluster_open(&cluster, &calm, settings, "ck");
                assert_true(cluster_run(&cluster, LIMIT_US));
            }
            if (cluster.final.status != GW_OK)
                fail_msg("%s: %s", plans[i][0], cluster.text);
            cluster_digest(&cluster, parts);
            assert_string_equal(whole, parts);
            cluster_close(&cluster);
        }
    }
    printf("# %u were stopped\n", stopped);
    assert_true(stopped > 15);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_the_bits_do_not_depend_on_the_cluster),
        cmocka_unit_test(a_plan_in_pieces_is_the_whole),
        cmocka_unit_test(a_plan_goes_on_where_it_was_stopped),
        cmocka_unit_test(every_step_counts_once),
    };
    int failed = cmocka_run_group_tests_name("switch", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
