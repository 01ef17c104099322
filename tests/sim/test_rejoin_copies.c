/*
 * The coordinator of a job with copies dies at random times, alone, before or
 * behind a server or together with one, also while another server prepares or
 * another coordinator gathers its members: others take both places, and the job
 * comes to the bits of one in which nobody dies.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/checkpoint/membership.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"
#include "server/server_state.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"
#include "transport/member/member.h"

#define SEEDS       300
#define DEATHS_MAX  3
#define LIMIT_US    240000000
#define LOOK_US     50000
#define WATCH_US    100
#define MOVES_US    20000   /* a thread is away for about so long */
#define LATE_US     2500000 /* another process comes within it */
#define SLOW        1000
#define TOGETHER_US 3000  /* within the telling of a death */
#define PREPARES_US 30000 /* a server joins and is named */

enum {
    COUNT_ALONE = STORM_COUNTS,
    COUNT_BEFORE, /* the coordinator, and then a server */
    COUNT_BEHIND, /* a server, and then the coordinator */
    COUNT_SILENT, /* the same, of a server that was only silent */
    COUNT_LEADERS,
    COUNT_PREPARES, /* while another server did */
    COUNT_MOVES,    /* while a shard moved */
    COUNT_CAUGHT,
    COUNT_TOO_LATE,
};

static struct cluster cluster;

#define COPIES "cluster.copies=2", "checkpoint.dir=ck"
#define SAVES  COPIES, "checkpoint.every=3 steps"

static const struct {
    const char *name;
    const char *settings[8];
} way[] = {
    {"plain", {COPIES, "checkpoint.every=never", NULL}},
    {"scored",
     {SAVES, "train.eval_every=2 steps", "train.weights=bf16",
      "optimizer.kind=adam", NULL}},
    {"three", {SAVES, "cluster.servers=3", NULL}},
    {"links", {SAVES, "cluster.connections=3", "cluster.servers=4", NULL}},
    {"clip", {SAVES, "train.clip=0.1", NULL}},
    {"lamb",
     {SAVES, "optimizer.kind=lamb", "train.nonfinite=skip",
      "train.eval_every=2 steps", NULL}},
    {"scale", {SAVES, "train.loss_scale=dynamic", NULL}},
};
#define WAYS (sizeof way / sizeof *way)

static struct storm_calm calm[WAYS];

struct deaths {
    struct storm storm;
    struct sweep_outcome *outcome;
    uint64_t step;
    int has_head;   /* there is a coordinator, */
    int lacks;      /* and a server is to be replaced */
    int is_planned; /* what is drawn has not happened */
    int waylays;    /* the coordinator dies while the next server prepares */
    size_t who;     /* the server */
};

/* ---- what others know ---- */

/* The register says that each shard has two copies: else a death of both
   processes is the end. */
static int is_registered(void)
{
    struct gw_membership membership;
    uint64_t shards = 0, caught = 0;
    if (gw_membership_read(cluster_checkpoints(&cluster), &membership, NULL) !=
        GW_OK)
        return 0;
    for (size_t i = 0; i < membership.members; i++) {
        shards += membership.member[i].role == GW_ROLE_SERVER;
        caught += membership.member[i].caught;
    }
    gw_membership_free(&membership);
    return shards > 0 && caught == shards;
}

static int has_copies(const struct deaths *deaths)
{
    const struct gw_coordinator *self = cluster.coordinator;
    return deaths->has_head && !deaths->lacks &&
           self->phase == GW_PHASE_RUNNING &&
           gw_copies_caught_up(self) == gw_roster_shards(self) &&
           is_registered();
}

static int it_is_time(void *owner)
{
    const struct deaths *deaths = owner;
    return cluster.finished || (!deaths->is_planned && has_copies(deaths) &&
                                cluster.steps >= deaths->step);
}

/* ---- deaths, and others that come, as supervisors start them ---- */

static void come_to_lead(void *owner)
{
    struct deaths *deaths = owner;
    cluster_replace_coordinator(&cluster);
    storm_blow_at(&deaths->storm, cluster.loop);
    deaths->has_head = 1;
}

/* A thread has left, or is about to, and is no member again yet. */
static int is_any_away(void)
{
    const struct gw_coordinator *self = cluster.coordinator;
    const struct gw_seat *one = gw_roster_first(self);
    while (one && !one->moves)
        one = one->next;
    if (one)
        return 1;
    one = gw_roster_gone(self);
    while (one && (!one->moves || one->is_replaced))
        one = one->next;
    return one != NULL;
}

