#include "config.h"

#include "worker/trainer/pace.h"

#include <string.h>

/* A window in which all steps were given up: they would have taken longer. It
   counts as if half of each had been done, so that a worker that is always late
   gets less until it is not. */
#define GAVE_UP_PART 0.5

static void begin(struct gw_pace *pace, const struct gw_pace_step *step)
{
    pace->open = 1;
    pace->clock = step->clock;
    pace->began_us = step->began_us;
    pace->samples = pace->busy_us = 0;
    pace->lost_samples = pace->lost_us = 0;
}

static void forget(struct gw_pace *pace, uint64_t share)
{
    pace->share = share;
    pace->open = 0;
    pace->n = 0;
}

static double pace_of(const struct gw_pace *pace)
{
    if (pace->samples > 0 && pace->busy_us > 0)
        return (double)pace->samples * 1e6 / (double)pace->busy_us;
    if (pace->lost_us > 0)
        return GAVE_UP_PART * (double)pace->lost_samples * 1e6 /
               (double)pace->lost_us;
    return 0;
}

static void keep(struct gw_pace *pace, double samples_per_s)
{
    if (pace->n == GW_PACE_WINDOWS) {
        memmove(pace->past, pace->past + 1,
                (GW_PACE_WINDOWS - 1) * sizeof *pace->past);
        pace->n--;
    }
    pace->past[pace->n++] = (struct gw_pace_window){
        .clock = pace->clock, .samples_per_s = samples_per_s};
}

static double median(double a, double b, double c)
{
    double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

int gw_pace_take(struct gw_pace *pace,
                 const struct gw_pace_step *step,
                 struct gw_pace_window *pace_p)
{
    if (step->share != pace->share)
        forget(pace, step->share);
    if (!pace->open)
        begin(pace, step);
    uint64_t *samples = step->gave_up ? &pace->lost_samples : &pace->samples;
    uint64_t *us = step->gave_up ? &pace->lost_us : &pace->busy_us;
    /* a step without a sample says nothing of the pace */
    if (step->samples > 0) {
        *samples += step->samples;
        *us += step->busy_us;
    }
    if (step->ended_us - pace->began_us < GW_PACE_WINDOW_US)
        return 0;
    pace->open = 0;
    double samples_per_s = pace_of(pace);
    if (samples_per_s <= 0)
        return 0;
    keep(pace, samples_per_s);
    if (pace->n < GW_PACE_WINDOWS)
        return 0;
    *pace_p = (struct gw_pace_window){.clock = pace->past[0].clock,
                                      .samples_per_s =
                                          median(pace->past[0].samples_per_s,
                                                 pace->past[1].samples_per_s,
                                                 pace->past[2].samples_per_s)};
    return 1;
}
