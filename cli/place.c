#include "config.h"

#include "cli/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/host.h"

/* Over a transport that is not everybody's, tensors leave loopback, unless it
   never leaves the host. */
static enum gw_status guard_data(const struct gw_config *config,
                                 const struct gw_ways *ways,
                                 struct gw_error *error)
{
    char host[GW_ADDRESS_MAX], address[GW_ADDRESS_MAX + 4];
    if (ways->data[0] == ways->control || ways->data[1] ||
        ways->data[0]->within_host)
        return GW_OK;
    enum gw_status status = ways->data[0]->meet(host, error);
    if (status != GW_OK)
        return status;
    snprintf(address, sizeof address, "%s:0", host);
    return gw_place_guard(config, address, error);
}

enum gw_status gw_place_ways(const struct gw_config *config,
                             struct gw_ways *ways_p,
                             char *why,
                             size_t why_bytes,
                             struct gw_error *error)
{
    struct gw_ways ways;
    enum gw_status status =
        gw_ways_find(config->cluster.transport, &ways, why, why_bytes, error);
    if (status != GW_OK)
        return status;
    if (strcmp(ways.control->name, "sim") == 0)
        return gw_fail(
            error, GW_EUSAGE,
            "cluster.transport: \"sim\" is for simulated jobs, these "
            "are processes; set it to auto, shm, rdma or tcp");
    status = guard_data(config, &ways, error);
    if (status == GW_OK)
        *ways_p = ways;
    return status;
}

enum gw_status gw_place_host(const struct gw_config *config,
                             const struct gw_ways *ways,
                             const char *coordinator,
                             char host[GW_ADDRESS_MAX],
                             struct gw_error *error)
{
    char own[GW_HOST_ADDRESS_MAX] = "";
    int other = ways->data[0] != ways->control && !ways->data[1] &&
                !ways->data[0]->within_host;
    enum gw_status status;
    if (config->cluster.interface[0])
        status = gw_host_interface(config->cluster.interface, own, error);
    else if (other)
        return ways->data[0]->meet(host, error);
    else
        status = gw_host_towards(coordinator, own, error);
    if (status == GW_OK)
        snprintf(host, GW_ADDRESS_MAX, "%s", own);
    return status;
}

enum gw_status gw_place_guard(const struct gw_config *config,
                              const char *address,
                              struct gw_error *error)
{
    if (config->cluster.insecure || gw_host_is_loopback(address))
        return GW_OK;
    return gw_fail(error, GW_EUSAGE,
                   "%s is not loopback, and links are not authenticated "
                   "yet; stay on this host, or allow it by cluster.insecure "
                   "= true in the job where the network is trusted",
                   address);
}

enum gw_status gw_place_address(const struct gw_config *config,
                                uint64_t port,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error)
{
    char host[GW_HOST_ADDRESS_MAX] = "127.0.0.1";
    if (config->cluster.interface[0] &&
        gw_host_interface(config->cluster.interface, host, error) != GW_OK)
        return error->status;
    snprintf(address, GW_ADDRESS_MAX, "%s:%" PRIu64, host, port);
    return gw_place_guard(config, address, error);
}
