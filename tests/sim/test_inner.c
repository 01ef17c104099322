/*
 * Workers' own optimizers in checkpoints: a job that was stopped goes on to the
 * bits of one that was not, in every weather; another job says what it does
 * with them.
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

#include "server/checkpoint/tensors.h"
#include "server/checkpoint/store.h"
#include "tests/sim/inner.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS 250

static struct cluster cluster;

/* ---- the same bits ---- */

static void stopped_jobs_go_on_to_the_same_bits(void **state)
{
    const char *const *settings = *state;
    const char *servers[] = {"cluster.servers=1", "cluster.servers=2",
                             "cluster.servers=3"};
    char whole[65], again[65];
    size_t stops = 0;
    struct inner_job job = inner_job_of(settings);
    inner_run_calmly(&cluster, &job, whole);
    for (uint64_t i = 0; i < 24; i++) {
        inner_add(&job, servers[i % 3]);
        inner_open(&cluster, &job, &inner_calm, 0);
        inner_await_running(&cluster);
        gw_sim_at(cluster.sim, 100 + 350 * i, cluster_stop, &cluster);
        enum gw_status status = inner_run(&cluster, again);
        uint64_t at = cluster.final.checkpoint;
        assert_int_equal(inner_count_files(&cluster, at), cluster.workers);
        cluster_end(&cluster);
        inner_drop(&job);
        if (status == GW_EINTERRUPTED) {
            stops++;
            inner_add(&job, servers[(i + 1) % 3]);
            inner_open(&cluster, &job, &inner_calm, 1);
            assert_int_equal(inner_run(&cluster, again), GW_OK);
            assert_null(strstr(cluster.note, "zero"));
            assert_true(cluster.final.checkpoint > at || at == INNER_STEPS);
            inner_drop(&job);
        }
        assert_string_equal(again, whole);
        cluster_close(&cluster);
    }
    print_message("# %zu of 24 were stopped\n", stops);
    assert_true(stops > 8);
}

/* ---- in every weather ---- */

enum {
    COUNT_CUTS,
    COUNT_PAUSES,
    COUNT_STOPPED,
    COUNT_CHECKPOINTS,
};

static const char *const happened[SWEEP_COUNTS] = {
    [COUNT_CUTS] = "cuts",
    [COUNT_PAUSES] = "pauses",
    [COUNT_STOPPED] = "stopped",
    [COUNT_CHECKPOINTS] = "files of workers",
};

static struct inner_job stormy;
static char undisturbed[65];

/* 0: it has not ended, or not as it should. */
static int end_storm(struct storm *storm, struct sweep_outcome *outcome)
{
    if (!storm_run(&cluster, INNER_LIMIT_US, outcome))
        return 0;
    outcome->count[COUNT_CUTS] += storm->cuts;
    outcome->count[COUNT_PAUSES] += storm->pauses + storm->stops;
    outcome->count[COUNT_CHECKPOINTS] +=
        cluster_at_workers(&cluster, GW_METRIC_CHECKPOINTS);
    if (cluster.final.status == GW_OK ||
        cluster.final.status == GW_EINTERRUPTED)
        return 1;
    snprintf(outcome->why, sizeof outcome->why, "it ends with: %s",
             cluster.text);
    return 0;
}

/* Stopped in a storm, gone on with in another one, in which what is left of
   the first only cuts: the pauses of two may come too close. */
static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm[2];
    struct gw_sim_options lines;
    char hex[65] = "";
    storm_begin(&storm[0], seed, &lines);
    inner_open(&cluster, &stormy, &lines, 0);
    storm_blow(&storm[0], &cluster);
    inner_await_running(&cluster);
    gw_sim_at(cluster.sim, storm_draw(&storm[0], 40000), cluster_stop,
              &cluster);
    int ended = end_storm(&storm[0], outcome);
    if (ended && cluster.final.status == GW_EINTERRUPTED &&
        cluster.final.has_checkpoint) {
        outcome->count[COUNT_STOPPED]++;
        cluster_end(&cluster);
        storm[0].calm_until_us = UINT64_MAX;
        storm_begin(&storm[1], seed + 1000000, &lines);
        inner_open(&cluster, &stormy, &lines, 1);
        storm_blow(&storm[1], &cluster);
        ended = end_storm(&storm[1], outcome);
    }
    if (ended && cluster.final.status == GW_OK) {
        cluster_digest(&cluster, hex);
        if (strcmp(hex, undisturbed) != 0)
            snprintf(outcome->why, sizeof outcome->why, "other weights");
        else if (inner_count_files(&cluster, cluster.final.checkpoint) !=
                 cluster.workers)
            snprintf(outcome->why, sizeof outcome->why, "not all files");
    }
    cluster_close(&cluster);
}

