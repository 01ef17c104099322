/*
 * A job as people see it: on a terminal one live line, rewritten in place; in a
 * file or pipe plain lines; at the end a short table.
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
    FILE *out; /* the printer's stream */
    struct gw_printer *printer;
    int by_hand;  /* the process has no launcher */
    int terminal; /* its descriptor where there is a live line, or -1 */
    struct gw_steady clock; /* for all times below */
    uint64_t began_us;      /* when the first step could begin; 0: not yet */
    uint64_t ended_us;      /* 0: not yet */
    uint64_t first_step;    /* first step of this run */
    struct gw_step_report last; /* the newest logged step */
    int has_last;
    struct gw_step_report since; /* rates are from there to the last one */
    uint64_t since_us;
    double steps_per_s, samples_per_s, gigabytes_per_s; /* recent */
    /* for the live line, which shows more than logged steps */
    struct gw_show_mark {
        uint64_t step, us;
    } mark[2];   /* up to two times PACE_US ago, and up to once */
    double pace; /* steps per second; below 0: not known yet */
};

/* Begins a zeroed `show`, which prints by `printer` to the file `fd`. */
void gw_show_open(struct gw_show *show, struct gw_printer *printer, int fd);

/* Prints the first lines: the job, the chosen transports with the reason `why`
   of gw_routes_find, and the device line of gw_show_device (NULL: none). */
void gw_show_job(const struct gw_show *show,
                 const char *file,
                 const struct gw_config *config,
                 const struct gw_routes *routes,
                 const char *why,
                 const char *device);

/*
 * The device of this host's workers and the reason: "cpu (auto: no cuda, ...)";
 * "" if unknown. A child process asks the drivers (child_run.h).
 */
#define GW_SHOW_DEVICE_MAX 512
void gw_show_device(const struct gw_config *config,
                    char text[GW_SHOW_DEVICE_MAX]);

/* `step` is the first one, and could begin at that time. */
void gw_show_running(struct gw_show *show, uint64_t step, uint64_t began_us);

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
