/*
 * Runs a function in a child process, so that the libraries, threads and device
 * memory that it needs end with the child.
 */
#ifndef GW_CLI_CHILD_RUN_H
#define GW_CLI_CHILD_RUN_H

#include "proto/status.h"

/* Fills in *said, also when it returns GW_OK. */
typedef enum gw_status gw_child_run_cb(const void *owner,
                                       struct gw_error *said);

/*
 * Runs act(owner, said) in a child and waits for at most `seconds`; returns its
 * status and fills in *said. Call it before this process uses a device itself:
 * a device does not survive a fork. GW_ETIMEOUT: the child was not done and is
 * killed. GW_EABORTED: the child died, `said` tells how. GW_ENOMEM: it could
 * not be started.
 */
enum gw_status gw_child_run(gw_child_run_cb *act,
                            const void *owner,
                            int seconds,
                            struct gw_error *said);

#endif
