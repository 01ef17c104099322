/*
 * The coordinator dies at random times, again and again, also together with a
 * worker, and another one takes its place: the job comes to the bits of one in
 * which nobody dies, whatever the weather, and so do its checkpoints.
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

#include "server/checkpoint/membership.h"
#include "server/coordinator/coordinator_state.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "transport/member/member.h"

#define SEEDS      300
#define STEPS      10
#define DEATHS_MAX 3
#define LIMIT_US   120000000
#define LATE_US    2500000 /* another coordinator comes within it */
#define LOOK_US    50000

enum {
    COUNT_DEATHS = STORM_COUNTS,
    COUNT_SHORT, /* of less than a silence */
    COUNT_END,   /* the job was done before it was back */
    COUNT_BOTH,  /* together with a worker */
    COUNT_TOO_LATE,
};

static struct cluster cluster;

#define SAVES "checkpoint.dir=ck", "checkpoint.every=3 steps"

/* Jobs: where steps are made by all ranks together the bits are compared. */
static const struct {
    const char *name;
    int is_together, replaces; /* a worker, too */
    const char *settings[8];
} way[] = {
    {"streaming", 1, 1, {SAVES, NULL}},
    {"whole", 1, 1, {SAVES, "train.clip=0.1", NULL}},
    {"scored",
     1,
     1,
     {SAVES, "train.weights=bf16", "train.eval_every=2 steps",
      "optimizer.kind=adam", NULL}},
    {"lamb",
     1,
     1,
     {SAVES, "optimizer.kind=lamb", "train.nonfinite=skip", NULL}},
    {"plan",
     1,
     0,
     {SAVES, "cluster.policy=sync until 4, local:2 until 8, sync", NULL}},
    {"local",
     1,
     0,
     {SAVES, "cluster.policy=local:2", "train.eval_every=4 steps", NULL}},
    {"backup", 0, 0, {SAVES, "cluster.policy=backup:1", NULL}},
    {"async", 0, 0, {SAVES, "cluster.policy=async", NULL}},
    {"ssp",
     0,
     0,
     {SAVES, "cluster.policy=ssp:2", "train.eval_every=4 steps", NULL}},
    {"turns", 0, 0, {SAVES, "cluster.policy=async until 5, sync", NULL}},
};
#define WAYS (sizeof way / sizeof *way)

static struct storm_calm calm[WAYS];

struct deaths {
    struct storm storm;
    struct sweep_outcome *outcome;
    unsigned left;
    int replaces;
    uint64_t step; /* to be reported before the next one */
    int is_coming; /* the next one is to die, or to be back */
    size_t rank;   /* of the worker that died as well */
};

static int it_is_time(void *owner)
{
    const struct deaths *deaths = owner;
    return cluster.finished ||
           (cluster.running && cluster.steps >= deaths->step);
}

static int has_come(void *owner)
{
    const struct deaths *deaths = owner;
    return !deaths->is_coming;
}

/* As a supervisor does, until it is taken. */
static void look(void *owner)
{
    struct deaths *deaths = owner;
    const struct gw_world_worker *worker = &cluster.worker[deaths->rank];
    if (cluster.finished || (worker->finished && worker->status == GW_OK))
        return;
    if (worker->finished) {
        cluster_replace_worker(&cluster, deaths->rank);
        storm_blow_at(&deaths->storm, cluster.worker[deaths->rank].loop);
    }
    gw_sim_at(cluster.sim, LOOK_US, look, owner);
}

static int is_done(void)
{
    const struct gw_server *server = cluster.server[0].server;
    return server->shard->chunk[0].version >= STEPS;
}

static void come(void *owner)
{
    struct deaths *deaths = owner;
    deaths->outcome->count[COUNT_END] += is_done() != 0;
    cluster_replace_coordinator(&cluster);
    storm_blow_at(&deaths->storm, cluster.loop);
    deaths->is_coming = 0;
}

/* One that nobody can replace would be the end. */
static void kill_worker(struct deaths *deaths)
{
    struct gw_world_worker *worker;
    deaths->rank = (size_t)storm_draw(&deaths->storm, cluster.workers);
    worker = &cluster.worker[deaths->rank];
    if (!deaths->replaces || storm_draw(&deaths->storm, 3) > 0 ||
        worker->finished || is_done())
        return;
    gw_world_end_worker(&cluster.world, deaths->rank);
    worker->status = GW_EDEAD;
    deaths->outcome->count[COUNT_BOTH]++;
    gw_sim_at(cluster.sim, storm_draw(&deaths->storm, LATE_US), look, deaths);
}

