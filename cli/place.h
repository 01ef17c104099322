/* Where the processes of a job meet: over which transport, at which address. */
#ifndef GW_CLI_PLACE_H
#define GW_CLI_PLACE_H

#include <stdint.h>

#include "proto/config.h"
#include "transport/transport.h"

/* The job's, unless it is one that processes cannot use: NULL and GW_EUSAGE. */
const struct gw_transport_ops *
gw_place_transport(const struct gw_config *config, struct gw_error *error);

/* GW_EUSAGE unless `address` is loopback, or the job allows others. */
enum gw_status gw_place_guard(const struct gw_config *config,
                              const char *address,
                              struct gw_error *error);

/*
 * Where a coordinator listens that is not told: cluster.interface, else
 * loopback, and `port`. GW_EUSAGE: no such interface, or not allowed.
 */
enum gw_status gw_place_address(const struct gw_config *config,
                                uint64_t port,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error);

#endif
