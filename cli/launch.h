/*
 * The launcher starts every process of a job on this machine with a link to
 * itself (cli/parent.h), tells the coordinator which process has ended, and
 * waits until none is left. It computes nothing and opens no port. When any
 * process dies, the launcher included, the others notice and end.
 */
#ifndef GW_CLI_LAUNCH_H
#define GW_CLI_LAUNCH_H

#include <stdint.h>

#include "cli/cli.h"

/* A program of the user's, of which each worker is a copy. */
struct gw_launch_program {
    const char *const *command; /* and its arguments, NULL last */
    uint16_t port;              /* MASTER_PORT */
    unsigned threads;           /* OMP_NUM_THREADS; 0: as it is */
};

struct gw_launch_options {
    const struct gw_cli_job *job; /* for the coordinator */
    const char *text;             /* text of the job file, which is read once */
    int resume;
    const char *json; /* or NULL */
    unsigned servers, workers;
    const struct gw_launch_program *program; /* NULL: workers are gradweir's */
    const struct gw_config
        *config; /* the job as the coordinator has it; members get this host's
                    own keys from it */
};

/* Runs the job; writes its own error lines. With programs the exit code may be
   another one, that of the program that failed first. */
enum gw_exit gw_launch(const struct gw_launch_options *options);

#endif
