/*
 * The checks of `train`, for --dry-run: the same error lines, but nothing is
 * made, changed or held.
 */
#ifndef GW_CLI_CHECK_H
#define GW_CLI_CHECK_H

#include "proto/config.h"
#include "server/checkpoint/begin.h"

/*
 * Checks log.dir, --json FILE (NULL: none), the transport, cluster.interface
 * and checkpoint.dir: writable, not in use by another job, its contents. *begin
 * has the checkpoint that --resume goes on from; its lines for people are
 * printed. Free it with gw_begin_free, also on failure.
 */
enum gw_status gw_check_start(const struct gw_config *config,
                              int resume,
                              const char *json,
                              struct gw_begin *begin,
                              struct gw_error *error);

/*
 * Checks that the whole job fits into the memory of this host as it is now, and
 * into its devices' where workers compute on them. GW_OK also where the job's
 * size is unknown, as without its data. GW_ENOMEM with a line of
 * gw_needs_check. A child process asks the devices (child_run.h).
 */
enum gw_status gw_check_memory(const struct gw_config *config,
                               struct gw_error *error);

#endif
