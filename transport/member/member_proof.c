/*
 * Logins: the proof in a hello, connections and processes that replace another,
 * and faults against the protocol. Rank and incarnation of every member are
 * known to all that have the view; its secret is known to itself and the
 * coordinator, and the secret of a pair to the two and the coordinator.
 */
#include "config.h"

#include "transport/member/member_state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* More failed dials than a member makes while its last link seems well. */
#define GENERATIONS_MANY 100

/* ---- the opener ---- */

enum gw_status gw_peer_prove(const struct gw_peer *peer,
                             struct gw_hello *hello,
                             struct gw_error *error)
{
    struct gw_secret pair;
    if (!peer->incarnation) /* the process that listens there is unknown */
        return GW_OK;
    enum gw_status status =
        gw_secret_of_pair(&peer->member->secret, peer->incarnation, &pair);
    if (status == GW_OK)
        status = gw_hello_prove(hello, &pair);
    gw_secret_forget(&pair);
    return status == GW_OK
               ? GW_OK
               : gw_fail(error, status, "no memory to prove who dials");
}

void gw_peer_may_renew(struct gw_peer *peer)
{
    assert(peer->opener && peer->links == 1);
    peer->renews = 1;
}

/* No send is on a link: the one before is closed, this one is new. */
int gw_peer_meets(struct gw_peer *peer, uint64_t incarnation)
{
    if (peer->incarnation && incarnation != peer->incarnation) {
        if (!peer->renews)
            return 0;
        gw_channel_free(&peer->channel);
        peer->clock = 0;
    }
    peer->incarnation = incarnation;
    return 1;
}

enum gw_status gw_member_sign(const struct gw_member *member,
                              const struct gw_peer *coordinator,
                              const struct gw_secret *of_job,
                              struct gw_join *join)
{
    struct gw_join_claim claim = {.job = member->job,
                                  .coordinator = coordinator->incarnation,
                                  .member = member->incarnation,
                                  .own = member->secret};
    enum gw_status status = GW_OK;
    join->secret = member->secret;
    join->has_proof = of_job != NULL;
    if (of_job)
        status = gw_join_prove(of_job, &claim, join->proof);
    gw_secret_forget(&claim.own);
    return status;
}

const struct gw_secret *gw_member_secret(const struct gw_member *member)
{
    return &member->secret;
}

/* ---- the acceptor ---- */

void gw_peer_expect(struct gw_peer *peer, const struct gw_secret *pair)
{
    peer->secret = *pair;
    peer->has_secret = 1;
}

enum gw_status gw_peer_admit(struct gw_peer *peer,
                             const struct gw_hello *hello,
                             const struct gw_secret *pair,
                             char *why,
                             size_t why_bytes)
{
    switch (gw_hello_is_proved(hello, pair)) {
    case GW_OK:
        break;
    case GW_EREFUSED:
        snprintf(why, why_bytes, "no proof that this is %s, as it says",
                 peer->name);
        return GW_EREFUSED;
    default:
        snprintf(why, why_bytes, "no memory to look at who this is");
        return GW_EAGAIN;
    }
    if (&peer->secret != pair)
        gw_peer_expect(peer, pair);
    return GW_OK;
}

struct gw_log_limit *gw_peer_limit(const struct gw_peer *peer)
{
    struct gw_member *member = peer->member;
    return peer->has_secret || peer->opener ? &member->known
                                            : &member->strangers;
}

/* The refused opener may be the real one. */
void gw_peer_say_newer(const struct gw_peer *peer,
                       unsigned link,
                       char *why,
                       size_t why_bytes)
{
    const struct gw_link *newer =
        link < peer->links ? peer->link[link].link : NULL;
    snprintf(why, why_bytes, "a newer connection is there already%s%.100s",
             newer ? ", from " : "", newer ? newer->remote : "");
}

/* A peer that dials again has noticed that its connection broke. If it did not
   break, or the generation jumps, the log should say from which address. */
void gw_peer_say_replaced(const struct gw_peer_link *slot,
                          const struct gw_link *link,
                          uint32_t generation)
{
    uint32_t ahead = generation - slot->generation;
    if (!slot->link || !slot->link->up)
        return;
    gw_log_limited(slot->peer->member->loop->log, gw_peer_limit(slot->peer),
                   ahead > GENERATIONS_MANY ? GW_LOG_WARN : GW_LOG_INFO,
                   "%s: connection %u from %s, generation %" PRIu32
                   ", takes the place of that from %s, generation %" PRIu32,
                   slot->peer->name, slot->index, link->remote, generation,
                   slot->link->remote, slot->generation);
}

/* ---- faults ---- */

/* A member that breaks the protocol has a fault, or is an impostor: people must
   read that before they read that it is silent. Lines about a stranger count as
   lines that strangers provoke. */
void gw_peer_blame(struct gw_peer_link *slot, const char *why)
{
    struct gw_peer *peer = slot->peer;
    snprintf(peer->fault, sizeof peer->fault, "%s", why);
    gw_log_limited(peer->member->loop->log, gw_peer_limit(peer), GW_LOG_WARN,
                   "%s breaks the protocol, and its connection %u is closed: "
                   "%s",
                   peer->name, slot->index, why);
}
