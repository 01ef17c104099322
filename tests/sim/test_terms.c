/*
 * Hyperparameters that programs set while they train, in simulation: each
 * update has those of its step, on every shard, under every commit, and in jobs
 * that go on. The measure is AdamW in fp64, of which each hyperparameter
 * changes. Ranks with unlike ones, and values that cannot be, are refused.
 * test_terms_policies.c has the policies.
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

#include "proto/terms.h"
#include "server/server_state.h"
#include "server/coordinator/coordinator_members.h"
#include "tests/sim/grouped.h"

#define LIMIT_US 600000000

enum {
    STEPS = 24
};

static struct cluster cluster;
static float weights[GROUPED_KEYS][GROUPED_ELEMS];

/* ---- AdamW in fp64 ---- */

/* Group 1 has none before step 5, and the job's until then. */
static int has_terms(uint32_t group, uint64_t step)
{
    return group == 0 || step >= 5;
}

static struct gw_terms terms_at(uint32_t group, uint64_t step)
{
    double t = (double)step;
    if (!has_terms(group, step))
        return (struct gw_terms){.lr = 0.02,
                                 .weight_decay = 0.1,
                                 .momentum = 0.9,
                                 .beta1 = 0.9,
                                 .beta2 = 0.99,
                                 .eps = 1e-6};
    return (struct gw_terms){.lr = 0.05 / (1 + t / 8 + 3 * group),
                             .weight_decay = step / 4 % 3 == 1 ? 0.1 : 0,
                             .momentum = 0.5,
                             .beta1 = step < 12 ? 0.8 : 0.6,
                             .beta2 = 0.95 + 0.001 * t,
                             .eps = step < 10 ? 1e-6 : 1e-3};
}

static enum gw_status set_all(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = GW_OK;
    for (uint32_t group = 0; group < 2 && status == GW_OK; group++) {
        const struct gw_terms terms = terms_at(group, step);
        if (has_terms(group, step))
            status = gw_rank_terms(rank, group, &terms);
    }
    return status;
}

static struct plain {
    double w[GROUPED_ELEMS], m[GROUPED_ELEMS], v[GROUPED_ELEMS];
} server[GROUPED_KEYS], inner[GROUPED_RANKS][GROUPED_KEYS];

static void adamw(struct plain *of,
                  size_t key,
                  uint64_t step,
                  double (*gradient)(const struct plain *of,
                                     size_t key,
                                     size_t i,
                                     uint32_t rank),
                  uint32_t rank)
{
    const struct gw_terms terms = terms_at(grouped_keys[key].group, step);
    double t = (double)step + 1;
    for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
        double g = gradient(of, key, i, rank);
        of->m[i] = terms.beta1 * of->m[i] + (1 - terms.beta1) * g;
        of->v[i] = terms.beta2 * of->v[i] + (1 - terms.beta2) * g * g;
        double m = of->m[i] / (1 - pow(terms.beta1, t));
        double v = of->v[i] / (1 - pow(terms.beta2, t));
        of->w[i] -= terms.lr *
                    (terms.weight_decay * of->w[i] + m / (sqrt(v) + terms.eps));
    }
}

static double
own_gradient(const struct plain *of, size_t key, size_t i, uint32_t rank)
{
    return of->w[i] - grouped_target(key, i, rank);
}

static double
mean_gradient(const struct plain *of, size_t key, size_t i, uint32_t rank)
{
    double mean = 0;
    for (rank = 0; rank < GROUPED_RANKS; rank++)
        mean += own_gradient(of, key, i, rank) / GROUPED_RANKS;
    return mean;
}

static void plain_begin(void)
{
    memset(server, 0, sizeof server);
    memset(inner, 0, sizeof inner);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < GROUPED_ELEMS; i++)
            server[key].w[i] = grouped_first(key, i);
}

/* `round` steps of each rank from the servers' weights, whose mean they are
   then. */
static void plain_round(uint64_t first, uint64_t round)
{
    for (size_t key = 0; key < GROUPED_KEYS; key++) {
        static double mean[GROUPED_ELEMS];
        memset(mean, 0, sizeof mean);
        for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++) {
            struct plain *own = &inner[rank][key];
            memcpy(own->w, server[key].w, sizeof own->w);
            for (uint64_t step = first; step < first + round; step++)
                adamw(own, key, step, own_gradient, rank);
            for (size_t i = 0; i < GROUPED_ELEMS; i++)
                mean[i] += own->w[i] / GROUPED_RANKS;
        }
        memcpy(server[key].w, mean, sizeof mean);
    }
}

