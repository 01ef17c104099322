/*
 * The part of an exchange that a rank does not compute, as shard 0 sees it:
 * the network both ways, a process that is stopped and cannot send, scoring.
 *
 *   last answer of version v to the rank --> last push of clock v by the rank
 *
 * In this time samples / speed are computing and the rest is delay. It does
 * not depend on the number of samples.
 *
 * Pure but for memory; one thread.
 */
#ifndef GW_SERVER_DELAY_H
#define GW_SERVER_DELAY_H

#include <stdint.h>

/* Delays are the median of so many exchanges. */
#define GW_DELAYS_KEPT 7

struct gw_delays;

/* NULL: no memory. */
struct gw_delays *gw_delays_create(uint32_t ranks);
void gw_delays_destroy(struct gw_delays *delays);

/* A chunk was answered, a push was taken; the last one of a clock counts. */
void gw_delays_answered(struct gw_delays *delays,
                        uint32_t rank,
                        uint64_t clock,
                        uint64_t now_us);
void gw_delays_pushed(struct gw_delays *delays,
                      uint32_t rank,
                      uint64_t clock,
                      uint32_t samples,
                      uint64_t now_us);

/* Seconds of delay of a rank that computes so fast, or a negative number where
   too little is known yet. */
double gw_delays_of(const struct gw_delays *delays,
                    uint32_t rank,
                    double samples_per_s);

#endif
