/*
 * Workers of one host that sum their gradients before they push them: the bits
 * are those of a job in which each pushes its own, whatever the shape of the
 * groups, the commit and the weather; and who spoils a sum is named. Deaths:
 * test_deaths.c.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/policy/decision_state.h"
#include "server/server_state.h"
#include "tests/sim/apart.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "worker/client/client_host_group_state.h"
#include "worker/trainer/rank_state.h"

#define SEEDS     150
#define STEPS     10
#define LIMIT_US  120000000
#define SWITCH_US 8000 /* until most jobs have come to their next policy */

#define BLAME_MAX (2 * GW_ERROR_TEXT_BYTES + 4)

#define COUNT_TAKES STORM_COUNTS

static const char *const happened[SWEEP_COUNTS] = {
    STORM_HAPPENED,
};

/* Where weights are on devices. */
static const char *const happened_apart[SWEEP_COUNTS] = {
    STORM_HAPPENED,
    [COUNT_TAKES] = "copies from another device",
};

static struct cluster cluster;

static const struct gw_sim_options calm_lines = {
    .seed = 1, .latency_us = 50, .bytes_per_us = 1000};

/* A shape of a job, and what else it has of its own. */
struct shape {
    const char *name;
    const char *houses;
    const char *setting[4]; /* at most, the rest is NULL */
    const char *asked;      /* word for which somebody asks on the way */
    uint64_t seeds;         /* 0: SEEDS */
    int apart;              /* workers compute on devices */
    unsigned cuts;          /* more than the weather has, early on */
    int varies; /* its bits do with the weather: it ends, and no more */
};

static const struct shape *shape;

static void open_job(const struct gw_sim_options *lines,
                     const char *reduction,
                     uint64_t connections)
{
    char links[32], workers[48], local[40];
    snprintf(links, sizeof links, "cluster.connections=%u",
             (unsigned)connections);
    snprintf(workers, sizeof workers, "cluster.workers=%zu",
             strlen(shape->houses));
    snprintf(local, sizeof local, "cluster.local_reduction=%s", reduction);
    const char *settings[8] = {links, workers, local};
    for (size_t i = 0; i < 4; i++)
        settings[3 + i] = shape->setting[i];
    cluster.houses = shape->houses;
    cluster.backend = shape->apart ? apart_device() : NULL;
    cluster_open(&cluster, lines, settings, NULL);
}

/* ---- the same bits ---- */

static struct storm_calm apart; /* where each worker pushed its own */

static void run_apart(void)
{
    open_job(&calm_lines, "off", 1);
    storm_stay_calm(&cluster, LIMIT_US, &apart);
    if (!shape->varies)
        assert_int_equal(apart.steps, STEPS);
}

static uint64_t bytes_pushed(const char *reduction)
{
    open_job(&calm_lines, reduction, 1);
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK)
        fail_msg("the undisturbed job fails: %s", cluster.text);
    assert_int_equal(cluster_refused(&cluster), 0);
    uint64_t bytes = cluster_at_servers(&cluster, GW_METRIC_BYTES_PUSHED);
    cluster_close(&cluster);
    return bytes;
}

static struct gw_server *leading(void)
{
    for (size_t i = 0; i < cluster.servers; i++)
        if (cluster.server[i].server && cluster.server[i].server->leader)
            return cluster.server[i].server;
    return NULL;
}

/* As shard 0 hears it, from the coordinator that it has been asked of. */
static void ask(void *owner)
{
    struct gw_policy_word word;
    struct gw_server *server = leading();
    (void)owner;
    if (!server || gw_server_is_over(server))
        return;
    assert_int_equal(gw_policy_word_parse(shape->asked, &word, NULL), GW_OK);
    gw_leader_switch(server->leader, &word);
}

static void cut(void *owner)
{
    struct storm *storm = owner;
    storm->cuts += gw_sim_cut(cluster.sim) != 0;
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    uint64_t takes = apart_takes();
    storm_begin(&storm, seed, &lines);
    open_job(&lines, "on", 1 + storm_draw(&storm, 3));
    storm_blow(&storm, &cluster);
    if (shape->asked)
        gw_sim_at(cluster.sim, storm_draw(&storm, SWITCH_US), ask, NULL);
    for (unsigned i = 0; i < shape->cuts; i++)
        gw_sim_at(cluster.sim, storm_draw(&storm, SWITCH_US), cut, &storm);
    if (storm_run(&cluster, LIMIT_US, outcome)) {
        if (shape->varies)
            storm_ends_with(&cluster, GW_OK, outcome);
        else
            storm_came_to(&cluster, &apart, outcome);
    }
    storm_count(&storm, outcome);
    outcome->count[COUNT_TAKES] = apart_takes() - takes;
    if (cluster_refused(&cluster) > 0)
        snprintf(outcome->why, sizeof outcome->why, "%u refused",
                 (unsigned)cluster_refused(&cluster));
    cluster_close(&cluster);
}

