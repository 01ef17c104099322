/*
 * Checkpoints that trainers ask for, in simulation (gw_rank_save): on disk when
 * the call returns, from one rank and from all, under each policy, in every
 * weather, and without a trace in the weights.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/checkpoint/store.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "worker/trainer/rank.h"

#define LIMIT_US 600000000
#define SEEDS    100

enum {
    RANKS = 3,
    KEYS = 2,
    BIG = 20000 /* two chunks, of two shards */
};

static const struct gw_key keys[KEYS] = {
    {.name = "one", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {60}},
    {.name = "two", .dtype = GW_DTYPE_F32, .dims = 1, .shape = {BIG}}};

static struct cluster cluster;
static int asks;       /* 0: no rank does; else rank 1 in step 4, */
static int is_sync;    /* and all ranks in step 7 */
static int asks_first; /* each rank, before its first step */
static int fails;      /* the disk, in step 4 */
static unsigned saved, waited, failed;

/* ---- the trainer ---- */

/* The checkpoint of the step that begins next is on disk, or a newer one. */
static void assert_saved(uint64_t step)
{
    struct gw_manifest manifest;
    struct gw_error error;
    if (gw_store_whole(cluster_checkpoints(&cluster), step, &manifest,
                       &error) != GW_OK)
        fail_msg("no checkpoint of step %u: %s", (unsigned)step, error.text);
    gw_manifest_free(&manifest);
}

static enum gw_status fail_to_save(struct gw_rank *rank)
{
    struct gw_error why;
    gw_sim_disk_fail(cluster.server[1].loop, 1, GW_ENOSPC);
    for (int i = 0; i < 2; i++)
        if (gw_rank_save(rank, &why) == GW_EIO && strstr(why.text, "failed"))
            failed++;
    return GW_OK;
}

static enum gw_status save(struct gw_rank *rank, uint64_t next, int *is_asked)
{
    struct gw_error why;
    int is_rank_1 = gw_rank_number(rank) == 1;
    if (fails && next == 4 && is_rank_1)
        return fail_to_save(rank);
    *is_asked |= asks && ((next == 4 && is_rank_1) || next == 7);
    if (!*is_asked)
        return GW_OK;
    enum gw_status status = gw_rank_save(rank, &why);
    waited += status == GW_EAGAIN;
    if (status == GW_EAGAIN || status == GW_EEND)
        return GW_OK;
    *is_asked = 0;
    saved += status == GW_OK;
    if (status == GW_OK && is_sync)
        assert_saved(next);
    return status;
}

static enum gw_status train(struct gw_rank *rank)
{
    enum gw_status status = gw_rank_need(rank, 0, KEYS);
    gw_rank_computed(rank, 1000);
    for (size_t key = 0; status == GW_OK && key < KEYS; key++) {
        for (size_t i = 0; i < gw_key_elems(&keys[key]); i++)
            gw_rank_gradients(rank)[key][i] =
                gw_rank_weights(rank)[key][i] - (float)(i % 7);
        status = gw_rank_ready(rank, key, 1);
    }
    return status;
}

static enum gw_status prepare(struct gw_rank *rank)
{
    const struct gw_rank_declaration declaration = {
        .key = keys, .keys = KEYS, .flop = 1000};
    enum gw_status status = gw_rank_own_data(rank, RANKS, 0);
    if (status == GW_OK)
        status = gw_rank_declare(rank, &declaration);
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
    struct gw_rank_step step = {.number = 0};
    struct gw_rank *rank;
    int is_asked = 0;
    enum gw_status status = gw_rank_open(&open, &rank, error);
    if (status != GW_OK)
        return status;
    status = gw_rank_fail(rank, prepare(rank));
    if (status == GW_OK && asks_first)
        status = save(rank, 7, &is_asked);
    while (status == GW_OK && gw_rank_begin(rank, &step) == GW_OK) {
        gw_rank_end(rank, train(rank), &sum);
        status = save(rank, step.number + 1, &is_asked);
    }
    if (status == GW_OK)
        status = gw_rank_finish(rank);
    gw_rank_close(rank);
    return status;
}

/* ---- jobs ---- */

#define COMMON                                                                 \
    "cluster.workers=3", "model.kind=external", "model.layers=",               \
        "data.train=", "data.test=", "data.normalize=", "train.batch=0",       \
        "train.steps=14", "optimizer.kind=momentum", "optimizer.lr=0.1",       \
        "checkpoint.every=never", "checkpoint.dir=ck"

static const struct row {
    const char *settings[16];
    int is_sync;
} rows[] = {
    {{COMMON, "cluster.policy=sync"}, 1},
    {{COMMON, "cluster.policy=sync", "train.clip=100"}, 1},
    {{COMMON, "cluster.policy=\"backup:0\"", "checkpoint.every=4 steps"}, 1},
    {{COMMON, "cluster.policy=\"backup:1\""}, 0},
    {{COMMON, "cluster.policy=\"local:3\""}, 0},
    {{COMMON, "cluster.policy=async"}, 0},
    {{COMMON, "cluster.policy=\"sync until 4, ssp:2 until 7, sync\""}, 0},
};

