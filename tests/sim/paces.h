/*
 * A simulated cluster whose workers need time for their samples, unlike each
 * other. Everything fails the test where a job does not do as said.
 */
#ifndef GW_TESTS_PACES_H
#define GW_TESTS_PACES_H

#include "tests/sim/cluster.h"

#define PACES_SAMPLES 300 /* of the training set: a step has all of them */

struct pace {
    struct gw_rank *opened;
    uint32_t rank;
    uint64_t draws;
    double sample_us, step_us; /* a step is so much for each, and for itself */
    double spread;             /* up to this part more or less */
    uint64_t rare;             /* every so many steps one takes 20 times that */
    int jumps;                 /* it may be late, and then goes on elsewhere */
};

extern struct cluster cluster;
extern struct pace pace[CLUSTER_MAX]; /* of its workers */

extern const struct gw_sim_options paces_calm;
extern const struct gw_sim_options *paces_world; /* that one, or another */
extern int paces_slow_line;                      /* of the third worker */

/* One of four is four times slower than the others. */
void paces_set(double spread, double step_us);

/* Samples per microsecond of all workers, where a step costs nothing else. */
double paces_sum(void);

/* The settings of a job of four workers, with more over them, ended by NULL;
   they last until the next call. */
const char *const *paces_job(const char *one,
                             const char *two,
                             const char *three,
                             const char *four);

/* Opens a job with workers of these paces, from a checkpoint if that is not
   NULL, and runs it to its end. */
void paces_open(const char *const *settings, const char *resume);
void paces_finish(void);

#endif
