/*
 * The steps of exchanges: pure functions of the job, so that every worker and
 * every server finds the same ones by itself.
 *
 *   sync ..    | | | | | | | |     each step
 *   local:H    |       |       |   every H steps, and where the policy ends
 *   diloco:H in fragments          each part of the model every H steps, but in
 *     part 0  ....|...|...|..M     turn; where the job needs one state of all
 *     part 1  ..|...|...|....M     (a meeting) all parts, and the turns begin
 *                                  again from there
 *
 * The form in fragments, and that with overlap, is Streaming DiLoCo (Douillard
 * et al. 2025, arXiv 2501.18512). Its meetings are the steps at which the job
 * file says that there is an evaluation or a checkpoint, and the ends of
 * phases: also where none is made, so that the bits are the same.
 */
#ifndef GW_PROTO_ROUNDS_H
#define GW_PROTO_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/course.h"
#include "proto/map.h"
#include "proto/policy.h"

struct gw_rounds {
    struct gw_policy_word word;
    uint32_t fragments;   /* parts of the model; 1: all at once */
    uint64_t overlap;     /* steps that a worker goes on until it merges */
    int streams;          /* in parts, or with overlap */
    uint64_t first, last; /* the policy holds from first up to last */
    struct gw_course_beat meets[2]; /* clocks that are meetings */
};

/* The rounds of a policy that holds from `first` up to and without `until`, in
   a job of so many steps that takes this course. `first` is not before the
   course's own clock. */
struct gw_rounds gw_rounds_of(const struct gw_config *config,
                              const struct gw_policy_word *word,
                              uint64_t first,
                              uint64_t until,
                              uint64_t total_steps,
                              const struct gw_course *course);

/* The next clock after `clock` at which the fragment is exchanged. Under
   downpour and easgd each worker's clock is its own and knows no end. */
uint64_t gw_rounds_next(const struct gw_rounds *rounds,
                        uint32_t fragment,
                        uint64_t clock);

/* The next clock after `clock` at which all of the model is exchanged; whether
   `clock` is one. */
uint64_t gw_rounds_meeting(const struct gw_rounds *rounds, uint64_t clock);
int gw_rounds_meets(const struct gw_rounds *rounds, uint64_t clock);

/* Non-zero when the job file's meetings of both are at the same steps. */
int gw_rounds_meet_alike(const struct gw_rounds *a, const struct gw_rounds *b);

/* Sets fragment[n] for each key. Layers go to the fragments in turn; the keys
   of a layer have names that differ behind the last dot only. */
void gw_rounds_divide(const struct gw_rounds *rounds,
                      const struct gw_key *keys,
                      size_t n,
                      uint32_t *fragment);

#endif
