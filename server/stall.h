/*
 * Stalls: a shard that gets no further names the members that it waits for. The
 * struct is private to stall.c.
 */
#ifndef GW_SERVER_STALL_H
#define GW_SERVER_STALL_H

#include "transport/link/loop.h"

struct gw_server;

struct gw_watch {
    struct gw_timer watch;
    uint64_t progress_us; /* when a push was last counted */
    uint64_t stalled_us;  /* when a stall was last reported */
    uint64_t paused_us;   /* pauses of this process, so far */
};

/* From here on, until gw_server_finish */
void gw_stall_watch(struct gw_server *server);
void gw_stall_stop(struct gw_server *server);
/* A push counts, so the shard gets further. */
void gw_stall_moved(struct gw_server *server, uint64_t now);

#endif
