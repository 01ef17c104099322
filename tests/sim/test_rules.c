/*
 * Rules of keys, in simulation. Keys of two groups train by AdamW in fp64, and
 * beside them values of each rank are averaged, under every policy and commit.
 * test_declare.c has what programs declare.
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

#include "server/server_state.h"
#include "tests/sim/grouped.h"

#define LIMIT_US 600000000

enum {
    STEPS = 24
};

static struct cluster cluster;
static float weights[GROUPED_KEYS][GROUPED_ELEMS];

/* ---- AdamW in fp64 ---- */

#define LR    0.05
#define DECAY 0.1
#define BETA1 0.9
#define BETA2 0.99
#define EPS   1e-6

static struct plain {
    double w[GROUPED_ELEMS], m[GROUPED_ELEMS], v[GROUPED_ELEMS];
    double gradient[GROUPED_ELEMS];
} plain[GROUPED_KEYS];

/* Makes the mean gradient of a key; returns its square sum. */
static double make_gradient(size_t key)
{
    struct plain *of = &plain[key];
    double square = 0;
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = 0;
        for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
            g += (of->w[i] - grouped_target(key, i, rank)) / GROUPED_RANKS;
        of->gradient[i] = g;
        square += g * g;
    }
    return square;
}

static void step_key(size_t key, double t, double clip)
{
    struct plain *of = &plain[key];
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = clip * of->gradient[i];
        of->m[i] = BETA1 * of->m[i] + (1 - BETA1) * g;
        of->v[i] = BETA2 * of->v[i] + (1 - BETA2) * g * g;
        double m = of->m[i] / (1 - pow(BETA1, t));
        double v = of->v[i] / (1 - pow(BETA2, t));
        of->w[i] -= LR * (DECAY * of->w[i] + m / (sqrt(v) + EPS));
    }
}

/* All steps; the norm is that of keys with gradients alone. */
static void train_plainly(double limit)
{
    memset(plain, 0, sizeof plain);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++)
            plain[key].w[i] = grouped_first(key, i);
    for (int t = 1; t <= STEPS; t++) {
        double square = 0, clip = 1;
        for (size_t key = 0; key < GROUPED_KEYS; key++)
            square += grouped_is_value(key) ? 0 : make_gradient(key);
        if (limit > 0)
            clip = fmin(1, limit / (sqrt(square) + 1e-6));
        for (size_t key = 0; key < GROUPED_KEYS; key++)
            if (!grouped_is_value(key))
                step_key(key, t, clip);
    }
}

/* Keys with gradients are those of AdamW in fp64. */
static void assert_adamw(const char *name, double limit)
{
    train_plainly(limit);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double is = weights[key][i], should = plain[key].w[i];
            if (!grouped_is_value(key) && !(fabs(is - should) <= 1e-4))
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, is, should);
        }
}

/* ---- means ---- */

/* Keys with a mean are that of all ranks' values of the last step. */
static void assert_means(const char *name)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0;
             grouped_is_value(key) && i < gw_key_elems(&grouped_keys[key]);
             i++) {
            double mean = 0;
            for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
                mean += grouped_value(key, i, rank, STEPS - 1) / GROUPED_RANKS;
            if ((double)weights[key][i] != mean)
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, (double)weights[key][i],
                         mean);
        }
}

/* Keys with a mean are that of so many values, of any ranks and steps: single
   pushes do not wait for each other. */
static void assert_mean_of(const char *name, unsigned n)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0;
             grouped_is_value(key) && i < gw_key_elems(&grouped_keys[key]);
             i++) {
            double sum =
                n * ((double)weights[key][i] - grouped_value(key, i, 0, 0));
            if (fabs(sum - round(sum)) > 1e-3 || sum < n * (STEPS / 2) ||
                sum > n * (2 * STEPS + 96))
                fail_msg("%s: %s[%zu] is %g", name, grouped_keys[key].name, i,
                         (double)weights[key][i]);
        }
}

#define ADAMW                                                                  \
    "optimizer.kind=adamw", "optimizer.lr=0.05", "optimizer.weight_decay=0.1", \
        "optimizer.beta2=0.99", "optimizer.eps=1e-6"

