/*
 * Policies one after the other: where they come to the same they give the same
 * bits, and what a policy needs is given back behind it.
 */
#include "config.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_run.h"
#include "server/server_state.h"
#include "server/checkpoint/store.h"
#include "tests/sim/cluster.h"

#define LIMIT_US 120000000

static struct cluster cluster;

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
            cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US);
            gw_sim_at(cluster.sim, us, cluster_stop, &cluster);
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

/* ---- what the coordinator hears late ---- */

/* owner: the clock at which a phase begins. */
static int is_switch_heard_of(void *owner)
{
    return gw_regimes_next_clock(cluster.coordinator) == *(uint64_t *)owner;
}

static int is_switch_taken(void *owner)
{
    return gw_regimes_base_clock(cluster.coordinator) == *(uint64_t *)owner;
}

static int are_reports_ahead(void *owner)
{
    (void)owner;
    return !gw_ahead_is_empty(cluster.coordinator);
}

/* Until a switch is heard of; then the coordinator hears no more of this
   member until its connection is there again. */
static void run_and_break(uint64_t clock, uint8_t role, uint32_t id)
{
    assert_true(
        cluster_run_until(&cluster, is_switch_heard_of, &clock, LIMIT_US));
    gw_peer_reject(gw_roster_find(cluster.coordinator, role, id)->peer, 0,
                   "for a test");
}

/*
 * The best weights so far are saved when their score is known, which is after
 * the next policy is decided. The connection by which the coordinator hears of
 * both breaks in between: workers go on and tell of steps under the next
 * policy, and that waits for the cut, of which it hears then.
 */
static void a_checkpoint_is_of_the_policy_of_its_step(void **state)
{
    const char *settings[] = {"cluster.policy=\"sync until 41, diloco:2\"",
                              "policy.inner=momentum",
                              "checkpoint.dir=ck",
                              "train.eval_every=40 steps",
                              "train.steps=60",
                              "log.every=1",
                              NULL};
    struct gw_manifest manifest;
    struct gw_error error;
    uint64_t clock = 41, cut;
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    run_and_break(clock, GW_ROLE_SERVER, 0);
    assert_true(cluster_run_until(&cluster, are_reports_ahead, NULL, LIMIT_US));
    assert_true(gw_decided_cut(cluster.coordinator, &cut));
    assert_true(cut < 40);
    assert_true(cluster_run_until(&cluster, is_switch_taken, &clock, LIMIT_US));
    assert_true(gw_decided_cut(cluster.coordinator, &cut));
    assert_int_equal(cut, 40);
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("%s; %s", cluster.text, cluster.note);
    assert_int_equal(
        gw_store_manifest(cluster_checkpoints(&cluster), 40, &manifest, &error),
        GW_OK);
    assert_string_equal(manifest.policy, "sync");
    assert_int_equal(manifest.n_files, cluster.servers);
    gw_manifest_free(&manifest);
    cluster_close(&cluster);
}

/* Of one worker the connection breaks: pushes go on, so that the others tell of
   steps under the next policies before it tells of those before. */
static void a_step_is_told_under_its_policy(void **state)
{
    const char *settings[] = {
        "cluster.policy=\"sync until 41, local:2 until 43, async\"",
        "optimizer.schedule=linear", "train.steps=60", NULL};
    uint64_t first = 41, last = 43;
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    run_and_break(first, GW_ROLE_WORKER, 2);
    assert_true(cluster_run_until(&cluster, is_switch_taken, &last, LIMIT_US));
    for (uint64_t step = first - 1; step < last; step++)
        assert_string_equal(cluster.policy[step], ""); /* not told yet */
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("%s; %s", cluster.text, cluster.note);
    for (uint64_t step = 0; step <= last; step++) {
        const char *word = step < first ? "sync" : "local:2";
        double lr = cluster.config.optimizer.lr * (1 - (double)step / 60);
        assert_string_equal(cluster.policy[step], step < last ? word : "async");
        if (fabs(cluster.lr[step] - lr) > 1e-9)
            fail_msg("step %u: lr is %g, not %g", (unsigned)step,
                     cluster.lr[step], lr);
    }
    cluster_close(&cluster);
}

/* ---- memory ---- */

