/*
 * Strangers: peers that have logged in and are no members. They are observers,
 * or have not joined yet. Anybody can log in, so each kind has a number of
 * places, and the oldest one makes room for the next: a crowd keeps nobody
 * out, since a member joins, and an observer asks, as soon as it is logged in.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

/* Places for strangers of each kind. */
#define STRANGERS_MAX 64

/* For a Join after the login, which is as long as a login may take. */
#define JOIN_US 5000000

/* The user's own observers, through the local socket, have places that nobody
   else can take. */
static int is_of_kind(const struct gw_peer *one, const struct gw_peer *other)
{
    return one->local == other->local &&
           (one->role == GW_ROLE_OBSERVER) == (other->role == GW_ROLE_OBSERVER);
}

static int has_joined(const struct gw_peer *peer)
{
    return peer->owner != NULL || gw_early_is_of(peer);
}

static void
put_out(struct gw_coordinator *self, struct gw_peer *peer, const char *why)
{
    gw_log_limited(self->log, &self->limit, GW_LOG_WARN,
                   "connection from %s closed: %s", peer->address, why);
    gw_peer_close(peer);
}

void gw_strangers_make_room(struct gw_coordinator *self,
                            const struct gw_peer *newest)
{
    struct gw_peer *oldest = NULL;
    unsigned others = 0;
    for (struct gw_peer *peer = gw_member_peers(self->member); peer;
         peer = gw_peer_next(peer)) {
        if (peer == newest || !is_of_kind(peer, newest) || has_joined(peer))
            continue;
        others++;
        oldest = peer; /* the list begins with the newest */
    }
    if (others >= STRANGERS_MAX)
        put_out(self, oldest,
                newest->role == GW_ROLE_OBSERVER
                    ? "too many look on, and it was the first"
                    : "too many have logged in and not joined, and it was the "
                      "first");
}

void gw_strangers_expire(struct gw_coordinator *self, uint64_t now)
{
    struct gw_peer *next;
    for (struct gw_peer *peer = gw_member_peers(self->member); peer;
         peer = next) {
        next = gw_peer_next(peer);
        if (peer->role != GW_ROLE_OBSERVER && now > peer->since_us + JOIN_US &&
            !has_joined(peer))
            put_out(self, peer, "it has not joined in time");
    }
}