static const struct row {
    const char *name;
    const char *settings[18];
    const char *houses;
    double clip;
    unsigned of; /* ranks whose values are in a mean; 0: all */
    int is_adamw;
} rows[] = {
    {.name = "streaming", .settings = {GROUPED_JOB, ADAMW}, .is_adamw = 1},
    {.name = "one server",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=1"},
     .is_adamw = 1},
    {.name = "whole",
     .settings = {GROUPED_JOB, ADAMW, "train.commit=whole",
                  "cluster.servers=3"},
     .is_adamw = 1},
    {.name = "clip",
     .settings = {GROUPED_JOB, ADAMW, "train.clip=20"},
     .clip = 20,
     .is_adamw = 1},
    {.name = "lamb", .settings = {GROUPED_JOB, ADAMW, "optimizer.kind=lamb"}},
    {.name = "none", .settings = {GROUPED_JOB, ADAMW, "optimizer.kind=none"}},
    {.name = "sums of hosts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on"},
     .houses = "aabb",
     .is_adamw = 1},
    {.name = "backup:0",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:0\""},
     .is_adamw = 1},
    {.name = "backup:1",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:1\""},
     .of = 3},
    {.name = "async",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=async"},
     .of = 1},
    {.name = "ssp:2",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"ssp:2\""},
     .of = 1},
    {.name = "stale-lr:2",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"stale-lr:2\""},
     .of = 2},
    {.name = "dc-async",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=dc-async"},
     .of = 1},
    {.name = "downpour:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"downpour:4\""},
     .of = 1},
    {.name = "local:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\""}},
    {.name = "local:4, clip",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "policy.inner_clip=5"}},
    {.name = "local:4, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "train.commit=whole"}},
    {.name = "diloco:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"diloco:4\""}},
    {.name = "diloco:6 in parts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"diloco:6\"",
                  "policy.fragments=2", "policy.overlap=1"}},
    {.name = "switches",
     .settings = {GROUPED_JOB, ADAMW,
                  "cluster.policy=\"sync until 8, async until 16, local:4\""}},
};

static void values_are_averaged_beside_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        cluster.houses = row->houses;
        grouped_open(&cluster, row->settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        grouped_gather(&cluster, weights);
        if (row->of > 0)
            assert_mean_of(row->name, row->of);
        else
            assert_means(row->name);
        if (row->is_adamw)
            assert_adamw(row->name, row->clip);
        assert_true(cluster_agrees(&cluster));
        assert_int_equal(cluster_refused(&cluster), 0);
        printf("# %s\n", row->name);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

/* The elastic force of easgd is on values as on weights: the centre is between
   those of the ranks. */
static void easgd_draws_values(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW,
                                    "cluster.policy=\"easgd:4\"", NULL};
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    grouped_gather(&cluster, weights);
    assert_in_range((int)weights[2][0], 3, STEPS + 32 * GROUPED_RANKS);
    cluster_close(&cluster);
}

/* ---- values that are not finite ---- */

/* They are no gradients: they go through, and no step is left out by them; nor
   are they left out of a step by a gradient. */
static void values_need_not_be_finite(void **state)
{
    (void)state;
    static const char *const how[] = {
        "train.commit=streaming", "train.commit=whole", "train.clip=20",
        "train.nonfinite=skip", "cluster.policy=async"};
    grouped.poisons = STEPS - 1;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *const settings[] = {GROUPED_JOB, ADAMW, how[i], NULL};
        grouped_open(&cluster, settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        grouped_gather(&cluster, weights);
        if (i < 4) {
            assert_true(isnan(weights[2][3]) && isnan(weights[4][3]));
            weights[2][3] = weights[2][11];
            weights[4][3] = weights[4][11];
            assert_means(how[i]);
        }
        assert_int_equal(cluster_at_servers(&cluster, GW_METRIC_STEPS_SKIPPED),
                         0);
        cluster_close(&cluster);
    }
    grouped.poisons = 0;
    grouped.spoils = STEPS - 1;
    const char *const skips[] = {GROUPED_JOB, ADAMW, "train.nonfinite=skip",
                                 NULL};
    grouped_open(&cluster, skips, NULL);
    cluster_finish(&cluster, LIMIT_US);
    grouped_gather(&cluster, weights);
    assert_means("a step that is left out");
    assert_int_not_equal(cluster_at_servers(&cluster, GW_METRIC_STEPS_SKIPPED),
                         0);
    cluster_close(&cluster);
    grouped.spoils = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_averaged_beside_gradients),
        cmocka_unit_test(easgd_draws_values),
        cmocka_unit_test(values_need_not_be_finite),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
