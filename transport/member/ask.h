/*
 * Asking a running coordinator, as an observer: its status, or the job, which
 * is how a member learns what its host's own settings are put over before it
 * joins; or for something to be done.
 */
#ifndef GW_TRANSPORT_ASK_H
#define GW_TRANSPORT_ASK_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/log.h"
#include "proto/status.h"

struct gw_ask_options {
    const char *coordinator; /* HOST:PORT, or unix:PATH */
    const char *interface;   /* to dial from (cluster.control_interface), "" for
                                the default */
    enum gw_ask request;
    const struct gw_request *order; /* this is asked for instead, or NULL */
    const struct gw_join *decline;  /* instead of all that, or NULL: its
                                       `cannot` is told by a member that was
                                       waited for; the end is the answer */
    const struct gw_secret *secret; /* of the job, to decline with; or NULL */
    uint64_t wait_us;  /* for a coordinator that is not there yet; 0: it is */
    uint64_t limit_us; /* for it all, 0: wait_us and a moment */
    const struct gw_log *log; /* may be NULL; told when the wait is long */
    /* asked a few times a second: a line ends it, with GW_EABORTED;
       NULL: it goes on. May be NULL */
    const char *(*gives_up)(void *owner);
    void *owner;
};

/*
 * Blocks, for as long as the options say. *text_p is the caller's to free.
 * GW_EUNREACHABLE (nobody is there), GW_ETIMEOUT, GW_EREFUSED (the
 * coordinator's line says why it takes neither us nor the order), GW_EVERSION,
 * each with a line.
 */
enum gw_status gw_ask(const struct gw_ask_options *options,
                      char **text_p,
                      struct gw_error *error);

#endif
