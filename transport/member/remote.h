/*
 * Checkpoint files of a member that cannot access checkpoint.dir: the
 * coordinator reads and writes them for it, through windows (proto/control.h
 * describes the exchange). One request at a time; after a broken link the
 * request, or its lost part, is sent again. Everything on the loop's thread.
 */
#ifndef GW_TRANSPORT_REMOTE_H
#define GW_TRANSPORT_REMOTE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/file_name.h"
#include "proto/wire.h"
#include "transport/link/loop.h"
#include "transport/member/member.h"

struct gw_remote;

/* The result of a request; `bytes`: the file's size, if that was asked for. */
typedef void gw_remote_cb(void *owner,
                          enum gw_status status,
                          const char *text,
                          uint64_t bytes);

/* `coordinator` outlives it. GW_ENOMEM. */
enum gw_status gw_remote_open(struct gw_peer *coordinator,
                              struct gw_remote **remote_p,
                              struct gw_error *error);
void gw_remote_close(struct gw_remote *remote);

/*
 * Reads n bytes at `offset` of a file of the checkpoint of `clock`, or, with n
 * = 0, asks for the file's size. `to` is filled when `done` says GW_OK.
 */
void gw_remote_read(struct gw_remote *remote,
                    uint64_t clock,
                    const char *name,
                    uint64_t offset,
                    void *to,
                    size_t n,
                    gw_remote_cb *done,
                    void *owner);

/* Writes a whole file; `parts` and the bytes they point to stay until `done`,
   which is not called if the coordinator's peer is closed before. */
void gw_remote_write(struct gw_remote *remote,
                     uint64_t clock,
                     const char *name,
                     const struct gw_file_part *parts,
                     size_t n_parts,
                     gw_remote_cb *done,
                     void *owner);

/* Events of the coordinator's peer: a link is up again; another process has
   taken its place, which nothing may be asked until it knows this member; and
   then it does. Requests that are under way begin anew. */
void gw_remote_link_up(struct gw_remote *remote);
void gw_remote_hold(struct gw_remote *remote);
void gw_remote_renew(struct gw_remote *remote);
void gw_remote_reply(struct gw_remote *remote,
                     const struct gw_file_reply *reply);
/* Returns 0 for an unexpected frame. */
int gw_remote_frame(struct gw_remote *remote, const struct gw_frame *frame);

#endif
