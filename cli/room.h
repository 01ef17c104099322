/*
 * System limits that the processes of a job need: open files per process,
 * processes and threads in all. Checked before anybody is ready, so that the
 * error names the limit, its number and its owner, instead of other members
 * waiting.
 */
#ifndef GW_CLI_ROOM_H
#define GW_CLI_ROOM_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/login.h"

/* Descriptors that a process of that role has open at most, with all links
   up. */
uint64_t gw_room_files(const struct gw_config *config, enum gw_role role);

/*
 * Checks the limits of this process for its role; two of its threads exist
 * already. GW_ENOMEM with a line.
 */
enum gw_status gw_room_check(const struct gw_config *config,
                             enum gw_role role,
                             struct gw_error *error);

/* Checks the limits of this host for all processes of a job that this process
   will start. GW_ENOMEM with a line. */
enum gw_status gw_room_check_job(const struct gw_config *config,
                                 struct gw_error *error);

#endif
