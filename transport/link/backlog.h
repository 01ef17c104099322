/*
 * Pieces of work that wait for a turn of the loop: a set of numbers below n,
 * looked at in the order in which they were added, as many in a turn as it has
 * time for (gw_loop_turn_is_over), the others in a later one. One that is added
 * twice is looked at once. All on the loop's thread.
 */
#ifndef GW_TRANSPORT_BACKLOG_H
#define GW_TRANSPORT_BACKLOG_H

#include <stdint.h>

#include "transport/link/loop.h"

/* Zero it, and fill in the first three. */
struct gw_backlog {
    struct gw_loop *loop;
    /* One piece, and no more; may add any, itself too. */
    void (*look)(void *owner, uint32_t number);
    void *owner;
    /* its own */
    uint8_t *waits;  /* [n] */
    uint32_t *queue; /* [n], a ring */
    uint32_t n, first, waiting;
    int running;
    struct gw_task task;
};

/* GW_ENOMEM. Free it with close, which forgets what waits; also where it was
   not opened. */
enum gw_status gw_backlog_open(struct gw_backlog *backlog, uint32_t n);
void gw_backlog_close(struct gw_backlog *backlog);

/* To be looked at in a later turn, never within this call. */
void gw_backlog_add(struct gw_backlog *backlog, uint32_t number);

/* All of them, and as many at once as the turn that goes on has time for;
   within a look none. */
void gw_backlog_add_all(struct gw_backlog *backlog);

#endif
