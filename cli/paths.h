/*
 * What relative paths of a job are relative to: those in a file to the folder
 * in which the file is, those of the command line to where the user stands.
 * After the words of each have been read their paths are made absolute, so that
 * members, checkpoints and processes elsewhere mean the same files.
 */
#ifndef GW_CLI_PATHS_H
#define GW_CLI_PATHS_H

#include "proto/config.h"
#include "proto/status.h"

/*
 * The folder of `file`, absolute; NULL, what is no regular file, such as a
 * pipe, or is named as a descriptor, such as /dev/stdin: the current one.
 * Symbolic links stay. GW_EUSAGE: it is too long; GW_EIO: the current folder is
 * gone.
 */
enum gw_status
gw_paths_dir(const char *file, char dir[GW_PATH_BYTES], struct gw_error *error);

/* Makes the relative paths of *config absolute. Errors of gw_paths_dir, where
   there are any, and of gw_config_root_paths. */
enum gw_status gw_paths_root(struct gw_config *config,
                             const char *file,
                             struct gw_error *error);

#endif
