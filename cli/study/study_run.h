/*
 * Runs the runs of a study, each in a process of its own, on the cores there
 * are. What a run leaves is made under another name and then renamed, so that
 * whatever interrupts a study, what is there is whole and is not run again:
 *
 *   DIR/runs/ID.jsonl   the record (record.h), and behind it one line of how
 *                       the run ended: {"end":"done"} or {"end":"failed",
 *                       "why":"..."}; a run that diverges is one that ended
 *   DIR/runs/ID.spans   simulated: who computed when (simulate.h)
 *   DIR/runs/ID.job     processes: the job as it ran, and in ID.out what it
 * said
 */
#ifndef GW_CLI_STUDY_RUN_H
#define GW_CLI_STUDY_RUN_H

#include <stdio.h>

#include "cli/study/study.h"

struct gw_study_run_options {
    const struct gw_study *study;
    const char *dir; /* is made */
    unsigned jobs;   /* at a time */
    FILE *out;       /* a line for each run that ends */
};

/*
 * Returns when every run has ended. GW_EINTERRUPTED after SIGINT, SIGTERM or
 * SIGHUP: those that ran are given up, and the same call goes on from there;
 * GW_EEXIST: another study runs in that directory; GW_EIO, GW_ENOSPC,
 * GW_ENOMEM. No process of it is left behind, not even when this one is killed.
 */
enum gw_status gw_study_run_all(const struct gw_study_run_options *options,
                                struct gw_error *error);

#endif
