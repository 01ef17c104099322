#include "config.h"

#include "kernels/cpu.h"

#include <math.h>
#include <string.h>

#include "kernels/update.h"

static int is_finite(const float *x, size_t elems)
{
    size_t i = 0;
    while (i < elems && isfinite(x[i]))
        i++;
    return i == elems;
}

/* Who spoils a sum is asked before it is written: it may be over a part. */
void gw_cpu_add_parts(struct gw_device *device,
                      const float *const *parts,
                      uint32_t n,
                      size_t elems,
                      float *sum,
                      uint8_t *bad)
{
    (void)device;
    memset(bad, 0, n);
    for (size_t at = 0, size; at < elems; at += size) {
        float block[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
        size = elems - at < GW_BLOCK_ELEMS ? elems - at : GW_BLOCK_ELEMS;
        int finite = gw_reduce_block(parts, n, at, size, block);
        for (uint32_t i = 0; !finite && i < n; i++)
            if (parts[i] && !is_finite(parts[i] + at, size))
                bad[i] = 1;
        memcpy(sum + at, block, size * sizeof *sum);
    }
}
