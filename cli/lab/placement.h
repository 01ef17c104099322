/* Which simulated host a server runs on, in words. Pure, any thread. */
#ifndef GW_CLI_PLACEMENT_H
#define GW_CLI_PLACEMENT_H

#include <stdint.h>

#include "proto/status.h"

/* A server's host is the worker's of that rank, or one without workers, which
   are numbered from the count of workers on. */
struct gw_placement {
    int shared;     /* on workers' hosts; else each has a host of its own */
    uint32_t spare; /* shared: and on so many without a worker */
};

/*
 * "apart": every server has a host of its own. "together": servers are on the
 * workers' hosts, as many on each. "spare K": on those and K hosts more, so
 * that all interfaces have the same to do: with n workers' hosts, a spare one
 * has 2(n-1) parts of the servers where a worker's has n-K (Jiang et al., OSDI
 * 2020, section 4.1). GW_EUSAGE with a line; *placement_p is unchanged then.
 */
enum gw_status gw_placement_parse(const char *text,
                                  struct gw_placement *placement_p,
                                  struct gw_error *error);

/* GW_EUSAGE: more spare hosts than workers, which would have nothing to do. */
enum gw_status gw_placement_fits(const struct gw_placement *placement,
                                 uint32_t workers,
                                 struct gw_error *error);

/*
 * Fills host[servers]. The servers of a host are as near to its part of them as
 * whole ones can be, and in the order of their numbers they go around among the
 * hosts. The placement fits. GW_ENOMEM.
 */
enum gw_status gw_placement_fill(const struct gw_placement *placement,
                                 uint32_t workers,
                                 uint32_t servers,
                                 uint32_t *host,
                                 struct gw_error *error);

#endif
