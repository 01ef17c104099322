/*
 * The generator of random.h, Philox4x32-10 of Salmon et al., SC'11: in C on the
 * host, and in kernels, which define GW_PHILOX as the qualifier that their
 * compiler needs before a device function.
 */
#ifndef GW_PROTO_PHILOX_H
#define GW_PROTO_PHILOX_H

#include <stdint.h>

#ifndef GW_PHILOX
#define GW_PHILOX
#endif

/* Its constants, table 2. */
#define GW_PHILOX_M0     0xD2511F53u
#define GW_PHILOX_M1     0xCD9E8D57u
#define GW_PHILOX_W0     0x9E3779B9u
#define GW_PHILOX_W1     0xBB67AE85u
#define GW_PHILOX_ROUNDS 10

/* Four numbers of a key (seed) and a counter: b, a, stream. */
static GW_PHILOX inline void gw_philox(
    uint64_t seed, uint32_t stream, uint32_t a, uint64_t b, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)b, c1 = (uint32_t)(b >> 32);
    uint32_t c2 = a, c3 = stream;
    for (int round = 0; round < GW_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)GW_PHILOX_M0 * c0;
        uint64_t p1 = (uint64_t)GW_PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += GW_PHILOX_W0;
        k1 += GW_PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif
