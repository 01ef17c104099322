/* Private to kernels/: arithmetic on sizes. For C and C++. */
#ifndef GW_KERNELS_SIZE_H
#define GW_KERNELS_SIZE_H

#include <stddef.h>

static inline size_t gw_size_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t gw_size_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* n, rounded up to a multiple of `step`. */
static inline size_t gw_size_round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

#endif
