/*
 * A clock for speeds: the loop's without its jumps, as a machine's suspension,
 * a pause of all processes, or a clock that somebody sets makes them. Pure.
 */
#ifndef GW_CLI_STEADY_H
#define GW_CLI_STEADY_H

#include <stdint.h>

/* A process that asks several times a second and is late by more was not
   running. */
#define GW_STEADY_JUMP_US 10000000

struct gw_steady {
    uint64_t seen_us; /* the loop's, when it was asked last; 0: never */
    uint64_t now_us;
    uint64_t lost_us; /* left out so far, of jumps forwards */
    unsigned jumps;   /* also backwards */
};

/* The time, from loop_us on, for a `steady` of zeros. To be asked a few times a
   second. */
uint64_t gw_steady_now(struct gw_steady *steady, uint64_t loop_us);

#endif
