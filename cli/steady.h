/*
 * A clock for rates: the loop's clock without its jumps (suspended machine,
 * stopped processes, clock set by hand). Pure.
 */
#ifndef GW_CLI_STEADY_H
#define GW_CLI_STEADY_H

#include <stdint.h>

/* The process asks several times a second; a longer gap means that it did not
   run. */
#define GW_STEADY_JUMP_US 10000000

struct gw_steady {
    uint64_t seen_us; /* loop's time of the last call; 0: none */
    uint64_t now_us;
    uint64_t lost_us; /* sum of forward jumps left out */
    unsigned jumps;   /* also backwards */
};

/* The time, from loop_us on, for a zeroed `steady`. Call it a few times a
   second. */
uint64_t gw_steady_now(struct gw_steady *steady, uint64_t loop_us);

#endif
