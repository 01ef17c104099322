/*
 * What `train` refuses when it starts, asked beforehand by --dry-run: with the
 * same line, and without making, changing or holding anything.
 */
#ifndef GW_CLI_CHECK_H
#define GW_CLI_CHECK_H

#include "proto/config.h"
#include "server/checkpoint/begin.h"

/*
 * log.dir, --json FILE (NULL: none), the transport, cluster.interface, and
 * checkpoint.dir: whether it can be written, another job runs with it, and what
 * is in it. *begin has what --resume goes on from; its lines for people are
 * printed. Free it with gw_begin_free, in any case.
 */
enum gw_status gw_check_start(const struct gw_config *config,
                              int resume,
                              const char *json,
                              struct gw_begin *begin,
                              struct gw_error *error);

/*
 * Whether the whole job fits into the memory of this host, and of its devices
 * where workers compute on these, as it is now: GW_OK also where that cannot be
 * told, as without its data. GW_ENOMEM with a line of gw_needs_check. Devices
 * are asked by a process of its own (child_run.h).
 */
enum gw_status gw_check_memory(const struct gw_config *config,
                               struct gw_error *error);

#endif
