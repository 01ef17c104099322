/* Transports and addresses over which the processes of a job meet. */
#ifndef GW_TRANSPORT_PLACE_H
#define GW_TRANSPORT_PLACE_H

#include <stdint.h>

#include "proto/config.h"
#include "transport/link/transport.h"

/* The job's transports (gw_routes_find), unless processes cannot use them:
   GW_EUSAGE. */
enum gw_status gw_place_routes(const struct gw_config *config,
                               struct gw_routes *routes_p,
                               char *why,
                               size_t why_bytes,
                               struct gw_error *error);

/*
 * The hosts at which a server listens that was not told, separated by commas:
 * each of cluster.interface, or where its first transport meets if that is no
 * other, or where `coordinator` (HOST:PORT) is reached from, which
 * cluster.control_interface may say. Without a guard.
 * Errors of what was asked.
 */
enum gw_status gw_place_hosts(const struct gw_config *config,
                              const struct gw_routes *routes,
                              const char *coordinator,
                              char hosts[GW_ADDRESSES_MAX],
                              struct gw_error *error);

/* "HOST:PORT,HOST:PORT" of such a list. GW_EUSAGE: too long. */
enum gw_status gw_place_ports(const char *hosts,
                              uint64_t port,
                              char addresses[GW_ADDRESSES_MAX],
                              struct gw_error *error);

/* Non-zero if an address, or each of a list, is this host's alone. */
int gw_place_is_loopback(const char *addresses);

/* GW_EUSAGE unless they are, or the job allows others. */
enum gw_status gw_place_guard(const struct gw_config *config,
                              const char *address,
                              struct gw_error *error);

/* Checks that this host has the interfaces that its own settings name.
 * GW_EUSAGE.
 */
enum gw_status gw_place_own(const struct gw_config *config,
                            struct gw_error *error);

/*
 * Where a coordinator listens that is not told: cluster.control_interface, or
 * the first of cluster.interface, else loopback, and `port`. GW_EUSAGE: no such
 * interface, or not allowed.
 */
enum gw_status gw_place_address(const struct gw_config *config,
                                uint64_t port,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error);

#endif
