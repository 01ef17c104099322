/* Placement of servers on simulated hosts. Pure, any thread. */
#ifndef GW_CLI_PLACEMENT_H
#define GW_CLI_PLACEMENT_H

#include <stdint.h>

#include "proto/status.h"

/* A server is on the host of a worker's rank, or on a host without workers;
   these are numbered from the count of workers on. */
struct gw_placement {
    int shared;     /* on workers' hosts; 0: a host for each server */
    uint32_t spare; /* shared: additional hosts without workers */
};

/*
 * Parses a placement. "apart": every server has a host of its own. "together":
 * servers are on the workers' hosts, as many on each. "spare K": on those and K
 * more hosts, so that all interfaces carry the same load: with n workers'
 * hosts, a spare one has 2(n-1) parts of the servers for every n-K of a
 * worker's host (Jiang et al., OSDI 2020, section 4.1). GW_EUSAGE with a line;
 * *placement_p is unchanged then.
 */
enum gw_status gw_placement_parse(const char *text,
                                  struct gw_placement *placement_p,
                                  struct gw_error *error);

/* GW_EUSAGE: more spare hosts than workers; some would be idle. */
enum gw_status gw_placement_fits(const struct gw_placement *placement,
                                 uint32_t workers,
                                 struct gw_error *error);

/*
 * Fills host[servers]. Each host gets the whole number of servers nearest to
 * its share, dealt to the hosts in turn. The placement fits. GW_ENOMEM.
 */
enum gw_status gw_placement_fill(const struct gw_placement *placement,
                                 uint32_t workers,
                                 uint32_t servers,
                                 uint32_t *host,
                                 struct gw_error *error);

#endif
