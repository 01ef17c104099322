/*
 * --dry-run: makes the checks of train, opens the data and builds the model as
 * a worker would, and prints the processes that would run.
 */
#ifndef GW_CLI_DRY_RUN_H
#define GW_CLI_DRY_RUN_H

#include "proto/config.h"
#include "proto/status.h"

struct gw_dry_run_options {
    const char *file; /* job file */
    const char *text; /* its text; a pipe can be read only once */
    const struct gw_config *config;
    int resume;
    const char *json; /* NULL: none */
    int overcommit;   /* skips the check of memory */
};

enum gw_status gw_dry_run(const struct gw_dry_run_options *options,
                          struct gw_error *error);

#endif
