/*
 * Asking a running coordinator, as an observer: its status, or the job. How a
 * member learns what its host's own settings are put over before it joins.
 */
#ifndef GW_CLI_ASK_H
#define GW_CLI_ASK_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/log.h"
#include "proto/status.h"

struct gw_ask_options {
    const char *coordinator; /* HOST:PORT */
    const char *interface;   /* to dial from, "" for the default */
    enum gw_ask request;
    uint64_t wait_us;         /* for a coordinator that is not there yet */
    const struct gw_log *log; /* may be NULL; told when the wait is long */
};

/*
 * Blocks. *text_p is the caller's to free. GW_EUNREACHABLE, GW_ETIMEOUT,
 * GW_EREFUSED, GW_EVERSION, each with a line.
 */
enum gw_status gw_ask(const struct gw_ask_options *options,
                      char **text_p,
                      struct gw_error *error);

#endif