static void same_bits_together_and_apart(void **state)
{
    shape = *state;
    run_apart();
    sweep_all(shape->name, shape->seeds ? shape->seeds : SEEDS, one,
              shape->apart ? happened_apart : happened);
}

/* ---- one gradient for each host ---- */

static void a_host_pushes_one_gradient(void **state)
{
    static const struct shape four = {
        .name = "four",
        .houses = "aaaa",
        .setting = {"model.layers=[784, 128, 10]"}};
    (void)state;
    shape = &four;
    uint64_t single = bytes_pushed("off"), sum = bytes_pushed("on");
    assert_int_equal(single, 4 * sum);
    /* where a server is elsewhere, it is done without a word */
    assert_int_equal(bytes_pushed("auto"), sum);
}

/* ---- who spoils a sum ---- */

static void blame(const char *reduction, char text[BLAME_MAX])
{
    open_job(&calm_lines, reduction, 1);
    assert_true(cluster_run(&cluster, LIMIT_US));
    snprintf(text, BLAME_MAX, "%s / %s", cluster.text,
             strstr(cluster.note, "skipped") ? cluster.note : "");
    cluster_close(&cluster);
}

static void who_spoils_a_sum_is_named(void **state)
{
    static const struct shape spoilt[] = {
        {.name = "streaming",
         .houses = "aabb",
         .setting = {"optimizer.lr=1e6",
                     "model.layers=[784, 64, 64, 64, 64, 64, 10]"}},
        {.name = "skip",
         .houses = "aabb",
         .setting = {"optimizer.lr=1e6", "train.nonfinite=skip",
                     "model.layers=[784, 64, 64, 64, 64, 64, 10]"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        char single[BLAME_MAX], sum[BLAME_MAX];
        shape = &spoilt[i];
        blame("off", single);
        blame("on", sum);
        print_message("# %s\n", sum);
        assert_non_null(strstr(single, "worker"));
        assert_string_equal(sum, single);
    }
}

/* ---- who is waited for ---- */

/* Of the notes one, for a server knows only that the group is missing. */
static int names_the_neighbour(void *owner)
{
    (void)owner;
    return strstr(cluster.note, "waiting for worker 1 (w), last") &&
           !strstr(cluster.note, "worker 0");
}

static uint64_t compute_us(void *owner, uint64_t samples)
{
    (void)samples;
    return *(const uint64_t *)owner;
}

/* One computes for long: the other waits for its part of a sum, or for the
   weights that it is to be given, and not for a server. */
static void a_stall_names_the_neighbour(void **state)
{
    static const struct shape two = {
        .name = "two",
        .houses = "aa",
        .setting = {"cluster.step_deadline=0.3", "cluster.servers=1"}};
    uint64_t us[] = {1000, 60000000};
    (void)state;
    shape = &two;
    open_job(&calm_lines, "on", 1);
    for (size_t i = 0; i < 2; i++)
        gw_sim_compute_model(cluster.worker[i].loop, compute_us, &us[i]);
    if (!cluster_run_until(&cluster, names_the_neighbour, NULL, 4000000))
        fail_msg("%s", cluster.note);
    cluster_close(&cluster);
}

/* ---- who tells what ---- */

static void keep(void *owner, struct gw_rank *rank)
{
    *(struct gw_client **)owner = rank ? rank->client : NULL;
}

static int has_steps(void *owner)
{
    (void)owner;
    return cluster.steps > 0;
}

/* What devices it has, and what works for it: the group has its way then, and
   takes no other one. */
static void a_neighbour_tells_once(void **state)
{
    static const struct shape two = {.name = "two", .houses = "aa"};
    struct gw_client *client = NULL;
    (void)state;
    shape = &two;
    open_job(&calm_lines, "on", 1);
    cluster.worker[0].options.opened = keep;
    cluster.worker[0].options.owner = &client;
    assert_true(cluster_run_until(&cluster, has_steps, NULL, LIMIT_US));
    struct gw_host_group *group = client->group;
    struct gw_group_peer *other =
        gw_host_group_at(group, 1 - gw_client_rank(client));
    assert_ptr_equal(group->ops, &gw_reduction_shm);
    for (enum gw_sees says = GW_SIGHT_WORDS; says <= GW_SIGHT_SEES; says++) {
        const struct gw_sight sight = {.verdict = says};
        assert_int_equal(gw_host_group_got_sight(group, other, &sight),
                         GW_EPROTO);
    }
    assert_ptr_equal(group->ops, &gw_reduction_shm);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.final.status, GW_OK);
    cluster_close(&cluster);
}

/* Enough for the link to an owner to break between what it gives and what it
   pushes next. */
#define CUTS 40

static const struct shape shapes[] = {
    {.name = "all at one host", .houses = "aaaa"},
    {.name = "whole step", .houses = "aaaa", .setting = {"train.commit=whole"}},
    {.name = "two and one", .houses = "aab"},
    {.name = "keys of several chunks",
     .houses = "aaaa",
     .setting = {"model.layers=[784, 96, 10]"}},
    {.name = "four, one and two", .houses = "aaaabcc"},
    {.name = "one, and not at the beginning", .houses = "abb"},
    {.name = "clipped, three servers",
     .houses = "aabb",
     .setting = {"train.clip=0.5", "cluster.servers=3"}},
    {.name = "some without a sample",
     .houses = "aaaabb",
     .setting = {"train.batch=64"}},
    {.name = "weights as bf16",
     .houses = "aaaabb",
     .setting = {"train.weights=bf16"}},
    {.name = "lamb", .houses = "aabb", .setting = {"optimizer.kind=lamb"}},
    {.name = "another policy after it",
     .cuts = CUTS,
     .houses = "aaaa",
     .setting = {"cluster.policy=\"sync until 4, local:3\""}},
    {.name = "a quorum after it",
     .cuts = CUTS,
     .houses = "aaaa",
     .setting = {"cluster.policy=\"sync until 4, backup:1\""},
     .varies = 1},
    {.name = "per-push policies after it, scored where they begin",
     .cuts = CUTS,
     .houses = "aaaa",
     .setting = {"cluster.policy=\"sync until 4, async\"",
                 "train.eval_every=4 steps"},
     .varies = 1},
    {.name = "per-push policies between",
     .cuts = CUTS,
     .houses = "aabb",
     .setting = {"cluster.policy=\"sync until 3, ssp:1 until 6, sync\""},
     .varies = 1},
    {.name = "per-push policies that are asked for",
     .houses = "aaaa",
     .asked = "async",
     .varies = 1},
    {.name = "local steps that are asked for",
     .seeds = 10 * SEEDS,
     .houses = "aabb",
     .asked = "local:2",
     .varies = 1},
    {.name = "local steps that are asked for, near the servers",
     .seeds = 3 * SEEDS,
     .houses = "****",
     .asked = "local:2",
     .varies = 1},
    {.name = "per-push policies that are asked for, near the servers",
     .seeds = 3 * SEEDS,
     .houses = "****",
     .asked = "async",
     .varies = 1},
    {.name = "on devices", .houses = "aaaa", .apart = 1},
    {.name = "on devices, near the servers", .houses = "****", .apart = 1},
    {.name = "on devices, whole step",
     .houses = "aab",
     .apart = 1,
     .setting = {"train.commit=whole"}},
    {.name = "on devices, keys of several chunks, scored on the way",
     .houses = "aaaa",
     .apart = 1,
     .setting = {"model.layers=[784, 96, 10]", "train.eval_every=3 steps"}},
    {.name = "on devices, some without a sample",
     .houses = "aaaabb",
     .apart = 1,
     .setting = {"train.batch=64"}},
    {.name = "on devices, weights as bf16",
     .houses = "aaaabb",
     .apart = 1,
     .setting = {"train.weights=bf16"}},
    {.name = "on devices, another policy after it",
     .houses = "aaaa",
     .apart = 1,
     .cuts = CUTS,
     .setting = {"cluster.policy=\"sync until 4, local:3\""}},
    {.name = "on devices, per-push policies that are asked for",
     .houses = "aaaa",
     .apart = 1,
     .seeds = 3 * SEEDS,
     .asked = "async",
     .varies = 1},
    {.name = "another policy before it",
     .houses = "aaaa",
     .setting = {"cluster.policy=\"local:2 until 4, sync\""}},
};

#define SHAPES (sizeof shapes / sizeof *shapes)

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    struct CMUnitTest tests[SHAPES + 4] = {
        cmocka_unit_test(a_host_pushes_one_gradient),
        cmocka_unit_test(who_spoils_a_sum_is_named),
        cmocka_unit_test(a_stall_names_the_neighbour),
        cmocka_unit_test(a_neighbour_tells_once),
    };
    for (size_t i = 0; i < SHAPES; i++)
        tests[4 + i] =
            (struct CMUnitTest){.name = shapes[i].name,
                                .test_func = same_bits_together_and_apart,
                                .initial_state = (void *)(uintptr_t)&shapes[i]};
    int failed = cmocka_run_group_tests_name("groups", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
