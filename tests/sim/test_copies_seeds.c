/*
 * Servers die at random times, or stand still for longer than a silence, in
 * every weather: their standbys take their place, and other processes come and
 * get copies. The job comes to the bits of one in which nobody dies, and so do
 * its checkpoints.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "transport/member/member.h"

#define SEEDS      300
#define DEATHS_MAX 3
#define LIMIT_US   120000000
#define LOOK_US    50000
#define LATE_US    1500000 /* another server comes within it */

enum {
    COUNT_DEATHS = STORM_COUNTS,
    COUNT_LEADERS, /* of shard 0 */
    COUNT_PAUSES,  /* longer than a silence */
    COUNT_LEAVES,  /* in order */
    COUNT_CAUGHT,  /* another one had all */
    COUNT_WORKERS, /* that died, too */
    COUNT_TOO_LATE,
};

static struct cluster cluster;

#define COPIES "cluster.copies=2"
#define SAVES  "checkpoint.dir=ck", "checkpoint.every=3 steps"

static const struct {
    const char *name, *houses;
    const char *settings[8];
} way[] = {
    {"plain", NULL, {COPIES, NULL}},
    {"saved", NULL, {COPIES, SAVES, NULL}},
    {"scored",
     NULL,
     {COPIES, SAVES, "train.eval_every=2 steps", "train.weights=bf16",
      "optimizer.kind=adam", NULL}},
    {"three", NULL, {COPIES, SAVES, "cluster.servers=3", NULL}},
    {"links",
     NULL,
     {COPIES, "cluster.connections=3", "cluster.servers=4", NULL}},
    {"clip", NULL, {COPIES, SAVES, "train.clip=0.1", NULL}},
    {"lamb",
     NULL,
     {COPIES, SAVES, "optimizer.kind=lamb", "train.nonfinite=skip",
      "train.eval_every=2 steps", NULL}},
    {"scale", NULL, {COPIES, "train.loss_scale=dynamic", NULL}},
    {"groups", "aab", {COPIES, "cluster.local_reduction=on", NULL}},
    {"workers", NULL, {COPIES, SAVES, "optimizer.kind=adam", NULL}},
};
#define WAYS (sizeof way / sizeof *way)

static struct storm_calm calm[WAYS];

struct deaths {
    struct storm storm;
    struct sweep_outcome *outcome;
    uint64_t step;
    int is_coming; /* the death that is drawn */
    int is_away;   /* the last one that died has not been replaced yet */
    size_t who;
    int replaces; /* workers, too */
    size_t rank;  /* the one that died */
};

static int has_copies(const struct deaths *deaths)
{
    const struct gw_coordinator *self = cluster.coordinator;
    return cluster.running && !deaths->is_away &&
           gw_copies_caught_up(self) == gw_roster_shards(self);
}

static int it_is_time(void *owner)
{
    const struct deaths *deaths = owner;
    return cluster.finished || (!deaths->is_coming && has_copies(deaths) &&
                                cluster.steps >= deaths->step);
}

/* As a supervisor does, until it is taken. */
static void come(void *owner)
{
    struct deaths *deaths = owner;
    if (cluster.finished || gw_decided_has_end(cluster.coordinator))
        return; /* the weights may be at the one that died */
    if (gw_places_are_open(cluster.coordinator)) {
        cluster_replace_server(&cluster, deaths->who);
        cluster.excused[deaths->who] = 1; /* it may be too late for a copy */
        deaths->is_away = 0;
    } else {
        gw_sim_at(cluster.sim, LOOK_US, come, deaths);
    }
}

/* As a supervisor does, too. */
static void come_to_work(void *owner)
{
    struct deaths *deaths = owner;
    const struct gw_world_worker *worker = &cluster.worker[deaths->rank];
    if (cluster.finished || (worker->finished && worker->status == GW_OK))
        return;
    if (worker->finished) {
        cluster_replace_worker(&cluster, deaths->rank);
        storm_blow_at(&deaths->storm, cluster.worker[deaths->rank].loop);
    }
    gw_sim_at(cluster.sim, LOOK_US, come_to_work, owner);
}