/* A step takes about as long as the disk. */
static uint64_t step_us(void *owner, uint64_t samples)
{
    (void)owner;
    (void)samples;
    return 3000;
}

static void open_row(const struct row *row,
                     const struct gw_sim_options *weather,
                     int asking)
{
    asks = asking;
    is_sync = row->is_sync;
    saved = waited = failed = 0;
    cluster.work = work;
    cluster_open(&cluster, weather, row->settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, NULL);
}

static const struct gw_sim_options lines = {
    .seed = 1, .latency_us = 50, .jitter_us = 20, .bytes_per_us = 1000};

static void a_checkpoint_is_there_when_it_was_asked_for(void **state)
{
    char without[65], with[65];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_row(&rows[i], &lines, 0);
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, without);
        cluster_close(&cluster);
        open_row(&rows[i], &lines, 1);
        cluster_finish(&cluster, LIMIT_US);
        cluster_digest(&cluster, with);
        printf("# %s: %u saved, %u times not yet\n", rows[i].settings[12],
               saved, waited);
        if (rows[i].is_sync) {
            assert_int_equal(saved, 1 + RANKS);
            assert_int_equal(waited, 0);
            assert_string_equal(with, without);
        } else {
            assert_true(saved > 0);
        }
        cluster_close(&cluster);
    }
}

/* ---- weather ---- */

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};
static const struct row *stormy;

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options weather;
    storm_begin(&storm, seed, &weather);
    open_row(stormy, &weather, 1);
    storm_blow(&storm, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome))
        storm_ends_with(&cluster, GW_OK, outcome);
    if (is_sync && saved != 1 + RANKS)
        snprintf(outcome->why, sizeof outcome->why, "%u were saved", saved);
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void every_weather_has_its_checkpoints(void **state)
{
    stormy = *state;
    sweep_all(stormy->settings[12], SEEDS, one, happened);
}

/* ---- a stop comes meanwhile ---- */

static void one_stopped(uint64_t seed, struct sweep_outcome *outcome)
{
    open_row(stormy, &lines, 1);
    if (!cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US))
        fail_msg("it does not begin");
    gw_sim_at(cluster.sim, 37 * seed, cluster_stop, &cluster);
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        cluster.final.status != GW_EINTERRUPTED &&
        cluster.final.status != GW_OK)
        snprintf(outcome->why, sizeof outcome->why, "%.400s", cluster.text);
    cluster_close(&cluster);
}

static void a_stop_ends_the_wait(void **state)
{
    static const char *const nothing[SWEEP_COUNTS] = {NULL};
    stormy = *state;
    sweep_all(stormy->settings[12], SEEDS, one_stopped, nothing);
}

/* At the first clock there is one, by which the job was begun or resumed. */
static void a_resumed_job_has_its_first_one(void **state)
{
    const struct row *row = *state;
    open_row(row, &lines, 0);
    cluster_finish(&cluster, LIMIT_US);
    cluster_end(&cluster);
    const char *settings[18] = {0};
    memcpy(settings, row->settings, sizeof row->settings);
    settings[13] = "train.steps=20";
    asks = 1;
    is_sync = 0;
    asks_first = 1;
    saved = waited = 0;
    cluster_open(&cluster, &lines, settings, "ck");
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_compute_model(cluster.worker[i].loop, step_us, NULL);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    asks_first = 0;
    assert_int_equal(saved, RANKS);
}

/* An operation of a disk fails: the answer is a line, also to the same question
   again, and the job goes on to a better one. */
static void a_checkpoint_that_fails_is_told(void **state)
{
    (void)state;
    fails = 1;
    open_row(&rows[0], &lines, 1);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
    fails = 0;
    assert_int_equal(failed, 2);
    assert_int_equal(saved, RANKS);
}

static void a_job_without_a_directory_says_so(void **state)
{
    const char *const settings[] = {COMMON, "checkpoint.dir=", NULL};
    (void)state;
    asks = 1;
    is_sync = 0;
    cluster.work = work;
    cluster_open(&cluster, &lines, settings, NULL);
    assert_true(cluster_run(&cluster, LIMIT_US));
    assert_int_equal(cluster.worker[1].status, GW_EUSAGE);
    cluster_close(&cluster);
}

#define ROW(test, i)                                                           \
    {                                                                          \
#test "/" #i, test, NULL, NULL, (void *)(uintptr_t)&rows[i]            \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_is_there_when_it_was_asked_for),
        ROW(every_weather_has_its_checkpoints, 0),
        ROW(every_weather_has_its_checkpoints, 2),
        ROW(every_weather_has_its_checkpoints, 4),
        ROW(every_weather_has_its_checkpoints, 5),
        ROW(every_weather_has_its_checkpoints, 6),
        ROW(a_stop_ends_the_wait, 0),
        ROW(a_stop_ends_the_wait, 5),
        ROW(a_resumed_job_has_its_first_one, 0),
        cmocka_unit_test(a_checkpoint_that_fails_is_told),
        cmocka_unit_test(a_job_without_a_directory_says_so),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("save", tests, NULL, NULL);
}
