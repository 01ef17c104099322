/*
 * From one policy to the next. The structs are private to switch.c.
 */
#ifndef GW_SERVER_SWITCH_H
#define GW_SERVER_SWITCH_H

#include "proto/control.h"
#include "server/policy/regime.h"

struct gw_server;

/* A regime that is decided, and the clock from which it holds. */
struct gw_switch {
    uint64_t decision; /* number of the decision, 0: there is none */
    uint64_t clock;
    struct gw_regime regime;
    uint64_t pushes; /* that are applied by then */
    uint64_t cut;    /* + 1, the name of a checkpoint of that clock, which comes
                        after; 0: there is none */
};

struct gw_switches {
    struct gw_switch next, after; /* two where phases are of one exchange */
    uint64_t base_clock;          /* where the regime began, and */
    uint64_t base_pushes;         /* the pushes that were applied by then */
    uint64_t renumbered; /* the decision that numbered clocks anew; 0: none */
};

/* Tells the shard when chunks are exchanged in the regime that holds. */
enum gw_status gw_switch_follow_rounds(struct gw_server *server,
                                       struct gw_error *error);
void gw_switch_decided(struct gw_server *server,
                       const struct gw_decision *decision);
/* A chunk has got further, perhaps to where the next policy begins. */
void gw_switch_reached(struct gw_server *server);
/* The regime begins at a clock, as the job does, with so many pushes. */
void gw_switch_start(struct gw_server *server, uint64_t clock, uint64_t pushes);
/* Where it began, and the last decision that numbered clocks anew. */
void gw_switch_fill_standing(const struct gw_server *server,
                             struct gw_standing *standing);
/* Switches up to this decision have begun here, or all. */
uint64_t gw_switch_last_begun(const struct gw_server *server);
uint64_t gw_switch_base_clock(const struct gw_server *server);
/* The regime that follows this one, NULL: none is decided; the last that is
   decided, or the one that holds. */
const struct gw_regime *gw_switch_next(const struct gw_server *server);
const struct gw_regime *gw_switch_last(const struct gw_server *server);
/* A further switch may be decided, of that clock. */
int gw_switch_may_follow(const struct gw_server *server, uint64_t clock);
/* A push of the clock belongs to the next regime, and nobody can be there. */
int gw_switch_forbids(const struct gw_server *server, uint64_t clock);
/* Clocks were numbered anew after this decision; by this decision. */
int gw_switch_renumbered(const struct gw_server *server, uint64_t decision);
int gw_switch_renumbers(const struct gw_server *server, uint64_t decision);
/* The cut of this name, at a version, waits until the next policy has begun. */
int gw_switch_delays_cut(struct gw_server *server,
                         uint64_t clock,
                         uint64_t version);

#endif
