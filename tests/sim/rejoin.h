/* What tests of a coordinator that comes back share. Each fails the test where
   its words do not hold. */
#ifndef TESTS_SIM_REJOIN_H
#define TESTS_SIM_REJOIN_H

#include "tests/sim/cluster.h"

/* A job of slow workers, which has made steps. */
void rejoin_open(struct cluster *cluster, const char *const *settings);

/* The bits of the job, where nobody is disturbed. */
void rejoin_undisturbed(struct cluster *cluster,
                        const char *const *settings,
                        char hex[65]);

/* The least version of shard 0's chunks. */
uint64_t rejoin_version(const struct cluster *cluster);

/* The job is complete, with these bits. */
void rejoin_comes_to(struct cluster *cluster, const char *hex);

/* The job ends, with that status and these words, and is closed. */
void rejoin_ends(struct cluster *cluster,
                 enum gw_status status,
                 const char *words);

#endif
