/*
 * The log of one process in log.dir: ROLE-HOST-PID.log. Links that somebody put
 * there are not written through.
 */
#ifndef GW_CLI_LOG_FILE_H
#define GW_CLI_LOG_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/access.h"
#include "proto/status.h"

struct gw_log_file {
    const char *dir; /* log.dir, made where it is missing */
    enum gw_access access;
    const char *role, *host;
    uint32_t pid;
};

/*
 * Opens it, to be written at its end: a process of this name may have been here
 * before. `doubt` is "", or a line where others can change what is in the
 * directory. GW_EIO, GW_ENOENT, GW_ENOSPC, GW_ENOMEM, GW_EREFUSED (something is
 * in its place), each with a line; *fd_p is set on GW_OK.
 */
enum gw_status gw_log_file_open(const struct gw_log_file *file,
                                int *fd_p,
                                char *doubt,
                                size_t room,
                                struct gw_error *error);

#endif
