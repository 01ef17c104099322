/*
 * Private to kernels/: how a loop notices NaN and infinity without a branch. It
 * keeps the largest magnitude of what it writes and compares once at its end.
 */
#ifndef GW_KERNELS_FINITE_H
#define GW_KERNELS_FINITE_H

#include <stdint.h>
#include <string.h>

#include "kernels/update/isa.h"

/* The bits of |x|: ordered as numbers are, with Inf and NaN at the top. */
GW_INLINE int32_t gw_magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int32_t)(bits & 0x7fffffffu);
}

GW_INLINE int32_t gw_larger(int32_t largest, float x)
{
    int32_t m = gw_magnitude(x);
    return m > largest ? m : largest;
}

GW_INLINE int gw_is_finite(int32_t largest)
{
    return largest < 0x7f800000;
}

#endif
