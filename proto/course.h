/*
 * The course of a job through its training set: the samples of each step, and
 * the epochs that are over after so many steps. Pure functions of a few
 * numbers, so that workers, servers and the coordinator find the same.
 *
 *   epoch 2                        | epoch 3             |
 *   .. steps of 40 | steps of 10   | steps of 10         |
 *                  ^ clock: the size of a step changes here
 *
 * Steps change the weights, and epochs count the data. The number of steps in
 * an epoch depends on the global batch and on the training set, and both may
 * change when a job goes on. A new course then begins at the very sample that
 * the one before has reached, so that each sample of each epoch counts once.
 *
 * Pure, any thread.
 */
#ifndef GW_PROTO_COURSE_H
#define GW_PROTO_COURSE_H

#include <stdint.h>

struct gw_every;

/*
 * From step `clock` on: that step begins where `epoch` epochs and `sample`
 * samples of the next one are done. With `batch` alone each step has so many
 * samples, or so much weight, of data that only the trainer knows, and epochs
 * never end. All zero: nothing is known.
 */
struct gw_course {
    uint64_t clock;
    uint64_t epoch, sample; /* sample: 0, or less than samples */
    uint64_t batch;         /* samples of a full step of all workers */
    uint64_t samples;       /* size of the training set; 0: not known */
};

/* A step's samples: places [first, first + n) of an epoch's permutation. */
struct gw_course_step {
    uint64_t epoch, first, n;
};

/* Clocks first, first + every, ..; every 0: none. */
struct gw_course_beat {
    uint64_t first, every;
};

/* The place where a job goes on: the course that led to `clock`. */
struct gw_course_cut {
    struct gw_course course;
    uint64_t clock;
};

/* Non-zero when the numbers can be a course. They may come from anyone. */
int gw_course_is_valid(const struct gw_course *course);

int gw_course_is_same(const struct gw_course *a, const struct gw_course *b);

/* Steps of a whole epoch; 0: not known. */
uint64_t gw_course_steps(const struct gw_course *course);

/* The step at `clock`; one before the course's own clock stands where that one
   does. n is 0 only where nothing is known of the course. */
struct gw_course_step gw_course_at(const struct gw_course *course,
                                   uint64_t clock);

/* The clock at which so many epochs are done, or the course's own where more of
   them were done there; UINT64_MAX where it is beyond 64 bits or not known. */
uint64_t gw_course_end(const struct gw_course *course, uint64_t epochs);

/*
 * How often an event that is due `every` so often was due in the versions
 * 1..clock. GW_SECONDS is not decided here and gives 0, like GW_NEVER.
 */
uint64_t gw_course_dues(const struct gw_course *course,
                        const struct gw_every *every,
                        uint64_t clock);

/* The clocks from the course's own on at which it is due. */
struct gw_course_beat gw_course_beat_of(const struct gw_course *course,
                                        const struct gw_every *every);

/*
 * The course from the cut on, with steps of `batch` of `samples` >= 1. It is
 * the one before when batch and samples are unchanged, or were not known. When
 * the training set has become so small that the place in its epoch is no more,
 * the next epoch begins.
 */
struct gw_course gw_course_go_on(const struct gw_course_cut *cut,
                                 uint64_t batch,
                                 uint64_t samples);

#endif
