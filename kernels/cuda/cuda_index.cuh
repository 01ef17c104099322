/*
 * 32-bit indices of kernels, and their division by divisors known only at run
 * time: a product and a shift instead of some twenty instructions.
 */
#ifndef GW_KERNELS_CUDA_INDEX_CUH
#define GW_KERNELS_CUDA_INDEX_CUH

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_launch.cuh"

#define GW_CUDA_BLOCK 256 /* threads */
#define GW_CUDA_WARP  32
#define GW_CUDA_WARPS (GW_CUDA_BLOCK / GW_CUDA_WARP)
#define GW_CUDA_ALL   0xffffffffu /* lanes of a warp */

struct gw_divisor {
    uint32_t by, factor, shift;
};

/* 1 <= by <= 2^31 */
static inline struct gw_divisor gw_divisor_of(size_t by)
{
    struct gw_divisor divisor;
    uint32_t bits = 0;
    while (((uint64_t)1 << bits) < by)
        bits++;
    divisor.by = (uint32_t)by;
    divisor.shift = 31 + bits;
    divisor.factor = (uint32_t)(((uint64_t)1 << divisor.shift) / by + 1);
    return divisor;
}

/*
 * i / by for i < 2^31. The factor exceeds 2^shift / by, by 1 at most, so the
 * quotient is too large by at most i / 2^shift < 1 / by: never by a whole.
 */
static __device__ inline uint32_t gw_divide(uint32_t i, struct gw_divisor by)
{
    return (uint32_t)(((uint64_t)i * by.factor) >> by.shift);
}

/* Blocks of a grid with one thread per element. */
static inline unsigned gw_blocks(size_t elems)
{
    return (unsigned)((elems + GW_CUDA_BLOCK - 1) / GW_CUDA_BLOCK);
}

#define GW_CUDA_BLOCKS_MAX 16384 /* then threads take several elements */

/* Blocks of a grid-stride loop with four elements per thread and round. */
static inline unsigned gw_blocks_of_fours(size_t elems)
{
    size_t blocks = elems / 4 / GW_CUDA_BLOCK + 1;
    return (unsigned)(blocks < GW_CUDA_BLOCKS_MAX ? blocks
                                                  : GW_CUDA_BLOCKS_MAX);
}

static __device__ inline uint32_t gw_thread_index(void)
{
    return blockIdx.x * blockDim.x + threadIdx.x;
}

/* 1 if `at` is aligned for vectors of four. */
static inline int gw_fits_four(const void *at)
{
    return (uintptr_t)at % sizeof(float4) == 0;
}

#endif
