/*
 * Members that are silent and alive: the job waits for one that it cannot go on
 * without, and no longer than cluster.patience.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define LIMIT_US 120000000
#define SECOND   UINT64_C(1000000)

static struct cluster cluster;
static const struct gw_sim_options calm = {.seed = 1, .latency_us = 50};

static void open_job(const char *policy)
{
    const char *const settings[] = {"train.steps=3000", "cluster.patience=5",
                                    policy, NULL};
    cluster_open(&cluster, &calm, settings, NULL);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_slow(cluster.worker[i].loop, 100);
    assert_true(
        cluster_run_until(&cluster, cluster_has_stepped, &cluster, LIMIT_US));
}

/* A loop of the job, and its name in lines. */
struct silent {
    const char *policy;
    struct gw_loop *(*loop)(void);
    const char *name;
};

static struct gw_loop *server_1(void)
{
    return cluster.server[1].loop;
}

static struct gw_loop *worker_1(void)
{
    return cluster.worker[1].loop;
}

static const struct silent rows[] = {
    {"cluster.policy=sync", server_1, "server 1 (s, pid 301)"},
    {"cluster.policy=async", server_1, "server 1 (s, pid 301)"},
    {"cluster.policy=async", worker_1, "worker 1 (w, pid 501)"},
    {"cluster.policy=\"local:4\"", worker_1, "worker 1 (w, pid 501)"},
};
#define ROWS (sizeof rows / sizeof *rows)

static void one_that_was_paused_is_taken_back(void **state)
{
    char words[160];
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        open_job(rows[i].policy);
        gw_sim_pause(rows[i].loop(), 3 * SECOND);
        cluster_pass(&cluster, 2 * SECOND);
        snprintf(words, sizeof words, "%s is silent for 1.0 s at step ",
                 rows[i].name);
        cluster_assert_told(&cluster, words);
        cluster_assert_told(&cluster, "; waiting 5 s for it");
        cluster_pass(&cluster, 3 * SECOND / 2);
        snprintf(words, sizeof words, "%s is heard again", rows[i].name);
        cluster_assert_told(&cluster, words);
        cluster_finish(&cluster, LIMIT_US);
        assert_int_equal(cluster_refused(&cluster), 0);
        cluster_close(&cluster);
    }
}

static void patience_has_an_end(void **state)
{
    char words[160];
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        open_job(rows[i].policy);
        uint64_t since_us = gw_sim_now(cluster.sim);
        gw_sim_pause(rows[i].loop(), 60 * SECOND);
        assert_true(
            cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
        assert_in_range(gw_sim_now(cluster.sim) - since_us, 5 * SECOND,
                        15 * SECOND / 2);
        assert_int_equal(cluster.final.status, GW_EDEAD);
        snprintf(words, sizeof words, "%s died at step ", rows[i].name);
        assert_ptr_equal(strstr(cluster.text, words), cluster.text);
        assert_non_null(strstr(cluster.text, ": silent for 5."));
        cluster_close(&cluster);
    }
}

/* Its connection breaks, and does not come back: nobody waits. */
static void a_dead_one_is_not_waited_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        open_job(rows[i].policy);
        uint64_t since_us = gw_sim_now(cluster.sim);
        gw_sim_kill(rows[i].loop());
        gw_world_end_worker(&cluster.world, 1);
        assert_true(
            cluster_run_until(&cluster, cluster_is_over, &cluster, LIMIT_US));
        assert_in_range(gw_sim_now(cluster.sim) - since_us, SECOND / 2,
                        3 * SECOND);
        assert_int_equal(cluster.final.status, GW_EDEAD);
        cluster_close(&cluster);
    }
}

/* Its launcher sees it die while it is waited for. */
static void one_that_dies_meanwhile_is_not_either(void **state)
{
    (void)state;
    open_job("cluster.policy=sync");
    gw_sim_pause(cluster.server[1].loop, 60 * SECOND);
    cluster_pass(&cluster, 2 * SECOND);
    cluster_assert_told(&cluster, "; waiting 5 s for it");
    gw_coordinator_gone(cluster.coordinator, GW_WORLD_PID + 1, "killed");
    cluster_pass(&cluster, 2 * SECOND);
    assert_true(cluster.finished);
    assert_non_null(strstr(cluster.text, "server 1 (s, pid 301) died at step"));
    cluster_close(&cluster);
}

