/*
 * The plan: the samples of each rank at every step of a job. Pure functions of
 * a few numbers, so every worker makes the same plan by itself and every sample
 * of an epoch counts once.
 *
 *   epoch        | step 0 | step 1 | step 2 | 3 |   the last may be short
 *   step         | rank 0 | rank 1 | rank 2 |       contiguous, may be empty
 *   rank's part  | batch 0 | batch 1 |              `accumulate`, or more where
 *                                                  parts go by speed
 *
 * Places are places in the epoch's permutation, the `first` of gw_batch_site.
 */
#ifndef GW_WORKER_PLAN_H
#define GW_WORKER_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/course.h"
#include "proto/split.h"
#include "proto/status.h"

struct gw_plan {
    struct gw_course course; /* the samples of each step */
    uint64_t workers;
    uint64_t accumulate; /* micro-batches of a mean part, at most */
    uint64_t max_batch;  /* samples of a micro-batch, at most */
    uint64_t max_part;   /* samples of a rank's part of a step, at most */
    uint64_t steps;      /* in the whole job */
};

/* Samples of a batch of the test set, unless training batches are larger. */
#define GW_PLAN_SCORE_BATCH 250

/* Places [first, first + n). */
struct gw_plan_run {
    uint64_t first, n;
};

struct gw_plan_step {
    uint32_t epoch;
    struct gw_plan_run run; /* all workers' samples */
};

/*
 * From train.{batch,global_batch,accumulate,epochs,steps,split}, for a training
 * set of `samples` >= 1 and `workers` >= 1, from the cut at which the job goes
 * on; NULL: from its beginning. GW_EUSAGE with a line that names the keys if a
 * product is beyond 64 bits or the job has more than 2^32 epochs.
 */
enum gw_status gw_plan_make(const struct gw_config *config,
                            uint64_t samples,
                            uint64_t workers,
                            const struct gw_course_cut *from,
                            struct gw_plan *plan,
                            struct gw_error *error);

/*
 * The plan of a job whose data only the trainer knows: each step of all ranks
 * has the same weight, which stands for its samples, and there are no epochs.
 * step_weight >= 1.
 */
struct gw_plan gw_plan_of_weight(const struct gw_config *config,
                                 uint64_t step_weight,
                                 uint64_t workers);

/* The largest batch of a worker, in samples: of training, and of the test set
   if there is one. */
uint64_t gw_plan_batch_max(const struct gw_plan *plan, int has_test);

/* The epoch and the samples of step `step` (from 0). n >= 1. Ranks with clocks
   of their own may go past plan->steps: further epochs follow. */
struct gw_plan_step gw_plan_step(const struct gw_plan *plan, uint64_t step);

/*
 * Part `part` of `parts` of a run: contiguous, in order, sizes differ by at
 * most one, together the run. For a rank's part of a step and, with the run of
 * the whole test set, its share of an evaluation. part < parts.
 */
struct gw_plan_run
gw_plan_part(struct gw_plan_run run, uint64_t parts, uint64_t part);

/*
 * A rank's part of a run by speed: contiguous, in order, all ranks' parts
 * together the run, as near to its part of GW_SPLIT_TOTAL as whole samples
 * come. It may be empty.
 */
struct gw_plan_run gw_plan_share(struct gw_plan_run run,
                                 struct gw_split_range range);

/* Non-zero if a push can count the samples of a rank's part of `steps` steps
   together: it has 32 bits for them. */
int gw_plan_fits_push(const struct gw_plan *plan, uint64_t steps);

/*
 * Batches of at most max_batch >= 1 that make up a run: how many (0 for an
 * empty run), and batch `index`. For the micro-batches of a rank's part (never
 * more than plan->accumulate with plan->max_batch, if parts are even) and for
 * the batches of an evaluation. As few as possible, sizes differ by at most
 * one.
 */
uint64_t gw_plan_batches(struct gw_plan_run run, uint64_t max_batch);
struct gw_plan_run
gw_plan_batch(struct gw_plan_run run, uint64_t max_batch, uint64_t index);

#endif
