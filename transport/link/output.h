/*
 * A new file at a path that the user named. Blocking calls, on the real file
 * system.
 *
 * The file appears whole or not at all: it is written next to its place,
 * synced, and renamed. It replaces nothing but a regular file. Symbolic links
 * are followed first and stay in place: their target gets the bytes. A device,
 * a FIFO or anything else that is no regular file is written into.
 */
#ifndef GW_TRANSPORT_OUTPUT_H
#define GW_TRANSPORT_OUTPUT_H

#include <stdio.h>

#include "proto/status.h"

/* The caller writes to `file` from its beginning on, and never seeks. */
struct gw_output {
    FILE *file;      /* NULL: closed */
    int number;      /* errno of the first write that failed, or 0 */
    char *path;      /* as the user named it, for messages */
    char *place;     /* target of the links; NULL: written into directly */
    char *temporary; /* in the directory of `place` */
};

/*
 * Opens `path`; the existing file does not change before the commit, unless it
 * is written into; a FIFO waits for its reader. GW_ENOMEM, GW_ENOENT,
 * GW_ENOSPC, GW_EIO, with a line that names the path. *output is set in any
 * case, so that gw_output_abandon may follow.
 */
enum gw_status gw_output_open(const char *path,
                              struct gw_output *output,
                              struct gw_error *error);

/* Writes to the file; a failure shows in the commit, with its reason. Returns 0
   after one. */
int gw_output_put(struct gw_output *output, const void *bytes, size_t n);

/* Syncs and renames the file. After an error the previous file is still there.
   The output is closed in either case. Errors as above. */
enum gw_status gw_output_commit(struct gw_output *output,
                                struct gw_error *error);

/* Keeps the previous file. Also for an output that is closed. */
void gw_output_abandon(struct gw_output *output);

#endif
