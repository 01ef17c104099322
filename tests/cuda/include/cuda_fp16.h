/* The part of CUDA's header of this name that kernels may use. */
#ifndef GW_TESTS_CUDA_FP16_H
#define GW_TESTS_CUDA_FP16_H

#include "tests/cuda/narrow.h"

typedef struct {
    uint16_t emulated_bits;
} __half;

static inline __half __float2half_rn(float value)
{
    __half narrow;
    narrow.emulated_bits = narrow_half(value);
    return narrow;
}

static inline float __half2float(__half value)
{
    return narrow_of_half(value.emulated_bits);
}

#endif
