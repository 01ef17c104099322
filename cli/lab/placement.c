#include "config.h"

#include "cli/lab/placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum gw_status gw_placement_parse(const char *text,
                                  struct gw_placement *placement_p,
                                  struct gw_error *error)
{
    struct gw_placement placement = {.shared = strcasecmp(text, "apart") != 0};
    char rest;
    if (placement.shared && strcasecmp(text, "together") != 0 &&
        (sscanf(text, "spare %4" SCNu32 " %c", &placement.spare, &rest) != 1 ||
         strchr(text, '-')))
        return gw_fail(error, GW_EUSAGE,
                       "\"%s\" is no placement: \"apart\", \"together\", or "
                       "\"spare K\" with K hosts besides the workers'",
                       text);
    *placement_p = placement;
    return GW_OK;
}

enum gw_status gw_placement_fits(const struct gw_placement *placement,
                                 uint32_t workers,
                                 struct gw_error *error)
{
    if (placement->spare <= workers)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "placement spare %" PRIu32 ": with %" PRIu32
                   " worker%s there is work for as many spare hosts at most",
                   placement->spare, workers, workers == 1 ? "" : "s");
}

/* A host's share of the servers. */
static double
part_of(const struct gw_placement *placement, uint32_t workers, uint32_t host)
{
    double n = workers, k = placement->spare;
    double on_worker = n - k, on_spare = n > 1 ? 2 * (n - 1) : 1;
    double all = n * on_worker + k * on_spare;
    return (host < workers ? on_worker : on_spare) / all;
}

/* The host that is furthest below its share of the first `n` servers. */
static uint32_t find_host(const struct gw_placement *placement,
                          uint32_t workers,
                          uint32_t n,
                          const uint32_t *has)
{
    uint32_t found = 0;
    double most = -1;
    for (uint32_t host = 0; host < workers + placement->spare; host++) {
        double lacks = part_of(placement, workers, host) * n - has[host];
        if (lacks > most + 1e-9) {
            most = lacks;
            found = host;
        }
    }
    return found;
}

enum gw_status gw_placement_fill(const struct gw_placement *placement,
                                 uint32_t workers,
                                 uint32_t servers,
                                 uint32_t *host,
                                 struct gw_error *error)
{
    uint32_t *has = calloc((size_t)workers + placement->spare, sizeof *has);
    if (!has)
        return gw_fail(error, GW_ENOMEM, "no memory for hosts");
    for (uint32_t server = 0; server < servers; server++) {
        if (!placement->shared) {
            host[server] = workers + server;
            continue;
        }
        host[server] = find_host(placement, workers, server + 1, has);
        has[host[server]]++;
    }
    free(has);
    return GW_OK;
}
