/*
 * A file at a path that the user named, to be written anew. Blocking calls, on
 * the real file system.
 *
 * The file appears whole or not at all: it is written beside its place, synced,
 * and renamed. Only nothing or a regular file gives way to it. Symbolic links
 * are followed first and stay what they are: their target gets the bytes. A
 * device, a FIFO and what else is no regular file are written into.
 */
#ifndef GW_TRANSPORT_OUTPUT_H
#define GW_TRANSPORT_OUTPUT_H

#include <stdio.h>

#include "proto/status.h"

/* The caller writes to `file` from its beginning on, and seeks nowhere. */
struct gw_output {
    FILE *file;      /* NULL: closed */
    int number;      /* errno of the write that failed first, or 0 */
    char *path;      /* as the user named it, for messages */
    char *place;     /* where links lead to; NULL: written into directly */
    char *temporary; /* beside that place */
};

/*
 * Opens `path`, of which nothing changes before the commit unless it is written
 * into; a FIFO waits for its reader. GW_ENOMEM, GW_ENOENT, GW_ENOSPC, GW_EIO,
 * with a line that names the path. *output is set in any case, so that
 * gw_output_abandon may follow.
 */
enum gw_status gw_output_open(const char *path,
                              struct gw_output *output,
                              struct gw_error *error);

/* Writes to the file; a failure shows in the commit, with its reason. Returns 0
   after one. */
int gw_output_put(struct gw_output *output, const void *bytes, size_t n);

/* All of it is on the disk, in its place; or an error, and what was there
   before. Either way the output is closed. Errors as above. */
enum gw_status gw_output_commit(struct gw_output *output,
                                struct gw_error *error);

/* Leaves what was there. Also for an output that is closed. */
void gw_output_abandon(struct gw_output *output);

#endif
