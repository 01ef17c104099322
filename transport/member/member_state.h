/*
 * Inside the members, shared by:
 *
 *   away.c               a coordinator that does not answer
 *   channel.c            messages to a peer, reliable and in order
 *   member.c             this process: opening, judging logins, time
 *   member_dial.c        reports of dials that fail
 *   member_peer.c        a peer: its links, messages, frames and silence
 *   member_peer_route.c  the route of a link to a peer
 *   member_proof.c       logins: proofs, and connections that replace another
 *   member_route.c       transports and addresses at which others reach us
 *   remote.c             checkpoint files that lie with the coordinator
 *   saved.c              files that a member has saved
 */
#ifndef GW_TRANSPORT_MEMBER_STATE_H
#define GW_TRANSPORT_MEMBER_STATE_H

#include "proto/interfaces.h"
#include "transport/member/member.h"

#define GW_MEMBER_BUCKETS 256

/* Between a transport's name and an address. */
#define GW_ROUTE_MARK "://"

/* A transport that others dial us over. */
struct gw_member_route {
    struct gw_transport *transport;
    unsigned listeners; /* the advertised ones; the transport closes all */
    struct gw_listener *listener[GW_INTERFACES_MAX];
};

/* Maximum number of routes in a list of addresses. */
#define GW_PEER_ROUTES_MAX (GW_ROUTES_MAX * GW_INTERFACES_MAX)

struct gw_member {
    struct gw_loop *loop;
    /* to the coordinator; if tensors use the same transport from another
       interface, that is a route too */
    struct gw_transport *transport;
    struct gw_member_route route[GW_ROUTES_MAX]; /* [routes], the best first */
    unsigned routes;
    char address[GW_ADDRESSES_MAX];
    struct gw_acceptor acceptor;
    const struct gw_member_handler *handler;
    void *owner;
    uint8_t role;
    uint32_t rank;
    uint64_t incarnation, job, epoch;
    struct gw_secret secret;
    _Atomic uint64_t clock;
    uint64_t heartbeat_us, silence_us, join_us, starves_us;
    struct gw_peer *peers;
    struct gw_peer *admitted[GW_MEMBER_BUCKETS]; /* by incarnation */
    struct gw_peer *closed;                      /* freed at the next tick */
    struct gw_timer tick;
    int quiet;
    struct gw_pulse pulse;
    uint64_t ticked_us, pulsed_us;
    uint64_t paused_us; /* all late ticks together */
    /* length of the last pause of the whole process, and the time when it was
       noticed */
    uint64_t stood_us, stood_at_us;
    /* limits of log lines about proved peers, and about strangers,
       which anybody can provoke */
    struct gw_log_limit known, strangers;
    /* 0: it does not; time of the last failure */
    uint64_t starves_since_us, starved_us;
    int starves_told;
    struct gw_control_arena encode, decode;
};

/* Failed dials of a peer with a link that is down. */
struct gw_peer_dial {
    enum gw_status status; /* of the last dial */
    int news;              /* the text has changed since it was told */
    uint64_t told_us;      /* 0: the owner does not know */
    char text[GW_ERROR_TEXT_BYTES];
};

/* A dial has failed. */
void gw_peer_dial_failed(struct gw_peer_link *slot,
                         enum gw_status status,
                         const char *why);

/* At each tick: tells the owner of links that do not come up. */
void gw_peer_watch_dials(struct gw_peer *peer, uint64_t now);

/* The interval of ticks, a fraction of a heartbeat's. */
uint64_t gw_member_tick_us(const struct gw_member *member);

/* Fills in peer->route from its address. GW_EUNSUPPORTED: no transport of it is
   open here. GW_ENOMEM. */
enum gw_status gw_peer_find_routes(struct gw_peer *peer,
                                   const char *address,
                                   struct gw_error *error);

/*
 * The route of a link after `moves` changes: routes of the best transport
 * first, and among these each link begins with another one. *same_p, if it is
 * not NULL: the number of routes of that transport.
 */
const struct gw_peer_route *gw_peer_route_of(const struct gw_peer_link *slot,
                                             unsigned moves,
                                             unsigned *same_p);

/* A link has broken, or its dial has failed. 1: it has another route, which was
   logged. 0: it has none now; unless `status` is final, it is dialled again. */
int gw_peer_take_next_route(struct gw_peer_link *slot,
                            enum gw_status status,
                            const char *why);

/* Logs the route of a link that has come up, if it had a choice; to be called
   before `was_up` is set. */
void gw_peer_log_route(const struct gw_peer_link *slot);

/* member_proof.c. Fills in the proof of a hello to a peer whose incarnation is
   known. GW_ENOMEM. */
enum gw_status gw_peer_prove(const struct gw_peer *peer,
                             struct gw_hello *hello,
                             struct gw_error *error);
/* The process that answers a dial: 0 where it is another one than before, and
   may not be. */
int gw_peer_meets(struct gw_peer *peer, uint64_t incarnation);
/* The limit of log lines about this peer. */
struct gw_log_limit *gw_peer_limit(const struct gw_peer *peer);
/* Words for a login that is put off, with the address of the existing link. */
void gw_peer_say_newer(const struct gw_peer *peer,
                       unsigned link,
                       char *why,
                       size_t why_bytes);
/* The slot's link is closed for a fault of the peer: records and logs it. */
void gw_peer_blame(struct gw_peer_link *slot, const char *why);
/* Logs that `link` replaces the slot's. */
void gw_peer_say_replaced(const struct gw_peer_link *slot,
                          const struct gw_link *link,
                          uint32_t generation);
/* There was no memory to answer a login, or to dial: logs it, and if it lasts
   tells the owner. A link that comes up ends it. */
void gw_member_starves(struct gw_member *member, const char *why);

/* A peer without links, at the head of the member's list. NULL: no memory. */
struct gw_peer *gw_peer_new(struct gw_member *member,
                            uint8_t role,
                            uint32_t id,
                            uint64_t incarnation,
                            const char *address,
                            unsigned links);

/* The bucket of admitted peers with this incarnation, linked by `same`; some in
   it have another incarnation. */
struct gw_peer **gw_member_admitted(struct gw_member *member,
                                    uint64_t incarnation);

/* Accepting side, after a judgement: gives `link` to this slot. An older link
   is closed first, and the owner told; returns 0 if the owner closed the peer.
   */
int gw_peer_adopt(struct gw_peer_link *slot,
                  struct gw_link *link,
                  uint32_t generation);

/* At each tick: sends heartbeats that are due, and judges silence of links and
   of the peer. The peer may be closed after this. */
void gw_peer_watch(struct gw_peer *peer, uint64_t now);

/* In a turn longer than a tick: sends heartbeats that are due, and nothing
   else. */
void gw_peer_pulse(struct gw_peer *peer, uint64_t now);

/* Frees the peers that are closed. Not from within a handler's call. */
void gw_member_free_closed(struct gw_member *member);

#endif
