/* The report of a study: one file that needs no other file and no network. */
#ifndef GW_CLI_STUDY_REPORT_H
#define GW_CLI_STUDY_REPORT_H

#include "cli/study/study_result.h"

/*
 * Writes DIR/report.html with the SVGs of DIR/plots; `note` (or NULL) is its
 * remark about missing ones. GW_EIO, GW_ENOSPC, GW_ENOMEM.
 */
enum gw_status gw_study_report(const struct gw_study *study,
                               const struct gw_study_result *results,
                               const char *dir,
                               const char *note,
                               struct gw_error *error);

#endif
