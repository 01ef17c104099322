/*
 * What whoever starts a job says, to train and to coordinator alike: the job
 * file, --set, --resume and --json.
 */
#ifndef GW_CLI_ORDER_H
#define GW_CLI_ORDER_H

#include "cli/cli.h"
#include "proto/config.h"

/* The options; those of a command count on from GW_ORDER_OWN. */
enum {
    GW_ORDER_SET = 1,
    GW_ORDER_RESUME,
    GW_ORDER_JSON,
    GW_ORDER_HELP,
    GW_ORDER_OWN
};

/* For a table of struct option. */
/* clang-format off */
#define GW_ORDER_OPTIONS                                                       \
    {"set", required_argument, NULL, GW_ORDER_SET},                            \
    {"resume", no_argument, NULL, GW_ORDER_RESUME},                            \
    {"json", required_argument, NULL, GW_ORDER_JSON},                          \
    {"help", no_argument, NULL, GW_ORDER_HELP}
/* clang-format on */

struct gw_order {
    struct gw_cli_job job;
    int resume;
    const char *json; /* NULL: none */
};

/* One of the first three options. GW_EUSAGE with a line. */
enum gw_status gw_order_option(struct gw_order *order,
                               int option,
                               const char *value,
                               struct gw_error *error);

/* The job, checked as far as its keys alone tell. GW_EUSAGE with a line. */
enum gw_status gw_order_load(const struct gw_order *order,
                             struct gw_config *config,
                             struct gw_error *error);

/* The job file or "--set": which of them has said what a line begins with, a
   key's name. */
const char *gw_order_origin(const struct gw_order *order, const char *line);

#endif
