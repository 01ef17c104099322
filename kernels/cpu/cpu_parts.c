#include "config.h"

#include "kernels/cpu/cpu.h"

#include "kernels/update/reduce.h"
#include "kernels/update/update.h"

_Static_assert(GW_PARTS_MAX == GW_REDUCE_OVER_MAX, "as many parts");

void gw_cpu_add_parts(struct gw_device *device,
                      const float *const *parts,
                      uint32_t n,
                      size_t elems,
                      float *sum,
                      uint8_t *nonfinite)
{
    (void)device;
    uint64_t found = gw_reduce_over(parts, n, 0, elems, sum);
    for (uint32_t i = 0; i < n; i++)
        nonfinite[i] = found >> i & 1;
}

void gw_cpu_square_sum(struct gw_device *device,
                       size_t elems,
                       const float *x,
                       double *sum)
{
    (void)device;
    double made = 0;
    for (size_t at = 0; at < elems; at += GW_BLOCK_ELEMS) {
        size_t left = elems - at;
        made += gw_square_sum(x + at,
                              left < GW_BLOCK_ELEMS ? left : GW_BLOCK_ELEMS);
    }
    *sum = made;
}