static void lose_head(void *owner)
{
    struct deaths *deaths = owner;
    if (cluster.finished || !deaths->has_head ||
        cluster.coordinator->phase >= GW_PHASE_ENDING)
        return;
    deaths->outcome->count[COUNT_PREPARES] +=
        cluster.coordinator->phase == GW_PHASE_RUNNING && deaths->lacks &&
        !cluster.server[deaths->who].finished;
    deaths->outcome->count[COUNT_MOVES] += (uint64_t)is_any_away();
    cluster_kill_coordinator(&cluster);
    deaths->has_head = 0;
    gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, LATE_US),
              come_to_lead, deaths);
}

/* Until it is taken, which it may be only once it is heard for long enough. */
static void come_to_serve(void *owner)
{
    struct deaths *deaths = owner;
    const struct gw_world_server *server = &cluster.server[deaths->who];
    const struct gw_coordinator *self = cluster.coordinator;
    int is_gone = server->finished || server->killed;
    if (cluster.finished)
        return;
    if (deaths->has_head && self->phase == GW_PHASE_RUNNING && is_gone &&
        !gw_decided_has_end(self) && gw_places_are_open(self)) {
        cluster_replace_server(&cluster, deaths->who);
        cluster.excused[deaths->who] = 1; /* it may be too late for a copy */
        storm_blow_at(&deaths->storm, cluster.server[deaths->who].loop);
        if (deaths->waylays)
            gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, PREPARES_US),
                      lose_head, deaths);
        deaths->waylays = 0;
    }
    deaths->lacks = is_gone || !deaths->has_head || gw_places_are_open(self);
    if (deaths->lacks)
        gw_sim_at(cluster.sim, LOOK_US, come_to_serve, owner);
}

static int leads(size_t who)
{
    const struct gw_world_server *one = &cluster.server[who];
    const struct gw_server *leader = cluster_server(&cluster, 0);
    return leader == one->server || leader == one->standby;
}

/* Perhaps long behind the coordinator, while a shard moves. */
static int would_be_the_end(const struct deaths *deaths)
{
    const struct gw_coordinator *self = cluster.coordinator;
    return deaths->has_head && self->phase == GW_PHASE_RUNNING &&
           gw_copies_caught_up(self) < gw_roster_shards(self);
}

static void lose_server(void *owner)
{
    struct deaths *deaths = owner;
    if (cluster.finished || deaths->lacks || would_be_the_end(deaths))
        return;
    deaths->outcome->count[COUNT_LEADERS] += leads(deaths->who) != 0;
    gw_world_end_server(&cluster.world, deaths->who);
    deaths->lacks = 1;
    gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, LATE_US),
              come_to_serve, deaths);
}

static int is_named(size_t who)
{
    for (const struct gw_seat *one = gw_roster_first(cluster.coordinator); one;
         one = one->next)
        if (one->pid == GW_WORLD_PID + who)
            return 1;
    return 0;
}

/* The coordinator has just decided to go on without the server, which comes
   back soon: others may have heard of that, or not. */
static void lose_head_in_time(void *owner)
{
    struct deaths *deaths = owner;
    if (cluster.finished || !deaths->has_head ||
        cluster.coordinator->phase != GW_PHASE_RUNNING)
        return;
    if (is_named(deaths->who))
        gw_sim_at(cluster.sim, WATCH_US, lose_head_in_time, owner);
    else
        gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, 1000), lose_head,
                  owner);
}

/* The other one has come, and caught up. */
static void lose_head_moving(void *owner)
{
    struct deaths *deaths = owner;
    if (cluster.finished || !deaths->has_head)
        return;
    if (!is_any_away())
        gw_sim_at(cluster.sim, WATCH_US, lose_head_moving, owner);
    else
        gw_sim_at(cluster.sim, 1 + storm_draw(&deaths->storm, MOVES_US),
                  lose_head, owner);
}

static void silence_server(struct deaths *deaths)
{
    gw_sim_pause(cluster.server[deaths->who].loop,
                 GW_SILENCE_US + storm_draw(&deaths->storm, LATE_US));
    cluster.excused[deaths->who] = 1; /* it is taken back, or refused */
    deaths->lacks = 1;
    gw_sim_at(cluster.sim, GW_SILENCE_US / 2, lose_head_in_time, deaths);
    gw_sim_at(cluster.sim, 2 * LATE_US, come_to_serve, deaths);
}

