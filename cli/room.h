/*
 * What the processes of a job take of what the system limits: open files of
 * each, processes and threads of them all. Counted before anyone is ready, so
 * that a limit that is too low is told by whom it holds for, and with its
 * number, and not by others who wait.
 */
#ifndef GW_CLI_ROOM_H
#define GW_CLI_ROOM_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/login.h"

/* Descriptors that a process of that role has open at most, its links being
   up. */
uint64_t gw_room_files(const struct gw_config *config, enum gw_role role);

/*
 * Whether this process, of that role, has room for what it is going to open and
 * start; two threads of it are there. GW_ENOMEM with a line.
 */
enum gw_status gw_room_check(const struct gw_config *config,
                             enum gw_role role,
                             struct gw_error *error);

/* Whether this host has room for all of a job's processes beside this one,
   which is to start them. GW_ENOMEM with a line. */
enum gw_status gw_room_check_job(const struct gw_config *config,
                                 struct gw_error *error);

#endif
