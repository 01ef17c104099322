/*
 * Inside the members, shared by:
 *
 *   channel.c          messages to a peer, reliable and in order
 *   member.c           this process: opening, judging logins, time
 *   member_dial.c      reports of dials that fail
 *   member_peer.c      a peer: its links, messages, frames and silence
 *   member_peer_way.c  the route of a link to a peer
 *   member_proof.c     logins: proofs, and connections that replace another
 *   member_way.c       transports and addresses at which others reach this
 * member remote.c           checkpoint files that lie with the coordinator
 */
#ifndef GW_TRANSPORT_MEMBER_STATE_H
#define GW_TRANSPORT_MEMBER_STATE_H

#include "proto/interfaces.h"
#include "transport/member/member.h"

#define GW_MEMBER_BUCKETS 256

/* Between a transport's name and an address. */
#define GW_WAY_MARK "://"

/* A transport that others dial us over. */
struct gw_member_way {
    struct gw_transport *transport;
    unsigned listeners; /* those that are advertised; it closes all */
    struct gw_listener *listener[GW_INTERFACES_MAX];
};

/* Ways that a list of addresses can name. */
#define GW_PEER_WAYS_MAX (GW_WAYS_MAX * GW_INTERFACES_MAX)

struct gw_member {
    struct gw_loop *loop;
    struct gw_transport *transport; /* to the coordinator; where tensors go over
                                       the same from elsewhere, it is a way too
                                     */
    struct gw_member_way way[GW_WAYS_MAX]; /* [ways], the best first */
    unsigned ways;
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
    struct gw_peer *admitted[GW_MEMBER_BUCKETS]; /* by their incarnation */
    struct gw_peer *closed; /* closed, freed at the next tick */
    struct gw_timer tick;
    int quiet;
    struct gw_pulse pulse;
    uint64_t ticked_us, pulsed_us;
    uint64_t paused_us; /* when it was found that a tick was late, */
    uint64_t stood_us, stood_at_us; /* how long nothing was done at all, and
                                       when that was found */
    /* of lines about those whose names are proved, and about others, which
       anybody can provoke */
    struct gw_log_limit known, strangers;
    uint64_t starves_since_us, starved_us; /* 0: it does not; when last */
    int starves_told;
    struct gw_control_arena encode, decode;
};

/* Dials that came to nothing, while a link is not there. */
struct gw_peer_dial {
    enum gw_status status; /* of the last one */
    int news;              /* and it was another than the one before */
    uint64_t told_us;      /* 0: the owner does not know */
    char text[GW_ERROR_TEXT_BYTES];
};

/* A dial has come to nothing. */
void gw_peer_dial_failed(struct gw_peer_link *slot,
                         enum gw_status status,
                         const char *why);

/* A tick: tells the owner of links that do not come up. */
void gw_peer_watch_dials(struct gw_peer *peer, uint64_t now);

/* From tick to tick; a heartbeat is several of them. */
uint64_t gw_member_tick_us(const struct gw_member *member);

/* Fills in peer->way by its address. GW_EUNSUPPORTED: none of them is open
   here. GW_ENOMEM. */
enum gw_status gw_peer_find_ways(struct gw_peer *peer,
                                 const char *address,
                                 struct gw_error *error);

/*
 * The way that a link takes after `moves` others: those of the best transport
 * first, and among these each link begins with another one. *same_p, if it is
 * not NULL: how many that transport has.
 */
const struct gw_peer_way *gw_peer_way_of(const struct gw_peer_link *slot,
                                         unsigned moves,
                                         unsigned *same_p);

/* A link has broken, or its dial came to nothing: 1: it has another way, and
   that was said. 0: not now; where `status` is not final, it is dialled again
   all the same. */
int gw_peer_take_next_way(struct gw_peer_link *slot,
                          enum gw_status status,
                          const char *why);

/* Which way a link has come up, if it could have been another; before the first
   is counted. */
void gw_peer_say_way(const struct gw_peer_link *slot);

/* member_proof.c. Fills in the proof of a hello to a peer, if that is known.
   GW_ENOMEM. */
enum gw_status gw_peer_prove(const struct gw_peer *peer,
                             struct gw_hello *hello,
                             struct gw_error *error);
/* The limit of lines about this peer. */
struct gw_log_limit *gw_peer_limit(const struct gw_peer *peer);
/* Why a login is put off, with the address of the one that is there. */
void gw_peer_say_newer(const struct gw_peer *peer,
                       unsigned link,
                       char *why,
                       size_t why_bytes);
/* The slot's link is closed for what the peer did on it. */
void gw_peer_blame(struct gw_peer_link *slot, const char *why);
/* `link` takes the place of the slot's. */
void gw_peer_say_replaced(const struct gw_peer_link *slot,
                          const struct gw_link *link,
                          uint32_t generation);
/* There was no memory to answer somebody, or to dial: says so, and if it stays
   like that tells the owner. A link that comes up ends it. */
void gw_member_starves(struct gw_member *member, const char *why);

/* A peer without links, at the head of the member's list. NULL: no memory. */
struct gw_peer *gw_peer_new(struct gw_member *member,
                            uint8_t role,
                            uint32_t id,
                            uint64_t incarnation,
                            const char *address,
                            unsigned links);

/* Of those that were admitted with this incarnation, the first; the others
   follow as `same`, among some with another. */
struct gw_peer **gw_member_admitted(struct gw_member *member,
                                    uint64_t incarnation);

/* The accepting side has judged: `link` is from now on this slot's. An older
   one is closed first, and the owner told; returns 0 if it closed the peer. */
int gw_peer_adopt(struct gw_peer_link *slot,
                  struct gw_link *link,
                  uint32_t generation);

/* A tick: heartbeats that are due, links and peers that are silent. The peer
   may be closed after this. */
void gw_peer_watch(struct gw_peer *peer, uint64_t now);

/* A turn lasts over a tick: heartbeats that are due, and nothing else. */
void gw_peer_pulse(struct gw_peer *peer, uint64_t now);

/* Frees the peers that are closed. Not from within a handler's call. */
void gw_member_free_closed(struct gw_member *member);

#endif
