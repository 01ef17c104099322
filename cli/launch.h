/*
 * The launcher: starts every process of a job on this machine, holds each on a
 * leash, tells the coordinator whose process has ended, and waits until none is
 * left. It computes nothing and opens no port. Whoever dies, the launcher
 * included, the others notice and end.
 */
#ifndef GW_CLI_LAUNCH_H
#define GW_CLI_LAUNCH_H

#include "cli/cli.h"

struct gw_launch_options {
    const struct gw_cli_job *job; /* for the coordinator */
    const char *text;             /* of its file, which is not read again */
    int resume;
    const char *json; /* or NULL */
    unsigned servers, workers;
    const struct gw_config *config; /* the job as the coordinator has it: what
                                       is this host's own members are given */
};

/* Runs the job; lines about what failed are written. */
enum gw_exit gw_launch(const struct gw_launch_options *options);

#endif
