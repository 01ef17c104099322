/*
 * The course of a job through its training set: which samples a step takes, and
 * how many epochs are over when so many steps are done. Pure functions of a few
 * numbers, so that workers, servers and the coordinator find the same.
 *
 *   epoch 2                        | epoch 3             |
 *   .. steps of 40 | steps of 10   | steps of 10         |
 *                  ^ clock: here the steps' size became another one
 *
 * A step is what weights are changed by, and an epoch is what data is counted
 * in. How many of the one make up the other depends on the global batch and on
 * the training set, which may be others when a job goes on. Then a new course
 * begins at the very sample where the one before has come to, so that each
 * sample of each epoch counts once.
 *
 * Pure, any thread.
 */
#ifndef GW_PROTO_COURSE_H
#define GW_PROTO_COURSE_H

#include <stdint.h>

struct gw_every;

/*
 * From step `clock` on: that step begins where `epoch` epochs and `sample`
 * samples of the next one are done. All zero: nothing is known of the data, and
 * epochs never end.
 */
struct gw_course {
    uint64_t clock;
    uint64_t epoch, sample; /* sample: 0, or less than samples */
    uint64_t batch;         /* samples of a full step of all workers */
    uint64_t samples;       /* of the training set; 0: not known */
};

/* A step's samples: places [first, first + n) of an epoch's permutation. */
struct gw_course_step {
    uint64_t epoch, first, n;
};

/* Clocks first, first + every, ..; every 0: none. */
struct gw_course_beat {
    uint64_t first, every;
};

/* Where a job goes on: the course that led to `clock`. */
struct gw_course_cut {
    struct gw_course course;
    uint64_t clock;
};

/* Whether the numbers can be a course. They may come from anyone. */
int gw_course_is_valid(const struct gw_course *course);

int gw_course_is_same(const struct gw_course *a, const struct gw_course *b);

/* Steps of a whole epoch; 0: not known. */
uint64_t gw_course_steps(const struct gw_course *course);

/* The step at `clock`; one before the course's own clock stands where that one
   does. n is 0 only where the course is not known. */
struct gw_course_step gw_course_at(const struct gw_course *course,
                                   uint64_t clock);

/* The clock at which so many epochs are done, or the course's own where more of
   them were done there; UINT64_MAX where it is beyond 64 bits or not known. */
uint64_t gw_course_end(const struct gw_course *course, uint64_t epochs);

/*
 * At how many of the versions 1..clock, that is when so many steps are done,
 * what happens `every` so often was due. GW_SECONDS is not decided here and
 * gives 0, like GW_NEVER.
 */
uint64_t gw_course_dues(const struct gw_course *course,
                        const struct gw_every *every,
                        uint64_t clock);

/* The clocks from the course's own on at which it is due. */
struct gw_course_beat gw_course_beat_of(const struct gw_course *course,
                                        const struct gw_every *every);

/*
 * The course from the cut on, with steps of `batch` of `samples` >= 1. It is
 * the one before where these are what they were, or where what they were is not
 * known. Where the training set has become so small that the place in its epoch
 * is no more, the next epoch begins.
 */
struct gw_course gw_course_go_on(const struct gw_course_cut *cut,
                                 uint64_t batch,
                                 uint64_t samples);

#endif
