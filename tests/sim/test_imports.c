/*
 * Workers where the servers are: gradients are not sent but shown, and read
 * where they lie. The bits are those of workers that are elsewhere, in every
 * weather; where a gradient may change before it counts it is sent all the
 * same; and a worker that shows nothing is turned away.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "transport/sim/sim_link.h"

#define SEEDS    150
#define STEPS    10
#define LIMIT_US 120000000

#define COUNT_SHOWN STORM_COUNTS

static const char *const happened[SWEEP_COUNTS] = {
    STORM_HAPPENED,
    [COUNT_SHOWN] = "gradients read where they lie",
};

static struct cluster cluster;

static const struct gw_sim_options calm_lines = {
    .seed = 1, .latency_us = 50, .bytes_per_us = 1000};

struct shape {
    const char *name;
    const char *houses;
    const char *setting[4]; /* at most, the rest is NULL */
};

static const struct shape *shape;

static void
open_job(const struct gw_sim_options *lines, const char *houses, unsigned links)
{
    char connections[32], workers[48];
    snprintf(connections, sizeof connections, "cluster.connections=%u", links);
    snprintf(workers, sizeof workers, "cluster.workers=%zu",
             strlen(shape->houses));
    const char *settings[7] = {connections, workers};
    for (size_t i = 0; i < 4; i++)
        settings[2 + i] = shape->setting[i];
    cluster.houses = houses;
    cluster_open(&cluster, lines, settings, NULL);
}

static uint64_t shown(void)
{
    return cluster_at_servers(&cluster, GW_METRIC_PUSHES_SHOWN);
}

static void end_well(void)
{
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("the job fails: %s", cluster.text);
}

/* ---- the same bits ---- */

static struct storm_calm apart; /* each worker at a host of its own */

static void run_apart(void)
{
    open_job(&calm_lines, NULL, 1);
    storm_stay_calm(&cluster, LIMIT_US, &apart);
    assert_int_equal(apart.steps, STEPS);
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    storm_begin(&storm, seed, &lines);
    open_job(&lines, shape->houses, 1 + (unsigned)storm_draw(&storm, 3));
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_came_to(&cluster, &apart, outcome) && shown() == 0)
        snprintf(outcome->why, sizeof outcome->why, "nothing is shown");
    storm_count(&storm, outcome);
    outcome->count[COUNT_SHOWN] = shown();
    if (cluster_refused(&cluster) > 0)
        snprintf(outcome->why, sizeof outcome->why, "%u refused",
                 (unsigned)cluster_refused(&cluster));
    cluster_close(&cluster);
}

static void same_bits_near_and_apart(void **state)
{
    shape = *state;
    run_apart();
    sweep_all(shape->name, SEEDS, one, happened);
}

static const struct shape shapes[] = {
    {.name = "streaming", .houses = "**"},
    {.name = "whole step", .houses = "**", .setting = {"train.commit=whole"}},
    {.name = "keys of several chunks",
     .houses = "**",
     .setting = {"model.layers=[784, 96, 10]", "train.clip=0.5"}},
    {.name = "near, elsewhere, and groups of both",
     .houses = "****aab",
     .setting = {"cluster.local_reduction=on"}},
    {.name = "some without a sample",
     .houses = "****aa",
     .setting = {"train.batch=64", "cluster.local_reduction=off"}},
    {.name = "weights as bf16",
     .houses = "**a",
     .setting = {"train.weights=bf16"}},
    {.name = "steps that are skipped",
     .houses = "**a",
     .setting = {"optimizer.lr=1e6", "train.nonfinite=skip",
                 "train.loss_scale=dynamic",
                 "model.layers=[784, 64, 64, 64, 64, 64, 10]"}},
    {.name = "several batches to a step",
     .houses = "**a",
     .setting = {"train.accumulate=3"}},
    {.name = "checkpoints",
     .houses = "**a",
     .setting = {"checkpoint.dir=ck", "checkpoint.every=2 steps",
                 "train.eval_every=3 steps"}},
    {.name = "another policy after it",
     .houses = "**",
     .setting = {"cluster.policy=\"sync until 4, local:3\""}},
    {.name = "another policy before it",
     .houses = "**",
     .setting = {"cluster.policy=\"local:2 until 4, sync\""}},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

/* ---- where it may not be ---- */

static const struct shape two = {.name = "two", .houses = "**"};

static uint64_t bytes_pushed(const char *houses)
{
    open_job(&calm_lines, houses, 1);
    end_well();
    uint64_t bytes = cluster_at_servers(&cluster, GW_METRIC_BYTES_PUSHED);
    uint64_t all = cluster_at_servers(&cluster, GW_METRIC_PUSHES_APPLIED);
    assert_int_equal(shown(), houses ? all : 0);
    cluster_close(&cluster);
    return bytes;
}

/* All of them, in a job of sync; and counted as what is sent is. */
static void every_gradient_is_shown(void **state)
{
    (void)state;
    shape = &two;
    assert_int_equal(bytes_pushed(two.houses), bytes_pushed(NULL));
}

static void what_may_change_is_sent(void **state)
{
    static const char *const policies[] = {
        "async",   "ssp:1",   "backup:1", "stale-lr:2", "dc-async",
        "easgd:2", "local:2", "diloco:2", "downpour:2",
    };
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        char policy[64];
        snprintf(policy, sizeof policy, "cluster.policy=\"%s\"", policies[i]);
        const struct shape other = {.houses = "**", .setting = {policy}};
        shape = &other;
        open_job(&calm_lines, other.houses, 1);
        end_well();
        assert_int_equal(shown(), 0);
        cluster_close(&cluster);
    }
}

