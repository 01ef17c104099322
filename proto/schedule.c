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

/* How much of the decay is done, 0..1. */
static double progress(uint64_t step, uint64_t steps)
{
    if (steps == 0 || step >= steps)
        return 1;
    return (double)step / (double)steps;
}

static double
factor(const struct gw_config *config, uint64_t step, uint64_t steps)
{
    double end = config->optimizer.final_lr;
    switch (config->optimizer.schedule) {
    case GW_SCHEDULE_STEP:
        return pow(config->optimizer.step_factor,
                   (double)(step / config->optimizer.step_every));
    case GW_SCHEDULE_COSINE:
        return end + (1 - end) * 0.5 * (1 + cos(M_PI * progress(step, steps)));
    case GW_SCHEDULE_LINEAR:
        return end + (1 - end) * (1 - progress(step, steps));
    case GW_SCHEDULE_CONSTANT:
        break;
    }
    return 1;
}

double gw_schedule_lr(const struct gw_config *config,
                      uint64_t applied,
                      uint64_t total_steps,
                      uint64_t global_batch)
{
    double lr = config->optimizer.lr;
    uint64_t warmup = config->optimizer.warmup;
    if (config->train.scale_lr == GW_SCALE_LR_LINEAR)
        lr *= (double)global_batch / (double)config->train.base_batch;
    if (applied < warmup)
        return lr * (double)(applied + 1) / (double)warmup;
    uint64_t steps = total_steps > warmup ? total_steps - warmup : 0;
    return lr * factor(config, applied - warmup, steps);
}
