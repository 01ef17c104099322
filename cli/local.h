/*
 * Where the coordinators of this user's jobs take orders: a socket for each, in
 * a directory that is nobody else's.
 *
 *   $GRADWEIR_SOCKET_DIR/PID.sock       where that is set, else
 *   $XDG_RUNTIME_DIR/gradweir/PID.sock  where that can be written to, else
 *   /tmp/gradweir-UID/PID.sock
 *
 * PID is that of the process which the user has started.
 */
#ifndef GW_CLI_LOCAL_H
#define GW_CLI_LOCAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/status.h"

#define GW_LOCAL_PATH_MAX 108 /* a socket has no longer one */
#define GW_LOCAL_JOBS_MAX 64

/* A job that may be running: its process may be dead, too. */
struct gw_local_job {
    uint32_t pid;
    char path[GW_LOCAL_PATH_MAX];
};

struct gw_local_jobs {
    size_t n;
    struct gw_local_job job[GW_LOCAL_JOBS_MAX]; /* by pid */
};

/*
 * The place for the socket of a job, whose directory is there after this. A
 * directory that others can enter, that is another user's or that is none is
 * refused. GW_EREFUSED, GW_EIO, GW_ERANGE (a longer path than a socket has).
 */
enum gw_status gw_local_place(uint32_t pid,
                              char path[GW_LOCAL_PATH_MAX],
                              struct gw_error *error);

/*
 * The sockets in all of these places, at most GW_LOCAL_JOBS_MAX. Directories
 * that are refused are passed over; where one is, and nothing was found
 * elsewhere, that is the error: GW_EREFUSED. None at all is GW_OK.
 */
enum gw_status gw_local_list(struct gw_local_jobs *jobs,
                             struct gw_error *error);

#endif
