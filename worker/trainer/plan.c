#include "config.h"

#include "worker/trainer/plan.h"

#include <assert.h>
#include <inttypes.h>

#include "proto/schedule.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static enum gw_status find_global_batch(const struct gw_config *config,
                                        const struct gw_plan *plan,
                                        uint64_t *batch_p,
                                        struct gw_error *error)
{
    uint64_t rank_batch;
    *batch_p = config->train.global_batch;
    if (*batch_p > 0)
        return GW_OK;
    if (__builtin_mul_overflow(config->train.batch, plan->accumulate,
                               &rank_batch) ||
        __builtin_mul_overflow(rank_batch, plan->workers, batch_p))
        return gw_fail(error, GW_EUSAGE,
                       "train.batch %" PRIu64 " x train.accumulate %" PRIu64
                       " x %" PRIu64 " workers is beyond 64 bits",
                       config->train.batch, plan->accumulate, plan->workers);
    if (*batch_p == 0)
        return gw_fail(error, GW_EUSAGE,
                       "one of train.batch and train.global_batch must be set");
    return GW_OK;
}

static enum gw_status find_steps(const struct gw_config *config,
                                 struct gw_plan *plan,
                                 struct gw_error *error)
{
    const struct gw_course *course = &plan->course;
    plan->steps = config->train.steps;
    if (plan->steps == 0 && config->train.epochs == 0)
        return gw_fail(error, GW_EUSAGE,
                       "one of train.epochs and train.steps must be set");
    if (plan->steps == 0)
        plan->steps = gw_course_end(course, config->train.epochs);
    if (config->train.steps == 0 && plan->steps == UINT64_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "train.epochs %" PRIu64 " of %" PRIu64
                       " steps each are beyond 64 bits",
                       config->train.epochs, gw_course_steps(course));
    if (plan->steps > 0 &&
        gw_course_at(course, plan->steps - 1).epoch > UINT32_MAX)
        return gw_fail(error, GW_EUSAGE,
                       "train.epochs or train.steps: %" PRIu64
                       " steps of %" PRIu64 " per epoch are more than 2^32 "
                       "epochs",
                       plan->steps, gw_course_steps(course));
    return GW_OK;
}

enum gw_status gw_plan_make(const struct gw_config *config,
                            uint64_t samples,
                            uint64_t workers,
                            const struct gw_course_cut *from,
                            struct gw_plan *plan,
                            struct gw_error *error)
{
    static const struct gw_course_cut beginning = {.clock = 0};
    assert(samples >= 1 && workers >= 1);
    uint64_t batch, accumulate = config->train.accumulate;
    struct gw_plan made = {.workers = workers,
                           .accumulate = accumulate > 0 ? accumulate : 1};
    enum gw_status status = find_global_batch(config, &made, &batch, error);
    if (status != GW_OK)
        return status;
    made.course = gw_course_go_on(from ? from : &beginning, batch, samples);
    status = find_steps(config, &made, error);
    if (status != GW_OK)
        return status;

    uint64_t step = batch < samples ? batch : samples;
    uint64_t part = ceil_div(step, workers);
    /* by speed: with twice the mean at once nobody is slower for having more
       than the mean, and memory has a bound all the same */
    if (gw_config_splits_by_speed(config))
        part = 2 * part < step ? 2 * part : step;
    made.max_batch = ceil_div(part, made.accumulate);
    made.max_part = gw_schedule_part_max(config, step, workers);
    *plan = made;
    return GW_OK;
}

struct gw_plan gw_plan_of_weight(const struct gw_config *config,
                                 uint64_t step_weight,
                                 uint64_t workers)
{
    return (struct gw_plan){.course = {.batch = step_weight},
                            .workers = workers,
                            .accumulate = 1,
                            .max_batch = step_weight,
                            .max_part = step_weight,
                            .steps = gw_config_steps(config)};
}

uint64_t gw_plan_batch_max(const struct gw_plan *plan, int has_test)
{
    return has_test && plan->max_batch < GW_PLAN_SCORE_BATCH
               ? GW_PLAN_SCORE_BATCH
               : plan->max_batch;
}

struct gw_plan_step gw_plan_step(const struct gw_plan *plan, uint64_t step)
{
    const struct gw_course_step at = gw_course_at(&plan->course, step);
    return (struct gw_plan_step){.epoch = (uint32_t)at.epoch,
                                 .run = {.first = at.first, .n = at.n}};
}

struct gw_plan_run
gw_plan_part(struct gw_plan_run run, uint64_t parts, uint64_t part)
{
    assert(part < parts);
    uint64_t begin = gw_split_place(run.n, parts, part);
    uint64_t end = gw_split_place(run.n, parts, part + 1);
    return (struct gw_plan_run){.first = run.first + begin, .n = end - begin};
}

/* n * at / GW_SPLIT_TOTAL, to the nearest: even weights give even parts. */
static uint64_t place_of(uint64_t n, uint32_t at)
{
    unsigned __int128 scaled = (unsigned __int128)n * at;
    return (uint64_t)((scaled + GW_SPLIT_TOTAL / 2) / GW_SPLIT_TOTAL);
}

struct gw_plan_run gw_plan_share(struct gw_plan_run run,
                                 struct gw_split_range range)
{
    assert(range.begin <= range.end && range.end <= GW_SPLIT_TOTAL);
    uint64_t begin = place_of(run.n, range.begin);
    uint64_t end = place_of(run.n, range.end);
    return (struct gw_plan_run){.first = run.first + begin, .n = end - begin};
}

int gw_plan_fits_push(const struct gw_plan *plan, uint64_t steps)
{
    uint64_t samples;
    return !__builtin_mul_overflow(plan->max_part, steps, &samples) &&
           samples <= UINT32_MAX;
}

uint64_t gw_plan_batches(struct gw_plan_run run, uint64_t max_batch)
{
    assert(max_batch >= 1);
    return ceil_div(run.n, max_batch);
}

struct gw_plan_run
gw_plan_batch(struct gw_plan_run run, uint64_t max_batch, uint64_t index)
{
    return gw_plan_part(run, gw_plan_batches(run, max_batch), index);
}
