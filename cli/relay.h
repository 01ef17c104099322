/*
 * The coordinator's part of the watch: signals, the launcher's words and its
 * end come on the watch's thread, and are passed on to the coordinator's loop
 * while that runs. Before it does, nobody has joined, and the process just
 * ends.
 */
#ifndef GW_CLI_RELAY_H
#define GW_CLI_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/local.h"
#include "cli/process.h"
#include "server/coordinator/coordinator.h"
#include "transport/link/loop.h"

struct gw_relay_gone;

enum gw_relay_stage {
    GW_RELAY_OPENING,
    GW_RELAY_OPEN,
    GW_RELAY_OVER
};

/* Zeroed to begin with. */
struct gw_relay {
    struct gw_process *process;
    char local[GW_LOCAL_PATH_MAX]; /* of the socket for gradweir ctl, or "" */
    atomic_int has_local;          /* and it may be there */

    struct gw_loop *loop;
    struct gw_coordinator *coordinator;
    struct gw_task stop_task, hurry_task, orphan_task;
    atomic_int is_stopping;
    atomic_uint away_ticks; /* since the loop was last seen to turn */
    char why[64];           /* of the stop */
    pthread_mutex_t mutex;  /* of `why` and stage */
    enum gw_relay_stage stage;
    struct gw_relay_gone
        *gone; /* the watch's thread adds, its end frees them */
};

/* Sets what the process makes of the watch's events; before it is opened. */
void gw_relay_init(struct gw_relay *relay, struct gw_process *process);

/* The loop runs from here on, with a coordinator, or does no more. */
void gw_relay_open(struct gw_relay *relay,
                   struct gw_loop *loop,
                   struct gw_coordinator *coordinator);
void gw_relay_close(struct gw_relay *relay);

/* The loop turns: for a timer of its. */
void gw_relay_seen(struct gw_relay *relay);

/* When the process is closed. */
void gw_relay_free(struct gw_relay *relay);

#endif
