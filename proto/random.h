/*
 * Counter-based random numbers (Philox4x32-10, Salmon et al., SC'11): a pure
 * function of (seed, stream, counter), so every draw of a job can be made
 * again by any process in any order. Nothing here has state.
 */
#ifndef GW_PROTO_RANDOM_H
#define GW_PROTO_RANDOM_H

#include <stdint.h>

/* The purpose of a draw: part of the counter, so that streams never meet. */
enum gw_random_stream {
    GW_RANDOM_INIT = 1,    /* a = key index, b = element / 4 */
    GW_RANDOM_SHUFFLE = 2, /* a = epoch, b = round and half */
    GW_RANDOM_AUGMENT = 3, /* a = epoch, b = place in its permutation */
    GW_RANDOM_DROPOUT = 4, /* a = step and layer, b = sample and element / 4 */
    GW_RANDOM_TEST = 5,
    GW_RANDOM_STRAGGLE = 6, /* a = rank, b = computation and law */
};

/* Four independent uniform 32-bit numbers. */
void gw_random4(uint64_t seed,
                enum gw_random_stream stream,
                uint32_t a,
                uint64_t b,
                uint32_t out[4]);

/* Uniform in [0, 1) from one 32-bit number, with 24 bits: exact in fp32. */
float gw_random_uniform(uint32_t bits);

/* Two standard normal numbers (Box-Muller) from two 32-bit numbers. */
void gw_random_normal2(uint32_t u0, uint32_t u1, float out[2]);

/*
 * A permutation of 0..n-1 without a table: the image of `index` under a
 * 4-round Feistel cipher of (seed, epoch), walked until it falls below n.
 * n >= 1, index < n. Cost: a few draws.
 */
uint64_t
gw_random_permute(uint64_t seed, uint32_t epoch, uint64_t n, uint64_t index);

#endif
