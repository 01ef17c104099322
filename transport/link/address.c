/* Resolving and printing addresses, IPv4 and IPv6 alike. */
#include "config.h"

#include "transport/link/address.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Splits "host:port" or "[v6]:port"; a bare v6 address needs its brackets. */
static enum gw_status split(const char *address,
                            char host[NI_MAXHOST],
                            char port[NI_MAXSERV],
                            struct gw_error *error)
{
    const char *colon = strrchr(address, ':');
    const char *begin = address, *end = colon;
    if (colon && address[0] == '[') {
        begin = address + 1;
        end = colon[-1] == ']' ? colon - 1 : NULL;
    } else if (colon && memchr(address, ':', (size_t)(colon - address))) {
        end = NULL;
    }
    if (!end || end - begin >= NI_MAXHOST || strlen(colon + 1) >= NI_MAXSERV ||
        !colon[1])
        return gw_fail(error, GW_EINVAL,
                       "\"%s\" is no address: expected HOST:PORT or "
                       "[IPV6]:PORT",
                       address);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    strcpy(port, colon + 1);
    return GW_OK;
}

enum gw_status gw_address_check(const char *address, struct gw_error *error)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    return split(address, host, port, error);
}

struct gw_places *gw_places_new(size_t n)
{
    struct gw_places *places =
        calloc(1, sizeof *places + n * sizeof *places->place);
    if (places)
        places->n = n;
    return places;
}

static struct gw_places *take_places(const struct addrinfo *found)
{
    size_t n = 0;
    for (const struct addrinfo *one = found; one; one = one->ai_next)
        n++;
    struct gw_places *places = gw_places_new(n);
    for (size_t i = 0; places && i < n; i++, found = found->ai_next) {
        memcpy(&places->place[i].at, found->ai_addr, found->ai_addrlen);
        places->place[i].bytes = found->ai_addrlen;
    }
    return places;
}

enum gw_status gw_address_resolve(const char *address,
                                  int numeric,
                                  int passive,
                                  struct gw_places **found_p,
                                  struct gw_error *error)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    enum gw_status status = split(address, host, port, error);
    if (status != GW_OK)
        return status;
    struct addrinfo *found;
    struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = (numeric ? AI_NUMERICHOST : 0) |
                    (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV,
    };
    int failed = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (failed)
        return gw_fail(error, GW_EINVAL, "cannot resolve %s: %s", address,
                       gai_strerror(failed));
    struct gw_places *places = take_places(found);
    freeaddrinfo(found);
    if (!places)
        return gw_fail(error, GW_ENOMEM, "no memory for an address");
    *found_p = places;
    return GW_OK;
}

int gw_address_is_loopback(const struct sockaddr *address)
{
    const void *any = address;
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)any)->sin_addr.s_addr) >>
                   24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)any)->sin6_addr);
}

int gw_address_is_any(const struct sockaddr *address)
{
    const void *any = address;
    if (address->sa_family == AF_INET)
        return ((const struct sockaddr_in *)any)->sin_addr.s_addr ==
               htonl(INADDR_ANY);
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(
               &((const struct sockaddr_in6 *)any)->sin6_addr);
}

void gw_address_name(const struct sockaddr *address,
                     socklen_t bytes,
                     char text[GW_ADDRESS_MAX])
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        strcpy(text, "unknown");
        return;
    }
    const char *form = strchr(host, ':') ? "[%.80s]:%.8s" : "%.80s:%.8s";
    snprintf(text, GW_ADDRESS_MAX, form, host, port);
}
