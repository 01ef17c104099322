/* Private to kernels/: slots of gradients, NULL where one is absent. */
#ifndef GW_KERNELS_SLOTS_H
#define GW_KERNELS_SLOTS_H

#include <stdint.h>

static inline int gw_slots_are_present(const float *const *slots, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!slots[i])
            return 0;
    return n > 0;
}

#endif
