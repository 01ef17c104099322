#include "config.h"

#include "cli/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/host.h"

const struct gw_transport_ops *
gw_place_transport(const struct gw_config *config, struct gw_error *error)
{
    const struct gw_transport_ops *transport =
        gw_transport_find(config->cluster.transport, error);
    if (!transport || strcmp(transport->name, "sim") != 0)
        return transport;
    gw_fail(error, GW_EUSAGE,
            "cluster.transport: \"sim\" is for simulated jobs, these are "
            "processes; set it to auto or tcp");
    return NULL;
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
