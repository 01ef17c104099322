/*
 * Weights of a step before its end, in simulation (gw_rank_pull): a trainer
 * pushes a key, pulls what the step makes of it, and computes the next key's
 * push from that, as a chain of reductions does. Servers take means of numbers
 * that fp32 has exactly, so each pull is a closed form.
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
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000
#define SEEDS    200

enum {
    RANKS = 4,
    KEYS = 4,
    BIG = 20000, /* two chunks, of two shards */
    STEPS = 12
};

static const struct gw_key keys[KEYS] = {
    {.name = "first", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "big", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {BIG}},
    {.name = "skipped", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {5}},
    {.name = "last", .dtype = GW_DTYPE_F32, .dims = 2, .shape = {5, 7}},
};

static struct cluster cluster;
#define MAY_BE 2

static int is_chain; /* each key is pulled before the next one is pushed */
static int is_known; /* servers take the mean of all ranks in each step */
static unsigned pulled, given_up;

/* ---- reductions ---- */

static double own(uint64_t step, size_t key, size_t i, uint32_t rank)
{
    return (double)((step * 5 + key * 3 + i) % 32 + 4 * rank);
}

/* The mean over ranks of their own numbers and of what the key before gave. */
static double mean(uint64_t step, size_t key, size_t i)
{
    double sum = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        sum += own(step, key, i, rank);
    sum /= RANKS;
    return is_chain && key > 0 && key != 2
               ? sum + mean(step, key == 3 ? 1 : key - 1, i % 60)
               : sum;
}

static int is_exact(const struct gw_rank *rank, uint64_t step, size_t key)
{
    const float *w = gw_rank_weights(rank)[key];
    size_t i = 0;
    while (i < gw_key_elems(&keys[key]) &&
           (double)w[i] == (key == 2 ? 7 : mean(step, key, i)))
        i++;
    return i == gw_key_elems(&keys[key]);
}

static void make(struct gw_rank *rank, uint64_t step, size_t key)
{
    float *g = gw_rank_gradients(rank)[key];
    const float *before = gw_rank_weights(rank)[key == 3 ? 1 : 0];
    for (size_t i = 0; i < gw_key_elems(&keys[key]); i++) {
        g[i] = (float)own(step, key, i, gw_rank_number(rank));
        if (is_chain && key > 0)
            g[i] += before[i % 60];
    }
}

static enum gw_status give(struct gw_rank *rank, uint64_t step, size_t key)
{
    enum gw_status status = gw_rank_need(rank, key, 1);
    if (status != GW_OK)
        return status;
    if (key == 2)
        return gw_rank_skip(rank, key, 1, 0);
    make(rank, step, key);
    return gw_rank_ready(rank, key, 1);
}

static enum gw_status
pull(struct gw_rank *rank, uint64_t step, size_t first, size_t n)
{
    enum gw_status status = gw_rank_pull(rank, first, n);
    pulled += status == GW_OK;
    given_up += status != GW_OK;
    for (size_t key = first; key < first + n && status == GW_OK; key++)
        if (is_known && !is_exact(rank, step, key))
            fail_msg("rank %u, step %u: key %s is wrong", gw_rank_number(rank),
                     (unsigned)step, keys[key].name);
    return status;
}

static enum gw_status train(struct gw_rank *rank, uint64_t step)
{
    enum gw_status status = GW_OK;
    struct gw_error why;
    for (size_t key = 0; key < KEYS && status == GW_OK; key++) {
        status = give(rank, step, key);
        if (status == GW_OK && is_chain &&
            (is_chain != MAY_BE || !gw_rank_may_pull(rank, key, 1, &why)))
            status = pull(rank, step, key, 1);
    }
    gw_rank_computed(rank, 1000);
    if (status == GW_OK && !is_chain)
        status = pull(rank, step, 0, KEYS);
    return gw_rank_is_final(rank) ? GW_OK : status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .flop = 1000};
    enum gw_status status = gw_rank_own_data(rank, RANKS, 0);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
    for (size_t i = 0; status == GW_OK && gw_rank_makes_weights(rank) &&
                       i < gw_key_elems(&keys[2]);
         i++)
        gw_rank_weights(rank)[2][i] = 7;
    return status == GW_OK ? gw_rank_start(rank) : status;
}