/* ---- what is not finite ---- */

/* Also of per-push policies, that come after some which were shown. */
static void who_shows_what_is_not_finite_is_named(void **state)
{
    static const char *const plans[] = {"sync", "sync until 1, async",
                                        "sync until 2, ssp:1",
                                        "sync until 2, easgd:2"};
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        char policy[64];
        snprintf(policy, sizeof policy, "cluster.policy=\"%s\"", plans[i]);
        const struct shape spoilt = {
            .houses = "**",
            .setting = {policy, "optimizer.kind=sgd", "optimizer.lr=1e6",
                        "model.layers=[784, 64, 64, 64, 64, 64, 10]"}};
        shape = &spoilt;
        open_job(&calm_lines, spoilt.houses, 1);
        assert_true(cluster_run(&cluster, LIMIT_US));
        print_message("# %s: %s\n", plans[i], cluster.text);
        assert_int_equal(cluster.final.status, GW_ENONFINITE);
        assert_non_null(strstr(cluster.text, ": worker "));
        assert_int_not_equal(shown(), 0);
        cluster_close(&cluster);
    }
}

/* ---- who lies ---- */

static struct gw_server *server_of(uint32_t chunk)
{
    size_t i = 0;
    while (cluster.server[i].server->number !=
           cluster.server[i].server->map->chunk[chunk].shard)
        i++;
    return cluster.server[i].server;
}

/* Some steps are done, and worker 0 has a push to make. */
static int is_due(void *owner)
{
    (void)owner;
    return cluster.steps >= 3 &&
           !gw_shard_slot(server_of(0)->shard, 0, 0)->held;
}

/* Any that is seen; or none. */
static uint32_t some_window(const struct gw_server *server, int seen)
{
    uint32_t id = 1;
    while (id < 1000 && seen &&
           !gw_peer_import(server->session[0].peer, 0, id,
                           server->map->arena_bytes))
        id++;
    return seen ? id : 1000;
}

static int is_cut(void *owner)
{
    const struct gw_server *server = owner;
    return gw_metrics_get(server->metrics, GW_METRIC_RECONNECTS) > 0;
}

/* Worker 0 says of its next push that it is to be seen there. */
static void lie(int seen)
{
    struct gw_server *server = server_of(0);
    uint32_t window = some_window(server, seen);
    const struct gw_shard_slot *slot = gw_shard_slot(server->shard, 0, 0);
    const struct gw_frame frame = {.kind = GW_FRAME_EXPORTED,
                                   .clock = slot->mark,
                                   .count = 1,
                                   .length = GW_EXPORTED_BYTES,
                                   .dtype = GW_DTYPE_F32,
                                   .decision = (uint32_t)server->decision};
    uint8_t at[GW_EXPORTED_BYTES];
    assert_true(window < 1000 || !seen);
    const struct gw_exported exported_there = {.window = window,
                                               .kind = GW_FRAME_PUSH};
    gw_exported_encode(&exported_there, at);
    assert_false(is_cut(server));
    gw_session_frame(server, server->session[0].peer, 0, &frame, at);
    assert_true(cluster_run_until(&cluster, is_cut, server, LIMIT_US));
    assert_false(cluster.finished);
}

