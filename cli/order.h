/*
 * Options that start a job, shared by train and coordinator: the job file,
 * --set, --resume and --json.
 */
#ifndef GW_CLI_ORDER_H
#define GW_CLI_ORDER_H

#include "cli/options.h"
#include "proto/config.h"

/* Its rows of a command's table; `order` is the member of `type`. */
/* clang-format off */
#define GW_ORDER_OPTIONS(type, order)                                          \
    GW_OPTION_SET(type, order.job, "change a key of the job"),                 \
    {.name = "resume", .take = gw_option_flag,                                 \
     .at = offsetof(type, order.resume),                                       \
     .help = "go on from the newest checkpoint in checkpoint.dir"},            \
    {.name = "json", .argument = "FILE", .take = gw_option_text,               \
     .at = offsetof(type, order.json),                                         \
     .help = "append an object per logged step; - for standard output, and "   \
             "lines for people on standard error"}
/* clang-format on */

struct gw_order {
    struct gw_cli_job job;
    int resume;
    const char *json; /* NULL: none */
};

/* Loads the job and checks its keys against each other. GW_EUSAGE with a
   line. */
enum gw_status gw_order_load(const struct gw_order *order,
                             struct gw_config *config,
                             struct gw_error *error);

/* The second half of that, for a job that is loaded. */
enum gw_status gw_order_check(const struct gw_order *order,
                              const struct gw_config *config,
                              struct gw_error *error);

/* Refuses a job whose model is a program of the user's, for commands that need
   a model of gradweir's: GW_EUSAGE with a line that goes on with `instead`. */
enum gw_status gw_order_check_builtin(const struct gw_config *config,
                                      const char *instead,
                                      struct gw_error *error);

/* The origin of the key at the beginning of `line`: "--set" or the job file's
   name, for error lines. */
const char *gw_order_origin(const struct gw_order *order, const char *line);

#endif