static void die(void *owner)
{
    struct deaths *deaths = owner;
    struct storm *storm = &deaths->storm;
    unsigned kind = (unsigned)storm_draw(storm, 8);
    deaths->is_planned = 0;
    if (cluster.finished || !has_copies(deaths) ||
        gw_decided_has_end(cluster.coordinator)) {
        deaths->outcome->count[COUNT_TOO_LATE]++;
        return;
    }
    deaths->who = storm_draw(storm, cluster.servers);
    if (kind == 0) {
        deaths->outcome->count[COUNT_ALONE]++;
        lose_head(deaths);
    } else if (kind < 3) {
        deaths->outcome->count[COUNT_BEFORE]++;
        lose_head(deaths);
        gw_sim_at(cluster.sim, 1 + storm_draw(storm, 2 * LATE_US), lose_server,
                  deaths);
    } else if (kind == 6) {
        deaths->outcome->count[COUNT_SILENT]++;
        silence_server(deaths);
    } else {
        deaths->outcome->count[COUNT_BEHIND]++;
        lose_server(deaths);
        deaths->waylays = kind == 3;
        if (kind == 7)
            gw_sim_at(cluster.sim, WATCH_US, lose_head_moving, deaths);
        else if (kind > 3)
            gw_sim_at(cluster.sim,
                      1 + storm_draw(storm, kind == 4 ? TOGETHER_US : LATE_US),
                      lose_head, deaths);
    }
}

static int one_dies(struct deaths *deaths)
{
    struct storm *storm = &deaths->storm;
    deaths->step = cluster.steps + storm_draw(storm, 5);
    if (!cluster_run_until(&cluster, it_is_time, deaths, LIMIT_US) ||
        cluster.finished)
        return 0;
    deaths->outcome->count[COUNT_CAUGHT] += cluster.world.servers_replaced > 0;
    deaths->is_planned = 1;
    gw_sim_at(cluster.sim, storm_draw(storm, 30000), die, deaths);
    return 1;
}

/* Its weights are old, whether it knows that or not. */
static void forget_the_lost(void)
{
    for (size_t i = 0; i < cluster.servers; i++)
        if (!is_named(i))
            cluster.server[i].killed = 1;
}

static int ran(struct sweep_outcome *outcome)
{
    int is_over = storm_run(&cluster, LIMIT_US, outcome);
    forget_the_lost();
    return is_over;
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct deaths deaths = {.outcome = outcome, .has_head = 1};
    struct gw_sim_options lines;
    size_t which = seed % WAYS;
    storm_begin(&deaths.storm, seed, &lines);
    cluster_open(&cluster, &lines, way[which].settings, NULL);
    storm_blow(&deaths.storm, &cluster);
    for (size_t i = 0; i < cluster.workers; i++)
        gw_sim_slow(cluster.worker[i].loop, SLOW); /* so that it takes time */
    for (uint64_t left = 1 + storm_draw(&deaths.storm, DEATHS_MAX);
         left > 0 && one_dies(&deaths); left--)
        continue;
    if (ran(outcome) && storm_ends_with(&cluster, GW_OK, outcome))
        storm_compare_told(&cluster, &calm[which], outcome);
    storm_close(&deaths.storm, &cluster, way[which].name, outcome);
}

static void both_are_replaced(void **state)
{
    static const char *const happened[SWEEP_COUNTS] = {
        STORM_HAPPENED,
        [COUNT_ALONE] = "deaths",
        [COUNT_BEFORE] = "before a server",
        [COUNT_BEHIND] = "behind one",
        [COUNT_SILENT] = "behind a silent one",
        [COUNT_LEADERS] = "of shard 0",
        [COUNT_PREPARES] = "while one prepared",
        [COUNT_MOVES] = "while one moved",
        [COUNT_CAUGHT] = "caught up",
        [COUNT_TOO_LATE] = "too late",
    };
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        cluster_open(&cluster, &lines, way[i].settings, NULL);
        storm_stay_calm(&cluster, LIMIT_US, &calm[i]);
    }
    sweep_all("both", SEEDS, one, happened);
}

int main(void)
{
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_are_replaced),
    };
    int failed =
        cmocka_run_group_tests_name("rejoin_copies", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
