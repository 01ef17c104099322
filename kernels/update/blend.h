/*
 * The arithmetic of update policies beside the optimizers of update.h: what
 * happens to one push before the optimizer sees it, and how two sets of weights
 * become one. Bits are the same on every x86-64 and aarch64: no fused
 * multiply-add, every operation rounds by itself, in the order that the formula
 * is written. Pure functions on host memory, any thread, any number of
 * elements, any alignment (64 bytes is fastest); arrays of one call do not
 * overlap unless said.
 *
 * Each returns 0 if a number that it wrote is NaN or infinite, as it is
 * wherever an input was, else 1. Everything is written all the same.
 */
#ifndef GW_KERNELS_BLEND_H
#define GW_KERNELS_BLEND_H

#include <stddef.h>

/*
 * Delay compensation (Zheng et al. 2017, arXiv 1609.08326). A gradient was
 * taken at the weights that its rank was given, and w are those that it meets:
 *
 *     g'  = scale g
 *     out = g' + lambda_t g' g' (w - given)
 *
 * constant: lambda_t = lambda. Adaptive: with the mean square of that rank's
 * gradients, from zeros, lambda_t = lambda / sqrt(m + eps), where
 * m = decay m + (1 - decay) g' g' is updated first.
 */
struct gw_compensation {
    float scale;   /* of g: over the samples; applied first, in fp32 */
    double lambda; /* of the paper: 0.04 constant, 2 adaptive */
    double decay;  /* adaptive: 0.95 in the paper */
    double eps;    /* adaptive: 1e-7 in the paper; > 0 in fp32 (asserted) */
};

/*
 * mean_square: fp32 that the caller keeps for each rank and weight, or NULL for
 * the constant form. out may be g; the optimizer then runs on it with scale 1.
 * Where 0 is returned the mean square is spoilt too.
 */
int gw_compensate(const struct gw_compensation *compensation,
                  size_t elems,
                  const float *g,
                  const float *w,
                  const float *given,
                  float *mean_square,
                  float *out);

/*
 * Elastic averaging (Zhang, Choromanska and LeCun 2015, arXiv 1412.6651,
 * algorithm 1): a worker's weights x and the centre c pull at each other,
 *
 *     d = alpha (x - c);  x_next = x - d;  c_next = c + d
 *
 * x_next may be x, c_next may be c, and no other two may be the same.
 */
int gw_elastic(double alpha,
               size_t elems,
               const float *x,
               const float *c,
               float *x_next,
               float *c_next);

/*
 * out = a - b: what a worker's local steps pushed its weights by, with the sign
 * of a gradient where a is the anchor. out may be a or b.
 */
int gw_difference(size_t elems, const float *a, const float *b, float *out);

/*
 * x = keep x + (1 - keep) y: how a worker takes in weights that are some steps
 * old while it went on from x (Streaming DiLoCo, Douillard et al. 2025, arXiv
 * 2501.18512).
 */
int gw_mix(double keep, size_t elems, float *x, const float *y);

/*
 * sum += weight x: one push into the mean of several, the older the lighter
 * (Zhang et al. 2016, arXiv 1511.05950).
 */
int gw_add_weighted(double weight, size_t elems, const float *x, float *sum);

#endif
