#include "config.h"

#include "kernels/update/update_isa.h"

#include <math.h>
#include <stdint.h>

#include "kernels/update/finite.h"

#define LANES 16

/* The balanced tree over n <= 8 arrays at one index; n is a compile-time
   constant of the caller, so each case becomes straight code. */
GW_INLINE float tree_at(const float *const *in, unsigned n, size_t i)
{
    float left = in[0][i];
    if (n == 1)
        return left;
    left += in[1][i];
    if (n == 2)
        return left;
    if (n == 3)
        return left + in[2][i];
    left += in[2][i] + in[3][i];
    if (n == 4)
        return left;
    float right = in[4][i];
    if (n >= 6)
        right += in[5][i];
    if (n == 7)
        right += in[6][i];
    if (n == 8)
        right += in[6][i] + in[7][i];
    return left + right;
}

/* `over`: also report whether the old content of sum was finite. */
GW_INLINE int reduce_fixed(
    const float *const *in, unsigned n, size_t elems, float *sum, int over)
{
    int32_t largest = 0, largest_before = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < elems; i++) {
        float s = tree_at(in, n, i);
        if (over)
            largest_before = gw_larger_magnitude(largest_before, sum[i]);
        largest = gw_larger_magnitude(largest, s);
        sum[i] = s;
    }
    int finite = gw_is_finite(largest) ? GW_REDUCE_FINITE : 0;
    if (over && gw_is_finite(largest_before))
        finite |= GW_REDUCE_WAS_FINITE;
    return finite;
}

GW_INLINE int
reduce(const float *const *in, unsigned n, size_t elems, float *sum, int over)
{
    switch (n) {
    case 1:
        return reduce_fixed(in, 1, elems, sum, over);
    case 2:
        return reduce_fixed(in, 2, elems, sum, over);
    case 3:
        return reduce_fixed(in, 3, elems, sum, over);
    case 4:
        return reduce_fixed(in, 4, elems, sum, over);
    case 5:
        return reduce_fixed(in, 5, elems, sum, over);
    case 6:
        return reduce_fixed(in, 6, elems, sum, over);
    case 7:
        return reduce_fixed(in, 7, elems, sum, over);
    default:
        return reduce_fixed(in, 8, elems, sum, over);
    }
}

GW_INLINE double square_sum(const float *x, size_t elems)
{
    double lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= elems; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t l = 0; i + l < elems; l++)
        lane[l] += (double)x[i + l] * (double)x[i + l];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lane[l] += lane[l + width];
    return lane[0];
}

/*
 * The rules, each written for one element. Each operation rounds by itself
 * (contraction is off), so that all sets give the same bits. Weight decay of
 * sgd, momentum, nesterov and adam is added to the gradient; adamw scales the
 * weight first, as in PyTorch's torch/optim/adamw.py (Loshchilov and Hutter
 * 2019, arXiv 1711.05101).
 */
struct place {
    float w, *m, *v;
};

GW_INLINE float sgd(const struct gw_factors *f, float sum, struct place at)
{
    float g = sum * f->scale + f->weight_decay * at.w;
    return at.w - f->lr * g;
}

/* v = mu v + g; with v = 0 before the first step this is v = g there. */
GW_INLINE float momentum(const struct gw_factors *f, float sum, struct place at)
{
    float g = sum * f->scale + f->weight_decay * at.w;
    float m = f->momentum * *at.m + g;
    *at.m = m;
    return at.w - f->lr * m;
}

GW_INLINE float nesterov(const struct gw_factors *f, float sum, struct place at)
{
    float g = sum * f->scale + f->weight_decay * at.w;
    float m = f->momentum * *at.m + g;
    *at.m = m;
    return at.w - f->lr * (g + f->momentum * m);
}

/* Updates the two moments of the Adam family; returns m over the root of the
   corrected v. */
GW_INLINE float moments(const struct gw_factors *f, float g, struct place at)
{
    float m = f->beta1 * *at.m + f->fresh1 * g;
    float v = f->beta2 * *at.v + f->fresh2 * g * g;
    *at.m = m;
    *at.v = v;
    return m / (sqrtf(v) * f->unbias2 + f->eps);
}

GW_INLINE float adam(const struct gw_factors *f, float sum, struct place at)
{
    float g = sum * f->scale + f->weight_decay * at.w;
    return at.w - f->step * moments(f, g, at);
}

