#include "config.h"

#include "transport/link/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* ---- finding ---- */

/* Compares an address of the host with a name of its interface or a number. */
static int is_named(const struct ifaddrs *one, const char *name)
{
    char host[NI_MAXHOST], bracketed[NI_MAXHOST + 2];
    if (strcmp(one->ifa_name, name) == 0)
        return 1;
    if (getnameinfo(one->ifa_addr, gw_address_bytes(one->ifa_addr), host,
                    sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return 0;
    snprintf(bracketed, sizeof bracketed, "[%s]", host);
    return strcmp(host, name) == 0 || strcmp(bracketed, name) == 0;
}

static enum gw_status find_one(const struct ifaddrs *all,
                               const char *name,
                               const char *key,
                               struct gw_own_place *own,
                               struct gw_error *error)
{
    const struct ifaddrs *best = NULL;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || !is_named(one, name))
            continue;
        if (!best ||
            (family == AF_INET && best->ifa_addr->sa_family != AF_INET))
            best = one;
    }
    if (!best)
        return gw_fail(error, GW_EINVAL,
                       "%s \"%s\" is neither the name nor an address of a "
                       "network interface of this host (see: ip addr)",
                       key, name);
    *own =
        (struct gw_own_place){.place.bytes = gw_address_bytes(best->ifa_addr)};
    memcpy(&own->place.at, best->ifa_addr, own->place.bytes);
    if (best->ifa_netmask)
        memcpy(&own->mask, best->ifa_netmask, own->place.bytes);
    else /* no netmask: a network of one address */
        memset(&own->mask, 0xff, sizeof own->mask);
    return GW_OK;
}

enum gw_status gw_own_places_find(const char *interfaces,
                                  const char *key,
                                  struct gw_own_places *own_p,
                                  struct gw_error *error)
{
    struct gw_own_places own = {.n = 0, .key = key ? key : "cluster.interface"};
    struct gw_interfaces list = {.n = 0};
    struct ifaddrs *all = NULL;
    enum gw_status status = GW_OK;
    if (interfaces)
        status = gw_interfaces_parse(interfaces, &list, error);
    if (status == GW_OK && list.n > 0 && getifaddrs(&all) != 0)
        status = gw_fail(error, GW_EIO, "cannot list network interfaces: %s",
                         strerror(errno));
    for (; own.n < list.n && status == GW_OK; own.n += status == GW_OK)
        status =
            find_one(all, list.name[own.n], own.key, &own.own[own.n], error);
    if (all)
        freeifaddrs(all);
    if (status == GW_OK)
        *own_p = own;
    return status;
}

/* ---- choosing ---- */

static const uint8_t *bytes_of(const struct sockaddr *address, size_t *n_p)
{
    const void *any = address;
    if (address->sa_family == AF_INET) {
        *n_p = sizeof(struct in_addr);
        return (const uint8_t *)&((const struct sockaddr_in *)any)->sin_addr;
    }
    *n_p = sizeof(struct in6_addr);
    return (const uint8_t *)&((const struct sockaddr_in6 *)any)->sin6_addr;
}

/* Non-zero if `to` is in the network of the interface. */
static int are_neighbours(const struct gw_own_place *own,
                          const struct sockaddr *to)
{
    size_t n;
    const uint8_t *a = bytes_of((const struct sockaddr *)&own->place.at, &n);
    const uint8_t *b = bytes_of(to, &n);
    const void *any = &own->mask;
    const uint8_t *mask =
        to->sa_family == AF_INET
            ? (const uint8_t *)&((const struct sockaddr_in *)any)->sin_addr
            : (const uint8_t *)&((const struct sockaddr_in6 *)any)->sin6_addr;
    for (size_t i = 0; i < n; i++)
        if ((a[i] ^ b[i]) & mask[i])
            return 0;
    return 1;
}

const struct gw_place *gw_own_places_towards(const struct gw_own_places *own,
                                             const struct sockaddr *to,
                                             unsigned link,
                                             unsigned again)
{
    const struct gw_place *near[GW_INTERFACES_MAX], *same[GW_INTERFACES_MAX];
    size_t nears = 0, sames = 0;
    for (size_t i = 0; i < own->n; i++) {
        if (own->own[i].place.at.ss_family != to->sa_family)
            continue;
        same[sames++] = &own->own[i].place;
        if (are_neighbours(&own->own[i], to))
            near[nears++] = &own->own[i].place;
    }
    if (nears > 0)
        return again < nears ? near[(link + again) % nears] : NULL;
    return again < sames ? same[(link + again) % sames] : NULL;
}
