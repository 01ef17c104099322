/*
 * Jobs under per-push policies, and the audit of one that has ended:
 * every push counted once. Of the one cluster of a test. Used by the tests of
 * stale-lr, dc-async and easgd.
 */
#ifndef GW_TESTS_STALE_H
#define GW_TESTS_STALE_H

#include "server/shard.h"
#include "tests/sim/cluster.h"

#define STALE_LIMIT_US 300000000

#define STALE_SETTINGS_MAX 20

/* Settings, the last one of a key wins. */
struct stale_job {
    const char *setting[STALE_SETTINGS_MAX];
    char text[STALE_SETTINGS_MAX][64];
    size_t n;
};

extern const struct gw_sim_options stale_calm;
extern const char *const stale_kinds[5]; /* optimizers */

void stale_add(struct stale_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* W workers; policies 0 to W - 1 are stale-lr:1 to stale-lr:W, then come both
   forms of dc-async, then easgd:2. */
void stale_add_policy(struct stale_job *job, unsigned workers, unsigned which);

/* An optimizer with a learning rate that learns. */
void stale_add_optimizer(struct stale_job *job, unsigned which);

/* Unlike machines: worker r computes for 1 to r + 1 ms. */
void stale_be_unlike(struct cluster *cluster);

/* Any chunk: all have the same updates and pushes. */
const struct gw_shard_chunk *stale_chunk(const struct cluster *cluster);

/* NULL, or what is wrong with a job that has ended. */
const char *stale_audit(const struct cluster *cluster);

/* Runs to the end; fails the test where that is not a good one. */
void stale_end_well(struct cluster *cluster);

#endif
