/*
 * Two members of one transport, one of which dials the other, for the tests of
 * members: what happens to them is counted, and messages are checked to come
 * in order.
 */
#ifndef GW_TESTS_COUPLE_H
#define GW_TESTS_COUPLE_H

#include "tests/table/world.h"
#include "transport/member/member.h"

struct side {
    struct gw_loop *loop;
    struct gw_member *member;
    struct gw_peer *peer;
    int ups, downs, lost;
    enum gw_status lost_status;
    char lost_why[128];
    uint64_t messages; /* passed on, checked to be in order */
    uint64_t others;   /* besides: statuses, whose text nobody reads */
    uint64_t frames;
    uint64_t stall_us;  /* that the handling of the next frame takes, */
    int asks;           /* whether the turn is over meanwhile, */
    uint64_t unsaid_us; /* and how long nothing had left by its end */
    uint64_t job;       /* before it opens; 0: it is told */
    uint64_t join_us;   /* the same; 0: 400000 */
    const char *refuse;
    int is_poor; /* nobody is admitted, for want of memory */
    int starves; /* how often that was told */
    int rejects; /* every frame */
    char down_why[128];
    int stuck, came_back; /* how often that was told */
    char stuck_text[GW_ERROR_TEXT_BYTES];
    int closes; /* the peer, when one of its links breaks */
};

struct couple {
    struct world world;
    struct side a, b; /* a listens, b dials */
    uint64_t wanted;
};

/* Both members open, a listening. Fails the test on any error. */
struct couple *couple_new(const char *transport);
void couple_free(struct couple *couple);

/* Opens one of them; couple_new has done so for both. */
void side_open(struct couple *couple,
               struct side *side,
               int which,
               uint8_t role);

/* b dials a. */
void dial(struct couple *couple, uint64_t expects, unsigned links);

/* Conditions for world_run; the owner is the couple. */
int all_up(void *owner);
int all_told(void *owner); /* `wanted` messages, both of them */
int a_lost(void *owner);
int b_lost(void *owner);

#endif
