/*
 * Local reduction: the owner of a part of a gradient adds the gradients of its
 * whole group, as the tree of update.h, into its own, in one pass. Pure, host
 * memory, any thread.
 */
#ifndef GW_KERNELS_REDUCE_H
#define GW_KERNELS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#define GW_REDUCE_OVER_MAX 64 /* slots */

/*
 * out[i] = slots[0][offset + i] + ..., the bits of gw_reduce_block, for any
 * number of elements. out may be one of the slots + offset. NULL slots leave
 * their place out. Returns the slots with a NaN or an infinity, bit i for slot
 * i. 0 does not exclude that the sum overflows. n <= GW_REDUCE_OVER_MAX
 * (asserted).
 */
uint64_t gw_reduce_over(const float *const *slots,
                        uint32_t n,
                        size_t offset,
                        size_t elems,
                        float *out);

#endif
