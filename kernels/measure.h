/*
 * Speed of the server's arithmetic on this machine, compared with memory speed:
 * reduce and update of some slots, block by block, against a plain vectorised
 * a += b on arrays of the same size, alternating, best of several rounds each.
 *
 * Both are counted in bytes of traffic that the algorithm cannot avoid:
 *   a += b            3 arrays (a read, b read, a written)
 *   reduce + update   slots + 2 states + 2 (weights read, weights written)
 * The read of a cache line before a store to it (write-allocate) is not
 * counted, so in DRAM the form of the update that writes another array than it
 * reads is at a disadvantage.
 */
#ifndef GW_KERNELS_MEASURE_H
#define GW_KERNELS_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/update/update.h"
#include "proto/status.h"

struct gw_update_case {
    const struct gw_optimizer *optimizer;
    size_t array_bytes; /* size of each array, a multiple of 4 */
    uint32_t slots;     /* 1..16 */
    int in_place;       /* 0: the next weights go to an array of their own */
    int fused;          /* gw_update_reduce_apply; 0: two calls per block */
    int rounds;
};

struct gw_update_rate {
    double add_bytes_per_s;
    double update_bytes_per_s;
    double update_elems_per_s;
    double ratio; /* update over add */
};

/* GW_ENOMEM with a line; GW_EINVAL for a case outside its limits. */
enum gw_status gw_measure_update(const struct gw_update_case *spec,
                                 struct gw_update_rate *rate_p,
                                 struct gw_error *error);

/*
 * The memory traffic of a sum of n arrays into one of them (n is 2, 4, 8 or 16,
 * asserted), with hardly any arithmetic: reads elements [offset, offset +
 * elems) of all arrays and xors their bits into arrays[own].
 */
void gw_measure_stream(float *const *arrays,
                       uint32_t n,
                       uint32_t own,
                       size_t offset,
                       size_t elems);

#endif