/* The link is cut, and opened again: the job goes on as it would have. */
static void what_is_not_to_be_read_is_not_used(void **state)
{
    static const struct {
        struct shape job;
        const char *houses;
        int seen;
        uint64_t refused; /* it is against the rules, and no accident */
    } lies[] = {
        {{.houses = "ab"}, "**", 0, 1}, /* in another window than before */
        {{.houses = "ab"}, NULL, 0, 0},
        {{.houses = "ab", .setting = {"cluster.policy=async"}}, "**", 1, 1},
        {{.houses = "ab", .setting = {"cluster.policy=backup:1"}}, "**", 1, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char hex[65];
        shape = &lies[i].job;
        if (!lies[i].seen)
            run_apart();
        open_job(&calm_lines, lies[i].houses, 1);
        assert_true(cluster_run_until(&cluster, is_due, NULL, LIMIT_US));
        lie(lies[i].seen);
        end_well();
        assert_int_equal(cluster_refused(&cluster), lies[i].refused);
        cluster_digest(&cluster, hex);
        if (!lies[i].seen)
            assert_string_equal(hex, apart.hex);
        cluster_close(&cluster);
    }
}

/* ---- who cannot see ---- */

/* Of worker 0's gradients server `i` sees nothing any more, whatever it is
   shown: as where a process has no room to map them. */
static void blind(size_t i)
{
    const struct gw_session *session = &cluster.server[i].server->session[0];
    struct gw_sim_link *end = gw_sim_link_of(session->peer->link[0].link);
    gw_window_close(end->peer->base.windows, session->gradients);
}

/* Links break, though who is shown gradients sees them: they are shown over the
   next one too, and take no memory of a landing slot. */
static void over_a_link_that_is_back_they_are_shown(void **state)
{
    char hex[65];
    (void)state;
    shape = &two;
    run_apart();
    open_job(&calm_lines, two.houses, 1);
    assert_true(cluster_run_until(&cluster, is_due, NULL, LIMIT_US));
    for (size_t i = 0; i < cluster.servers; i++)
        gw_peer_cut(cluster.server[i].server->session[0].peer, 0, "test");
    end_well();
    cluster_digest(&cluster, hex);
    assert_string_equal(hex, apart.hex);
    assert_true(shown() >=
                cluster_at_servers(&cluster, GW_METRIC_PUSHES_APPLIED));
    cluster_close(&cluster);
}

/* It is sent what it does not see: a link breaks twice, and not for ever. */
static void who_sees_nothing_is_sent_it(void **state)
{
    char hex[65];
    (void)state;
    shape = &two;
    run_apart();
    open_job(&calm_lines, two.houses, 1);
    assert_true(cluster_run_until(&cluster, is_due, NULL, LIMIT_US));
    for (size_t i = 0; i < cluster.servers; i++)
        blind(i);
    end_well();
    cluster_digest(&cluster, hex);
    assert_string_equal(hex, apart.hex);
    assert_in_range(cluster_at_workers(&cluster, GW_METRIC_RECONNECTS), 1,
                    3 * cluster.servers);
    cluster_close(&cluster);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    struct CMUnitTest tests[SHAPES + 6] = {
        cmocka_unit_test(every_gradient_is_shown),
        cmocka_unit_test(what_may_change_is_sent),
        cmocka_unit_test(who_shows_what_is_not_finite_is_named),
        cmocka_unit_test(what_is_not_to_be_read_is_not_used),
        cmocka_unit_test(over_a_link_that_is_back_they_are_shown),
        cmocka_unit_test(who_sees_nothing_is_sent_it),
    };
    for (size_t i = 0; i < SHAPES; i++)
        tests[6 + i] =
            (struct CMUnitTest){.name = shapes[i].name,
                                .test_func = same_bits_near_and_apart,
                                .initial_state = (void *)(uintptr_t)&shapes[i]};
    int failed = cmocka_run_group_tests_name("shown", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
