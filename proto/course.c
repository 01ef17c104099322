#include <config.h>

#include "proto/course.h"

#include "proto/config.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static int is_known(const struct gw_course *course)
{
    return course->batch > 0 && course->samples > 0;
}

int gw_course_is_valid(const struct gw_course *course)
{
    return course->sample == 0 || course->sample < course->samples;
}

int gw_course_is_same(const struct gw_course *a, const struct gw_course *b)
{
    return a->clock == b->clock && a->epoch == b->epoch &&
           a->sample == b->sample && a->batch == b->batch &&
           a->samples == b->samples;
}

uint64_t gw_course_steps(const struct gw_course *course)
{
    return is_known(course) ? ceil_div(course->samples, course->batch) : 0;
}

/* Steps to the end of the epoch in which the course begins. */
static uint64_t first_steps(const struct gw_course *course)
{
    return ceil_div(course->samples - course->sample, course->batch);
}

struct gw_course_step gw_course_at(const struct gw_course *course,
                                   uint64_t clock)
{
    if (!is_known(course)) /* each step has its weight, and no epoch ends */
        return (struct gw_course_step){.n = course->samples == 0 ? course->batch
                                                                 : 0};
    struct gw_course_step step = {.epoch = course->epoch,
                                  .first = course->sample};
    uint64_t steps = clock > course->clock ? clock - course->clock : 0;
    uint64_t left = first_steps(course);
    if (steps >= left) {
        uint64_t whole = gw_course_steps(course);
        step.epoch += 1 + (steps - left) / whole;
        step.first = 0;
        steps = (steps - left) % whole;
    }
    step.first += steps * course->batch;
    step.n = course->samples - step.first;
    if (step.n > course->batch)
        step.n = course->batch;
    return step;
}

uint64_t gw_course_end(const struct gw_course *course, uint64_t epochs)
{
    uint64_t steps;
    if (!is_known(course))
        return UINT64_MAX;
    if (epochs <= course->epoch)
        return course->clock;
    if (__builtin_mul_overflow(epochs - course->epoch - 1,
                               gw_course_steps(course), &steps) ||
        __builtin_add_overflow(steps, first_steps(course), &steps) ||
        __builtin_add_overflow(steps, course->clock, &steps))
        return UINT64_MAX;
    return steps;
}

uint64_t gw_course_dues(const struct gw_course *course,
                        const struct gw_every *every,
                        uint64_t clock)
{
    if (every->n == 0)
        return 0;
    if (every->unit == GW_STEPS)
        return clock / every->n;
    if (every->unit == GW_EPOCHS)
        return gw_course_at(course, clock).epoch / every->n;
    return 0;
}

/* The ends of every n epochs from the course's beginning on, which may be one
   itself. */
static struct gw_course_beat epochs_beat(const struct gw_course *course,
                                         uint64_t n)
{
    struct gw_course_beat beat = {.first = course->clock};
    uint64_t next;
    if (!is_known(course) ||
        __builtin_mul_overflow(n, gw_course_steps(course), &beat.every))
        return (struct gw_course_beat){.every = 0};
    if (course->sample == 0 && course->epoch % n == 0)
        return beat;
    if (__builtin_mul_overflow(course->epoch / n + 1, n, &next))
        return (struct gw_course_beat){.every = 0};
    beat.first = gw_course_end(course, next);
    return beat;
}

struct gw_course_beat gw_course_beat_of(const struct gw_course *course,
                                        const struct gw_every *every)
{
    if (every->unit == GW_EPOCHS && every->n > 0)
        return epochs_beat(course, every->n);
    return (struct gw_course_beat){.every =
                                       every->unit == GW_STEPS ? every->n : 0};
}

struct gw_course gw_course_go_on(const struct gw_course_cut *cut,
                                 uint64_t batch,
                                 uint64_t samples)
{
    struct gw_course before = cut->course;
    if (before.batch == 0)
        before.batch = batch;
    if (before.samples == 0)
        before.samples = samples;
    if (before.batch == batch && before.samples == samples)
        return before;
    const struct gw_course_step at = gw_course_at(&before, cut->clock);
    int is_there = at.first < samples;
    return (struct gw_course){
        .clock = cut->clock,
        .epoch = at.epoch + (is_there ? 0 : 1),
        .sample = is_there ? at.first : 0,
        .batch = batch,
        .samples = samples,
    };
}
