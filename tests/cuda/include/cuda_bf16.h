/* The part of CUDA's header of this name that kernels may use. */
#ifndef GW_TESTS_CUDA_BF16_H
#define GW_TESTS_CUDA_BF16_H

#include "tests/cuda/narrow.h"

typedef struct {
    uint16_t emulated_bits;
} __nv_bfloat16;

static inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    __nv_bfloat16 narrow;
    narrow.emulated_bits = narrow_bf16(value);
    return narrow;
}

static inline float __bfloat162float(__nv_bfloat16 value)
{
    return narrow_of_bf16(value.emulated_bits);
}

#endif
