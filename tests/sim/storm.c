#include "config.h"

#include "tests/sim/storm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "transport/member/member.h"

#define FAULTS_MAX 8

/*
 * A member is silent while it stands still, and was up to a heartbeat before.
 * What is left of the limit is for its connections to be opened again.
 */
#define PAUSE_MAX_US (GW_SILENCE_US - GW_HEARTBEAT_US - 150000)

/* Every member beats at least once between two pauses. */
#define BREATH_US (GW_HEARTBEAT_US + 100000)

/* When all stand still, no limit holds. */
#define STOP_MAX_US 5000000

uint64_t storm_draw(struct storm *storm, uint64_t n)
{
    uint32_t bits[4];
    gw_random4(storm->seed, GW_RANDOM_TEST, 9, storm->draws++, bits);
    return ((uint64_t)bits[0] << 32 | bits[1]) % n;
}

void storm_begin(struct storm *storm,
                 uint64_t seed,
                 struct gw_sim_options *lines)
{
    static const uint64_t latency[] = {1, 50, 500};
    static const uint64_t jitter[] = {0, 100, 1000, 20000};
    static const double rate[] = {0, 1000, 50};
    static const uint64_t compute[] = {0, 100, 2000, 20000};
    static const uint64_t gust[] = {300, 3000, 30000};
    *storm = (struct storm){.seed = seed};
    storm->faults = (unsigned)storm_draw(storm, FAULTS_MAX + 1);
    storm->compute_us = compute[storm_draw(storm, 4)];
    storm->gust_us = gust[storm_draw(storm, 3)];
    *lines = (struct gw_sim_options){
        .seed = seed,
        .latency_us = latency[storm_draw(storm, 3)],
        .jitter_us = jitter[storm_draw(storm, 4)],
        .bytes_per_us = rate[storm_draw(storm, 3)],
    };
}

static uint64_t compute_us(void *owner, uint64_t samples)
{
    (void)samples;
    struct storm *storm = owner;
    return storm->compute_us ? storm_draw(storm, storm->compute_us) : 0;
}

static struct gw_loop *someone(struct storm *storm)
{
    struct cluster *cluster = storm->cluster;
    uint64_t chosen =
        storm_draw(storm, 1 + cluster->workers + cluster->servers);
    if (chosen == 0)
        return cluster->loop;
    if (chosen <= cluster->workers)
        return cluster->worker[chosen - 1].loop;
    return cluster->server[chosen - 1 - cluster->workers].loop;
}

static void pause_one(struct storm *storm)
{
    uint64_t now = gw_sim_now(storm->cluster->sim);
    uint64_t pause_us = 1 + storm_draw(storm, PAUSE_MAX_US);
    gw_sim_pause(someone(storm), pause_us);
    storm->calm_until_us = now + pause_us + BREATH_US;
    storm->pauses++;
}

static void pause_all(struct storm *storm)
{
    uint64_t now = gw_sim_now(storm->cluster->sim);
    uint64_t pause_us = 1 + storm_draw(storm, STOP_MAX_US);
    gw_sim_pause_all(storm->cluster->sim, pause_us);
    storm->calm_until_us = now + pause_us + BREATH_US;
    storm->stops++;
}

static void gust(void *owner)
{
    struct storm *storm = owner;
    int calm = gw_sim_now(storm->cluster->sim) < storm->calm_until_us;
    uint64_t kind = storm_draw(storm, 8);
    if (kind < 2 && !calm)
        pause_one(storm);
    else if (kind < 3 && !calm)
        pause_all(storm);
    else
        storm->cuts += gw_sim_cut(storm->cluster->sim) != 0;
    if (--storm->faults > 0)
        gw_sim_at(storm->cluster->sim, storm_draw(storm, 2 * storm->gust_us),
                  gust, storm);
}

void storm_blow_at(struct storm *storm, struct gw_loop *worker)
{
    if (storm->compute_us > 0)
        gw_sim_compute_model(worker, compute_us, storm);
}

void storm_blow(struct storm *storm, struct cluster *cluster)
{
    storm->cluster = cluster;
    for (size_t i = 0; i < cluster->workers; i++)
        storm_blow_at(storm, cluster->worker[i].loop);
    if (storm->faults > 0)
        gw_sim_at(cluster->sim, storm_draw(storm, 2 * storm->gust_us), gust,
                  storm);
}

int storm_run(struct cluster *cluster,
              uint64_t limit_us,
              struct sweep_outcome *outcome)
{
    if (cluster_run(cluster, limit_us))
        return 1;
    snprintf(outcome->why, sizeof outcome->why,
             "%.100s: it does not end (step %u, last note: %.400s)",
             cluster->config.cluster.policy, (unsigned)cluster->steps,
             cluster->note);
    return 0;
}

