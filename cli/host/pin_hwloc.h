/* Parts of pin_hwloc.c, for tests with artificial topologies. */
#ifndef GW_CLI_PIN_HWLOC_H
#define GW_CLI_PIN_HWLOC_H

#include "cli/host/pin_host.h"

struct hwloc_topology;
struct hwloc_bitmap_s;

/* Configures a topology before it is loaded: with devices. */
int gw_pin_hwloc_prepare(struct hwloc_topology *topology);

/* Reads the cores with an allowed cpu. GW_ERANGE. */
enum gw_status gw_pin_hwloc_read(struct hwloc_topology *topology,
                                 const struct hwloc_bitmap_s *allowed,
                                 struct gw_pin_host *host_p,
                                 struct gw_error *error);

uint64_t gw_pin_hwloc_device(struct hwloc_topology *topology,
                             const struct gw_pin_host *host,
                             const char *address);
uint64_t gw_pin_hwloc_interface(struct hwloc_topology *topology,
                                const struct gw_pin_host *host,
                                const char *name);

#endif
