/*
 * --json FILE: one JSON object per logged step, one for each change of how
 * steps are divided, and one at the end. The names are a contract: scripts read
 * them.
 */
#ifndef GW_CLI_RECORD_H
#define GW_CLI_RECORD_H

#include <stdint.h>

#include "proto/status.h"
#include "server/coordinator/coordinator.h"

struct gw_record;

/* A logged step: the coordinator's report and measurements of the command. */
struct gw_record_step {
    const struct gw_step_report *report;
    double wall_s, samples_per_s;
    int has_accuracy;
    double accuracy; /* for the weights at the begin of the step */
};

struct gw_record_final {
    const struct gw_final_report *report;
    double wall_s, samples_per_s;
    uint64_t rss_coordinator;
};

/* Opens FILE to append to it. GW_EIO with a line. */
enum gw_status gw_record_open(const char *file,
                              struct gw_record **record_p,
                              struct gw_error *error);

/* Cuts off the last object of a file that can be read, where it is not whole.
   GW_EIO with a line. */
enum gw_status gw_record_mend(struct gw_record *record, struct gw_error *error);

/* Write an object each, at once. GW_EIO, GW_ENOSPC; reported once. */
enum gw_status gw_record_step(struct gw_record *record,
                              const struct gw_record_step *step,
                              struct gw_error *error);
enum gw_status gw_record_split(struct gw_record *record,
                               const struct gw_split_report *report,
                               struct gw_error *error);
enum gw_status gw_record_final(struct gw_record *record,
                               const struct gw_record_final *final,
                               struct gw_error *error);

/* NULL is allowed. */
void gw_record_close(struct gw_record *record);

#endif
