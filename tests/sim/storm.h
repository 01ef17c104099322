/*
 * A storm: what a seed does to a simulated cluster. Slow and uneven lines,
 * uneven workers, connections that are cut, processes that stand still. All of
 * it is weather that a job must come through with the same bits.
 */
#ifndef GW_TESTS_STORM_H
#define GW_TESTS_STORM_H

#include "tests/sim/cluster.h"
#include "tests/sim/sweep.h"

struct storm {
    struct cluster *cluster;
    uint64_t seed;
    uint32_t draws;
    unsigned faults;        /* that are still to come */
    uint64_t gust_us;       /* between faults, about */
    uint64_t compute_us;    /* of a worker between two waits, at most */
    uint64_t calm_until_us; /* nobody is paused before this */
    unsigned cuts, pauses, stops;
};

/* A number of the seed's own, below n. */
uint64_t storm_draw(struct storm *storm, uint64_t n);

/* Sets the storm up, and draws what the lines are like. */
void storm_begin(struct storm *storm,
                 uint64_t seed,
                 struct gw_sim_options *lines);

/* Lets it loose on a cluster that is open and has not run yet. */
void storm_blow(struct storm *storm, struct cluster *cluster);

/* A worker that comes later is in it, too. */
void storm_blow_at(struct storm *storm, struct gw_loop *worker);

/* Runs the job through it. Returns 0, with a line in `outcome`, where the job
   does not end. */
int storm_run(struct cluster *cluster,
              uint64_t limit_us,
              struct sweep_outcome *outcome);

/* Whether the weights that the job ended with, which one that is done must
   have, are the servers'; the line in `outcome` says what is not so. */
int storm_agrees(const struct cluster *cluster,
                 enum gw_status wanted,
                 struct sweep_outcome *outcome);

/* The same, and whether the job, every worker and every server ended with
   `wanted`. */
int storm_ends_with(const struct cluster *cluster,
                    enum gw_status wanted,
                    struct sweep_outcome *outcome);

/* What a job came to that was left alone, of at most so many steps. */
#define STORM_STEPS_MAX 16

struct storm_calm {
    char hex[65];
    uint64_t steps;
    double loss[STORM_STEPS_MAX];
};

/* Runs an open job without a storm, and closes it. Fails the test where that
   does not end well. */
void storm_stay_calm(struct cluster *cluster,
                     uint64_t limit_us,
                     struct storm_calm *calm);

/* Whether a job that was disturbed came to the same: storm_ends_with GW_OK, and
   the same bits; the line in `outcome` says what is not so. */
int storm_came_to(const struct cluster *cluster,
                  const struct storm_calm *calm,
                  struct sweep_outcome *outcome);

/* The same of weights and losses, where reports may be missing, since nobody
   was there to take them. The job has ended well. */
void storm_compare_told(const struct cluster *cluster,
                        const struct storm_calm *calm,
                        struct sweep_outcome *outcome);

/* What happened in a storm: the first counts of an outcome, and their names. */
enum {
    STORM_CUTS,
    STORM_PAUSES,
    STORM_STOPS,
    STORM_RECONNECTS,
    STORM_COUNTS,
};
#define STORM_HAPPENED                                                         \
    [STORM_CUTS] = "cuts", [STORM_PAUSES] = "pauses of one",                   \
    [STORM_STOPS] = "of all", [STORM_RECONNECTS] = "reconnects"

void storm_count(const struct storm *storm, struct sweep_outcome *outcome);

/* The same, and the end of a seed: the way of its job stands behind the line of
   a failure, and the cluster is closed. */
void storm_close(const struct storm *storm,
                 struct cluster *cluster,
                 const char *way,
                 struct sweep_outcome *outcome);

#endif
