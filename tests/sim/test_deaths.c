/*
 * A member dies at a random time: the job ends in order. Everyone who is left
 * says in one line who died and at which step, in time, and the last checkpoint
 * leads to the bits of a job that was left alone.
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

#include "server/checkpoint/store.h"
#include "tests/sim/cluster.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define SEEDS    300
#define STEPS    10
#define LIMIT_US 60000000
#define NAMED_US 1500000
#define ENDED_US 3000000

enum {
    COUNT_WORKERS,
    COUNT_SERVERS,
    COUNT_COORDINATORS,
    COUNT_TOO_LATE,
    COUNT_RESUMED,
};

static struct cluster cluster;
static char calm[65];

/* Whom a seed kills, and what became of it. */
struct death {
    struct storm storm;
    struct gw_loop *victim;
    char name[32]; /* as the others call it */
    uint64_t step; /* to be reported before it dies */
    uint64_t died_us, named_us;
};

/* Workers that push a sum, where they share a house. */
static const char *const settings[] = {
    "checkpoint.dir=ck", "checkpoint.every=3 steps",
    "cluster.local_reduction=on", "cluster.patience=0", NULL};

static void choose(struct death *death, struct sweep_outcome *outcome)
{
    struct storm *storm = &death->storm;
    size_t which = storm_draw(storm, 3);
    if (which == 0) {
        size_t i = storm_draw(storm, cluster.workers);
        death->victim = cluster.worker[i].loop;
        snprintf(death->name, sizeof death->name, "worker %zu (", i);
    } else if (which == 1) {
        /* servers are numbered as they join: the name is found out later */
        size_t i = storm_draw(storm, cluster.servers);
        death->victim = cluster.server[i].loop;
        snprintf(death->name, sizeof death->name, "pid %zu)", 300 + i);
    } else {
        death->victim = cluster.loop;
        snprintf(death->name, sizeof death->name, "coordinator (");
    }
    outcome->count[COUNT_WORKERS + which]++;
    death->step = storm_draw(storm, STEPS);
}

static int it_is_time(void *owner)
{
    const struct death *death = owner;
    return cluster.finished ||
           (cluster.running && cluster.steps >= death->step);
}

static void die(void *owner)
{
    struct death *death = owner;
    death->died_us = gw_sim_now(cluster.sim);
    gw_sim_kill(death->victim);
}

/* All who live have ended; the first of them has named the dead. */
static int the_rest_has_ended(void *owner)
{
    struct death *death = owner;
    size_t ended = 0, alive = 0;
    for (size_t i = 0; i < cluster.workers; i++) {
        int dead = gw_sim_is_dead(cluster.worker[i].loop);
        alive += !dead;
        ended += !dead && cluster.worker[i].finished;
    }
    for (size_t i = 0; i < cluster.servers; i++) {
        int dead = gw_sim_is_dead(cluster.server[i].loop);
        alive += !dead;
        ended += !dead && cluster.server[i].finished;
    }
    if (!death->named_us && death->died_us && ended > 0)
        death->named_us = gw_sim_now(cluster.sim);
    return death->died_us && ended == alive &&
           (cluster.finished || gw_sim_is_dead(cluster.loop));
}

/* One line that names the dead and the step it is about. */
static int tells(const struct death *death, const char *text)
{
    const char *at = strstr(text, "at step ");
    uint64_t steps = cluster.steps;
    if (!strstr(text, death->name) || !strstr(text, " died ") || !at ||
        strchr(text, '\n'))
        return 0;
    uint64_t step = strtoull(at + strlen("at step "), NULL, 10);
    /* without a coordinator the others go on until they miss it */
    if (death->victim == cluster.loop)
        return step <= STEPS && step + 2 >= steps;
    return step <= steps + 1 && step + 2 >= steps;
}

static void check_line(struct death *death,
                       const char *who,
                       size_t i,
                       enum gw_status status,
                       const char *text,
                       struct sweep_outcome *outcome)
{
    enum gw_status expected =
        strstr(text, "--resume goes on") ? GW_ERESUMABLE : GW_EDEAD;
    if (status != expected || !tells(death, text))
        snprintf(outcome->why, sizeof outcome->why,
                 "\"%s\" dies at step %u; %s %zu says \"%.300s\"", death->name,
                 (unsigned)cluster.steps, who, i, text);
}

static void check_lines(struct death *death, struct sweep_outcome *outcome)
{
    for (size_t i = 0; i < cluster.workers; i++)
        if (!gw_sim_is_dead(cluster.worker[i].loop))
            check_line(death, "worker", i, cluster.worker[i].status,
                       cluster.worker[i].error.text, outcome);
    for (size_t i = 0; i < cluster.servers; i++)
        if (!gw_sim_is_dead(cluster.server[i].loop))
            check_line(death, "server", i, cluster.server[i].status,
                       cluster.server[i].text, outcome);
    if (!gw_sim_is_dead(cluster.loop))
        check_line(death, "coordinator", 0, cluster.final.status, cluster.text,
                   outcome);
}

