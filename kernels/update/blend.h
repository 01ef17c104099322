/*
 * Arithmetic of update policies, complementing the optimizers of update.h:
 * corrections of one push before the optimizer sees it, and blends of two sets
 * of weights. Bits are the same on every x86-64 and aarch64: no fused
 * multiply-add, each operation rounds by itself, in the order of the formula.
 * Pure functions on host memory, any thread, any number of elements, any
 * alignment (64 bytes is fastest); arrays of one call do not overlap unless
 * said.
 *
 * Each returns 0 if it wrote a NaN or an infinity, which it does wherever an
 * input was one, else 1. All elements are written in both cases.
 */
#ifndef GW_KERNELS_BLEND_H
#define GW_KERNELS_BLEND_H

#include <stddef.h>

/*
 * Delay compensation (Zheng et al. 2017, arXiv 1609.08326). A gradient was
 * taken at the weights `given` to its rank, and is applied to the weights w:
 *
 *     g'  = scale g
 *     out = g' + lambda_t g' g' (w - given)
 *
 * constant: lambda_t = lambda. Adaptive: with the mean square of that rank's
 * gradients, from zeros, lambda_t = lambda / sqrt(m + eps), where
 * m = decay m + (1 - decay) g' g' is updated first.
 */
struct gw_compensation {
    float scale;   /* 1 / samples; multiplies g first, in fp32 */
    double lambda; /* in the paper: 0.04 constant, 2 adaptive */
    double decay;  /* adaptive: 0.95 in the paper */
    double eps;    /* adaptive: 1e-7 in the paper; > 0 in fp32 (asserted) */
};

/*
 * mean_square: fp32 that the caller keeps for each rank and weight, or NULL for
 * the constant form. out may be g; the optimizer then runs on it with scale 1.
 * If 0 is returned, the mean square is not finite either.
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
 * out = a - b: the sum of a worker's local updates, with the sign of a gradient
 * if a is the anchor. out may be a or b.
 */
int gw_difference(size_t elems, const float *a, const float *b, float *out);

/*
 * x = keep x + (1 - keep) y: a worker merges weights y, which are some steps
 * old, into the weights x that it trained meanwhile (Streaming DiLoCo,
 * Douillard et al. 2025, arXiv 2501.18512).
 */
int gw_mix(double keep, size_t elems, float *x, const float *y);

/*
 * sum += weight x: adds one push to a mean in which older pushes weigh less
 * (Zhang et al. 2016, arXiv 1511.05950).
 */
int gw_add_weighted(double weight, size_t elems, const float *x, float *sum);

#endif
