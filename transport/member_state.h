/*
 * Inside the members: what the files share.
 *
 *   member.c       this process: opening, judging who logs in, time
 *   member_peer.c  another process: its links, messages, frames and silence
 *   member_way.c   over which transports they meet
 */
#ifndef GW_TRANSPORT_MEMBER_STATE_H
#define GW_TRANSPORT_MEMBER_STATE_H

#include "transport/member.h"

#define GW_MEMBER_BUCKETS 256

/* A transport that others dial us over. */
struct gw_member_way {
    struct gw_transport *transport;
    struct gw_listener *listener; /* the first; the transport closes all */
};

struct gw_member {
    struct gw_loop *loop;
    struct gw_transport *transport;
    struct gw_member_way way[GW_WAYS_MAX]; /* [ways], the best first */
    unsigned ways;
    char address[GW_ADDRESS_MAX];
    struct gw_acceptor acceptor;
    const struct gw_member_handler *handler;
    void *owner;
    uint8_t role;
    uint32_t rank;
    uint64_t incarnation, job, epoch;
    _Atomic uint64_t clock;
    uint64_t heartbeat_us, silence_us, join_us;
    struct gw_peer *peers;
    struct gw_peer *admitted[GW_MEMBER_BUCKETS]; /* by their incarnation */
    struct gw_peer *graveyard; /* closed, freed at the next tick */
    struct gw_timer tick;
    uint64_t ticked_us, paused_us;
    struct gw_control_arena encode, decode;
};

/* From tick to tick; a heartbeat is several of them. */
uint64_t gw_member_tick_us(const struct gw_member *member);

/* Of an address's ways those that are open here, the best first; how many. */
unsigned gw_member_ways_to(const struct gw_member *member,
                           const char *address,
                           struct gw_peer_way way[GW_WAYS_MAX]);

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

/* This process did not run for gap_us: that was not the peer's silence. */
void gw_peer_forgive(struct gw_peer *peer, uint64_t gap_us, uint64_t now);

/* Frees the peers that are closed. Not from within a handler's call. */
void gw_member_bury(struct gw_member *member);

#endif
