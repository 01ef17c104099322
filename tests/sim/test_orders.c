/*
 * A program that needs a key when others of the step are pushed already, or
 * needs none, in every weather and in each order of its keys: checkpoints,
 * stops and other policies are decided at clocks at which part of a step is
 * pushed. A step of a rank is in all weights, or in none.
 *
 * Plain SGD with gradients that do not depend on the weights: a weight goes, in
 * a step of a rank, by rate times gradient over the number of ranks.
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
#include "tests/sim/grouped.h"
#include "tests/sim/storm.h"
#include "tests/sim/sweep.h"

#define LIMIT_US 600000000
#define SEEDS    100
#define RATE     0.125

static struct cluster cluster;
static float weights[GROUPED_KEYS][GROUPED_ELEMS];
static uint64_t made[GROUPED_RANKS]; /* steps */

static const struct row {
    const char *settings[18];
    const char *houses;
    const char *asks; /* a policy that somebody asks for */
    int stops;
    int drops; /* steps of late ranks, or more than a way: where a weight goes
                  is not known */
} rows[] = {
/* key 1 is on shards 1 and 2 alone */
#define JOB                                                                    \
    GROUPED_JOB, "cluster.servers=3", "optimizer.kind=sgd", "optimizer.lr=0.125"
#define SAVES "checkpoint.dir=ck", "checkpoint.every=3 steps"
    {.settings = {JOB}, .stops = 1},
    {.settings = {JOB, SAVES}},
    {.settings = {JOB, SAVES, "train.commit=whole"}, .stops = 1},
    {.settings = {JOB, SAVES, "cluster.policy=\"local:1\""}, .stops = 1},
    {.settings = {JOB, SAVES, "cluster.policy=\"ssp:1\""}, .stops = 1},
    {.settings = {JOB, SAVES}, .asks = "async"},
    {.settings = {JOB, SAVES, "cluster.policy=async"}, .asks = "sync"},
    {.settings = {JOB, "cluster.local_reduction=on"},
     .houses = "aabb",
     .asks = "ssp:2"},
    {.settings = {JOB, SAVES,
                  "cluster.policy=\"sync until 6, local:4 until 14, sync\""}},
    {.settings = {JOB, SAVES,
                  "cluster.policy=\"async until 8, sync until 15, ssp:1\""},
     .stops = 1},
    {.settings =
         {JOB, SAVES,
          "cluster.policy=\"local:2 until 5, backup:1 until 12, sync\""},
     .drops = 1,
     .stops = 1},
    {.settings = {JOB, SAVES, "cluster.policy=\"diloco:4 until 9, sync\"",
                  "policy.fragments=2", "policy.overlap=1"},
     .drops = 1,
     .stops = 1},
};

static const struct row *stormy;

static void count_step(struct gw_rank *rank, uint64_t step)
{
    (void)step;
    made[gw_rank_number(rank)]++;
}

/* The first weight that is not as far as it went; NULL: there is none. */
static const char *find_astray(void)
{
    static char why[200];
    if (!cluster.running || stormy->drops)
        return NULL;
    grouped_gather(&cluster, weights);
    for (size_t key = 0; key < GROUPED_KEYS; key++)
        for (size_t i = 0; i < gw_key_elems(&grouped_keys[key]); i++) {
            double should = grouped_first(key, i);
            for (uint32_t rank = 0; rank < GROUPED_RANKS; rank++)
                should -= RATE * (double)made[rank] *
                          grouped_slope(key, i, rank) / GROUPED_RANKS;
            if (grouped_is_value(key) || (double)weights[key][i] == should)
                continue;
            snprintf(why, sizeof why, "%.99s[%zu] is %.9g, not %.9g",
                     grouped_keys[key].name, i, (double)weights[key][i],
                     should);
            return why;
        }
    return NULL;
}

static void ask(void *owner)
{
    const struct row *row = owner;
    struct gw_policy_word word;
    struct gw_server *server = cluster.server[0].server;
    if (server->leader && !gw_server_is_over(server) &&
        gw_policy_word_parse(row->asks, &word, NULL) == GW_OK)
        gw_leader_switch(server->leader, &word);
}

static const char *const happened[SWEEP_COUNTS] = {STORM_HAPPENED};

static void one(uint64_t seed, struct sweep_outcome *outcome)
{
    struct storm storm;
    struct gw_sim_options weather;
    enum gw_status wanted = GW_OK;
    memset(made, 0, sizeof made);
    storm_begin(&storm, seed, &weather);
    grouped.interleaves = 1 + (size_t)storm_draw(&storm, GROUPED_KEYS);
    grouped.blind = storm_draw(&storm, 4) == 0;
    cluster_open(&cluster, &weather, stormy->settings, NULL);
    storm_blow(&storm, &cluster);
    if (stormy->stops && storm_draw(&storm, 2)) {
        gw_sim_at(cluster.sim, storm_draw(&storm, 40000), cluster_stop,
                  &cluster);
        wanted = GW_EINTERRUPTED;
    }
    if (stormy->asks)
        gw_sim_at(cluster.sim, storm_draw(&storm, 20000), ask,
                  (void *)(uintptr_t)stormy);
    if (storm_run(&cluster, LIMIT_US, outcome)) {
        if (cluster.final.status == GW_OK) /* before it was stopped */
            wanted = GW_OK;
        const char *astray =
            storm_ends_with(&cluster, wanted, outcome) ? find_astray() : NULL;
        if (astray)
            snprintf(outcome->why, sizeof outcome->why, "%s", astray);
        else if (!outcome->why[0] && cluster_refused(&cluster) > 0)
            snprintf(outcome->why, sizeof outcome->why, "frames were refused");
    }
    storm_count(&storm, outcome);
    cluster_close(&cluster);
}

static void a_step_is_in_all_weights_or_in_none(void **state)
{
    char name[40];
    stormy = *state;
    cluster.work = grouped_work;
    cluster.houses = stormy->houses;
    grouped.still = 1;
    grouped.ready = count_step;
    snprintf(name, sizeof name, "row %zu", (size_t)(stormy - rows));
    sweep_all(name, SEEDS, one, happened);
}

#define ROW(i)                                                                 \
    {                                                                          \
        "a_step_is_in_all_weights_or_in_none/" #i,                             \
            a_step_is_in_all_weights_or_in_none, NULL, NULL,                   \
            (void *)(uintptr_t)&rows[i]                                        \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(0), ROW(1), ROW(2), ROW(3), ROW(4),  ROW(5),
        ROW(6), ROW(7), ROW(8), ROW(9), ROW(10), ROW(11),
    };
    cluster_data_open(&cluster.train, &cluster.test);
    return cmocka_run_group_tests_name("orders of keys", tests, NULL, NULL);
}
