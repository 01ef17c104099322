#include <config.h>

#include "proto/schedule.h"

#include <math.h>

uint64_t gw_schedule_batch(const struct gw_config *config)
{
    if (config->train.global_batch)
        return config->train.global_batch;
    return config->train.batch * config->cluster.workers *
           config->train.accumulate;
}

uint64_t gw_schedule_step_max(const struct gw_config *config,
                              const struct gw_course *course)
{
    uint64_t batch = gw_schedule_batch(config);
    if (gw_config_is_external(config)) /* its program says what pushes weigh */
        return config->cluster.workers * UINT32_MAX;
    return course->samples > 0 && course->samples < batch ? course->samples
                                                          : batch;
}

uint64_t gw_schedule_part_max(const struct gw_config *config,
                              uint64_t step_samples,
                              uint64_t workers)
{
    if (gw_config_splits_by_speed(config))
        return step_samples;
    return step_samples / workers + (step_samples % workers != 0);
}

int gw_schedule_is_scale(double loss_scale)
{
    return isfinite(loss_scale) && loss_scale > 0;
}

/* How much of the decay is done, 0..1. */
static double progress(double done, double all)
{
    if (done >= all)
        return 1;
    return done > 0 ? done / all : 0;
}

/* The steps that a job would have made more, or, if negative, fewer, with the
   present size of a step from its beginning on. 0 when the size never changed,
   and when train.steps sets the end of the job. */
static double ahead(const struct gw_config *config,
                    const struct gw_course *course)
{
    uint64_t steps = gw_course_steps(course);
    if (config->train.steps || !steps)
        return 0;
    return (double)course->epoch * (double)steps +
           (double)course->sample / (double)course->batch -
           (double)course->clock;
}

static double factor(const struct gw_config *config, uint64_t step, double done)
{
    double end = config->optimizer.final_lr;
    switch (config->optimizer.schedule) {
    case GW_SCHEDULE_STEP:
        return pow(config->optimizer.step_factor,
                   (double)(step / config->optimizer.step_every));
    case GW_SCHEDULE_COSINE:
        return end + (1 - end) * 0.5 * (1 + cos(M_PI * done));
    case GW_SCHEDULE_LINEAR:
        return end + (1 - end) * (1 - done);
    case GW_SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

double gw_schedule_lr(const struct gw_config *config,
                      const struct gw_course *course,
                      uint64_t applied,
                      uint64_t total_steps)
{
    double lr = config->optimizer.lr;
    uint64_t warmup = config->optimizer.warmup;
    if (config->train.scale_lr == GW_SCALE_LR_LINEAR)
        lr *= (double)gw_schedule_batch(config) /
              (double)config->train.base_batch;
    if (applied < warmup)
        return lr * (double)(applied + 1) / (double)warmup;
    double before = ahead(config, course) - (double)warmup;
    return lr * factor(config, applied - warmup,
                       progress((double)applied + before,
                                (double)total_steps + before));
}