static void assert_adamw(const char *name)
{
    double far = 0;
    grouped_gather(&cluster, weights);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double is = weights[key][i], should = server[key].w[i];
            if (grouped_is_value(key))
                continue;
            far = fmax(far, fabs(is - should));
            if (!(fabs(is - should) <= 1e-5))
                fail_msg("%s: %s[%zu] is %g, not %g", name,
                         grouped_keys[key].name, i, is, should);
        }
    print_message("# %s: within %.1e\n", name, far);
}

#define ADAMW                                                                  \
    "optimizer.kind=adamw", "optimizer.lr=0.02", "optimizer.weight_decay=0.1", \
        "optimizer.beta2=0.99", "optimizer.eps=1e-6"

static const struct row {
    const char *name;
    const char *settings[18];
    const char *houses;
    uint64_t round; /* of the ranks' own steps; 0: servers step */
} rows[] = {
    {.name = "streaming", .settings = {GROUPED_JOB, ADAMW}},
    {.name = "one server",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=1"}},
    {.name = "three servers, several connections",
     .settings = {GROUPED_JOB, ADAMW, "cluster.servers=3",
                  "cluster.connections=3"}},
    {.name = "whole",
     .settings = {GROUPED_JOB, ADAMW, "train.commit=whole",
                  "cluster.servers=3"}},
    {.name = "sums of hosts",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on"},
     .houses = "aabb"},
    {.name = "sums of hosts, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.local_reduction=on",
                  "train.commit=whole"},
     .houses = "aaaa"},
    {.name = "backup:0",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"backup:0\""}},
    {.name = "local:4",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\""},
     .round = 4},
    {.name = "local:4, whole",
     .settings = {GROUPED_JOB, ADAMW, "cluster.policy=\"local:4\"",
                  "train.commit=whole"},
     .round = 4},
};

static void each_update_has_the_terms_of_its_step(void **state)
{
    (void)state;
    grouped.begun = set_all;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        plain_begin();
        for (uint64_t step = 0; step < STEPS;
             step += row->round ? row->round : 1)
            if (row->round > 0)
                plain_round(step, row->round);
            else
                for (size_t key = 0; key < GROUPED_KEYS; key++)
                    adamw(&server[key], key, step, mean_gradient, 0);
        cluster.houses = row->houses;
        grouped_open(&cluster, row->settings, NULL);
        cluster_finish(&cluster, LIMIT_US);
        assert_adamw(row->name);
        assert_int_equal(cluster_refused(&cluster), 0);
        for (uint64_t step = 0; step < STEPS; step++)
            assert_true(cluster.lr[step] == terms_at(0, step).lr);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
    grouped.begun = NULL;
}

/* ---- jobs that go on ---- */

static int is_midway(void *owner)
{
    const struct gw_shard *shard =
        ((struct cluster *)owner)->server[0].server->shard;
    return shard && shard->chunks > 0 && shard->chunk[0].version >= STEPS / 2;
}

/* The program sets them again, and on another number of servers the bits are
   those of a job that did not stop. */
static void a_job_goes_on_with_the_terms_of_its_program(void **state)
{
    static const char *const policies[] = {"train.commit=streaming",
                                           "train.commit=whole",
                                           "cluster.policy=\"local:4\""};
    (void)state;
    grouped.begun = set_all;
    for (size_t i = 0; i < 3; i++) {
        const char *const two[] = {GROUPED_JOB, ADAMW, "checkpoint.dir=ck",
                                   policies[i], NULL};
        const char *const three[] = {GROUPED_JOB,         ADAMW,
                                     "checkpoint.dir=ck", "cluster.servers=3",
                                     policies[i],         NULL};
        char whole[65], again[65];
        grouped_open(&cluster, two, NULL);
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, whole);
        cluster_close(&cluster);
        grouped_open(&cluster, two, NULL);
        assert_true(cluster_run_until(&cluster, is_midway, &cluster, LIMIT_US));
        cluster_stop(&cluster);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EINTERRUPTED);
        assert_in_range(cluster.final.checkpoint, 6, STEPS - 3);
        cluster_end(&cluster);
        grouped_open(&cluster, three, "ck");
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, again);
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    grouped.begun = NULL;
}

/* ---- ranks that differ ---- */

static struct {
    uint32_t rank, group;
    uint64_t step;
    double eps; /* what it has instead; negative: a rank without samples */
} odd;

static enum gw_status differ(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = set_all(rank, step);
    struct gw_terms terms = terms_at(odd.group, step);
    if (gw_rank_number(rank) != odd.rank || step != odd.step)
        return status;
    terms.eps = fabs(odd.eps);
    return status == GW_OK ? gw_rank_terms(rank, odd.group, &terms) : status;
}

