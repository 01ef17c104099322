#include "config.h"

#include "transport/member/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "transport/link/host.h"
#include "proto/interfaces.h"

#define INTERFACE         "cluster.interface"
#define CONTROL_INTERFACE "cluster.control_interface"

/* Over a transport that is not everybody's, tensors leave loopback, unless it
   never leaves the host. */
static enum gw_status guard_data(const struct gw_config *config,
                                 const struct gw_routes *routes,
                                 struct gw_error *error)
{
    char host[GW_ADDRESS_MAX], address[GW_ADDRESS_MAX + 4];
    if (routes->data[0] == routes->control || routes->data[1] ||
        routes->data[0]->within_host)
        return GW_OK;
    enum gw_status status = routes->data[0]->meet(host, error);
    if (status != GW_OK)
        return status;
    snprintf(address, sizeof address, "%s:0", host);
    return gw_place_guard(config, address, error);
}

enum gw_status gw_place_routes(const struct gw_config *config,
                               struct gw_routes *routes_p,
                               char *why,
                               size_t why_bytes,
                               struct gw_error *error)
{
    struct gw_routes routes;
    enum gw_status status = gw_routes_find(config->cluster.transport, &routes,
                                           why, why_bytes, error);
    if (status != GW_OK)
        return status;
    if (strcmp(routes.control->name, "sim") == 0)
        return gw_fail(
            error, GW_EUSAGE,
            "cluster.transport: \"sim\" is for simulated jobs, these "
            "are processes; set it to auto, shm, rdma or tcp");
    status = guard_data(config, &routes, error);
    if (status == GW_OK)
        *routes_p = routes;
    return status;
}

/* "HOST,HOST" of those that cluster.interface names. */
static enum gw_status
list_hosts(const char *names, char *hosts, size_t room, struct gw_error *error)
{
    struct gw_interfaces list;
    char host[GW_HOST_ADDRESS_MAX];
    size_t used = 0;
    enum gw_status status = gw_interfaces_parse(names, &list, error);
    for (size_t i = 0; status == GW_OK && i < list.n; i++) {
        status = gw_host_interface(INTERFACE, list.name[i], host, error);
        if (status != GW_OK)
            break;
        used += (size_t)snprintf(hosts + used, room - used, "%s%s",
                                 i > 0 ? "," : "", host);
        if (used >= room)
            status = gw_fail(error, GW_EUSAGE,
                             "cluster.interface: their addresses are too long "
                             "for one list");
    }
    return status;
}

enum gw_status gw_place_own(const struct gw_config *config,
                            struct gw_error *error)
{
    char hosts[GW_ADDRESSES_MAX], host[GW_HOST_ADDRESS_MAX];
    const char *control = config->cluster.control_interface;
    enum gw_status status =
        list_hosts(config->cluster.interface, hosts, sizeof hosts, error);
    if (status == GW_OK && control[0])
        status = gw_host_interface(CONTROL_INTERFACE, control, host, error);
    return status;
}

enum gw_status gw_place_hosts(const struct gw_config *config,
                              const struct gw_routes *routes,
                              const char *coordinator,
                              char hosts[GW_ADDRESSES_MAX],
                              struct gw_error *error)
{
    char host[GW_ADDRESS_MAX], own[GW_HOST_ADDRESS_MAX] = "";
    int other = routes->data[0] != routes->control && !routes->data[1] &&
                !routes->data[0]->within_host;
    enum gw_status status;
    if (config->cluster.interface[0])
        return list_hosts(config->cluster.interface, hosts, GW_ADDRESSES_MAX,
                          error);
    if (other)
        status = routes->data[0]->meet(host, error);
    else if (config->cluster.control_interface[0])
        status = gw_host_interface(
            CONTROL_INTERFACE, config->cluster.control_interface, own, error);
    else
        status = gw_host_towards(coordinator, own, error);
    if (status == GW_OK)
        snprintf(hosts, GW_ADDRESSES_MAX, "%s", other ? host : own);
    return status;
}

enum gw_status gw_place_ports(const char *hosts,
                              uint64_t port,
                              char addresses[GW_ADDRESSES_MAX],
                              struct gw_error *error)
{
    char list[GW_ADDRESSES_MAX], *rest = list;
    size_t used = 0;
    snprintf(list, sizeof list, "%s", hosts);
    while (rest && used < GW_ADDRESSES_MAX) {
        const char *comma = used > 0 ? "," : "";
        const char *host = strsep(&rest, ",");
        int bare = strchr(host, ':') && host[0] != '[';
        used += (size_t)snprintf(addresses + used, GW_ADDRESSES_MAX - used,
                                 "%s%s%s%s:%" PRIu64, comma, bare ? "[" : "",
                                 host, bare ? "]" : "", port);
    }
    if (used < GW_ADDRESSES_MAX)
        return GW_OK;
    return gw_fail(error, GW_EUSAGE, "%.60s...: too many hosts to listen at",
                   hosts);
}

int gw_place_is_loopback(const char *addresses)
{
    char list[GW_ADDRESSES_MAX], *rest = list;
    int all = 1;
    snprintf(list, sizeof list, "%s", addresses);
    while (rest)
        all &= gw_host_is_loopback(strsep(&rest, ","));
    return all;
}

enum gw_status gw_place_guard(const struct gw_config *config,
                              const char *address,
                              struct gw_error *error)
{
    if (config->cluster.insecure || gw_place_is_loopback(address))
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
    struct gw_interfaces list;
    enum gw_status status =
        gw_interfaces_parse(config->cluster.interface, &list, error);
    /* the others are looked at as well: a wrong one is told at once */
    for (size_t i = list.n; status == GW_OK && i-- > 0;)
        status = gw_host_interface(INTERFACE, list.name[i], host, error);
    if (status == GW_OK && config->cluster.control_interface[0])
        status = gw_host_interface(
            CONTROL_INTERFACE, config->cluster.control_interface, host, error);
    if (status != GW_OK)
        return status;
    snprintf(address, GW_ADDRESS_MAX, "%s:%" PRIu64, host, port);
    return gw_place_guard(config, address, error);
}
