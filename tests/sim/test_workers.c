/*
 * W workers with batch B are one worker with W times B: whole jobs in
 * simulation, the losses of 50 steps side by side.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"

#define STEPS        50
#define SETTINGS_MAX 16

static struct cluster cluster;

struct team {
    const char *workers, *batch, *accumulate;
};

struct workers_case {
    const char *name, *model[4]; /* settings, ended by NULL */
    double tolerance;
};

/* 32 samples a step; 300 are not a multiple, so epochs end with a short step
   whose samples are spread unevenly. */
static const struct team alone = {"cluster.workers=1", "train.batch=32",
                                  "train.accumulate=1"};
static const struct team teams[] = {
    {"cluster.workers=2", "train.batch=16", "train.accumulate=1"},
    {"cluster.workers=4", "train.batch=8", "train.accumulate=1"},
    {"cluster.workers=8", "train.batch=2", "train.accumulate=2"},
};

/* The cnn has a single small pool: where two places of a window are equal to
   the last bit but one, the order of a sum decides who gets the gradient, and
   from there on two runs part for good. */
static const struct workers_case cases[] = {
    {"mlp", {"model.dropout=0.2", NULL}, 1e-5},
    {"cnn",
     {"model.kind=cnn",
      "model.layers=[\"conv 6 5 stride 2\", \"pool 2\", \"conv 8 3\", "
      "\"dense 24\", \"dropout 0.2\"]",
      NULL},
     1e-4},
};

static void
train(const struct workers_case *given, const struct team *team, double *loss)
{
    const struct gw_sim_options calm = {
        .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};
    const char *settings[SETTINGS_MAX] = {
        "train.steps=50", "optimizer.lr=0.02", team->workers,
        team->batch,      team->accumulate,
    };
    size_t n = 5;
    for (size_t i = 0; given->model[i]; i++)
        settings[n++] = given->model[i];
    cluster_open(&cluster, &calm, settings, NULL);
    if (!cluster_run(&cluster, 60000000) || cluster.final.status != GW_OK)
        fail_msg("%s %s", cluster.note, cluster.text);
    assert_int_equal(cluster.steps, STEPS);
    memcpy(loss, cluster.loss, STEPS * sizeof *loss);
    cluster_close(&cluster);
}

static void many_workers_are_one(void **state)
{
    const struct workers_case *given = *state;
    double one[STEPS], many[STEPS], worst = 0;
    train(given, &alone, one);
    assert_true(one[STEPS - 1] < 0.5 * one[0]);
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
        train(given, &teams[t], many);
        for (size_t i = 0; i < STEPS; i++)
            worst = fmax(worst, fabs(many[i] - one[i]) / one[i]);
    }
    print_message("# %s: losses differ by %.1e\n", given->name, worst);
    assert_true(worst > 0); /* else nothing was summed in another order */
    assert_true(worst <= given->tolerance);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    struct CMUnitTest tests[sizeof cases / sizeof *cases];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name,
            .test_func = many_workers_are_one,
            .initial_state = (void *)(uintptr_t)&cases[i],
        };
    int failed = _cmocka_run_group_tests(
        "workers", tests, sizeof tests / sizeof *tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
