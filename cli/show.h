/*
 * What a person sees of a job: on a terminal one live line that is rewritten in
 * place, in a file or pipe plain lines; at the end a short table.
 */
#ifndef GW_CLI_SHOW_H
#define GW_CLI_SHOW_H

#include <stdint.h>
#include <stdio.h>

#include "cli/steady.h"
#include "proto/config.h"
#include "server/coordinator/coordinator.h"

struct gw_printer;

struct gw_show {
    FILE *out; /* of the printer */
    struct gw_printer *printer;
    int by_hand;  /* nobody launched the process */
    int terminal; /* its descriptor where there is a live line, or -1 */
    struct gw_steady clock; /* of all times here */
    uint64_t began_us;      /* when the first step could begin; 0: not yet */
    uint64_t ended_us;      /* 0: not yet */
    uint64_t first_step;    /* where this run began */
    struct gw_step_report last; /* the newest logged step */
    int has_last;
    struct gw_step_report since; /* rates are from there to the last one */
    uint64_t since_us;
    double steps_per_s, samples_per_s, gigabytes_per_s; /* lately */
    /* of the live line, which does not wait for logged steps */
    struct gw_show_mark {
        uint64_t step, us;
    } mark[2];   /* up to two times PACE_US ago, and up to once */
    double pace; /* steps per second; below 0: not known yet */
};

/* For a `show` of zeros: prints by `printer`, to what `fd` is. */
void gw_show_open(struct gw_show *show, struct gw_printer *printer, int fd);

/* The first lines: what was asked for, what was chosen, and why; of the ways,
   `why` as gw_ways_find has said it; of what computes, what gw_show_device says
   (NULL: no line). */
void gw_show_job(const struct gw_show *show,
                 const char *file,
                 const struct gw_config *config,
                 const struct gw_ways *ways,
                 const char *why,
                 const char *device);

/*
 * What workers of this host compute on, and why: "cpu (auto: no cuda, ...)".
 * "" where that cannot be told. Drivers are asked by a process of its own
 * (child_run.h).
 */
#define GW_SHOW_DEVICE_MAX 512
void gw_show_device(const struct gw_config *config,
                    char text[GW_SHOW_DEVICE_MAX]);

/* `step` is the first one. */
void gw_show_running(struct gw_show *show, uint64_t step, uint64_t now_us);

/* A logged step: updates rates, writes a line unless there is a live one. */
void gw_show_step(struct gw_show *show,
                  const struct gw_step_report *report,
                  uint64_t now_us);

/* The live line, with the step that the job is in now; a few times a second. */
void gw_show_refresh(struct gw_show *show, uint64_t step, uint64_t now_us);

/* A line that stays. */
void gw_show_line(const struct gw_show *show, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Seconds since the first step could begin, and samples per second in all. */
double gw_show_wall_s(const struct gw_show *show);
double gw_show_mean_samples_per_s(const struct gw_show *show,
                                  const struct gw_final_report *report);

/* The table at the end; nothing but the end of the live line on failure. */
void gw_show_final(struct gw_show *show,
                   const struct gw_final_report *report,
                   const struct gw_config *config,
                   uint64_t rss_coordinator);

#endif
