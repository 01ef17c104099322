/*
 * Sockets at which the coordinators of this user's jobs take orders, in a
 * directory that only this user can enter: the first of
 *
 *   $GRADWEIR_SOCKET_DIR/PID.sock       if set
 *   $XDG_RUNTIME_DIR/gradweir/PID.sock  if it can be written to
 *   /tmp/gradweir-UID/PID.sock
 *
 * PID is the process that the user has started.
 */
#ifndef GW_CLI_LOCAL_H
#define GW_CLI_LOCAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/status.h"

#define GW_LOCAL_PATH_MAX 108 /* a socket has no longer one */
#define GW_LOCAL_JOBS_MAX 64

/* A job that may be running, or whose process may be dead. */
struct gw_local_job {
    uint32_t pid;
    char path[GW_LOCAL_PATH_MAX];
};

struct gw_local_jobs {
    size_t n;
    struct gw_local_job job[GW_LOCAL_JOBS_MAX]; /* by pid */
};

/*
 * Chooses the socket path of a job and makes its directory. Refuses a directory
 * that others can enter, that another user owns, or that is not a directory.
 * GW_EREFUSED, GW_EIO, GW_ERANGE (path too long for a socket).
 */
enum gw_status gw_local_place(uint32_t pid,
                              char path[GW_LOCAL_PATH_MAX],
                              struct gw_error *error);

/*
 * Lists the sockets in all of these places, at most GW_LOCAL_JOBS_MAX. Skips
 * refused directories; GW_EREFUSED if there was one and no socket elsewhere.
 * GW_OK without any socket.
 */
enum gw_status gw_local_list(struct gw_local_jobs *jobs,
                             struct gw_error *error);

#endif
