/*
 * Ways: over which transport, and at which address, a peer is reached. A member
 * that listens on several names them all, the one that it prefers first:
 *
 *   shm://1b4e28ba2fa1493e-f0000098:5c1a9e07d2b34f68,10.0.0.7:41001
 *
 * What has no name is of the transport that everybody speaks; what is of
 * another host is left out.
 */
#include "config.h"

#include "transport/member_state.h"

#include <stdio.h>
#include <string.h>

#define MARK "://"

/* The entry's transport as this member has it open, NULL: it has not; and
   where the address begins. */
static struct gw_transport *transport_of(const struct gw_member *member,
                                         const char *entry,
                                         const char **address_p)
{
    const char *mark = strstr(entry, MARK);
    *address_p = mark ? mark + strlen(MARK) : entry;
    if (!mark)
        return member->transport;
    for (unsigned i = 0; i < member->ways; i++) {
        const char *name = member->way[i].transport->ops->name;
        if (strlen(name) == (size_t)(mark - entry) &&
            strncmp(entry, name, strlen(name)) == 0)
            return member->way[i].transport;
    }
    return NULL;
}

unsigned gw_member_ways_to(const struct gw_member *member,
                           const char *address,
                           struct gw_peer_way way[GW_WAYS_MAX])
{
    char list[GW_ADDRESS_MAX], *rest = list;
    unsigned n = 0;
    snprintf(list, sizeof list, "%s", address);
    while (rest && n < GW_WAYS_MAX) {
        const char *entry = strsep(&rest, ","), *plain;
        way[n].transport = transport_of(member, entry, &plain);
        snprintf(way[n].address, sizeof way[n].address, "%s", plain);
        n += way[n].transport && way[n].transport->ops->reaches(plain);
    }
    return n;
}

/* Writes a way as others are to read it; a host that is not "" replaces its
   own, where there can be others. Returns its length, also where there is no
   room. */
static size_t print_way(char *text,
                        size_t room,
                        const struct gw_member *member,
                        const struct gw_member_way *way,
                        const char *host)
{
    const struct gw_transport_ops *ops = way->transport->ops;
    const char *own = ops->listener_address(way->listener);
    if (ops->within_host)
        host = "";
    const char *port = host[0] ? strrchr(own, ':') : "";
    int plain = way->transport == member->transport;
    int bare = strchr(host, ':') && host[0] != '[';
    return (size_t)snprintf(text, room, "%s%s%s%s%s%s", plain ? "" : ops->name,
                            plain ? "" : MARK, bare ? "[" : "",
                            host[0] ? host : own, bare ? "]" : "", port);
}

/* Where there is no room for all of them, the best are left out. */
void gw_member_advertise(const struct gw_member *member,
                         const char *host,
                         char text[GW_ADDRESS_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = member->ways; i-- > 0;) {
        const struct gw_member_way *way = &member->way[i];
        char one[GW_ADDRESS_MAX + 8];
        if (!way->listener)
            continue;
        size_t n = print_way(one, sizeof one - 1, member, way, host);
        if (used + n + 2 > GW_ADDRESS_MAX)
            continue;
        if (used > 0)
            one[n++] = ',';
        memmove(text + n, text, used + 1);
        memcpy(text, one, n);
        used += n;
    }
}

/* The same port for all of them, where that can be had; within the host at any
   name. */
static enum gw_status listen_on(struct gw_member *member,
                                struct gw_member_way *way,
                                const char *address,
                                struct gw_error *error)
{
    const struct gw_transport_ops *ops = way->transport->ops;
    struct gw_listener *listener;
    char host[GW_ADDRESS_MAX], any[GW_ADDRESS_MAX + 4];
    enum gw_status status = GW_OK;
    if (ops->within_host && !ops->reaches(address)) {
        status = ops->meet(host, error);
        snprintf(any, sizeof any, "%s:0", status == GW_OK ? host : "");
        address = any;
    }
    if (status == GW_OK)
        status = ops->listen(way->transport, address, &member->acceptor,
                             &listener, error);
    if (status == GW_OK && !way->listener)
        way->listener = listener;
    return status;
}

enum gw_status gw_member_listen(struct gw_member *member,
                                const char *address,
                                struct gw_error *error)
{
    struct gw_error why;
    unsigned last = member->ways - 1;
    enum gw_status status =
        listen_on(member, &member->way[last], address, error);
    if (status != GW_OK)
        return status;
    /* those of the file system are one transport's */
    if (strncmp(address, "unix:", 5) == 0)
        last = 0;
    const struct gw_member_way *base = &member->way[last];
    for (unsigned i = 0; i < last; i++) {
        struct gw_member_way *way = &member->way[i];
        const char *own =
            base->transport->ops->listener_address(base->listener);
        if (listen_on(member, way, own, &why) != GW_OK)
            gw_log_info(member->loop->log, "not over %s: %s",
                        way->transport->ops->name, why.text);
    }
    gw_member_advertise(member, "", member->address);
    return GW_OK;
}

const char *gw_member_address(const struct gw_member *member)
{
    return member->address;
}

void gw_member_lend(struct gw_member *member, const struct gw_memory *memory)
{
    for (unsigned i = 0; i < member->ways; i++)
        member->way[i].transport->ops->lend(member->way[i].transport, memory);
}

void gw_member_take_back(struct gw_member *member, void *base)
{
    for (unsigned i = 0; i < member->ways; i++)
        member->way[i].transport->ops->take_back(member->way[i].transport,
                                                 base);
}

enum gw_status gw_member_takes(const struct gw_member *member,
                               enum gw_memory_kind kind,
                               char *why,
                               size_t why_bytes)
{
    char reason[GW_ERROR_TEXT_BYTES];
    for (unsigned i = 0; i < member->ways; i++) {
        struct gw_transport *one = member->way[i].transport;
        if (one->ops->takes(one, kind, reason, sizeof reason) == GW_OK)
            continue;
        snprintf(why, why_bytes, "%s does not reach it: %s", one->ops->name,
                 reason);
        return GW_EUNSUPPORTED;
    }
    return GW_OK;
}
