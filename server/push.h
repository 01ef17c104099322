/*
 * A push as its frame tells it, and why it cannot be true. Samples of a push
 * divide results, so a shard believes no number that its job does not allow.
 */
#ifndef GW_SERVER_PUSH_H
#define GW_SERVER_PUSH_H

#include "proto/groups.h"
#include "server/policy/policy.h"
#include "transport/member/member.h"

struct gw_server;

struct gw_push {
    uint32_t rank;  /* the sender's */
    uint32_t chunk; /* local index */
    uint64_t clock;
    uint64_t decision; /* the last that the sender knew */
    uint8_t absent;    /* without bytes: its ranks have no gradient */
    uint8_t exported;  /* its sender has the bytes, not the landing slot */
    uint8_t summed;    /* the parts are of several ranks */
    uint8_t uncounted; /* absent, and its samples do not count */
    uint32_t samples;
    const struct gw_part *part; /* [n] each rank's, by gw_push_parts */
    uint32_t n;
    struct gw_part alone;
    char fault[GW_PEER_FAULT_MAX];
};

/* Fills the push but for its parts. NULL, or why no member sends it. */
const char *gw_push_read(struct gw_server *server,
                         const struct gw_peer *peer,
                         const struct gw_frame *frame,
                         struct gw_push *push);

/* A push counts, is in already, is late, or cannot be. */
enum gw_push_verdict gw_push_judge(const struct gw_server *server,
                                   const struct gw_push *push);

/* The clock of a chunk goes on without a rank's push, or went. */
void gw_push_late(struct gw_server *server,
                  uint32_t rank,
                  uint32_t chunk,
                  uint64_t clock);

/* Its clock is the one that its chunk is at: fills the parts. NULL, or why no
   member sends it; the text may lie in the push. */
const char *gw_push_parts(struct gw_server *server, struct gw_push *push);

/* Fills the slot of a part's rank. 0: the part does not count yet, since this
   shard lacks a decision or terms that the sender knew. */
int gw_push_land(struct gw_server *server,
                 const struct gw_push *push,
                 const struct gw_part *part);

/* The push in a slot is held from now on. Returns the time. */
uint64_t gw_push_hold(struct gw_server *server, uint32_t rank, uint32_t chunk);

/* The next rank from *rank_p on with a deferred push of a chunk that counts
   by now. 0: none. */
int gw_push_next_deferred(struct gw_server *server,
                          uint32_t chunk,
                          uint32_t *rank_p);

/* The payload of a frame is fp32 as it is, and has landed exactly in the
   chunk's place of a window. */
int gw_push_is_plain(const struct gw_frame *frame);
int gw_push_fits_slot(const struct gw_server *server,
                      const struct gw_frame *frame,
                      uint32_t chunk,
                      uint32_t window);

#endif
