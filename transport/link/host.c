/* This host: its name, its kernel, its addresses. */
#include "config.h"

#include "transport/link/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/hash.h"

void gw_host_name(char name[GW_HOST_NAME_MAX])
{
    if (gethostname(name, GW_HOST_NAME_MAX) != 0 || !name[0])
        strcpy(name, "unknown");
    name[GW_HOST_NAME_MAX - 1] = '\0';
}

uint64_t gw_host_machine(void)
{
    char id[64] = "";
    ssize_t n = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, id, sizeof id);
        close(fd);
    }
    if (n <= 0) {
        gw_host_name(id);
        n = (ssize_t)strlen(id);
    }
    return gw_hash_bytes(GW_HASH_BEGIN, id, (size_t)n);
}

/* Prints the numeric form, IPv6 in brackets. */
static int print_address(const struct sockaddr *address,
                         char host[GW_HOST_ADDRESS_MAX])
{
    char text[GW_HOST_ADDRESS_MAX - 2];
    int v6 = address->sa_family == AF_INET6;
    socklen_t bytes =
        v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (getnameinfo(address, bytes, text, sizeof text, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return 0;
    snprintf(host, GW_HOST_ADDRESS_MAX, v6 ? "[%s]" : "%s", text);
    return 1;
}

/* Non-zero if the address belongs to an interface given by name or by one of
   its addresses, with or without brackets; its text is in `found`. */
static int is_named(const struct ifaddrs *one,
                    const char *interface,
                    char found[GW_HOST_ADDRESS_MAX])
{
    char bracketed[GW_HOST_ADDRESS_MAX + 2];
    int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
    if ((family != AF_INET && family != AF_INET6) ||
        !print_address(one->ifa_addr, found))
        return 0;
    snprintf(bracketed, sizeof bracketed, "[%s]", interface);
    return strcmp(one->ifa_name, interface) == 0 ||
           strcmp(found, interface) == 0 || strcmp(found, bracketed) == 0;
}

enum gw_status gw_host_interface(const char *key,
                                 const char *interface,
                                 char host[GW_HOST_ADDRESS_MAX],
                                 struct gw_error *error)
{
    struct ifaddrs *all;
    int best = AF_UNSPEC;
    if (getifaddrs(&all) != 0)
        return gw_fail(error, GW_EIO, "cannot list network interfaces: %s",
                       strerror(errno));
    for (struct ifaddrs *one = all; one; one = one->ifa_next) {
        char found[GW_HOST_ADDRESS_MAX];
        if (is_named(one, interface, found) &&
            (best == AF_UNSPEC || one->ifa_addr->sa_family == AF_INET)) {
            best = one->ifa_addr->sa_family;
            strcpy(host, found);
        }
    }
    freeifaddrs(all);
    if (best == AF_UNSPEC)
        return gw_fail(error, GW_EUSAGE,
                       "%s \"%s\" is neither the name nor an address of a "
                       "network interface of this host (see: ip addr)",
                       key, interface);
    return GW_OK;
}

int gw_host_interface_name(const char *interface,
                           char name[GW_HOST_INTERFACE_MAX])
{
    struct ifaddrs *all;
    char found[GW_HOST_ADDRESS_MAX];
    int is_there = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (struct ifaddrs *one = all; one && !is_there; one = one->ifa_next) {
        is_there = is_named(one, interface, found);
        if (is_there)
            snprintf(name, GW_HOST_INTERFACE_MAX, "%s", one->ifa_name);
    }
    freeifaddrs(all);
    return is_there;
}

/* Resolves `address`; NULL: invalid or unknown. */
static struct addrinfo *resolve(const char *address)
{
    char host[256];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    const char *colon = strrchr(address, ':');
    size_t bytes = colon ? (size_t)(colon - address) : 0;
    if (bytes == 0 || bytes >= sizeof host)
        return NULL;
    memcpy(host, address, bytes);
    host[bytes] = '\0';
    char *name = host;
    if (host[0] == '[' && host[bytes - 1] == ']') {
        host[bytes - 1] = '\0';
        name++;
    }
    return getaddrinfo(name, colon + 1, &hints, &found) == 0 ? found : NULL;
}

enum gw_status gw_host_towards(const char *address,
                               char host[GW_HOST_ADDRESS_MAX],
                               struct gw_error *error)
{
    struct addrinfo *found = resolve(address);
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    int done = 0;
    for (struct addrinfo *one = found; one && !done; one = one->ai_next) {
        int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        bytes = sizeof own;
        done = connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 &&
               print_address((struct sockaddr *)&own, host);
        close(fd);
    }
    if (found)
        freeaddrinfo(found);
    if (!done)
        return gw_fail(error, GW_EUNREACHABLE,
                       "no way from this host to %s; set cluster.interface",
                       address);
    return GW_OK;
}

static int is_loopback(const struct sockaddr *address)
{
    const void *any = address;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = any;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *v6 = any;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int gw_host_is_loopback(const char *address)
{
    struct addrinfo *found = resolve(address);
    int all = 1;
    if (address[0] == ':')
        return 0; /* every interface */
    for (struct addrinfo *one = found; one; one = one->ai_next)
        all &= is_loopback(one->ai_addr);
    if (found)
        freeaddrinfo(found);
    return all;
}
