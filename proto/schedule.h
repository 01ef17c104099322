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

/*
 * The learning rate of update `applied` (0 for the first) of a job of
 * total_steps whose full global batch has `global_batch` samples.
 */
double gw_schedule_lr(const struct gw_config *config,
                      uint64_t applied,
                      uint64_t total_steps,
                      uint64_t global_batch);

/* Samples of a full step: global_batch, or batch * workers * accumulate. */
uint64_t gw_schedule_batch(const struct gw_config *config);

#endif