static int ends_with(const char *who,
                     size_t i,
                     enum gw_status status,
                     const char *text,
                     enum gw_status wanted,
                     struct sweep_outcome *outcome)
{
    if (status != wanted)
        snprintf(outcome->why, sizeof outcome->why,
                 "%.100s %zu ends with: %.400s", who, i, text);
    return status == wanted;
}

int storm_agrees(const struct cluster *cluster,
                 enum gw_status wanted,
                 struct sweep_outcome *outcome)
{
    int has_weights = cluster->final.has_weights;
    int so = has_weights ? cluster_agrees(cluster) : wanted != GW_OK;
    if (!so)
        snprintf(outcome->why, sizeof outcome->why, "%.400s: it ends %s",
                 cluster->config.cluster.policy,
                 has_weights ? "with weights that are not the servers'"
                             : "without weights");
    return so;
}

int storm_ends_with(const struct cluster *cluster,
                    enum gw_status wanted,
                    struct sweep_outcome *outcome)
{
    int so = ends_with(cluster->config.cluster.policy, 0, cluster->final.status,
                       cluster->text, wanted, outcome);
    for (size_t i = 0; so && i < cluster->workers; i++)
        so = ends_with("worker", i, cluster->worker[i].status,
                       cluster->worker[i].error.text, wanted, outcome);
    for (size_t i = 0; so && i < cluster->servers; i++)
        so = cluster->server[i].killed || cluster->excused[i] ||
             ends_with("server", i, cluster->server[i].status,
                       cluster->server[i].text, wanted, outcome);
    return so && storm_agrees(cluster, wanted, outcome);
}

void storm_stay_calm(struct cluster *cluster,
                     uint64_t limit_us,
                     struct storm_calm *calm)
{
    if (!cluster_run(cluster, limit_us) || cluster->final.status != GW_OK)
        fail_msg("the undisturbed job fails: %s", cluster->text);
    assert_in_range(cluster->steps, 1, STORM_STEPS_MAX);
    cluster_digest(cluster, calm->hex);
    calm->steps = cluster->steps;
    memcpy(calm->loss, cluster->loss, calm->steps * sizeof *calm->loss);
    cluster_close(cluster);
}

static int has_weights_of(const struct cluster *cluster,
                          const struct storm_calm *calm,
                          struct sweep_outcome *outcome)
{
    char hex[65];
    cluster_digest(cluster, hex);
    int so = strcmp(hex, calm->hex) == 0;
    if (!so)
        snprintf(outcome->why, sizeof outcome->why, "other weights");
    return so;
}

int storm_came_to(const struct cluster *cluster,
                  const struct storm_calm *calm,
                  struct sweep_outcome *outcome)
{
    if (!storm_ends_with(cluster, GW_OK, outcome) ||
        !has_weights_of(cluster, calm, outcome))
        return 0;
    if (cluster->steps != calm->steps)
        snprintf(outcome->why, sizeof outcome->why, "%u steps reported",
                 (unsigned)cluster->steps);
    else if (memcmp(cluster->loss, calm->loss,
                    calm->steps * sizeof *calm->loss) != 0)
        snprintf(outcome->why, sizeof outcome->why, "other losses");
    else
        return 1;
    return 0;
}

void storm_compare_told(const struct cluster *cluster,
                        const struct storm_calm *calm,
                        struct sweep_outcome *outcome)
{
    if (!has_weights_of(cluster, calm, outcome))
        return;
    for (uint64_t step = 0; step < calm->steps; step++)
        if (cluster->loss[step] != 0 &&
            memcmp(&cluster->loss[step], &calm->loss[step],
                   sizeof *calm->loss) != 0)
            snprintf(outcome->why, sizeof outcome->why,
                     "another loss at step %u", (unsigned)step);
}

void storm_count(const struct storm *storm, struct sweep_outcome *outcome)
{
    outcome->count[STORM_CUTS] = storm->cuts;
    outcome->count[STORM_PAUSES] = storm->pauses;
    outcome->count[STORM_STOPS] = storm->stops;
    outcome->count[STORM_RECONNECTS] =
        cluster_at_workers(storm->cluster, GW_METRIC_RECONNECTS);
}

void storm_close(const struct storm *storm,
                 struct cluster *cluster,
                 const char *way,
                 struct sweep_outcome *outcome)
{
    if (outcome->why[0]) {
        size_t used = strlen(outcome->why);
        snprintf(outcome->why + used, sizeof outcome->why - used, " (%s)", way);
    }
    storm_count(storm, outcome);
    cluster_close(cluster);
}
