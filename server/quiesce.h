/*
 * Drains: all ranks come to stand still, for a checkpoint, an evaluation, a
 * switch of policy or the end. Commits per push alone need them, since their
 * ranks are at different clocks.
 *
 *   quiesce --> wants are kept open --> ranks finish their clock, push all of
 * it, wait --> every shard says where each rank stands (quiesced) --> the cause
 * of the quiesce is decided, with the ranks' clocks --> resume: wants are
 * answered again
 *
 * A rank with a want that any shard keeps open pushes nothing more. So when all
 * shards name the same clock of the rank, nothing of it is on its way.
 *
 * The struct is private to quiesce.c.
 */
#ifndef GW_SERVER_DRAIN_H
#define GW_SERVER_DRAIN_H

#include <stdint.h>

#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_server;

struct gw_quiesce {
    uint64_t number;   /* the decision's, 0: no quiesce goes on */
    uint64_t voided;   /* wants of before this decision are void, 0: none */
    uint64_t *clocks;  /* [ranks] where each stands */
    uint32_t *blocked; /* [ranks] they wait for weights */
    struct gw_timer later;
};

/* GW_ENOMEM */
enum gw_status gw_quiesce_open(struct gw_server *server);
void gw_quiesce_stop(struct gw_server *server);
void gw_quiesce_close(struct gw_server *server);

/* By the decision that was followed last. */
void gw_quiesce_begin(struct gw_server *server);
/* pulls: ranks pull first, to score or at the end. Their wants of before are
   void, and a rank that goes on asks again. */
void gw_quiesce_end(struct gw_server *server, int pulls);

int gw_quiesce_goes_on(const struct gw_server *server);
/* A push, a want or the end of an answer: says again where ranks stand. */
void gw_quiesce_changed(struct gw_server *server);

/* A quiesce goes on, no rank is within a clock and no answer is under way:
   until the quiesce ends nothing moves here. */
int gw_quiesce_stands_still(const struct gw_server *server);
/* The rank waits for weights of its next clock. */
int gw_quiesce_is_blocked(const struct gw_server *server, uint32_t rank);
/* A want that was sent with this decision is void. */
int gw_quiesce_voids(const struct gw_server *server, uint64_t decision);

#endif
