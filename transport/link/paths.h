/*
 * Relative paths of a job. Paths in a job file are relative to the folder of
 * the file, paths of the command line to the current folder. Both are made
 * absolute right after they are read, so that members, checkpoints and other
 * processes mean the same files.
 */
#ifndef GW_TRANSPORT_PATHS_H
#define GW_TRANSPORT_PATHS_H

#include "proto/config.h"
#include "proto/status.h"

/*
 * The absolute folder of `file`; the current folder for NULL, for a file that
 * is not regular (a pipe), and for a name of a descriptor (/dev/stdin). Does
 * not resolve symbolic links. GW_EUSAGE: too long; GW_EIO: the current folder
 * is gone.
 */
enum gw_status
gw_paths_dir(const char *file, char dir[GW_PATH_BYTES], struct gw_error *error);

/* Makes the relative paths of *config absolute. Errors of gw_paths_dir, if
   there are relative paths, and of gw_config_root_paths. */
enum gw_status gw_paths_root(struct gw_config *config,
                             const char *file,
                             struct gw_error *error);

#endif
