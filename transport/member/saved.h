/*
 * The last files that a member has saved for checkpoints, as it told the
 * coordinator: another one in its place has to hear of them, too. Pure state,
 * on the loop's thread.
 */
#ifndef GW_TRANSPORT_SAVED_H
#define GW_TRANSPORT_SAVED_H

#include "proto/control.h"
#include "proto/file_name.h"

/* More than there are checkpoints under way. */
#define GW_SAVED_KEPT 4

/* Zeroed to begin with. */
struct gw_saved_files {
    struct {
        struct gw_saved of; /* its texts are these */
        char file[GW_FILE_NAME_MAX];
        char text[GW_ERROR_TEXT_BYTES];
    } last[GW_SAVED_KEPT]; /* a ring */
    unsigned n;            /* so far */
};

/* Keeps a copy; returns it as a message, which lasts until the next call. */
struct gw_message gw_saved_keep(struct gw_saved_files *files,
                                const struct gw_saved *saved);

/* The messages that are kept, the oldest first: `i` from 0. 0: no more. */
int gw_saved_at(const struct gw_saved_files *files,
                unsigned i,
                struct gw_message *message_p);

#endif
