/*
 * Prefaults memory a part at a time, each in a turn of a loop, so that this
 * process sends heartbeats meanwhile: see gw_memory_prefault. The loop's thread
 * does it, and the pages are near that thread.
 */
#ifndef GW_TRANSPORT_PREFAULT_H
#define GW_TRANSPORT_PREFAULT_H

#include <stddef.h>
#include <stdint.h>

#include "transport/link/loop.h"
#include "transport/link/memory.h"

/* Zero it. */
struct gw_prefault {
    struct gw_loop *loop;
    const struct gw_memory *memory; /* [n], the caller's until `done` */
    uint32_t n;
    void (*done)(void *owner);
    void *owner;
    /* its own */
    struct gw_timer timer;
    uint32_t next; /* index into memory, */
    size_t at;     /* and the offset there */
};

/* Begins, with all but its own filled in: `done` is called once, within this
   call if one turn is enough. */
void gw_prefault_begin(struct gw_prefault *prefault);

/* After that `done` will not be called. Also if it has not begun. */
void gw_prefault_stop(struct gw_prefault *prefault);

#endif
