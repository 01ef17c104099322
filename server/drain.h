/*
 * Drains: all ranks come to stand still, for a checkpoint, an evaluation, a
 * switch of policy or the end. Commits per push alone need them, since their
 * ranks are at different clocks.
 *
 *   drain --> wants are kept open --> ranks finish their clock, push all of it,
 *   wait --> every shard says where each rank stands (settled) --> the cause of
 *   the drain is decided, with the ranks' clocks --> resume: wants are answered
 *   again
 *
 * A rank with a want that any shard keeps open pushes nothing more. So when all
 * shards name the same clock of the rank, nothing of it is on its way.
 *
 * The struct is private to drain.c.
 */
#ifndef GW_SERVER_DRAIN_H
#define GW_SERVER_DRAIN_H

#include <stdint.h>

#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_server;

struct gw_drain {
    uint64_t number;   /* the decision's, 0: no drain goes on */
    uint64_t voided;   /* wants of before this decision are void, 0: none */
    uint64_t *clocks;  /* [ranks] where each stands */
    uint32_t *blocked; /* [ranks] they wait for weights */
    struct gw_timer later;
};

/* GW_ENOMEM */
enum gw_status gw_drain_open(struct gw_server *server);
void gw_drain_stop(struct gw_server *server);
void gw_drain_close(struct gw_server *server);

/* By the decision that was followed last. */
void gw_drain_begin(struct gw_server *server);
/* pulls: ranks pull first, to score or at the end. Their wants of before are
   void, and a rank that goes on asks again. */
void gw_drain_end(struct gw_server *server, int pulls);

int gw_drain_goes_on(const struct gw_server *server);
/* A push, a want or the end of an answer: says again where ranks stand. */
void gw_drain_changed(struct gw_server *server);

/* A drain goes on, no rank is within a clock and no answer is under way: until
   the drain ends nothing moves here. */
int gw_drain_stands_still(const struct gw_server *server);
/* The rank waits for weights of its next clock. */
int gw_drain_is_blocked(const struct gw_server *server, uint32_t rank);
/* A want that was sent with this decision is void. */
int gw_drain_voids(const struct gw_server *server, uint64_t decision);

#endif
