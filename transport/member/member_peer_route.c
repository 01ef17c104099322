/*
 * The route of a link to a peer: of the routes that the peer names, that lead
 * there from this host and that this member has open, the next one whenever it
 * breaks.
 *
 *   peer's list    rdma A, rdma B, tcp A, tcp B
 *   link 0         rdma A, rdma B, tcp A, tcp B
 *   link 1         rdma B, rdma A, tcp B, tcp A
 */
#include "config.h"

#include "transport/member/member_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The transport of every member: to the coordinator, or for tensors. */
static struct gw_transport *common_transport(const struct gw_peer *peer)
{
    const struct gw_member *member = peer->member;
    for (unsigned i = 0; i < member->routes; i++)
        if (peer->role != GW_ROLE_COORDINATOR &&
            member->route[i].transport->ops == member->transport->ops)
            return member->route[i].transport;
    return member->transport;
}

/* The transport of an entry that this member has open, or NULL; and the begin
   of its address. */
static struct gw_transport *transport_of(const struct gw_peer *peer,
                                         const char *entry,
                                         const char **address_p)
{
    const struct gw_member *member = peer->member;
    const char *mark = strstr(entry, GW_ROUTE_MARK);
    *address_p = mark ? mark + strlen(GW_ROUTE_MARK) : entry;
    if (!mark)
        return common_transport(peer);
    for (unsigned i = 0; i < member->routes; i++) {
        const char *name = member->route[i].transport->ops->name;
        if (strlen(name) == (size_t)(mark - entry) &&
            strncmp(entry, name, strlen(name)) == 0)
            return member->route[i].transport;
    }
    return NULL;
}

static unsigned read_routes(const struct gw_peer *peer,
                            const char *address,
                            struct gw_peer_route route[GW_PEER_ROUTES_MAX])
{
    char list[GW_ADDRESSES_MAX], *rest = list;
    unsigned n = 0;
    snprintf(list, sizeof list, "%s", address);
    while (rest && n < GW_PEER_ROUTES_MAX) {
        const char *entry = strsep(&rest, ","), *plain;
        route[n].transport = transport_of(peer, entry, &plain);
        snprintf(route[n].address, sizeof route[n].address, "%s", plain);
        n += route[n].transport && route[n].transport->ops->reaches(plain);
    }
    return n;
}

const struct gw_peer_route *gw_peer_route_of(const struct gw_peer_link *slot,
                                             unsigned moves,
                                             unsigned *same_p)
{
    const struct gw_peer *peer = slot->peer;
    unsigned first = 0, same = 1;
    for (;;) {
        const struct gw_transport *of = peer->route[first].transport;
        for (same = 1; first + same < peer->routes; same++)
            if (peer->route[first + same].transport != of)
                break;
        if (moves < same || first + same == peer->routes)
            break;
        moves -= same;
        first += same;
    }
    if (same_p)
        *same_p = same;
    return &peer->route[first + (slot->index + moves) % same];
}

enum gw_status gw_peer_find_routes(struct gw_peer *peer,
                                   const char *address,
                                   struct gw_error *error)
{
    struct gw_peer_route route[GW_PEER_ROUTES_MAX];
    peer->routes = read_routes(peer, address, route);
    if (peer->routes == 0)
        return gw_fail(error, GW_EUNSUPPORTED,
                       "it is reached by %s only, which is not here", address);
    peer->route = calloc(peer->routes, sizeof *peer->route);
    if (!peer->route)
        return gw_fail(error, GW_ENOMEM, "no memory for a peer");
    memcpy(peer->route, route, peer->routes * sizeof *route);
    return GW_OK;
}

/* Logs the route of a peer, if there was a choice; and of each link, if links
   are spread over several. */
void gw_peer_log_route(const struct gw_peer_link *slot)
{
    const struct gw_peer *peer = slot->peer;
    unsigned same;
    const struct gw_peer_route *route =
        gw_peer_route_of(slot, slot->moves, &same);
    const char *name = route->transport->ops->name;
    if (!peer->was_up && route->transport->ops != peer->member->transport->ops)
        gw_log_info(peer->member->loop->log, "%s is reached over %s",
                    peer->name, name);
    if (same > 1)
        gw_log_info(peer->member->loop->log, "%s: link %u goes over %s to %s",
                    peer->name, slot->index, name, route->address);
}

static void
log_next_route(const struct gw_peer_link *slot, unsigned next, const char *why)
{
    const struct gw_peer *peer = slot->peer;
    const struct gw_peer_route *from =
        gw_peer_route_of(slot, slot->moves, NULL);
    const struct gw_peer_route *to = gw_peer_route_of(slot, next, NULL);
    const char *name = to->transport->ops->name;
    if (from->transport == to->transport)
        gw_log_warn(peer->member->loop->log,
                    "%s: link %u goes over %s to %s instead of %s: %s",
                    peer->name, slot->index, name, to->address, from->address,
                    why);
    else
        gw_log_warn(peer->member->loop->log,
                    "%s: goes over %s instead of %s: %s", peer->name, name,
                    from->transport->ops->name, why);
}

/* A link within this host ends with one of its two processes. */
static int ends_with_process(const struct gw_peer_link *slot,
                             enum gw_status status)
{
    return slot->peer->was_up && status != GW_EUNSUPPORTED &&
           gw_peer_route_of(slot, slot->moves, NULL)
               ->transport->ops->within_host;
}

/* A route that fails is left for the next one: no time is lost on retrying it.
   The last transport's routes are tried in turn, as long as not all of them
   failed for good. */
int gw_peer_take_next_route(struct gw_peer_link *slot,
                            enum gw_status status,
                            const char *why)
{
    unsigned same, gone = status == GW_EUNSUPPORTED ? slot->gone + 1 : 0;
    if (status == GW_EREFUSED || status == GW_EVERSION || status == GW_EAGAIN ||
        slot->peer->rests || ends_with_process(slot, status))
        return 0;
    slot->gone = gone;
    gw_peer_route_of(slot, slot->moves, &same);
    unsigned next = slot->moves + 1;
    if (next >= slot->peer->routes) {
        if (same == 1 || gone >= same)
            return 0;
        next = slot->peer->routes - same;
        if (!gone) { /* it is logged when it comes up */
            slot->moves = next;
            return 0;
        }
    }
    log_next_route(slot, next, why);
    slot->moves = next;
    return 1;
}

/* ---- the route that a link has taken ---- */

int gw_peer_is_up(const struct gw_peer *peer, unsigned link)
{
    return peer->link[link].link && peer->link[link].link->up;
}

enum gw_status
gw_peer_export(struct gw_peer *peer, unsigned link, uint32_t window)
{
    if (!gw_peer_is_up(peer, link))
        return GW_ECLOSED;
    struct gw_link *to = peer->link[link].link;
    return to->ops->export(to, window);
}

const void *gw_peer_import(const struct gw_peer *peer,
                           unsigned link,
                           uint32_t window,
                           size_t bytes)
{
    if (!gw_peer_is_up(peer, link))
        return NULL;
    struct gw_link *to = peer->link[link].link;
    return to->ops->import(to, window, bytes);
}

int gw_peer_is_within_host(const struct gw_peer *peer, unsigned link)
{
    return gw_peer_is_up(peer, link) && peer->link[link].link->ops->within_host;
}
