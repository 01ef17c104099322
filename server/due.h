/*
 * Chunks to look at again: in another turn, since this one is over, or when a
 * decision is known that the sender of a push or a want knew already.
 *
 * Private to due.c. One thread.
 */
#ifndef GW_SERVER_DUE_H
#define GW_SERVER_DUE_H

#include <stdint.h>

#include "transport/link/backlog.h"

struct gw_due {
    struct gw_backlog chunks;
    uint32_t
        deferred;    /* pushes, and notes, that wait for a decision, or terms */
    int wants_ahead; /* some wants do */
};

/* `look` is called once for each chunk that was added. GW_ENOMEM. */
enum gw_status gw_due_open(struct gw_due *due,
                           struct gw_loop *loop,
                           uint32_t chunks,
                           void (*look)(void *owner, uint32_t chunk),
                           void *owner);
void gw_due_close(struct gw_due *due);

void gw_due_add(struct gw_due *due, uint32_t chunk);
void gw_due_add_all(struct gw_due *due);
/* 0: the turn is not over at that time. Else the chunk is added. */
int gw_due_later(struct gw_due *due, uint64_t now, uint32_t chunk);

/* A push waits for a decision; n of them do so no more. */
void gw_due_defer(struct gw_due *due);
void gw_due_undefer(struct gw_due *due, uint32_t n);
int gw_due_has_deferred(const struct gw_due *due);

/* A want waits for a decision. */
void gw_due_want_waits(struct gw_due *due);

/* A decision came: all chunks are looked at if anything waited for one. */
void gw_due_decided(struct gw_due *due);

#endif
