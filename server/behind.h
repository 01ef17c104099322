/*
 * Shard 0 tells members of decisions. The struct is private to behind.c.
 */
#ifndef GW_SERVER_BEHIND_H
#define GW_SERVER_BEHIND_H

#include "proto/control.h"
#include "transport/member/member.h"

struct gw_server;

/* Decisions of steps that a worker is behind, as one. */
struct gw_behind {
    uint32_t n;      /* so many, */
    uint64_t number; /* up to this one */
    double loss_scale;
    uint64_t counts, late; /* + 1, the last clock in which it does, or not */
};

/* Shard 0 tells a member of a decision, or of several as one if
   the member does not keep up; `taken` goes on with them. */
void gw_behind_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_decision *decision);
void gw_behind_taken(struct gw_peer *peer);
/* Tells a worker that begins in the middle of the stream where it is. */
void gw_behind_begin(struct gw_server *server, struct gw_peer *peer);

#endif
