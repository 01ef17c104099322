/*
 * The log of one process in log.dir: ROLE-HOST-PID.log, or another name. Never
 * writes through a symbolic link.
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
    const char *name; /* instead of role, host and pid; or NULL */
};

/*
 * Opens the log to append, since an earlier process may have had this name.
 * `doubt` gets a warning if other users can change the directory, else "".
 * GW_EIO, GW_ENOENT, GW_ENOSPC, GW_ENOMEM, GW_EREFUSED (not a regular file),
 * each with a line; *fd_p is set on GW_OK.
 */
enum gw_status gw_log_file_open(const struct gw_log_file *file,
                                int *fd_p,
                                char *doubt,
                                size_t room,
                                struct gw_error *error);

#endif
