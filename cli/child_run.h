/*
 * Something that is done in a process of its own: what it loads, starts and
 * holds of a device ends with it, and this one never had it.
 */
#ifndef GW_CLI_CHILD_RUN_H
#define GW_CLI_CHILD_RUN_H

#include "proto/status.h"

/* Fills in *said, also where it returns GW_OK. */
typedef enum gw_status gw_child_run_cb(const void *owner,
                                       struct gw_error *said);

/*
 * Waits for it, so many seconds; what it returns and says is returned and said
 * here. Before this process has used a device itself, which would be of no use
 * in the other one. GW_ETIMEOUT: it has not come to its end, and is killed.
 * GW_EABORTED: it died, which `said` tells. GW_ENOMEM: it could not be started.
 */
enum gw_status gw_child_run(gw_child_run_cb *act,
                            const void *owner,
                            int seconds,
                            struct gw_error *said);

#endif