static enum gw_status work(const struct gw_worker_options *options,
                           struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    const struct gw_rank_sum sum = {0};
    struct gw_rank_step step;
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_fail(rank, prepare(rank));
    while (status == GW_OK && gw_rank_begin(rank, &step) == GW_OK)
        gw_rank_end(rank, train(rank, step.number), &sum);
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- jobs ---- */

#define COMMON                                                                 \
    "cluster.workers=4", "model.kind=external", "model.layers=",               \
        "data.train=", "data.test=", "data.normalize=", "train.batch=0",       \
        "train.steps=12", "optimizer.kind=none", "checkpoint.dir=ck",          \
        "checkpoint.every=5 steps"

static const struct gw_sim_options lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static const struct row {
    const char *name;
    const char *settings[16];
    const char *houses;
    int is_chain, is_known;
} rows[] = {
    {"a chain", {COMMON}, NULL, 1, 1},
    {"a chain of sums of hosts",
     {COMMON, "cluster.local_reduction=on"},
     "aabb",
     1,
     1},
    {"a chain, backup:0", {COMMON, "cluster.policy=\"backup:0\""}, NULL, 1, 1},
    {"all at once", {COMMON}, NULL, 0, 1},
    {"whole steps", {COMMON, "train.commit=whole"}, NULL, 0, 1},
    {"backup:1", {COMMON, "cluster.policy=\"backup:1\""}, NULL, 0, 0},
    {"async", {COMMON, "cluster.policy=async"}, NULL, 0, 0},
    {"ssp:1", {COMMON, "cluster.policy=\"ssp:1\""}, NULL, 0, 0},
    {"one after the other",
     {COMMON, "cluster.policy=\"sync until 3, async until 7, backup:1\""},
     NULL,
     0,
     0},
    {"one after the other, as chains if they may",
     {COMMON, "cluster.policy=\"sync until 5, async until 8, sync\""},
     NULL,
     MAY_BE,
     0},
};

static void open_row(const struct row *row,
                     const struct gw_sim_options *weather)
{
    is_chain = row->is_chain;
    is_known = row->is_known;
    pulled = given_up = 0;
    cluster.work = work;
    cluster.houses = row->houses;
    cluster_open(&cluster, weather, row->settings, NULL);
}

/* Also in the last step, after which no other one begins. */
static void a_step_gives_its_weights_before_its_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_row(&rows[i], &lines);
        cluster_finish(&cluster, LIMIT_US);
        printf("# %s: %u pulls, %u given up, the end at %u\n", rows[i].name,
               pulled, given_up, (unsigned)cluster.final.step);
        if (rows[i].is_known) {
            assert_int_equal(given_up, 0);
            assert_int_equal(pulled,
                             (rows[i].is_chain ? KEYS : 1) * RANKS * STEPS);
        } else {
            assert_true(pulled > RANKS);
        }
        cluster_close(&cluster);
    }
    cluster.houses = NULL;
}

/* ---- weather ---- */

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};
static const struct row *stormy;

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options weather;
    storm_begin(&storm, seed, &weather);
    open_row(stormy, &weather);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        storm_ends_with(&cluster, GW_OK, outcome);
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void pulls_come_in_every_weather(void **state)
{
    stormy = *state;
    sweep_all(stormy->name, SEEDS, one, happened);
    cluster.houses = NULL;
}

/* ---- mistakes ---- */

enum mistake {
    NOT_PUSHED, /* the key that is pulled */
    NOT_ALL,    /* keys, where they are made together */
    LOCAL
};

static enum mistake mistake;

static enum gw_status err(struct gw_rank *rank)
{
    struct gw_error error;
    enum gw_status status = give(rank, 0, 0);
    size_t key = mistake == NOT_PUSHED;
    if (status == GW_OK && gw_rank_may_pull(rank, key, 1, &error) == GW_EUSAGE)
        status = gw_rank_pull(rank, key, 1);
    return status;
}

static enum gw_status work_in_error(const struct gw_worker_options *options,
                                    struct gw_error *error)
{
    const struct gw_rank_options open = {.client = options->client,
                                         .local = options->local,
                                         .opened = options->opened,
                                         .owner = options->owner};
    struct gw_rank_step step;
    struct gw_rank *rank;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = prepare(rank);
    if (status == GW_OK)
        status = gw_rank_begin(rank, &step);
    if (status == GW_OK)
        status = err(rank);
    gw_rank_close(rank);
    return status;
}

static void mistakes_are_named(void **state)
{
    static const struct {
        enum mistake mistake;
        const char *setting, *says;
    } wrong[] = {
        {NOT_PUSHED, "cluster.policy=sync",
         "key big was neither pushed nor skipped in this step"},
        {NOT_ALL, "train.commit=whole",
         "key big is to be pushed or skipped first"},
        {NOT_ALL, "cluster.policy=async",
         "key big is to be pushed or skipped first: with this train.commit, or "
         "cluster.policy = \"async\", a step's weights"},
        {LOCAL, "cluster.policy=\"local:4\"",
         "under cluster.policy = \"local:4\" servers make no weights of a "
         "step"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const settings[] = {COMMON, "optimizer.kind=sgd",
                                        "checkpoint.every=never",
                                        wrong[i].setting, NULL};
        mistake = wrong[i].mistake;
        is_chain = is_known = 0;
        cluster.work = work_in_error;
        cluster_open(&cluster, &lines, settings, NULL);
        assert_true(cluster_run(&cluster, LIMIT_US));
        if (!strstr(cluster.text, wrong[i].says))
            fail_msg("\"%s\" does not say \"%s\"", cluster.text, wrong[i].says);
        cluster_close(&cluster);
    }
}

#define WEATHER(i)                                                             \
    {                                                                          \
        "pulls_come_in_every_weather/" #i, pulls_come_in_every_weather, NULL,  \
            NULL, (void *)(uintptr_t)&rows[i]                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_gives_its_weights_before_its_end),
        WEATHER(0),
        WEATHER(1),
        WEATHER(5),
        WEATHER(6),
        WEATHER(8),
        WEATHER(9),
        cmocka_unit_test(mistakes_are_named),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("pull", tests, NULL, NULL);
}
