/* Where a tcp link leads to: a port of a host, or a local socket. */
#include "config.h"

#include "transport/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum gw_status gw_tcp_check(const char *address, struct gw_error *error)
{
    struct sockaddr_un at;
    if (gw_tcp_is_local(address))
        return gw_tcp_local_place(address, &at, error);
    return gw_address_check(address, error);
}

static enum gw_status resolve_local(const char *address,
                                    struct gw_places **found_p,
                                    struct gw_error *error)
{
    struct sockaddr_un at;
    enum gw_status status = gw_tcp_local_place(address, &at, error);
    if (status != GW_OK)
        return status;
    struct gw_places *places = gw_places_new(1);
    if (!places)
        return gw_fail(error, GW_ENOMEM, "no memory for an address");
    memcpy(&places->place[0].at, &at, sizeof at);
    places->place[0].bytes = sizeof at;
    *found_p = places;
    return GW_OK;
}

enum gw_status gw_tcp_resolve(const char *address,
                              int numeric,
                              int passive,
                              struct gw_places **found_p,
                              struct gw_error *error)
{
    if (gw_tcp_is_local(address))
        return resolve_local(address, found_p, error);
    return gw_address_resolve(address, numeric, passive, found_p, error);
}

/* "host:port" of one end of a socket, numeric; of a local one as its are. */
void gw_tcp_name(int fd, int peer, char text[GW_ADDRESS_MAX])
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    int failed = peer ? getpeername(fd, (struct sockaddr *)&address, &bytes)
                      : getsockname(fd, (struct sockaddr *)&address, &bytes);
    if (failed)
        strcpy(text, "unknown");
    else if (address.ss_family == AF_UNIX)
        gw_tcp_local_name(fd, peer, text);
    else
        gw_address_name((const struct sockaddr *)&address, bytes, text);
}
