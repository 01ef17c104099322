/* Where the processes of a job meet: over which transport, at which address. */
#ifndef GW_CLI_PLACE_H
#define GW_CLI_PLACE_H

#include <stdint.h>

#include "proto/config.h"
#include "transport/transport.h"

/* The job's transports (gw_ways_find), unless processes cannot use them:
   GW_EUSAGE. */
enum gw_status gw_place_ways(const struct gw_config *config,
                             struct gw_ways *ways_p,
                             char *why,
                             size_t why_bytes,
                             struct gw_error *error);

/*
 * The host at which a server listens that was not told: cluster.interface, or
 * where its first transport meets if that is no other, or where `coordinator`
 * (HOST:PORT) is reached from. Without a guard. Errors of what was asked.
 */
enum gw_status gw_place_host(const struct gw_config *config,
                             const struct gw_ways *ways,
                             const char *coordinator,
                             char host[GW_ADDRESS_MAX],
                             struct gw_error *error);

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
