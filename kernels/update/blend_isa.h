/*
 * Private to kernels/ and its tests: the loops behind blend.h, once per
 * instruction set, so that a test can compare their bits.
 */
#ifndef GW_KERNELS_BLEND_ISA_H
#define GW_KERNELS_BLEND_ISA_H

#include <stddef.h>

#include "kernels/update/isa.h"

/* Scalars of one call, rounded once; each loop uses some of them. */
struct gw_blend_factors {
    float scale, lambda;
    float decay, fresh; /* fresh: 1 - decay */
    float eps;
    float alpha;
    float keep, take; /* take: 1 - keep */
    float weight;
};

/*
 *                  in               out
 * COMPENSATE       g, w, given      out
 * ADAPT            g, w, given      out, mean square (also read)
 * ELASTIC          x, c             x_next, c_next
 * DIFFERENCE       a, b             out
 * MIX              x, y             x
 * ADD              x                sum (also read)
 */
enum gw_blend {
    GW_BLEND_COMPENSATE,
    GW_BLEND_ADAPT,
    GW_BLEND_ELASTIC,
    GW_BLEND_DIFFERENCE,
    GW_BLEND_MIX,
    GW_BLEND_ADD,
    GW_BLENDS
};

struct gw_blend_arrays {
    size_t elems;
    const float *in[3];
    float *out[2];
};

/* Returns 0 if any written number is not finite, else 1. */
typedef int gw_blend_loop(const struct gw_blend_factors *factors,
                          const struct gw_blend_arrays *arrays);

/* Call only what gw_isa_here() allows. */
extern gw_blend_loop *const gw_blend_loops[GW_BLENDS][GW_ISAS];

#endif
