/*
 * Numbers of 16 bits in files of other programs, converted to fp32 exactly:
 * IEEE 754's binary16 and bfloat16.
 */
#ifndef GW_PROTO_HALF_H
#define GW_PROTO_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* sign 1 | exponent 5, bias 15 | fraction 10 */
static inline float gw_half_from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 0x1f;
    int fraction = bits & 0x3ff;
    float value;
    if (exponent == 0x1f)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexpf((float)fraction, -24);
    else
        value = ldexpf((float)(fraction | 0x400), exponent - 25);
    return bits >> 15 ? -value : value;
}

/* The upper half of an fp32. */
static inline float gw_half_from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

#endif