static void unequal_terms_end_the_job(void **state)
{
    static const char *const how[] = {
        "train.commit=streaming", "train.commit=whole",
        "cluster.policy=\"backup:0\"", "cluster.local_reduction=on"};
    (void)state;
    grouped.begun = differ;
    for (size_t i = 0; i < 4; i++) {
        const char *const settings[] = {GROUPED_JOB, ADAMW, how[i], NULL};
        odd.rank = 2, odd.group = 1, odd.step = 11, odd.eps = 0.5;
        cluster.houses = i == 3 ? "aabb" : NULL;
        grouped_open(&cluster, settings, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        assert_int_equal(cluster.final.status, GW_EMISMATCH);
        if (!strstr(cluster.text,
                    "step 11, group 1: eps is 0.001 on worker 0 ") ||
            !strstr(cluster.text, " and 0.5 on worker 2 "))
            fail_msg("\"%s\"", cluster.text);
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
    grouped.begun = NULL;
}

/* Terms that only some ranks set are those of the others if they are equal to
   the job's. */
static enum gw_status set_on_one(struct gw_rank *rank, uint64_t step)
{
    const struct gw_terms terms = terms_at(1, 0);
    return gw_rank_number(rank) == 1 && step == 3
               ? gw_rank_terms(rank, 1, &terms)
               : GW_OK;
}

static enum gw_status set_others(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = set_all(rank, step);
    const struct gw_terms other = {.lr = 7};
    return status == GW_OK && gw_rank_number(rank) == 3 &&
                   step == grouped.sits_out
               ? gw_rank_terms(rank, 0, &other)
               : status;
}

static void ranks_without_samples_may_differ(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
    grouped.begun = set_on_one;
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    grouped.begun = set_others;
    grouped.sits_out = 8;
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    memset(&grouped, 0, sizeof grouped);
}

/* ---- values that no optimizer takes ---- */

static enum gw_status set_wrong(struct gw_rank *rank, uint64_t step)
{
    static const struct {
        struct gw_terms terms;
        const char *name;
    } wrong[] = {
        {{.lr = -1}, "lr"},
        {{.lr = NAN}, "lr"},
        {{.lr = INFINITY}, "lr"},
        {{.weight_decay = -1e-9}, "weight_decay"},
        {{.momentum = 1e31}, "momentum"},
        {{.beta1 = 1}, "beta1"},
        {{.beta2 = 1.5}, "beta2"},
        {{.eps = -0.1}, "eps"},
    };
    double value;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(gw_rank_terms(rank, 1, &wrong[i].terms), GW_ERANGE);
        assert_string_equal(gw_terms_fault(&wrong[i].terms, &value),
                            wrong[i].name);
    }
    return set_all(rank, step);
}

static void a_rank_refuses_values_out_of_range(void **state)
{
    (void)state;
    const char *const settings[] = {GROUPED_JOB, ADAMW, NULL};
    char whole[65], again[65];
    grouped.begun = set_all;
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, whole);
    cluster_close(&cluster);
    grouped.begun = set_wrong;
    grouped_open(&cluster, settings, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, again);
    assert_string_equal(again, whole);
    cluster_close(&cluster);
    grouped.begun = NULL;
}

static int has_copies(void *owner)
{
    (void)owner;
    return cluster.running && gw_copies_caught_up(cluster.coordinator) ==
                                  gw_roster_shards(cluster.coordinator);
}

/* A standby in the place of its primary makes the step that is not made yet,
   of the sums that it was sent, with the terms of the ranks. */
static void terms_outlive_a_server(void **state)
{
    static const char *const alone[] = {GROUPED_JOB, ADAMW,
                                        "train.commit=whole", NULL};
    static const char *const copied[] = {
        GROUPED_JOB, ADAMW, "train.commit=whole", "cluster.copies=2", NULL};
    char hex[65], again[65];
    (void)state;
    grouped.begun = set_all;
    grouped_open(&cluster, alone, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_digest(&cluster, hex);
    cluster_close(&cluster);
    for (uint64_t when = 0; when < 30; when++) {
        grouped_open(&cluster, copied, NULL);
        assert_true(cluster_run_until(&cluster, has_copies, NULL, LIMIT_US));
        cluster_pass(&cluster, when * 137);
        gw_world_end_server(&cluster.world, when % 2);
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, again);
        assert_string_equal(again, hex);
        cluster_close(&cluster);
    }
    grouped.begun = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_update_has_the_terms_of_its_step),
        cmocka_unit_test(a_job_goes_on_with_the_terms_of_its_program),
        cmocka_unit_test(unequal_terms_end_the_job),
        cmocka_unit_test(ranks_without_samples_may_differ),
        cmocka_unit_test(a_rank_refuses_values_out_of_range),
        cmocka_unit_test(terms_outlive_a_server),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("terms", tests, NULL, NULL);
}