/* Members bear the silence of a coordinator that nobody could replace. */
static void a_paused_coordinator_is_waited_for(void **state)
{
    (void)state;
    open_job("cluster.policy=sync");
    gw_sim_pause(cluster.loop, 4 * SECOND);
    cluster_pass(&cluster, 3 * SECOND);
    assert_false(cluster.worker[0].finished);
    cluster_finish(&cluster, LIMIT_US);
    cluster_close(&cluster);
}

/* ---- in every weather ---- */

#define SEEDS      200
#define PAUSES_MAX 3

enum {
    COUNT_SERVERS,
    COUNT_WORKERS,
    COUNT_COORDINATORS,
    COUNT_BOTH,
};

/* No worker of these could be replaced. */
static const struct {
    const char *policy, *more;
    int is_together;
} way[] = {
    {"cluster.policy=sync", "train.loss_scale=dynamic", 1},
    {"cluster.policy=local:2", NULL, 1},
    {"cluster.policy=async", NULL, 0},
    {"cluster.policy=ssp:2", NULL, 0},
};
#define WAYS (sizeof way / sizeof *way)

static struct storm_calm calm_end[WAYS];

static void open_way(size_t which, const struct gw_sim_options *lines)
{
    const char *const settings[] = {way[which].policy, "checkpoint.dir=ck",
                                    "checkpoint.every=4 steps", way[which].more,
                                    NULL};
    cluster_open(&cluster, lines, settings, NULL);
}

/* Longer than a silence. */
static void pause_one(struct storm *storm, struct sweep_outcome *outcome)
{
    uint64_t us = SECOND + storm_draw(storm, 3 * SECOND);
    size_t who = storm_draw(storm, 3);
    if (who == 0) {
        gw_sim_pause(cluster.server[storm_draw(storm, 2)].loop, us);
        outcome->count[COUNT_SERVERS]++;
    } else if (who == 1) {
        gw_sim_pause(cluster.worker[storm_draw(storm, 3)].loop, us);
        outcome->count[COUNT_WORKERS]++;
    } else {
        gw_sim_pause(cluster.loop, us);
        outcome->count[COUNT_COORDINATORS]++;
    }
}

/* Connections break by nothing but silence: one that is closed by the other
   side, and does not come back, would be a death. */
static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options lines;
    size_t which = seed % WAYS;
    storm_begin(&storm, seed, &lines);
    open_way(which, &lines);
    for (uint64_t left = 1 + storm_draw(&storm, PAUSES_MAX);
         left > 0 &&
         cluster_run_until(&cluster, cluster_is_running, &cluster, LIMIT_US);
         left--) {
        cluster_pass(&cluster, storm_draw(&storm, 60000));
        if (cluster.finished)
            break;
        pause_one(&storm, outcome);
        if (storm_draw(&storm, 2)) {
            pause_one(&storm, outcome);
            outcome->count[COUNT_BOTH]++;
        }
        cluster_pass(&cluster, storm_draw(&storm, 2 * SECOND));
    }
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome) && way[which].is_together)
        storm_compare_told(&cluster, &calm_end[which], outcome);
    cluster_close(&cluster);
}

static void pauses_are_borne_in_every_weather(void **state)
{
    static const char *const happened[SWEEP_COUNTS] = {
        [COUNT_SERVERS] = "of a server",
        [COUNT_WORKERS] = "of a worker",
        [COUNT_COORDINATORS] = "of the coordinator",
        [COUNT_BOTH] = "of two",
    };
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        open_way(i, &calm);
        storm_stay_calm(&cluster, LIMIT_US, &calm_end[i]);
    }
    sweep_all("silent", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_was_paused_is_taken_back),
        cmocka_unit_test(patience_has_an_end),
        cmocka_unit_test(a_dead_one_is_not_waited_for),
        cmocka_unit_test(one_that_dies_meanwhile_is_not_either),
        cmocka_unit_test(a_paused_coordinator_is_waited_for),
        cmocka_unit_test(pauses_are_borne_in_every_weather),
    };
    int failed = cmocka_run_group_tests_name("suspect", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
