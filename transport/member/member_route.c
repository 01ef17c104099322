/*
 * Routes to this member: transports and addresses at which others reach it. A
 * member that listens on several names them all, best first, and of each
 * transport every interface that links are to be spread over:
 *
 *   rdma://10.0.0.7:41001,rdma://10.0.1.7:41001,10.0.0.7:41001,10.0.1.7:41001
 *   shm://1b4e28ba2fa1493e-f0000098:5c1a9e07d2b34f68,10.0.0.7:41001
 *
 * An entry without a name is for the transport that every member speaks; a
 * transport within the host has no interfaces, and one entry.
 */
#include "config.h"

#include "transport/member/member_state.h"

#include <stdio.h>
#include <string.h>

#define REASON_MAX 400 /* room for the transport's name in front */

/* Writes a route for others to read; a host that is not "" replaces its own,
   unless the transport is within the host. Returns its length, even if there is
   no room. */
static size_t print_route(char *text,
                          size_t room,
                          const struct gw_member *member,
                          const struct gw_member_route *route,
                          unsigned listener,
                          const char *host)
{
    const struct gw_transport_ops *ops = route->transport->ops;
    const char *own = ops->listener_address(route->listener[listener]);
    if (ops->within_host)
        host = "";
    const char *port = host[0] ? strrchr(own, ':') : "";
    int plain = ops == member->transport->ops;
    int bare = strchr(host, ':') && host[0] != '[';
    return (size_t)snprintf(text, room, "%s%s%s%s%s%s", plain ? "" : ops->name,
                            plain ? "" : GW_ROUTE_MARK, bare ? "[" : "",
                            host[0] ? host : own, bare ? "]" : "", port);
}

/* Prepends an entry, if there is room. */
static void add_route(char text[GW_ADDRESSES_MAX], const char *one)
{
    size_t used = strlen(text), n = strlen(one), comma = used > 0;
    if (used + comma + n >= GW_ADDRESSES_MAX)
        return;
    memmove(text + n + comma, text, used + 1);
    memcpy(text, one, n);
    if (comma)
        text[n] = ',';
}

/* If there is no room for all of them, the best are left out. */
void gw_member_advertise(const struct gw_member *member,
                         const char *host,
                         char text[GW_ADDRESSES_MAX])
{
    text[0] = '\0';
    for (unsigned i = member->routes; i-- > 0;) {
        const struct gw_member_route *route = &member->route[i];
        for (unsigned k = route->listeners; k-- > 0;) {
            char one[GW_ADDRESS_MAX + 16];
            print_route(one, sizeof one, member, route, k, host);
            add_route(text, one);
        }
    }
}

static enum gw_status listen_on(struct gw_member *member,
                                struct gw_member_route *route,
                                const char *address,
                                struct gw_listener **listener_p,
                                struct gw_error *error)
{
    const struct gw_transport_ops *ops = route->transport->ops;
    char host[GW_ADDRESS_MAX], any[GW_ADDRESS_MAX + 4];
    if (ops->within_host && !ops->reaches(address)) {
        enum gw_status status = ops->meet(host, error);
        if (status != GW_OK)
            return status;
        snprintf(any, sizeof any, "%s:0", host);
        address = any;
    }
    return ops->listen(route->transport, address, &member->acceptor, listener_p,
                       error);
}

/* Non-zero for a transport within the host that listens: once is enough. */
static int is_everywhere(const struct gw_member_route *route)
{
    return route->transport->ops->within_host && route->listeners > 0;
}

/* Adds a listener to the advertised ones. */
static void keep(struct gw_member_route *route, struct gw_listener *listener)
{
    if (route->listeners < GW_INTERFACES_MAX)
        route->listener[route->listeners++] = listener;
}

/*
 * The same port for all transports, if possible. Sockets of the file system are
 * for one transport. `told`: it is advertised.
 */
