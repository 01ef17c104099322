/*
 * --dry-run: asks what train would refuse when it starts, opens the data and
 * makes the model of a job as a worker would, and prints what would run.
 */
#ifndef GW_CLI_DRY_RUN_H
#define GW_CLI_DRY_RUN_H

#include "proto/config.h"
#include "proto/status.h"

struct gw_dry_run_options {
    const char *file; /* of the job */
    const char *text; /* that was read from it, which a pipe gives once */
    const struct gw_config *config;
    int resume;
    const char *json; /* NULL: none */
    int overcommit;   /* whether it fits is not looked at */
};

enum gw_status gw_dry_run(const struct gw_dry_run_options *options,
                          struct gw_error *error);

#endif
