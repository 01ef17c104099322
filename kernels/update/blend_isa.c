#include "config.h"

#include "kernels/update/blend_isa.h"

#include <math.h>
#include <stdint.h>

#include "kernels/update/finite.h"

/*
 * A NaN or an infinity in any input gives one in the output, for all
 * factors (zero times infinity is NaN), so only outputs are checked; the
 * mean square as well, since an infinite one leaves the gradient unchanged.
 * Each array has its own largest magnitude: clang does not vectorize two arrays
 * that share one.
 */

/* g' + lambda g' g' (w - given), for both forms of lambda. */
GW_INLINE float compensated(float lambda, float g, float w, float given)
{
    return g + lambda * g * g * (w - given);
}

GW_INLINE int compensate(const struct gw_blend_factors *factors,
                         const struct gw_blend_arrays *a)
{
    const struct gw_blend_factors f = *factors; /* in registers */
    int32_t largest = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float g = a->in[0][i] * f.scale;
        float out = compensated(f.lambda, g, a->in[1][i], a->in[2][i]);
        largest = gw_larger_magnitude(largest, out);
        a->out[0][i] = out;
    }
    return gw_is_finite(largest);
}

GW_INLINE int adapt(const struct gw_blend_factors *factors,
                    const struct gw_blend_arrays *a)
{
    const struct gw_blend_factors f = *factors;
    int32_t largest_out = 0, largest_square = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float g = a->in[0][i] * f.scale;
        float square = f.decay * a->out[1][i] + f.fresh * g * g;
        float lambda = f.lambda / sqrtf(square + f.eps);
        float out = compensated(lambda, g, a->in[1][i], a->in[2][i]);
        largest_out = gw_larger_magnitude(largest_out, out);
        largest_square = gw_larger_magnitude(largest_square, square);
        a->out[0][i] = out;
        a->out[1][i] = square;
    }
    return gw_is_finite(largest_out) && gw_is_finite(largest_square);
}

GW_INLINE int elastic(const struct gw_blend_factors *factors,
                      const struct gw_blend_arrays *a)
{
    const float alpha = factors->alpha;
    int32_t largest_x = 0, largest_c = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float x = a->in[0][i], c = a->in[1][i];
        float d = alpha * (x - c);
        float x_next = x - d, c_next = c + d;
        largest_x = gw_larger_magnitude(largest_x, x_next);
        largest_c = gw_larger_magnitude(largest_c, c_next);
        a->out[0][i] = x_next;
        a->out[1][i] = c_next;
    }
    return gw_is_finite(largest_x) && gw_is_finite(largest_c);
}

GW_INLINE int difference(const struct gw_blend_factors *factors,
                         const struct gw_blend_arrays *a)
{
    (void)factors;
    int32_t largest = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float out = a->in[0][i] - a->in[1][i];
        largest = gw_larger_magnitude(largest, out);
        a->out[0][i] = out;
    }
    return gw_is_finite(largest);
}

GW_INLINE int mix(const struct gw_blend_factors *factors,
                  const struct gw_blend_arrays *a)
{
    const float keep = factors->keep, take = factors->take;
    int32_t largest = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float out = keep * a->in[0][i] + take * a->in[1][i];
        largest = gw_larger_magnitude(largest, out);
        a->out[0][i] = out;
    }
    return gw_is_finite(largest);
}

GW_INLINE int add(const struct gw_blend_factors *factors,
                  const struct gw_blend_arrays *a)
{
    const float weight = factors->weight;
    int32_t largest = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        float out = a->out[0][i] + weight * a->in[0][i];
        largest = gw_larger_magnitude(largest, out);
        a->out[0][i] = out;
    }
    return gw_is_finite(largest);
}

/* clang-format off */
#define LOOP(blend, isa, target)                                               \
    target static int blend##_##isa(const struct gw_blend_factors *factors,    \
                                    const struct gw_blend_arrays *arrays)      \
    {                                                                          \
        return blend(factors, arrays);                                         \
    }

#define VARIANT(isa, target)                                                   \
    LOOP(compensate, isa, target)                                              \
    LOOP(adapt, isa, target)                                                   \
    LOOP(elastic, isa, target)                                                 \
    LOOP(difference, isa, target)                                              \
    LOOP(mix, isa, target)                                                     \
    LOOP(add, isa, target)
/* clang-format on */

GW_FOR_EACH_ISA(VARIANT)

gw_blend_loop *const gw_blend_loops[GW_BLENDS][GW_ISAS] = {
    [GW_BLEND_COMPENSATE] = GW_ISA_TABLE(compensate),
    [GW_BLEND_ADAPT] = GW_ISA_TABLE(adapt),
    [GW_BLEND_ELASTIC] = GW_ISA_TABLE(elastic),
    [GW_BLEND_DIFFERENCE] = GW_ISA_TABLE(difference),
    [GW_BLEND_MIX] = GW_ISA_TABLE(mix),
    [GW_BLEND_ADD] = GW_ISA_TABLE(add),
};
