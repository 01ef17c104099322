/* Destination of a tcp link: a port of a host, or a local socket. */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum gw_status gw_tcp_check(const char *address, struct gw_error *error)
{
    struct sockaddr_un at;
    if (gw_tcp_is_unix(address))
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
    if (gw_tcp_is_unix(address))
        return resolve_local(address, found_p, error);
    return gw_address_resolve(address, numeric, passive, found_p, error);
}

/* "127.0.1.1:7000", if the resolved address reads differently. */
static size_t print_to(const struct gw_tcp_link *link, char *text, size_t room)
{
    size_t n = link->found->n;
    const struct gw_place *to =
        &link->found->place[link->trying < n ? link->trying : n - 1];
    const struct sockaddr *at = (const struct sockaddr *)&to->at;
    char shown[GW_ADDRESS_MAX];
    gw_address_name(at, to->bytes, shown);
    if (strcmp(shown, link->base.remote) == 0)
        return 0;
    return (size_t)snprintf(
        text, room, "%.80s is %.90s%s", link->base.remote, shown,
        gw_address_is_loopback(at) ? ", a loopback address (see /etc/hosts)"
                                   : "");
}

/* "10.0.0.3, as routes say": the own host, and the reason for choosing it. */
static size_t
print_from(const struct gw_tcp_link *link, char *text, size_t room)
{
    const struct gw_own_places *own = &link->tcp->own;
    char shown[GW_ADDRESS_MAX];
    if (link->from.bytes == 0 ||
        gw_address_is_loopback((const struct sockaddr *)&link->from.at))
        return 0;
    gw_address_name((const struct sockaddr *)&link->from.at, link->from.bytes,
                    shown);
    char *port = strrchr(shown, ':');
    if (port)
        *port = '\0';
    return (size_t)snprintf(text, room, "from %.80s, as %.32s%s", shown,
                            own->n > 0 ? own->key : "routes say",
                            own->n > 0 ? " says" : "");
}

void gw_tcp_tell_attempt(const struct gw_tcp_link *link,
                         const char *why,
                         char text[GW_ERROR_TEXT_BYTES])
{
    char to[GW_ERROR_TEXT_BYTES / 2] = "", from[GW_ERROR_TEXT_BYTES / 4] = "";
    if (!link->base.local && link->found)
        print_to(link, to, sizeof to);
    if (!link->base.local)
        print_from(link, from, sizeof from);
    int said = to[0] || from[0];
    snprintf(text, GW_ERROR_TEXT_BYTES, "%.80s%s%s%s%s%s", why,
             said ? " (" : "", to, to[0] && from[0] ? ", " : "", from,
             said ? ")" : "");
}

/* "host:port" of one end of a socket, numeric; of a local one see
   gw_tcp_local_name. */
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