static void same_bits_in_every_weather(void **state)
{
    const char *const *settings = *state;
    stormy = inner_job_of(settings);
    inner_run_calmly(&cluster, &stormy, undisturbed);
    sweep_all(settings[0], settings == inner_large_adam ? SEEDS / 10 : SEEDS,
              one, happened);
}

/* ---- other jobs ---- */

/* The updates that a worker's file of the last checkpoint tells of. */
static uint64_t updates_of(uint32_t rank)
{
    struct gw_tensors tensors;
    struct gw_error error;
    char name[GW_FILE_NAME_MAX], path[GW_PATH_MAX];
    gw_worker_file_name(rank, (uint32_t)cluster.workers, name);
    gw_store_path(cluster.final.checkpoint, name, path);
    if (gw_tensors_open(cluster_checkpoints(&cluster), path, &tensors,
                        &error) != GW_OK)
        fail_msg("%s", error.text);
    const char *text = gw_safetensors_metadata(tensors.header, "updates");
    assert_non_null(text);
    uint64_t updates = strtoull(text, NULL, 10);
    gw_tensors_close(&tensors);
    return updates;
}

/* What a checkpoint has is of use for the same optimizer and as many workers;
   else there is a line, and a beginning. */
static void another_job_begins_at_zero(void **state)
{
    (void)state;
    static const struct {
        const char *first, *then, *note;
        int counts; /* updates go on, from zero, or there are none */
    } rows[] = {
        {"policy.inner=momentum", "policy.inner=momentum", NULL, 1},
        {"policy.inner=momentum", "cluster.workers=4",
         "the state of the workers' own momentum is that of 3 workers, this "
         "job has 4: it begins at zero",
         0},
        {"policy.inner=momentum", "cluster.workers=2",
         "is that of 3 workers, this job has 2: it begins at zero", 0},
        {"policy.inner=momentum", "policy.inner=adam",
         "the workers' own optimizer was momentum, now it is adam: its state "
         "begins at zero",
         0},
        {"policy.inner=sgd", "policy.inner=nesterov",
         "the checkpoint has no state of the workers' own nesterov: it begins "
         "at zero",
         0},
        {"policy.inner=momentum", "policy.inner=sgd",
         "the checkpoint's state of the workers' own momentum is not used", -1},
        {"policy.inner=sgd", "policy.inner=sgd", NULL, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char hex[65];
        struct inner_job job = inner_job_of(inner_local_momentum);
        inner_add(&job, rows[i].first);
        inner_run_until_stopped(&cluster, &job, 3000);
        uint64_t at = cluster.final.checkpoint;
        assert_in_range(at, 3, INNER_STEPS - 3);
        cluster_end(&cluster);
        inner_add(&job, rows[i].then);
        inner_open(&cluster, &job, &inner_calm, 1);
        inner_await_running(&cluster);
        if (rows[i].note && !strstr(cluster.note, rows[i].note))
            fail_msg("row %zu: %s", i, cluster.note);
        if (!rows[i].note && strstr(cluster.note, "own"))
            fail_msg("row %zu: %s", i, cluster.note);
        assert_int_equal(inner_run(&cluster, hex), GW_OK);
        uint64_t files = rows[i].counts < 0 ? 0 : cluster.workers;
        assert_int_equal(inner_count_files(&cluster, INNER_STEPS), files);
        for (uint32_t rank = 0; rank < files; rank++)
            assert_int_equal(updates_of(rank),
                             rows[i].counts ? INNER_STEPS : INNER_STEPS - at);
        cluster_close(&cluster);
    }
}

#define JOB(test, job)                                                         \
    {                                                                          \
#test "/" #job, test, NULL, NULL, (void *)(uintptr_t)inner_##job       \
    }

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        JOB(stopped_jobs_go_on_to_the_same_bits, local_momentum),
        JOB(stopped_jobs_go_on_to_the_same_bits, diloco_adamw),
        JOB(stopped_jobs_go_on_to_the_same_bits, diloco_in_parts),
        JOB(same_bits_in_every_weather, local_momentum),
        JOB(same_bits_in_every_weather, diloco_adamw),
        JOB(same_bits_in_every_weather, diloco_in_parts),
        JOB(same_bits_in_every_weather, large_adam),
        cmocka_unit_test(another_job_begins_at_zero),
    };
    int failed = cmocka_run_group_tests_name("inner", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
