/*
 * The launcher starts every process of a job on this machine with a link to
 * itself (cli/parent.h), tells the coordinator which process has ended, and
 * waits until none is left. It computes nothing and opens no port. When any
 * process dies, the launcher included, the others notice and end.
 */
#ifndef GW_CLI_LAUNCH_H
#define GW_CLI_LAUNCH_H

#include "cli/cli.h"

struct gw_launch_options {
    const struct gw_cli_job *job; /* for the coordinator */
    const char *text;             /* text of the job file, which is read once */
    int resume;
    const char *json; /* or NULL */
    unsigned servers, workers;
    const struct gw_config
        *config; /* the job as the coordinator has it; members get this host's
                    own keys from it */
};

/* Runs the job; writes its own error lines. */
enum gw_exit gw_launch(const struct gw_launch_options *options);

#endif
