/*
 * Private to kernels/: vectors of four floats, which every processor has.
 * Transposes work in blocks of them.
 */
#ifndef GW_KERNELS_CPU_FOUR_H
#define GW_KERNELS_CPU_FOUR_H

#include <stdint.h>
#include <string.h>

#include "kernels/update/isa.h"

typedef float four __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef uint8_t four_bytes __attribute__((vector_size(4)));

/* Indices 0 to 3 select from a, 4 to 7 from b. */
#if defined(__clang__)
#define GW_SHUFFLE4(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define GW_SHUFFLE4(a, b, i, j, k, l)                                          \
    __builtin_shuffle(a, b, (four_ints){i, j, k, l})
#endif

GW_INLINE four load4(const float *from)
{
    four value;
    memcpy(&value, from, sizeof value);
    return value;
}

GW_INLINE void store4(float *to, four value)
{
    memcpy(to, &value, sizeof value);
}

/* Selects yes where the mask is all ones, no where it is zero. */
GW_INLINE four choose4(four_ints mask, four yes, four no)
{
    return (four)(((four_ints)yes & mask) | ((four_ints)no & ~mask));
}

GW_INLINE void transpose4(four row[4])
{
    four ab_low = GW_SHUFFLE4(row[0], row[1], 0, 4, 1, 5);
    four ab_high = GW_SHUFFLE4(row[0], row[1], 2, 6, 3, 7);
    four cd_low = GW_SHUFFLE4(row[2], row[3], 0, 4, 1, 5);
    four cd_high = GW_SHUFFLE4(row[2], row[3], 2, 6, 3, 7);
    row[0] = GW_SHUFFLE4(ab_low, cd_low, 0, 1, 4, 5);
    row[1] = GW_SHUFFLE4(ab_low, cd_low, 2, 3, 6, 7);
    row[2] = GW_SHUFFLE4(ab_high, cd_high, 0, 1, 4, 5);
    row[3] = GW_SHUFFLE4(ab_high, cd_high, 2, 3, 6, 7);
}

#endif
