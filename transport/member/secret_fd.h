/*
 * A job's secret on its way from a launcher to a process of the job: an unnamed
 * file that the process inherits. Arguments and the environment, which other
 * users may read, have only the number of the descriptor.
 */
#ifndef GW_TRANSPORT_SECRET_FD_H
#define GW_TRANSPORT_SECRET_FD_H

#include "proto/secret.h"
#include "proto/status.h"

/* A descriptor from which the secret can be read; the caller's to close, and
   closed by every exec that does not pass it on. GW_EIO. */
enum gw_status gw_secret_lend(const struct gw_secret *secret,
                              int *fd_p,
                              struct gw_error *error);

/* Reads the secret and leaves the descriptor as it was: programs that this
   process starts may read it, too. GW_EIO: no secret is there. */
enum gw_status
gw_secret_read(int fd, struct gw_secret *secret, struct gw_error *error);

/* Reads the secret, and closes the descriptor. GW_EIO: no secret is there. */
enum gw_status
gw_secret_take(int fd, struct gw_secret *secret, struct gw_error *error);

#endif
