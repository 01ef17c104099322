/*
 * The network of a simulated host: one interface that all its processes share,
 * with a rate in each direction. What leaves waits for what is leaving; behind
 * it there is a switch that keeps whatever comes in faster than the interface
 * takes it.
 */
#include "config.h"

#include "transport/sim_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name)
{
    for (struct gw_sim_host *one = sim->hosts; one; one = one->next)
        if (strcmp(one->name, name) == 0)
            return one;
    struct gw_sim_host *host = calloc(1, sizeof *host);
    if (!host)
        return NULL;
    snprintf(host->name, sizeof host->name, "%s", name);
    host->next = sim->hosts;
    sim->hosts = host;
    return host;
}

void gw_sim_hosts_free(struct gw_sim *sim)
{
    while (sim->hosts) {
        struct gw_sim_host *host = sim->hosts;
        sim->hosts = host->next;
        free(host);
    }
}

enum gw_status gw_sim_host(struct gw_sim *sim,
                           const char *name,
                           const struct gw_sim_host_options *options,
                           struct gw_error *error)
{
    struct gw_sim_host *host = gw_sim_host_of(sim, name);
    if (!host)
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated host");
    host->options = *options;
    return GW_OK;
}

double gw_sim_host_pass(struct gw_sim_host *host,
                        enum gw_sim_way way,
                        double from_us,
                        double bytes)
{
    double rate = host->options.bytes_per_us;
    if (rate == 0)
        return from_us;
    double begin = from_us > host->free_us[way] ? from_us : host->free_us[way];
    host->free_us[way] = begin + bytes / rate;
    return host->free_us[way];
}
