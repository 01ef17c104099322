/*
 * Running jobs of this user on this host, found by the sockets of their
 * coordinators, and their status.
 */
#ifndef GW_CLI_JOBS_H
#define GW_CLI_JOBS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/local.h"
#include "proto/control.h"
#include "proto/status.h"

struct gw_jobs {
    size_t n;
    struct gw_jobs_one {
        struct gw_local_job job;
        char *text; /* its status; NULL: no answer */
    } one[GW_LOCAL_JOBS_MAX];
};

/*
 * Asks all jobs that may be running, or the one with process `pid` (0: any),
 * for at most limit_us together; sockets of dead processes fail at once. Free
 * *jobs with gw_jobs_free, also on failure. Errors of gw_local_list, GW_ENOMEM.
 */
enum gw_status gw_jobs_find(struct gw_jobs **jobs_p,
                            uint64_t pid,
                            uint64_t limit_us,
                            struct gw_error *error);
void gw_jobs_free(struct gw_jobs *jobs);

/* Prints a line per job: its pid and the first line of its status. */
void gw_jobs_list(const struct gw_jobs *jobs, FILE *to);

/*
 * Asks the job at a socket for its status, or gives it an order. The caller
 * frees *text_p. Errors of gw_ask.
 */
enum gw_status gw_jobs_ask(const char *path,
                           const struct gw_request *order,
                           uint64_t limit_us,
                           char **text_p,
                           struct gw_error *error);

#endif
