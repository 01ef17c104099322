/* One run of a study, in the calling process. */
#ifndef GW_CLI_STUDY_JOB_H
#define GW_CLI_STUDY_JOB_H

#include "cli/study/study.h"

/*
 * Executes a run, simulated in `threads` threads or as processes of its own,
 * and leaves its files (study_run.h). A run that fails or diverges says so in
 * its record. GW_EIO, GW_ENOSPC, GW_ENOMEM: this machine cannot go on with the
 * study. Processes of a run end in order with this process.
 */
enum gw_status gw_study_job(const struct gw_study *study,
                            const struct gw_study_run *run,
                            const char *dir,
                            unsigned threads,
                            struct gw_error *error);

/* Appends the line that ends a run's record, with the failure `why` or NULL,
   and gives the record its final name. GW_EIO, GW_ENOSPC. */
enum gw_status gw_study_job_end(const char *dir,
                                const struct gw_study_run *run,
                                const char *why,
                                struct gw_error *error);

/* Path of a file of a run, "jsonl" or "spans"; free it with free. NULL: no
   memory. */
char *gw_study_run_path(const char *dir,
                        const struct gw_study_run *run,
                        const char *ending);

#endif
