/*
 * Slow steps are told of by time (log.every), whatever the policy, and what is
 * told of a step is all of it: the loss that is logged when every step is.
 */
#include "config.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/lab/simulate.h"
#include "tests/sim/cluster.h"

#define STEPS   30
#define STEP_S  0.4
#define WORKERS 3

static struct gw_dataset *train, *test;
static char record[] = "/tmp/gradweir-slow-XXXXXX";

/* The log of a run. */
struct told {
    size_t n;
    uint64_t step[4 * STEPS];
    double wall_s[4 * STEPS], loss[4 * STEPS];
};

static void read_record(struct told *told)
{
    char line[4096];
    FILE *file = fopen(record, "r");
    told->n = 0;
    while (file && fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        const json_t *step = json_object_get(object, "step");
        if (step) {
            assert_true(told->n < sizeof told->step / sizeof *told->step);
            told->step[told->n] = (uint64_t)json_integer_value(step);
            told->wall_s[told->n] =
                json_number_value(json_object_get(object, "wall_s"));
            told->loss[told->n++] =
                json_number_value(json_object_get(object, "loss"));
        }
        json_decref(object);
    }
    assert_int_equal(fclose(file), 0);
}

static void run(const char *every,
                const char *policy,
                const char *stragglers,
                struct told *told)
{
    const char *settings[] = {every,
                              policy,
                              "cluster.workers=3",
                              "cluster.servers=1",
                              "train.batch=4",
                              "train.steps=30",
                              "train.eval_every=never",
                              "model.layers=[784, 10]",
                              NULL};
    struct gw_error error;
    struct gw_straggle *straggle;
    struct gw_config *config = calloc(1, sizeof *config);
    assert_non_null(config);
    cluster_config(config, settings);
    assert_int_equal(gw_straggle_parse(stragglers, "", &straggle, &error),
                     GW_OK);
    const struct gw_simulate_options options = {
        .config = config,
        .seed = 3,
        .step_us = STEP_S * 1e6,
        .straggle = straggle,
        .train = train,
        .test = test,
        .record = record,
        .limit_us = 1000000000,
        .network = {.latency_us = 100},
    };
    if (gw_simulate(&options, &error) != GW_OK)
        fail_msg("%s", error.text);
    gw_straggle_free(straggle);
    free(config);
    read_record(told);
}

/* The line of each second comes with the step that is going on then. */
static void
assert_told_by_time(const struct told *told, double step_s, const char *policy)
{
    assert_true(told->n >= 2);
    for (size_t i = 1; i < told->n; i++) {
        double gap = told->wall_s[i] - told->wall_s[i - 1];
        if (!(gap <= 1 + step_s + 0.3) || !(told->step[i] > told->step[i - 1]))
            fail_msg("%s: step %d was told %.2f s after step %d", policy,
                     (int)told->step[i], gap, (int)told->step[i - 1]);
    }
}

static void steps_are_told_by_time(void **state)
{
    static const char *const policies[] = {
        "cluster.policy=sync", "cluster.policy=local:3",
        "cluster.policy=backup:1", "cluster.policy=async",
        "cluster.policy=sync until 10, ssp:1"};
    (void)state;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct told told;
        run("log.every=1000 steps, 1 s", policies[i], "none", &told);
        assert_told_by_time(&told, STEP_S, policies[i]);
        assert_true(told.n >= 7 && told.n <= 14);
        run("log.every=1000", policies[i], "none", &told);
        assert_true(told.n <= 3);
    }
}

/* Whichever is first. */
static void steps_are_told_by_number(void **state)
{
    (void)state;
    struct told told;
    run("log.every=10 steps, 100 s", "cluster.policy=sync", "none", &told);
    assert_int_equal(told.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(told.step[i], i < 3 ? 10 * i : STEPS - 1);
    run("log.every=auto", "cluster.policy=sync", "none", &told);
    assert_int_equal(told.n, 4); /* 12 s, and no terminal */
}

static void what_is_told_is_whole(void **state)
{
    (void)state;
    struct told all, told;
    run("log.every=1", "cluster.policy=sync", "none", &all);
    assert_int_equal(all.n, STEPS);
    run("log.every=1000 steps, 1 s", "cluster.policy=sync", "none", &told);
    for (size_t i = 0; i < told.n; i++)
        assert_true(fabs(told.loss[i] - all.loss[told.step[i]]) < 1e-9);
}

/* One worker is slower than all that log.every allows. */
static void steps_longer_than_that_are_all_told(void **state)
{
    (void)state;
    struct told told;
    run("log.every=1000 steps, 1 s", "cluster.policy=sync", "factor 5 of 1",
        &told);
    assert_int_equal(told.n, STEPS);
    assert_told_by_time(&told, 5 * STEP_S, "sync");
}

/* ---- the line of a death ---- */

static struct cluster cluster;

/* Steps that all workers have done together, per worker. */
static uint64_t steps_done(void)
{
    return cluster_at_workers(&cluster, GW_METRIC_STEPS) / WORKERS;
}

static int some_steps_are_done(void *owner)
{
    (void)owner;
    return steps_done() >= 150;
}

/* A heartbeat later the coordinator knows. */
static void dies_between_logged_steps(const char *policy)
{
    const char *settings[] = {policy, "cluster.workers=3", "log.every=1000000",
                              "train.steps=100000", NULL};
    cluster_open(&cluster, &(struct gw_sim_options){.seed = 5}, settings, NULL);
    assert_true(
        cluster_run_until(&cluster, some_steps_are_done, NULL, 60000000));
    gw_sim_kill(cluster.server[1].loop);
    cluster_run(&cluster, gw_sim_now(cluster.sim) + 5000000);
    const char *at = strstr(cluster.text, "died at step ");
    if (!at)
        fail_msg("%s: %s", policy, cluster.text);
    double step = strtod(at + strlen("died at step "), NULL);
    if (fabs(step - (double)steps_done()) > 2)
        fail_msg("%s: %s, %d were done", policy, cluster.text,
                 (int)steps_done());
    cluster_close(&cluster);
}

static void a_death_names_the_last_step(void **state)
{
    (void)state;
    dies_between_logged_steps("cluster.policy=sync");
    dies_between_logged_steps("cluster.policy=local:40");
    dies_between_logged_steps("cluster.policy=async");
    dies_between_logged_steps("cluster.policy=ssp:2");
}

static int open_data(void **state)
{
    (void)state;
    cluster_data_open(&train, &test);
    int fd = mkstemp(record);
    return fd < 0 || close(fd) != 0;
}

static int close_data(void **state)
{
    (void)state;
    gw_dataset_close(train);
    gw_dataset_close(test);
    return unlink(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_told_by_time),
        cmocka_unit_test(steps_are_told_by_number),
        cmocka_unit_test(what_is_told_is_whole),
        cmocka_unit_test(steps_longer_than_that_are_all_told),
        cmocka_unit_test(a_death_names_the_last_step),
    };
    return cmocka_run_group_tests_name("slow steps", tests, open_data,
                                       close_data);
}
