/*
 * The lines that a person types for one program. The program is no job of the
 * terminal and may not read from it; a process that is passes them on.
 */
#ifndef GW_CLI_TYPED_H
#define GW_CLI_TYPED_H

#include <sys/types.h>

#include "proto/status.h"

/* Zeroed: none. */
struct gw_typed {
    pid_t pid;
};

/* Begins to read the terminal that is standard input. *fd_p becomes the
   program's standard input, the caller's to close. GW_EIO, GW_ENOMEM. */
enum gw_status
gw_typed_open(struct gw_typed *typed, int *fd_p, struct gw_error *error);

/* Allowed where none is open. */
void gw_typed_close(struct gw_typed *typed);

#endif