static void check_times(const struct death *death,
                        struct sweep_outcome *outcome)
{
    uint64_t now = gw_sim_now(cluster.sim);
    if (death->named_us > death->died_us + NAMED_US)
        snprintf(outcome->why, sizeof outcome->why,
                 "\"%s\" is named after %u us", death->name,
                 (unsigned)(death->named_us - death->died_us));
    if (now > death->died_us + ENDED_US)
        snprintf(outcome->why, sizeof outcome->why,
                 "\"%s\" dies, the job ends after %u us", death->name,
                 (unsigned)(now - death->died_us));
}

/* Whether a checkpoint was complete: not before the first has been written. */
static int has_checkpoint(void)
{
    struct gw_disk *disk = cluster_checkpoints(&cluster);
    uint64_t clocks[8];
    size_t n = gw_store_list(disk, clocks, 8);
    for (size_t i = 0; i < n; i++) {
        struct gw_manifest manifest;
        if (gw_store_manifest(disk, clocks[i], &manifest, NULL) != GW_OK)
            continue;
        gw_manifest_free(&manifest);
        return 1;
    }
    return 0;
}

/* What is on the disk leads to the same end. */
static void resume(struct sweep_outcome *outcome)
{
    char hex[65] = "";
    if (!has_checkpoint())
        return;
    cluster_end(&cluster);
    cluster_open(&cluster, NULL, settings, "ck");
    if (!cluster_run(&cluster, LIMIT_US) || cluster.final.status != GW_OK) {
        snprintf(outcome->why, sizeof outcome->why, "resumed: %s",
                 cluster.text);
        return;
    }
    cluster_digest(&cluster, hex);
    if (strcmp(hex, calm) != 0)
        snprintf(outcome->why, sizeof outcome->why, "resumed: other weights");
    outcome->count[COUNT_RESUMED]++;
}

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct death death = {0};
    struct gw_sim_options lines;
    storm_begin(&death.storm, seed, &lines);
    death.storm.faults = 0;
    cluster_open(&cluster, &lines, settings, NULL);
    storm_blow(&death.storm, &cluster);
    choose(&death, outcome);
    if (!cluster_run_until(&cluster, it_is_time, &death, LIMIT_US)) {
        snprintf(outcome->why, sizeof outcome->why, "it does not begin");
    } else if (cluster.finished) {
        outcome->count[COUNT_TOO_LATE]++;
    } else {
        gw_sim_at(cluster.sim, storm_draw(&death.storm, 3000), die, &death);
        if (!cluster_run_until(&cluster, the_rest_has_ended, &death, LIMIT_US))
            snprintf(outcome->why, sizeof outcome->why,
                     "\"%s\" dies, the job does not end", death.name);
        else if (cluster.final.status == GW_OK && cluster.finished)
            outcome->count[COUNT_TOO_LATE]++;
        else {
            check_times(&death, outcome);
            check_lines(&death, outcome);
            if (!outcome->why[0])
                resume(outcome);
        }
    }
    cluster_close(&cluster);
}

static void a_death_ends_the_job_in_order(void **state)
{
    const struct gw_sim_options lines = {.seed = 1, .latency_us = 50};
    uint64_t sum[SWEEP_COUNTS];
    cluster.houses = *state;
    cluster_open(&cluster, &lines, NULL, NULL);
    assert_true(cluster_run(&cluster, LIMIT_US));
    cluster_digest(&cluster, calm);
    cluster_close(&cluster);
    uint64_t failed = sweep("deaths", SEEDS, one, sum);
    printf("# %u workers, %u servers, %u coordinators died, %u of them too "
           "late; %u jobs went on\n",
           (unsigned)sum[COUNT_WORKERS], (unsigned)sum[COUNT_SERVERS],
           (unsigned)sum[COUNT_COORDINATORS], (unsigned)sum[COUNT_TOO_LATE],
           (unsigned)sum[COUNT_RESUMED]);
    assert_int_equal(failed, 0);
    if (sweep_is_replay())
        return;
    for (size_t i = COUNT_WORKERS; i <= COUNT_COORDINATORS; i++)
        assert_true(sum[i] > 0);
    assert_true(sum[COUNT_RESUMED] > sum[COUNT_TOO_LATE]);
}

int main(void)
{
    char together[] = "aab", near[] = "**a";
    cluster_data_open(&cluster.train, &cluster.test);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_ends_the_job_in_order),
        cmocka_unit_test_prestate(a_death_ends_the_job_in_order, together),
        cmocka_unit_test_prestate(a_death_ends_the_job_in_order, near),
    };
    int failed = cmocka_run_group_tests_name("deaths", tests, NULL, NULL);
    gw_dataset_close(cluster.train);
    gw_dataset_close(cluster.test);
    return failed;
}
