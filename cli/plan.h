/*
 * --dry-run: opens the data and makes the model of a job as a worker would, and
 * prints what would run.
 */
#ifndef GW_CLI_PLAN_H
#define GW_CLI_PLAN_H

#include "proto/config.h"
#include "proto/status.h"

enum gw_status gw_plan_print(const char *file,
                             const struct gw_config *config,
                             struct gw_error *error);

#endif
