/*
 * The secret of a job that a launcher starts. Only processes of the job know
 * it, so nothing else can join. Each child reads it from a pipe of its own,
 * never from arguments or the environment, which other processes of the host
 * may read.
 */
#ifndef GW_CLI_SECRET_H
#define GW_CLI_SECRET_H

#include "proto/secret.h"
#include "proto/status.h"

#define GW_SECRET_FD 4 /* in a started process, behind GW_PARENT_FD */

/* Draws one. GW_EIO. */
enum gw_status gw_secret_draw(struct gw_secret *secret, struct gw_error *error);

/* A descriptor from which it can be read once, for one child; the caller's to
   close, and closed by every other exec. GW_EIO. */
enum gw_status gw_secret_lend(const struct gw_secret *secret,
                              int *fd_p,
                              struct gw_error *error);

/* In a child: reads it, and closes the descriptor. GW_EIO: there is not as much
   there. */
enum gw_status
gw_secret_take(int fd, struct gw_secret *secret, struct gw_error *error);

#endif
