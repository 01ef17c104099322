#include "config.h"

#include "worker/trainer/tensor.h"

#include <stdint.h>
#include <string.h>

#include "kernels/update/bf16.h"

#define F16_LEAST_NORMAL 0x38800000u /* 2^-14 as fp32 */
#define F16_TOO_LARGE    0x47800000u /* 2^16 */
#define F32_INFINITY     0x7f800000u

/* The bits of x / 2^shift, to nearest, ties to even. shift >= 1. */
static uint32_t round_shift(uint32_t x, unsigned shift)
{
    uint32_t half = 1u << (shift - 1), odd = x >> shift & 1;
    return (x + half - 1 + odd) >> shift;
}

static uint16_t narrow(float from)
{
    uint32_t bits, made;
    memcpy(&bits, &from, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffff;
    if (bits > F32_INFINITY)
        return sign | 0x7e00;
    if (bits >= F16_TOO_LARGE)
        return sign | 0x7c00;
    if (bits >= F16_LEAST_NORMAL) {
        made = round_shift(bits - (112u << 23), 13); /* another bias */
    } else {
        unsigned shift =
            126 - (bits >> 23); /* from 1.f to a multiple of 2^-24 */
        made =
            shift > 24 ? 0 : round_shift((bits & 0x7fffff) | 0x800000, shift);
    }
    return (uint16_t)(sign | made);
}

static float widen(uint16_t from)
{
    uint32_t sign = (uint32_t)(from & 0x8000) << 16, rest = from & 0x7fff, bits;
    float to;
    if (rest >= 0x7c00)
        bits = F32_INFINITY | (rest & 0x3ff) << 13;
    else if (rest >= 0x400)
        bits = (rest << 13) + (112u << 23);
    else { /* a multiple of 2^-24 */
        to = (float)rest * 0x1p-24f;
        memcpy(&bits, &to, sizeof bits);
    }
    bits |= sign;
    memcpy(&to, &bits, sizeof to);
    return to;
}

static void store_f16(size_t elems, const float *from, uint16_t *to)
{
    for (size_t i = 0; i < elems; i++)
        to[i] = narrow(from[i]);
}

static void load_f16(size_t elems, const uint16_t *from, float *to)
{
    for (size_t i = 0; i < elems; i++)
        to[i] = widen(from[i]);
}

void gw_rank_tensor_store(enum gw_rank_dtype dtype,
                          size_t elems,
                          const float *from,
                          void *to)
{
    switch (dtype) {
    case GW_RANK_BF16:
        gw_bf16_round(elems, from, to);
        break;
    case GW_RANK_F16:
        store_f16(elems, from, to);
        break;
    default:
        memcpy(to, from, elems * sizeof *from);
    }
}

void gw_rank_tensor_load(enum gw_rank_dtype dtype,
                         size_t elems,
                         const void *from,
                         float *to)
{
    switch (dtype) {
    case GW_RANK_BF16:
        gw_bf16_widen(elems, from, to);
        break;
    case GW_RANK_F16:
        load_f16(elems, from, to);
        break;
    default:
        memcpy(to, from, elems * sizeof *to);
    }
}
