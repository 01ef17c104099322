/*
 * The coordinator's part of the watch: passes signals, lines and the end of the
 * launcher from the watch's thread to the coordinator's loop while that runs.
 * Earlier no member has joined, and the process just ends, unless it may take
 * the place of another one: then the loop gets a stop when it runs.
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
    int has_job; /* members may have joined already: one before this */
    char local[GW_LOCAL_PATH_MAX]; /* socket path for gradweir ctl, or "" */
    atomic_int has_local;          /* the socket may exist */

    struct gw_loop *loop;
    struct gw_coordinator *coordinator;
    struct gw_task stop_task, hurry_task, orphan_task;
    atomic_int is_stopping;
    atomic_uint away_ticks; /* since the loop was last seen to turn */
    char why[64];           /* reason of the stop */
    pthread_mutex_t mutex;  /* guards `why` and `stage` */
    enum gw_relay_stage stage;
    struct gw_relay_gone
        *gone; /* added by the watch's thread, freed at the end */
};

/* Sets the process' handlers of watch events; call it before the process is
   opened. */
void gw_relay_init(struct gw_relay *relay, struct gw_process *process);

/* Between these calls the loop runs with a coordinator. */
void gw_relay_open(struct gw_relay *relay,
                   struct gw_loop *loop,
                   struct gw_coordinator *coordinator);
void gw_relay_close(struct gw_relay *relay);

/* Notes that the loop turns; called by one of its timers. */
void gw_relay_seen(struct gw_relay *relay);

/* Call it after the process is closed. */
void gw_relay_free(struct gw_relay *relay);

#endif