GW_INLINE float adamw(const struct gw_factors *f, float sum, struct place at)
{
    float u = moments(f, sum * f->scale, at);
    return at.w * f->keep - f->step * u;
}

/* You et al. 2019, arXiv 1904.00962, algorithm 2, with phi the identity. */
GW_INLINE float
lamb_direction(const struct gw_factors *f, float sum, struct place at)
{
    float u = moments(f, sum * f->scale, at);
    return u * f->unbias1 + f->weight_decay * at.w;
}

GW_INLINE float lamb_apply(const struct gw_factors *f, float u, struct place at)
{
    return at.w - f->step * u;
}

GW_INLINE float none(const struct gw_factors *f, float sum, struct place at)
{
    (void)at;
    return sum * f->scale;
}

typedef float rule_fn(const struct gw_factors *f, float sum, struct place at);

/* All arguments except the arrays are compile-time constants of the caller. */
GW_INLINE int walk(rule_fn *rule,
                   unsigned n,
                   const struct gw_factors *factors,
                   const struct gw_rule_arrays *a)
{
    const struct gw_factors once = *factors; /* in registers, not re-read */
    int32_t largest = 0;
    GW_SAME_INDEX_ONLY
    for (size_t i = 0; i < a->elems; i++) {
        struct place at = {a->w[i], &a->m[i], &a->v[i]};
        float sum = tree_at(a->in, n, i);
        largest = gw_larger_magnitude(largest, sum);
        a->out[i] = rule(&once, sum, at);
    }
    return gw_is_finite(largest);
}

/* clang-format off */
#define WALK(rule, n, isa, target)                                             \
    target static int rule##_##n##_##isa(const struct gw_factors *f,           \
                                         const struct gw_rule_arrays *arrays)  \
    {                                                                          \
        return walk(rule, n, f, arrays);                                       \
    }

#define RULE(rule, isa, target)                                                \
    WALK(rule, 1, isa, target)                                                 \
    WALK(rule, 2, isa, target)                                                 \
    WALK(rule, 3, isa, target)                                                 \
    WALK(rule, 4, isa, target)

#define VARIANT(isa, target)                                                   \
    target static int reduce_##isa(const float *const *in, unsigned n,         \
                                   size_t elems, float *sum)                   \
    {                                                                          \
        return reduce(in, n, elems, sum, 0);                                   \
    }                                                                          \
    target static int reduce_over_##isa(const float *const *in, unsigned n,    \
                                        size_t elems, float *sum)              \
    {                                                                          \
        return reduce(in, n, elems, sum, 1);                                   \
    }                                                                          \
    target static double square_sum_##isa(const float *x, size_t elems)        \
    {                                                                          \
        return square_sum(x, elems);                                           \
    }                                                                          \
    RULE(sgd, isa, target)                                                     \
    RULE(momentum, isa, target)                                                \
    RULE(nesterov, isa, target)                                                \
    RULE(adam, isa, target)                                                    \
    RULE(adamw, isa, target)                                                   \
    RULE(lamb_direction, isa, target)                                          \
    RULE(lamb_apply, isa, target)                                              \
    RULE(none, isa, target)

#define ROW(rule, isa)                                                         \
    {rule##_1_##isa, rule##_2_##isa, rule##_3_##isa, rule##_4_##isa}

#define LOOPS(isa)                                                             \
    {                                                                          \
        .name = #isa,                                                          \
        .reduce = reduce_##isa,                                                \
        .reduce_over = reduce_over_##isa,                                      \
        .square_sum = square_sum_##isa,                                        \
        .rule = {                                                              \
            [GW_RULE_SGD] = ROW(sgd, isa),                                     \
            [GW_RULE_MOMENTUM] = ROW(momentum, isa),                           \
            [GW_RULE_NESTEROV] = ROW(nesterov, isa),                           \
            [GW_RULE_ADAM] = ROW(adam, isa),                                   \
            [GW_RULE_ADAMW] = ROW(adamw, isa),                                 \
            [GW_RULE_LAMB_DIRECTION] = ROW(lamb_direction, isa),               \
            [GW_RULE_LAMB_APPLY] = ROW(lamb_apply, isa),                       \
            [GW_RULE_NONE] = ROW(none, isa),                                   \
        },                                                                     \
    }
/* clang-format on */

GW_FOR_EACH_ISA(VARIANT)

const struct gw_update_loops gw_update_loops[GW_ISAS] = GW_ISA_ROWS(LOOPS);
