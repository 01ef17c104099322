/*
 * Results of a study as files: results.csv and results.jsonl with a row per
 * run, results.txt with a row per point (mean and spread over its seeds). The
 * bytes depend on the results alone.
 */
#ifndef GW_CLI_STUDY_WRITE_H
#define GW_CLI_STUDY_WRITE_H

#include <stdio.h>

#include "cli/study/study_result.h"
#include "transport/link/output.h"

/* Writes all files; each replaces its old version when it is complete. GW_EIO,
   GW_ENOSPC with a line. */
enum gw_status gw_study_write(const struct gw_study *study,
                              const struct gw_study_result *results,
                              const char *dir,
                              struct gw_error *error);

/* Prints the table of results.txt. GW_ENOMEM. */
enum gw_status gw_study_print(const struct gw_study *study,
                              const struct gw_study_result *results,
                              FILE *out,
                              struct gw_error *error);

/* Opens dir/name as gw_output_open does, with its errors. */
enum gw_status gw_study_open_file(const char *dir,
                                  const char *name,
                                  struct gw_output *output,
                                  struct gw_error *error);

#endif
