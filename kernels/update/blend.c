#include "config.h"

#include "kernels/update/blend.h"

#include <assert.h>

#include "kernels/update/blend_isa.h"

static int run(enum gw_blend blend,
               const struct gw_blend_factors *factors,
               const struct gw_blend_arrays *arrays)
{
    return gw_blend_loops[blend][gw_isa_here()](factors, arrays);
}

int gw_compensate(const struct gw_compensation *compensation,
                  size_t elems,
                  const float *g,
                  const float *w,
                  const float *given,
                  float *mean_square,
                  float *out)
{
    struct gw_blend_factors factors = {
        .scale = compensation->scale,
        .lambda = (float)compensation->lambda,
    };
    struct gw_blend_arrays arrays = {
        .elems = elems,
        .in = {g, w, given},
        .out = {out, mean_square},
    };
    if (!mean_square)
        return run(GW_BLEND_COMPENSATE, &factors, &arrays);

    factors.decay = (float)compensation->decay;
    factors.fresh = (float)(1 - compensation->decay);
    factors.eps = (float)compensation->eps;
    /* or a weight without gradients yet divides by zero */
    assert(factors.eps > 0);
    return run(GW_BLEND_ADAPT, &factors, &arrays);
}

int gw_elastic(double alpha,
               size_t elems,
               const float *x,
               const float *c,
               float *x_next,
               float *c_next)
{
    struct gw_blend_factors factors = {.alpha = (float)alpha};
    struct gw_blend_arrays arrays = {
        .elems = elems,
        .in = {x, c},
        .out = {x_next, c_next},
    };
    return run(GW_BLEND_ELASTIC, &factors, &arrays);
}

int gw_difference(size_t elems, const float *a, const float *b, float *out)
{
    struct gw_blend_factors factors = {0};
    struct gw_blend_arrays arrays = {
        .elems = elems, .in = {a, b}, .out = {out}};
    return run(GW_BLEND_DIFFERENCE, &factors, &arrays);
}

int gw_mix(double keep, size_t elems, float *x, const float *y)
{
    struct gw_blend_factors factors = {
        .keep = (float)keep,
        .take = (float)(1 - keep),
    };
    struct gw_blend_arrays arrays = {.elems = elems, .in = {x, y}, .out = {x}};
    return run(GW_BLEND_MIX, &factors, &arrays);
}

int gw_add_weighted(double weight, size_t elems, const float *x, float *sum)
{
    struct gw_blend_factors factors = {.weight = (float)weight};
    struct gw_blend_arrays arrays = {.elems = elems, .in = {x}, .out = {sum}};
    return run(GW_BLEND_ADD, &factors, &arrays);
}
