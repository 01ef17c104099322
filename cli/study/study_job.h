/* One run of a study, in the process that calls. */
#ifndef GW_CLI_STUDY_JOB_H
#define GW_CLI_STUDY_JOB_H

#include "cli/study/study.h"

/*
 * Runs it, simulated (in so many threads) or as processes of its own, and
 * leaves its files (see study_run.h). That a run fails or diverges is in its
 * record. Else GW_EIO, GW_ENOSPC, GW_ENOMEM: this machine cannot go on with the
 * study. Processes of a real run end in order when this one ends.
 */
enum gw_status gw_study_job(const struct gw_study *study,
                            const struct gw_study_run *run,
                            const char *dir,
                            unsigned threads,
                            struct gw_error *error);

/* The line of how a run ended, `why` or NULL for well; then its record has its
   name. GW_EIO, GW_ENOSPC. */
enum gw_status gw_study_job_end(const char *dir,
                                const struct gw_study_run *run,
                                const char *why,
                                struct gw_error *error);

/* The path of one of a run's files, "jsonl" or "spans"; the caller frees it.
   NULL: no memory. */
char *gw_study_run_path(const char *dir,
                        const struct gw_study_run *run,
                        const char *ending);

#endif
