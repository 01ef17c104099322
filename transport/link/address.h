/*
 * Addresses of the Internet, as transports take them: "HOST:PORT", the host a
 * name or a number, an IPv6 number in brackets. Pure but for the resolver, any
 * thread.
 */
#ifndef GW_TRANSPORT_ADDRESS_H
#define GW_TRANSPORT_ADDRESS_H

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "proto/status.h"
#include "transport/link/transport.h"

/* A resolved address. */
struct gw_place {
    struct sockaddr_storage at;
    socklen_t bytes;
};

struct gw_places {
    size_t n; /* at least 1 */
    struct gw_place place[];
};

/* Size of an address of the Internet. */
static inline socklen_t gw_address_bytes(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Zeroed; the caller frees them. NULL: no memory. */
struct gw_places *gw_places_new(size_t n);

/* Checks the syntax of an address, without a lookup. GW_EINVAL. */
enum gw_status gw_address_check(const char *address, struct gw_error *error);

/*
 * All places of an address; the caller frees them. Looks a name up, which may
 * take seconds, unless it has to be `numeric`. `passive`: an empty host means
 * every address of this host. GW_EINVAL, GW_ENOMEM.
 */
enum gw_status gw_address_resolve(const char *address,
                                  int numeric,
                                  int passive,
                                  struct gw_places **found_p,
                                  struct gw_error *error);

/* Non-zero for a loopback address, which no other host reaches. */
int gw_address_is_loopback(const struct sockaddr *address);

/* Non-zero for the wildcard address, which means every address of this host. */
int gw_address_is_any(const struct sockaddr *address);

/* "host:port", numeric; "unknown" if it is no address. */
void gw_address_name(const struct sockaddr *address,
                     socklen_t bytes,
                     char text[GW_ADDRESS_MAX]);

#endif
