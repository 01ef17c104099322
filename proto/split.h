/*
 * How a step's samples are divided among unlike workers (train.split = speed):
 * a whole number per rank, its *weight*, that add up to GW_SPLIT_TOTAL. A rank
 * has the part of every step that lies between the weights before it and its
 * own: whole numbers only, so that everybody comes to the same samples.
 *
 *   0      w0        w0 + w1                 GW_SPLIT_TOTAL
 *   | rank 0 |  rank 1  |        rank 2            |
 *
 * Pure, any thread.
 */
#ifndef GW_PROTO_SPLIT_H
#define GW_PROTO_SPLIT_H

#include <stdint.h>

/* The begin of part `part` of `parts` even parts of n samples: sizes differ by
   at most one. Part `parts` begins at n. */
uint64_t gw_split_place(uint64_t n, uint64_t parts, uint64_t part);

#define GW_SPLIT_TOTAL ((uint32_t)1 << 20)

/* A rank's part of GW_SPLIT_TOTAL: [begin, end). */
struct gw_split_range {
    uint32_t begin, end;
};

/* Equal weights, as near as whole numbers come. ranks >= 1. */
void gw_split_even(uint32_t ranks, uint32_t *weight);

/* Non-zero when the weights of all ranks add up. They may come from anyone. */
int gw_split_is_whole(const uint32_t *weight, uint32_t ranks);

/* Converts the numbers of a decision to weights. Returns 0, and leaves `weight`
   undefined, when they are none. */
int gw_split_from_values(const double *values,
                         uint32_t ranks,
                         uint32_t *weight);

/* A rank's part; rank < ranks, of weights that add up. */
struct gw_split_range gw_split_range_of(const uint32_t *weight, uint32_t rank);

#endif
