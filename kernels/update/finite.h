/*
 * Private to kernels/: detects NaN and infinity in a loop without a branch. The
 * loop keeps the largest magnitude that it writes and compares it once at its
 * end.
 */
#ifndef GW_KERNELS_FINITE_H
#define GW_KERNELS_FINITE_H

#include <stdint.h>
#include <string.h>

#include "kernels/update/isa.h"

/* The bits of |x|, which order as numbers do, with Inf and NaN at the top. */
GW_INLINE int32_t gw_magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int32_t)(bits & 0x7fffffffu);
}

GW_INLINE int32_t gw_larger_magnitude(int32_t largest, float x)
{
    int32_t m = gw_magnitude(x);
    return m > largest ? m : largest;
}

GW_INLINE int gw_is_finite(int32_t largest)
{
    return largest < 0x7f800000;
}

#endif
