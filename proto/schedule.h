/*
 * Learning-rate schedules: pure functions of the job and the number of updates
 * made. Warm-up is linear from lr/warmup to lr over the first `warmup` updates;
 * the decay counts from its end. Linear scaling (Goyal et al., 1706.02677)
 * multiplies lr by global batch / train.base_batch.
 */
#ifndef GW_PROTO_SCHEDULE_H
#define GW_PROTO_SCHEDULE_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/course.h"

/*
 * The learning rate of update `applied` (0 for the first) of a job of
 * total_steps that takes this course. Warm-up and optimizer.step_every count
 * updates of any kind. The decay of a job of train.steps does too; the decay of
 * a job of train.epochs follows the epochs, so that it goes on at the same
 * place when the size of a step changes.
 */
double gw_schedule_lr(const struct gw_config *config,
                      const struct gw_course *course,
                      uint64_t applied,
                      uint64_t total_steps);

/* Samples of a step of all ranks, at most. */
uint64_t gw_schedule_step_max(const struct gw_config *config,
                              const struct gw_course *course);

/* Samples of a rank's part of a step of so many, at most. */
uint64_t gw_schedule_part_max(const struct gw_config *config,
                              uint64_t step_samples,
                              uint64_t workers);

/* Non-zero when gradients can be multiplied by a loss scale, and divided again.
 */
int gw_schedule_is_scale(double loss_scale);

/* Samples of a full step: global_batch, or batch * workers * accumulate. */
uint64_t gw_schedule_batch(const struct gw_config *config);

#endif