#define PHASE_STEPS  10u
#define CYCLE_PHASES 4u
#define CYCLES       3u
#define ON_ITS_WAY   240000u /* the largest chunks, in the simulator's hands */

/* owner: the clock at which a phase begins. */
static int has_begun(void *owner)
{
    for (size_t i = 0; i < cluster.servers; i++)
        if (!cluster.server[i].server->shard ||
            gw_switch_base_clock(cluster.server[i].server) !=
                *(uint64_t *)owner)
            return 0;
    return 1;
}

/* Of all shards; each has the arrays of its regime and no others. */
static size_t array_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < cluster.servers; i++) {
        const struct gw_server *server = cluster.server[i].server;
        const struct gw_shard *shard = server->shard;
        assert_int_equal(shard->memory_bytes,
                         gw_shard_bytes(shard->map, shard->number, shard->ranks,
                                        server->regime.arrays,
                                        server->regime.optimizer));
        bytes += shard->memory_bytes;
    }
    return bytes;
}

/* What is in use settles with the first cycle, in which each policy comes for
   the first time: workers keep what they have made for it. */
static void memory_does_not_grow_with_switches(void **state)
{
    static const char plan[] =
        "cluster.policy=\"sync until 10, dc-async until 20, local:4 until 30, "
        "async until 40, sync until 50, dc-async until 60, local:4 until 70, "
        "async until 80, sync until 90, dc-async until 100, local:4 until 110, "
        "async\"";
    const char *settings[] = {plan, "train.batch=1", "train.steps=120",
                              "policy.adaptive=true", NULL};
    size_t arrays[CYCLE_PHASES] = {0}, heap[CYCLE_PHASES] = {0};
    (void)state;
    cluster_open(&cluster, &calm, settings, NULL);
    for (unsigned phase = 0; phase < CYCLES * CYCLE_PHASES; phase++) {
        uint64_t clock = phase * PHASE_STEPS;
        unsigned of = phase % CYCLE_PHASES;
        assert_true(cluster_run_until(&cluster, has_begun, &clock, LIMIT_US));
        if (phase < CYCLE_PHASES)
            arrays[of] = array_bytes();
        assert_int_equal(array_bytes(), arrays[of]);
        if (phase / CYCLE_PHASES == 1)
            heap[of] = mallinfo2().uordblks;
        if (phase / CYCLE_PHASES > 1)
            assert_true(mallinfo2().uordblks < heap[of] + ON_ITS_WAY + 20000);
    }
    assert_true(arrays[1] > arrays[0] && arrays[3] < arrays[1]);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

/*
 * A rank over a slow line still waits for the last weights of pushes together
 * when the others, who are a step further under another policy, have the test
 * set scored: it takes up that policy first.
 */
static void a_late_rank_scores_under_the_policy_of_the_others(void **state)
{
    static const char *const plans[] = {
        "cluster.policy=\"diloco:3 until 6, async\"",
        "cluster.policy=\"diloco:3 until 6, dc-async\"",
        "cluster.policy=\"diloco:3 until 6, ssp:9\"",
    };
    static const struct gw_sim_options straight = {
        .seed = 1, .latency_us = 50, .bytes_per_us = 1000};
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        const char *settings[] = {plans[i],
                                  "policy.fragments=2",
                                  "policy.overlap=1",
                                  "cluster.connections=3",
                                  "train.steps=20",
                                  "train.eval_every=7 steps",
                                  NULL};
        cluster_open(&cluster, &straight, settings, NULL);
        gw_sim_slow(cluster.worker[2].loop, 0.3);
        if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
            fail_msg("%s: %s", plans[i], cluster.text);
        assert_int_equal(cluster.scores, 3);
        assert_int_equal(cluster.score[0].step, 7);
        cluster_close(&cluster);
    }
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_the_bits_do_not_depend_on_the_cluster),
        cmocka_unit_test(a_plan_in_pieces_is_the_whole),
        cmocka_unit_test(a_plan_goes_on_where_it_was_stopped),
        cmocka_unit_test(a_checkpoint_is_of_the_policy_of_its_step),
        cmocka_unit_test(a_step_is_told_under_its_policy),
        cmocka_unit_test(a_late_rank_scores_under_the_policy_of_the_others),
        cmocka_unit_test(memory_does_not_grow_with_switches),
    };
    int failed = cmocka_run_group_tests_name("switch", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
