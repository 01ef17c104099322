/*
 * Workers die at random times, and others take their places: the job comes to
 * the bits of one in which nobody dies, whatever the weather.
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

#include "server/coordinator/coordinator_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "transport/member/member.h"

#define SEEDS      300
#define STEPS      10
#define DEATHS_MAX 3
#define LIMIT_US   120000000
#define LATE_US    2000000 /* a new worker comes within it */
#define LOOK_US    50000
#define LOOKS      100

enum {
    COUNT_DEATHS = STORM_COUNTS,
    COUNT_AGAIN, /* of one that had taken a place */
    COUNT_FIRST, /* of rank 0 */
    COUNT_BACK,  /* it was silent only */
    COUNT_TOO_LATE,
};

static struct cluster cluster;

/* Ways to make a step. */
static const struct {
    const char *name;
    const char *settings[8];
} way[] = {
    {"streaming", {NULL}},
    {"whole", {"train.clip=0.1", NULL}},
    {"bf16", {"train.weights=bf16", "train.eval_every=2 steps", NULL}},
    {"saved",
     {"checkpoint.dir=ck", "checkpoint.every=3 steps",
      "train.eval_every=3 steps", "optimizer.kind=adam", NULL}},
    {"lamb", {"optimizer.kind=lamb", "train.nonfinite=skip", NULL}},
    {"skips",
     {"optimizer.lr=1e6", "train.nonfinite=skip",
      "model.layers=[784, 64, 64, 64, 64, 64, 10]", "train.steps=4", NULL}},
    {"links",
     {"cluster.connections=3", "train.weights=bf16", "train.accumulate=2",
      NULL}},
    {"crowd",
     {"cluster.workers=6", "cluster.servers=1", "train.weights=bf16",
      "train.eval_every=2 steps", NULL}},
};
#define WAYS (sizeof way / sizeof *way)

static struct storm_calm calm[WAYS];

struct deaths;

/* A rank, and what became of its worker. */
struct place {
    struct deaths *deaths;
    size_t rank;
    unsigned deaths_n;
    unsigned looks; /* at the new one, for as long as it may be refused */
    int is_dead;
};

/* Deaths of a seed. */
struct deaths {
    struct storm storm;
    struct sweep_outcome *outcome;
    unsigned left;
    uint64_t step; /* to be reported before the next one */
    struct place place[CLUSTER_MAX];
    struct place *victim;
    int is_coming; /* the next one is to die, or to be back */
    int at_once;   /* the next one dies before it is back */
};

static void plan(struct deaths *deaths)
{
    struct storm *storm = &deaths->storm;
    deaths->step = cluster.steps + storm_draw(storm, STEPS / 2);
    if (storm_draw(storm, 2))
        deaths->step = 0; /* soon after the one before */
    deaths->at_once = storm_draw(storm, 2) == 0;
    deaths->victim = &deaths->place[storm_draw(storm, cluster.workers)];
}

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

static void come(void *owner);

/* As a supervisor does, for one that could not join, since the job did not know
   of the death yet, and for one that was silent, and missed the others. */
static void look(void *owner)
{
    struct place *place = owner;
    const struct gw_world_worker *worker = &cluster.worker[place->rank];
    if (place->is_dead)
        return;
    if (worker->finished && worker->status != GW_OK)
        come(owner);
    else if (place->looks-- > 0)
        gw_sim_at(cluster.sim, LOOK_US, look, owner);
}

static void come(void *owner)
{
    struct place *place = owner;
    size_t rank = place->rank;
    if (place == place->deaths->victim)
        place->deaths->is_coming = 0;
    /* the job may be over for a worker that has said good-bye */
    if (cluster.coordinator->phase >= GW_PHASE_ENDING) {
        gw_world_end_worker(&cluster.world, rank);
        cluster.worker[rank].status = GW_OK;
        return;
    }
    cluster_replace_worker(&cluster, rank);
    storm_blow_at(&place->deaths->storm, cluster.worker[rank].loop);
    place->is_dead = 0;
    place->looks = LOOKS;
    gw_sim_at(cluster.sim, LOOK_US, look, place);
}

/* It is silent for so long that it is as good as dead, and comes back. */
static void stand_still(struct place *place, struct gw_loop *loop)
{
    struct deaths *deaths = place->deaths;
    gw_sim_pause(loop, GW_SILENCE_US + storm_draw(&deaths->storm, LATE_US));
    deaths->outcome->count[COUNT_BACK]++;
    deaths->is_coming = 0;
    place->looks = LOOKS; /* it may be given up */
    gw_sim_at(cluster.sim, GW_SILENCE_US, look, place);
}

static void die(void *owner)
{
    struct deaths *deaths = owner;
    struct place *place = deaths->victim;
    struct gw_world_worker *worker = &cluster.worker[place->rank];
    struct sweep_outcome *outcome = deaths->outcome;
    if (cluster.finished || worker->finished || place->is_dead) {
        outcome->count[COUNT_TOO_LATE]++;
        deaths->is_coming = 0;
        return;
    }
    if (storm_draw(&deaths->storm, 4) == 0) {
        stand_still(place, worker->loop);
        return;
    }
    gw_sim_kill(worker->loop);
    place->is_dead = 1;
    deaths->is_coming = !deaths->at_once;
    outcome->count[COUNT_DEATHS]++;
    outcome->count[COUNT_AGAIN] += place->deaths_n++ > 0;
    outcome->count[COUNT_FIRST] += place->rank == 0;
    gw_sim_at(cluster.sim, storm_draw(&deaths->storm, LATE_US), come, place);
}

static int one_dies(struct deaths *deaths)
{
    struct storm *storm = &deaths->storm;
    plan(deaths);
    if (!cluster_run_until(&cluster, it_is_time, deaths, LIMIT_US))
        return 0;
    deaths->is_coming = 1;
    gw_sim_at(cluster.sim, storm_draw(storm, 3000), die, deaths);
    cluster_run_until(&cluster, has_come, deaths, LIMIT_US);
    cluster_pass(&cluster, storm_draw(storm, 30000));
    return 1;
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct deaths deaths = {.outcome = outcome};
    struct gw_sim_options lines;
    size_t which = seed % WAYS;
    storm_begin(&deaths.storm, seed, &lines);
    deaths.left = 1 + (unsigned)storm_draw(&deaths.storm, DEATHS_MAX);
    cluster_open(&cluster, &lines, way[which].settings, NULL);
    storm_blow(&deaths.storm, &cluster);
    for (size_t i = 0; i < cluster.workers; i++)
        deaths.place[i] = (struct place){.deaths = &deaths, .rank = i};
    while (deaths.left-- > 0 && one_dies(&deaths))
        continue;
    /* a step that a worker died behind may be without its report */
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome))
        storm_compare_told(&cluster, &calm[which], outcome);
    storm_count(&deaths.storm, outcome);
    cluster_close(&cluster);
}

static void the_dead_are_replaced(void **state)
{
    static const char *const happened[SWEEP_COUNTS] = {
        STORM_HAPPENED,
        [COUNT_DEATHS] = "deaths",
        [COUNT_AGAIN] = "of one that came later",
        [COUNT_FIRST] = "of rank 0",
        [COUNT_BACK] = "long silences",
        [COUNT_TOO_LATE] = "too late",
    };
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        cluster_open(&cluster, &lines, way[i].settings, NULL);
        storm_stay_calm(&cluster, LIMIT_US, &calm[i]);
    }
    sweep_all("replaced", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_are_replaced),
    };
    int failed = cmocka_run_group_tests_name("replace", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
