#include "config.h"

#include "kernels/update/reduce.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/update/update.h"
#include "kernels/update/slots.h"
#include "kernels/update/update_isa.h"

static int is_finite(const float *x, size_t elems)
{
    size_t i = 0;
    while (i < elems && isfinite(x[i]))
        i++;
    return i == elems;
}

/* The slots that have a NaN or an infinity, except one that is `out`, which is
   overwritten already. */
static uint64_t nonfinite_slots(const float *const *slots,
                                uint32_t n,
                                size_t offset,
                                size_t elems,
                                const float *out)
{
    uint64_t nonfinite = 0;
    for (uint32_t i = 0; i < n; i++)
        if (slots[i] && slots[i] + offset != out &&
            !is_finite(slots[i] + offset, elems))
            nonfinite |= UINT64_C(1) << i;
    return nonfinite;
}

/* For absent slots: reduces through a block of scratch, so that no slot is
   overwritten before it has been checked. */
static uint64_t reduce_blocks(const float *const *slots,
                              uint32_t n,
                              size_t offset,
                              size_t elems,
                              float *out)
{
    float block[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
    uint64_t nonfinite = 0;
    for (size_t at = 0; at < elems; at += GW_BLOCK_ELEMS) {
        size_t some = elems - at < GW_BLOCK_ELEMS ? elems - at : GW_BLOCK_ELEMS;
        if (!gw_reduce_block(slots, n, offset + at, some, block))
            nonfinite |= nonfinite_slots(slots, n, offset + at, some, NULL);
        memcpy(out + at, block, some * sizeof *out);
    }
    return nonfinite;
}

/* One pass if it can read all slots; for more slots, reduces the two halves of
   a block first. */
static int reduce_over(const float *const *slots,
                       uint32_t n,
                       size_t offset,
                       size_t elems,
                       float *out)
{
    const struct gw_update_loops *loops = &gw_update_loops[gw_isa_here()];
    float left[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
    float right[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
    const float *in[GW_REDUCE_FAN_IN] = {left, right};
    uint32_t half = GW_REDUCE_FAN_IN;
    for (uint32_t i = 0; n <= GW_REDUCE_FAN_IN && i < n; i++)
        in[i] = slots[i] + offset;
    if (n <= GW_REDUCE_FAN_IN)
        return loops->reduce_over(in, n, elems, out);
    while (half < n - half)
        half *= 2;
    gw_reduce_block(slots, half, offset, elems, left);
    gw_reduce_block(slots + half, n - half, offset, elems, right);
    return loops->reduce_over(in, 2, elems, out);
}

uint64_t gw_reduce_over(const float *const *slots,
                        uint32_t n,
                        size_t offset,
                        size_t elems,
                        float *out)
{
    int found = GW_REDUCE_FINITE | GW_REDUCE_WAS_FINITE;
    size_t most = n <= GW_REDUCE_FAN_IN ? elems : GW_BLOCK_ELEMS;
    assert(n <= GW_REDUCE_OVER_MAX);
    if (!gw_slots_are_present(slots, n))
        return reduce_blocks(slots, n, offset, elems, out);
    for (size_t at = 0; at < elems; at += most) {
        size_t some = elems - at < most ? elems - at : most;
        found &= reduce_over(slots, n, offset + at, some, out + at);
    }
    if (found & GW_REDUCE_FINITE)
        return 0;
    uint64_t nonfinite = nonfinite_slots(slots, n, offset, elems, out);
    for (uint32_t i = 0; i < n; i++)
        if (slots[i] + offset == out && !(found & GW_REDUCE_WAS_FINITE))
            nonfinite |= UINT64_C(1) << i;
    return nonfinite;
}
