/*
 * 16-bit floats for C and C++: IEEE 754 binary16, and bf16, the upper half of a
 * float. Rounded to nearest, ties to even.
 */
#ifndef GW_TESTS_CUDA_NARROW_H
#define GW_TESTS_CUDA_NARROW_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t narrow_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline uint16_t narrow_bf16(float value)
{
    uint32_t bits = narrow_bits(value);
    if (value != value)
        return 0x7fff; /* as the device does */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float narrow_of_bf16(uint16_t narrow)
{
    uint32_t bits = (uint32_t)narrow << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* In steps of 2^-24 below 2^-14, else of 2^-10 of the power of two below it. */
static inline uint16_t narrow_half(float value)
{
    uint16_t sign = (uint16_t)(narrow_bits(value) >> 16 & 0x8000);
    double size = fabs((double)value);
    int power;
    if (value != value)
        return 0x7fff;
    if (size >= 65520)
        return (uint16_t)(sign | 0x7c00);
    frexp(size, &power); /* size < 2^power, or 0 */
    if (power < -13 || size == 0)
        power = -13;
    /* 2^10 to 2^11 steps; 2^11 carries into the exponent, which is right */
    uint32_t steps = (uint32_t)nearbyint(ldexp(size, 11 - power));
    return (uint16_t)(sign | (((uint32_t)(power + 13) << 10) + steps));
}

static inline float narrow_of_half(uint16_t narrow)
{
    int power = narrow >> 10 & 0x1f, steps = narrow & 0x3ff;
    double size = power == 31 ? (steps ? (double)NAN : (double)INFINITY)
                  : power     ? ldexp(1024 + steps, power - 25)
                              : ldexp(steps, -24);
    return (float)(narrow & 0x8000 ? -size : size);
}

#endif
