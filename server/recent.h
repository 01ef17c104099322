/*
 * The last decisions of shard 0, where it has a standby: the standby gets them
 * first, and others when it has them; and a standby in its place tells them
 * once more. The struct is private to recent.c.
 */
#ifndef GW_SERVER_RECENT_H
#define GW_SERVER_RECENT_H

#include "proto/control.h"
#include "transport/member/member.h"

struct gw_server;

#define GW_RECENT 32 /* more than are made before anybody gets a version */

struct gw_recent_one {
    struct gw_decision decision; /* its text and lists are here: */
    double *values;
    uint32_t *ranks;
    char policy[GW_WORD_BYTES];
};

struct gw_recent {
    struct gw_recent_one one[GW_RECENT];
    uint64_t last;  /* number; 0: there is none */
    uint64_t taken; /* others were told up to it */
    void (*follow)(struct gw_server *server,
                   const struct gw_decision *decision);
};

/* `follow` is called of each that was added, in their order, when the standby
   has it. */
void gw_recent_open(struct gw_server *server,
                    void (*follow)(struct gw_server *server,
                                   const struct gw_decision *decision));
void gw_recent_close(struct gw_server *server);

/* Perhaps one of before the last. Without memory the job ends. */
void gw_recent_add(struct gw_server *server,
                   const struct gw_decision *decision);
/* The standby has all up to that number. */
void gw_recent_taken(struct gw_server *server, uint64_t number);
/* Some are not taken: nobody may get weights meanwhile. */
int gw_recent_waits(const struct gw_server *server);
/* The first one that is there, or would be. */
uint64_t gw_recent_first(const struct gw_server *server);
/* Tells a member of those that are there. */
void gw_recent_tell(struct gw_server *server, struct gw_peer *peer);

#endif
