/*
 * Jobs whose workers have optimizers of their own, with checkpoints that have
 * files of them. Everything fails the test where a job does not do as said.
 */
#ifndef GW_TESTS_INNER_H
#define GW_TESTS_INNER_H

#include "tests/sim/cluster.h"

#define INNER_LIMIT_US 120000000
#define INNER_SETTINGS 16
#define INNER_STEPS    20 /* of a job that does not say otherwise */

extern const struct gw_sim_options inner_calm;

/* Settings, for inner_job_of. */
extern const char *const inner_local_momentum[];
extern const char *const inner_diloco_adamw[];
extern const char *const inner_diloco_in_parts[];
extern const char *const inner_large_adam[];

/* Settings of a job, those that come later being over the others. */
struct inner_job {
    const char *setting[INNER_SETTINGS];
    size_t n;
};

struct inner_job inner_job_of(const char *const *settings);
void inner_add(struct inner_job *job, const char *setting);
void inner_drop(struct inner_job *job);

/* Opens it, from its last checkpoint where it resumes. */
void inner_open(struct cluster *cluster,
                const struct inner_job *job,
                const struct gw_sim_options *lines,
                int resumes);
void inner_await_running(struct cluster *cluster);

/* Runs what is open to its end: how it ended, and the digest. */
enum gw_status inner_run(struct cluster *cluster, char hex[65]);

/* From the beginning to the end, undisturbed; closes the cluster. */
void inner_run_calmly(struct cluster *cluster,
                      const struct inner_job *job,
                      char hex[65]);

/* From the beginning until it is told to stop, delay_us later. */
void inner_run_until_stopped(struct cluster *cluster,
                             const struct inner_job *job,
                             uint64_t delay_us);

/* Files of workers in the checkpoint of `clock`, which must be whole. */
size_t inner_count_files(struct cluster *cluster, uint64_t clock);

#endif