static void kill_worker(struct deaths *deaths)
{
    size_t rank = (size_t)storm_draw(&deaths->storm, cluster.workers);
    struct gw_world_worker *worker = &cluster.worker[rank];
    if (!deaths->replaces || worker->finished ||
        gw_decided_has_end(cluster.coordinator))
        return;
    deaths->replaces = 0;
    deaths->rank = rank;
    gw_world_end_worker(&cluster.world, rank);
    worker->status = GW_EDEAD;
    deaths->outcome->count[COUNT_WORKERS]++;
    gw_sim_at(cluster.sim, storm_draw(&deaths->storm, LATE_US), come_to_work,
              deaths);
}

static int leads(size_t who)
{
    const struct gw_world_server *one = &cluster.server[who];
    const struct gw_server *leader = cluster_server(&cluster, 0);
    return leader == one->server || leader == one->standby;
}

static void die(void *owner)
{
    struct deaths *deaths = owner;
    size_t who = storm_draw(&deaths->storm, cluster.servers);
    deaths->is_coming = 0;
    deaths->who = who;
    if (cluster.finished || cluster.coordinator->phase != GW_PHASE_RUNNING ||
        !has_copies(deaths)) {
        deaths->outcome->count[COUNT_TOO_LATE]++;
        return;
    }
    deaths->outcome->count[COUNT_LEADERS] += leads(who) != 0;
    kill_worker(deaths);
    deaths->is_away = 1;
    gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, LATE_US), come,
              deaths);
    uint64_t kind = storm_draw(&deaths->storm, 6);
    if (kind == 0) {
        gw_server_leave(cluster.server[who].server, "a test");
        cluster.server[who].killed = 1; /* its weights will be old */
        deaths->outcome->count[COUNT_LEAVES]++;
        return;
    }
    if (kind == 1) {
        gw_sim_pause(cluster.server[who].loop,
                     GW_SILENCE_US + storm_draw(&deaths->storm, 3000000));
        deaths->outcome->count[COUNT_PAUSES]++;
        cluster.server[who].killed = 1; /* it is given up */
        return;
    }
    gw_world_end_server(&cluster.world, who);
    deaths->outcome->count[COUNT_DEATHS]++;
}

static int one_dies(struct deaths *deaths)
{
    struct storm *storm = &deaths->storm;
    deaths->step = cluster.steps + storm_draw(storm, 5);
    if (!cluster_run_until(&cluster, it_is_time, deaths, LIMIT_US) ||
        cluster.finished)
        return 0;
    deaths->outcome->count[COUNT_CAUGHT] += cluster.world.servers_replaced > 0;
    deaths->is_coming = 1;
    gw_sim_at(cluster.sim, storm_draw(storm, 30000), die, deaths);
    return 1;
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct deaths deaths = {.outcome = outcome};
    struct gw_sim_options lines;
    size_t which = seed % WAYS;
    storm_begin(&deaths.storm, seed, &lines);
    deaths.replaces = strcmp(way[which].name, "workers") == 0;
    cluster.houses = way[which].houses;
    cluster_open(&cluster, &lines, way[which].settings, NULL);
    storm_blow(&deaths.storm, &cluster);
    for (uint64_t left = 1 + storm_draw(&deaths.storm, DEATHS_MAX);
         left > 0 && one_dies(&deaths); left--)
        continue;
    if (storm_run(&cluster, LIMIT_US, outcome) &&
        storm_ends_with(&cluster, GW_OK, outcome))
        storm_compare_told(&cluster, &calm[which], outcome);
    storm_close(&deaths.storm, &cluster, way[which].name, outcome);
}

static void a_standby_takes_its_place(void **state)
{
    static const char *const happened[SWEEP_COUNTS] = {
        STORM_HAPPENED,
        [COUNT_DEATHS] = "deaths",
        [COUNT_LEADERS] = "of shard 0",
        [COUNT_PAUSES] = "long pauses",
        [COUNT_LEAVES] = "asked to leave",
        [COUNT_CAUGHT] = "caught up",
        [COUNT_WORKERS] = "workers",
        [COUNT_TOO_LATE] = "too late",
    };
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        cluster.houses = way[i].houses;
        cluster_open(&cluster, &lines, way[i].settings, NULL);
        storm_stay_calm(&cluster, LIMIT_US, &calm[i]);
    }
    sweep_all("standby", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_takes_its_place),
    };
    int failed = cmocka_run_group_tests_name("copies_seeds", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
