#include <config.h>

#include "proto/random.h"

#include <math.h>

#include "proto/philox.h"

#define FEISTEL_ROUNDS 4

void gw_random4(uint64_t seed,
                enum gw_random_stream stream,
                uint32_t a,
                uint64_t b,
                uint32_t out[4])
{
    gw_philox(seed, (uint32_t)stream, a, b, out);
}

float gw_random_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

void gw_random_normal2(uint32_t u0, uint32_t u1, float out[2])
{
    /* 1 - u is in (0, 1], so the logarithm is finite */
    double radius = sqrt(-2.0 * log(1.0 - (double)gw_random_uniform(u0)));
    double angle = 2.0 * M_PI * (double)gw_random_uniform(u1);
    out[0] = (float)(radius * cos(angle));
    out[1] = (float)(radius * sin(angle));
}

/* One pass of the cipher over the smallest even number of bits that holds n. */
static uint64_t
feistel(uint64_t seed, uint32_t epoch, unsigned half_bits, uint64_t value)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint32_t round = 0; round < FEISTEL_ROUNDS; round++) {
        uint32_t draw[4];
        uint64_t half = (uint64_t)round << 32 | right;
        gw_random4(seed, GW_RANDOM_SHUFFLE, epoch, half, draw);
        uint64_t next = left ^ (draw[0] & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t
gw_random_permute(uint64_t seed, uint32_t epoch, uint64_t n, uint64_t index)
{
    unsigned half_bits = 1;
    while (half_bits < 31 && (uint64_t)1 << (2 * half_bits) < n)
        half_bits++;
    uint64_t image = index;
    do {
        image = feistel(seed, epoch, half_bits, image);
    } while (image >= n);
    return image;
}