static void die(void *owner)
{
    struct deaths *deaths = owner;
    uint64_t late_us = storm_draw(&deaths->storm, LATE_US);
    if (cluster.finished || cluster.coordinator->phase != GW_PHASE_RUNNING ||
        !cluster_has_register(&cluster)) {
        deaths->outcome->count[COUNT_TOO_LATE]++;
        deaths->is_coming = 0;
        return;
    }
    cluster_kill_coordinator(&cluster);
    deaths->outcome->count[COUNT_DEATHS]++;
    deaths->outcome->count[COUNT_SHORT] += late_us < GW_SILENCE_US;
    gw_sim_at(cluster.sim, late_us, come, deaths);
    kill_worker(deaths);
}

static int one_dies(struct deaths *deaths)
{
    struct storm *storm = &deaths->storm;
    deaths->step = cluster.steps + storm_draw(storm, STEPS / 2);
    if (storm_draw(storm, 2))
        deaths->step = 0; /* soon after the one before */
    if (!cluster_run_until(&cluster, it_is_time, deaths, LIMIT_US) ||
        cluster.finished)
        return 0;
    deaths->is_coming = 1;
    gw_sim_at(cluster.sim, storm_draw(storm, 30000), die, deaths);
    cluster_run_until(&cluster, has_come, deaths, LIMIT_US);
    cluster_pass(&cluster, storm_draw(storm, 30000));
    return 1;
}

/* The last checkpoint is whole, and nothing of the register is left. */
static void look_at_files(struct sweep_outcome *outcome)
{
    struct gw_disk *dir = cluster_checkpoints(&cluster);
    struct gw_membership membership;
    struct gw_manifest manifest;
    uint64_t newest;
    if (!gw_store_newest_there(dir, &newest) ||
        newest != cluster.final.checkpoint ||
        gw_store_whole(dir, newest, &manifest, NULL) != GW_OK) {
        snprintf(outcome->why, sizeof outcome->why,
                 "its last checkpoint is not whole");
        return;
    }
    gw_manifest_free(&manifest);
    if (gw_membership_read(dir, &membership, NULL) == GW_ENOENT)
        return;
    snprintf(outcome->why, sizeof outcome->why, "the register is left");
}

/* Steps that were made meanwhile are without a report. */
static void compare(size_t which, struct sweep_outcome *outcome)
{
    if (!storm_ends_with(&cluster, GW_OK, outcome))
        return;
    look_at_files(outcome);
    if (way[which].is_together)
        storm_compare_told(&cluster, &calm[which], outcome);
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct deaths deaths = {.outcome = outcome};
    struct gw_sim_options lines;
    size_t which = seed % WAYS;
    storm_begin(&deaths.storm, seed, &lines);
    deaths.left = 1 + (unsigned)storm_draw(&deaths.storm, DEATHS_MAX);
    deaths.replaces = way[which].replaces;
    cluster_open(&cluster, &lines, way[which].settings, NULL);
    storm_blow(&deaths.storm, &cluster);
    while (deaths.left-- > 0 && one_dies(&deaths))
        continue;
    if (storm_run(&cluster, LIMIT_US, outcome))
        compare(which, outcome);
    storm_close(&deaths.storm, &cluster, way[which].name, outcome);
}

static void another_one_takes_its_place(void **state)
{
    static const char *const happened[SWEEP_COUNTS] = {
        STORM_HAPPENED,
        [COUNT_DEATHS] = "deaths",
        [COUNT_SHORT] = "short ones",
        [COUNT_END] = "till the end",
        [COUNT_BOTH] = "with a worker",
        [COUNT_TOO_LATE] = "too late",
    };
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        cluster_open(&cluster, &lines, way[i].settings, NULL);
        storm_stay_calm(&cluster, LIMIT_US, &calm[i]);
    }
    sweep_all("rejoined", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_one_takes_its_place),
    };
    int failed = cmocka_run_group_tests_name("rejoin_seeds", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
