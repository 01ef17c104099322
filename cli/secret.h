/*
 * The secret of a job that a launcher starts. Only processes of the job know
 * it, so nothing else can join. Each child reads it from a descriptor of its
 * own (transport/member/secret_fd.h).
 */
#ifndef GW_CLI_SECRET_H
#define GW_CLI_SECRET_H

#include "proto/secret.h"
#include "proto/status.h"

#define GW_SECRET_FD 4 /* in a started process, behind GW_PARENT_FD */

/* Draws one. GW_EIO. */
enum gw_status gw_secret_draw(struct gw_secret *secret, struct gw_error *error);

#endif
