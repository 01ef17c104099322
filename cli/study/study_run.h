/*
 * Executes the runs of a study, each in a process of its own, on all cores. A
 * run writes its files under temporary names and renames them at the end, so
 * after any interruption the existing files are complete and their runs are not
 * repeated:
 *
 *   DIR/runs/ID.jsonl   the record (record.h), and behind it one line of how
 *                       the run ended: {"end":"done"} or {"end":"failed",
 *                       "why":"..."}; a run that diverges has ended, too
 *   DIR/runs/ID.spans   simulated: the times of computing (simulate.h)
 *   DIR/runs/ID.job     processes: the job as it ran; ID.out has its output
 */
#ifndef GW_CLI_STUDY_RUN_H
#define GW_CLI_STUDY_RUN_H

#include <stdio.h>

#include "cli/study/study.h"

struct gw_study_run_options {
    const struct gw_study *study;
    const char *dir; /* created */
    unsigned jobs;   /* parallel runs */
    FILE *out;       /* gets a line for each ended run */
};

/*
 * Runs all runs and waits for them. GW_EINTERRUPTED after SIGINT, SIGTERM or
 * SIGHUP: unfinished runs are dropped, and the same call resumes the study;
 * GW_EEXIST: another study runs in that directory; GW_EIO, GW_ENOSPC,
 * GW_ENOMEM. Leaves no process behind, even when this one is killed.
 */
enum gw_status gw_study_run_all(const struct gw_study_run_options *options,
                                struct gw_error *error);

#endif
