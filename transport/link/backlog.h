/*
 * Pieces of work that wait for a turn of the loop: a set of numbers below n,
 * handled in the order in which they were added, as many in a turn as it has
 * time for (gw_loop_turn_is_over), the others in a later one. A number that is
 * added twice is handled once. All on the loop's thread.
 */
#ifndef GW_TRANSPORT_BACKLOG_H
#define GW_TRANSPORT_BACKLOG_H

#include <stdint.h>

#include "transport/link/loop.h"

/* Zero it, and fill in the first three. */
struct gw_backlog {
    struct gw_loop *loop;
    /* handles one piece, and no more; may add any number, its own too */
    void (*handle)(void *owner, uint32_t number);
    void *owner;
    /* its own */
    uint8_t *waits;  /* [n] */
    uint32_t *queue; /* [n], a ring */
    uint32_t n, first, waiting;
    int running;
    struct gw_task task;
};

/* GW_ENOMEM. Free it with close, which forgets waiting numbers; also if it was
   not opened. */
enum gw_status gw_backlog_open(struct gw_backlog *backlog, uint32_t n);
void gw_backlog_close(struct gw_backlog *backlog);

/* The number is handled in a later turn, never within this call. */
void gw_backlog_add(struct gw_backlog *backlog, uint32_t number);

/* Adds all numbers, and handles as many at once as the current turn has time
   for; called from within `handle`, none. */
void gw_backlog_add_all(struct gw_backlog *backlog);

#endif
