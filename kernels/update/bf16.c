#include "config.h"

#include "kernels/update/bf16.h"

#include "kernels/update/isa.h"

union word {
    float number;
    uint32_t bits;
};

#define INFINITE   UINT32_C(0x7f800000)
#define SIGN       UINT32_C(0x80000000)
#define JUST_BELOW UINT32_C(0x7fff) /* just below half of the last kept bit */
#define QUIET      UINT32_C(0x40)

/* A carry out of the fraction increments the exponent, in the end to infinity.
 */
GW_INLINE uint16_t rounded(uint32_t bits)
{
    uint32_t odd = bits >> 16 & 1;
    uint32_t nearest = (bits + JUST_BELOW + odd) >> 16;
    uint32_t nan = bits >> 16 | QUIET;
    return (uint16_t)((bits & ~SIGN) > INFINITE ? nan : nearest);
}

GW_INLINE void round_all(size_t elems, const float *x, uint16_t *out)
{
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++)
        out[i] = rounded((union word){.number = x[i]}.bits);
}

GW_INLINE void widen_all(size_t elems, const uint16_t *x, float *out)
{
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++)
        out[i] = (union word){.bits = (uint32_t)x[i] << 16}.number;
}

/* clang-format off */
#define VARIANT(isa, target)                                                   \
    target static void round_##isa(size_t elems, const float *x,               \
                                   uint16_t *out)                              \
    {                                                                          \
        round_all(elems, x, out);                                              \
    }                                                                          \
    target static void widen_##isa(size_t elems, const uint16_t *x,            \
                                   float *out)                                 \
    {                                                                          \
        widen_all(elems, x, out);                                              \
    }
/* clang-format on */

GW_FOR_EACH_ISA(VARIANT)

void gw_bf16_round(size_t elems, const float *x, uint16_t *out)
{
    static void (*const loops[GW_ISAS])(size_t, const float *, uint16_t *) =
        GW_ISA_TABLE(round);
    loops[gw_isa_here()](elems, x, out);
}

void gw_bf16_widen(size_t elems, const uint16_t *x, float *out)
{
    static void (*const loops[GW_ISAS])(size_t, const uint16_t *, float *) =
        GW_ISA_TABLE(widen);
    loops[gw_isa_here()](elems, x, out);
}