static enum gw_status listen_at(struct gw_member *member,
                                const char *address,
                                int told,
                                struct gw_error *error)
{
    struct gw_error why;
    unsigned last = member->routes - 1;
    struct gw_member_route *base = &member->route[last];
    struct gw_listener *first, *other;
    if (is_everywhere(base))
        return GW_OK;
    enum gw_status status = listen_on(member, base, address, &first, error);
    if (status != GW_OK)
        return status;
    if (told)
        keep(base, first);
    if (strncmp(address, "unix:", 5) == 0)
        last = 0;
    const char *own = base->transport->ops->listener_address(first);
    for (unsigned i = 0; i < last; i++) {
        struct gw_member_route *route = &member->route[i];
        if (is_everywhere(route))
            continue;
        if (listen_on(member, route, own, &other, &why) != GW_OK)
            gw_log_info(member->loop->log, "not over %s: %s",
                        route->transport->ops->name, why.text);
        else if (told)
            keep(route, other);
    }
    return GW_OK;
}

/* One of several addresses that others can reach is enough; if a port is taken
   the caller decides. */
static enum gw_status listen_at_all(struct gw_member *member,
                                    char *list,
                                    int told,
                                    struct gw_error *error)
{
    unsigned all = 0, well = 0;
    struct gw_error why = {.status = GW_OK};
    while (list) {
        const char *address = strsep(&list, ",");
        enum gw_status status = listen_at(member, address, told, &why);
        all++;
        well += status == GW_OK;
        if (status == GW_EADDRINUSE)
            break;
        if (status != GW_OK && (list || well > 0))
            gw_log_warn(member->loop->log, "%s", why.text);
    }
    if (well > 0 && (why.status != GW_EADDRINUSE || all == well))
        return GW_OK;
    if (error)
        *error = why;
    return why.status;
}

enum gw_status gw_member_listen(struct gw_member *member,
                                const char *addresses,
                                struct gw_error *error)
{
    char list[GW_ADDRESSES_MAX];
    int told = !member->address[0];
    enum gw_status status;
    if (strlen(addresses) >= sizeof list)
        return gw_fail(error, GW_EINVAL, "too many addresses to listen at");
    strcpy(list, addresses);
    if (strncmp(addresses, "unix:", 5) == 0)
        status = listen_at(member, addresses, told, error);
    else
        status = listen_at_all(member, list, told, error);
    if (status == GW_OK && told)
        gw_member_advertise(member, "", member->address);
    return status;
}

const char *gw_member_address(const struct gw_member *member)
{
    return member->address;
}

void gw_member_register_memory(struct gw_member *member,
                               const struct gw_memory *memory)
{
    for (unsigned i = 0; i < member->routes; i++)
        member->route[i].transport->ops->register_memory(
            member->route[i].transport, memory);
}

void gw_member_deregister_memory(struct gw_member *member, void *base)
{
    for (unsigned i = 0; i < member->routes; i++)
        member->route[i].transport->ops->deregister_memory(
            member->route[i].transport, base);
}

static enum gw_status takes(struct gw_transport *transport,
                            const struct gw_memory *memory,
                            char *why,
                            size_t why_bytes)
{
    char reason[REASON_MAX];
    if (transport->ops->takes(transport, memory, reason, sizeof reason) ==
        GW_OK)
        return GW_OK;
    snprintf(why, why_bytes, "%s does not reach it: %s", transport->ops->name,
             reason);
    return GW_EUNSUPPORTED;
}

enum gw_status gw_member_takes(const struct gw_member *member,
                               const struct gw_memory *memory,
                               char *why,
                               size_t why_bytes)
{
    char other[GW_ERROR_TEXT_BYTES];
    for (unsigned i = member->routes; i-- > 0;)
        if (takes(member->route[i].transport, memory, i ? other : why,
                  i ? sizeof other : why_bytes) == GW_OK)
            return GW_OK;
    return GW_EUNSUPPORTED;
}

enum gw_status gw_peer_takes(const struct gw_peer *peer,
                             const struct gw_memory *memory,
                             char *why,
                             size_t why_bytes)
{
    enum gw_status status = GW_OK;
    for (unsigned i = 0; i < peer->links && status == GW_OK; i++)
        if (gw_peer_is_up(peer, i))
            status =
                takes(peer->link[i].link->transport, memory, why, why_bytes);
    return status;
}
