/*
 * A worker's pace: samples per second of its own computing, waiting left out,
 * as told to shard 0 if parts of a step go by speed.
 *
 * Steps are taken together in windows of a quarter of a second on the wall, so
 * that pauses of the process now and then (signals, other programs) count as
 * much as they do on average; a pace is the median of three windows, so that a
 * window with a rare pause does not count at all. Windows are of one share
 * each: a step that costs more than its samples has another pace with another
 * share.
 *
 * Pure; one thread.
 */
#ifndef GW_WORKER_PACE_H
#define GW_WORKER_PACE_H

#include <stdint.h>

#define GW_PACE_WINDOWS   3
#define GW_PACE_WINDOW_US 250000

/* The outcome of a step. */
struct gw_pace_step {
    uint64_t clock;
    uint64_t began_us, ended_us; /* on the wall */
    uint64_t busy_us;            /* the part without waiting */
    uint64_t samples;
    uint64_t share; /* equal numbers: the same share as before */
    int gave_up;    /* it was too late, and not computed to its end */
};

struct gw_pace_window {
    uint64_t clock; /* the first step of it */
    double samples_per_s;
};

/* Zero it before the first step. */
struct gw_pace {
    uint64_t share;
    int open; /* a window is: */
    uint64_t clock, began_us;
    uint64_t samples, busy_us;
    uint64_t lost_samples, lost_us; /* in steps that were given up */
    struct gw_pace_window past[GW_PACE_WINDOWS]; /* the oldest first */
    unsigned n;
};

/*
 * Takes a step in. Returns non-zero if this makes a pace known: *pace_p is then
 * the median, with the first step of the oldest window.
 */
int gw_pace_take(struct gw_pace *pace,
                 const struct gw_pace_step *step,
                 struct gw_pace_window *pace_p);

#endif
