/*
 * The jobs of this user that run on this host, by the sockets at which they
 * take orders, and what they say of themselves.
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
        char *text; /* its status; NULL: it is there, but does not answer */
    } one[GW_LOCAL_JOBS_MAX];
};

/*
 * Asks all who may be running, or the one that was started as process `pid` (0:
 * any), for at most limit_us together; the sockets of the dead answer at once.
 * *jobs is for gw_jobs_free in any case. Errors of gw_local_list, GW_ENOMEM.
 */
enum gw_status gw_jobs_find(struct gw_jobs **jobs_p,
                            uint64_t pid,
                            uint64_t limit_us,
                            struct gw_error *error);
void gw_jobs_free(struct gw_jobs *jobs);

/* A line for each: its pid, and the first line of what it says. */
void gw_jobs_list(const struct gw_jobs *jobs, FILE *to);

/*
 * Asks the job at a socket for its status, or, with an order, that it does it.
 * The caller frees *text_p. Errors of gw_ask.
 */
enum gw_status gw_jobs_ask(const char *path,
                           const struct gw_request *order,
                           uint64_t limit_us,
                           char **text_p,
                           struct gw_error *error);

#endif
