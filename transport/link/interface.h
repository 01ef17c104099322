/*
 * Network interfaces of this host that the job names, and the choice of one for
 * a link: the interface in whose network the other end is; among several, or if
 * there is none, links are spread over them.
 */
#ifndef GW_TRANSPORT_INTERFACE_H
#define GW_TRANSPORT_INTERFACE_H

#include <sys/socket.h>

#include "proto/interfaces.h"
#include "transport/link/address.h"

/* An interface, by its address; port 0. */
struct gw_own_place {
    struct gw_place place;
    struct sockaddr_storage mask; /* netmask */
};

struct gw_own_places {
    size_t n;        /* 0: none was named, the host's routes decide */
    const char *key; /* name of the key that named them */
    struct gw_own_place own[GW_INTERFACES_MAX];
};

/*
 * Looks up the address of each interface of a list (proto/interfaces.h), given
 * by its name ("eth0") or by one of its addresses; among several of a name,
 * IPv4 comes first. NULL or "": none. GW_EINVAL names the interface that this
 * host does not have, and `key`, which named it (NULL: cluster.interface).
 */
enum gw_status gw_own_places_find(const char *interfaces,
                                  const char *key,
                                  struct gw_own_places *own_p,
                                  struct gw_error *error);

/*
 * Chooses the own address from which link number `link` goes to `to`; `again`
 * counts failed choices. NULL: there is no other, or, if `again` is 0, none of
 * that family. Pure.
 */
const struct gw_place *gw_own_places_towards(const struct gw_own_places *own,
                                             const struct sockaddr *to,
                                             unsigned link,
                                             unsigned again);

#endif
