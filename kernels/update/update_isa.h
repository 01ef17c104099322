/*
 * Private to kernels/ and its tests: the loops behind update.h, once per
 * instruction set, so that a test can compare their bits.
 */
#ifndef GW_KERNELS_UPDATE_ISA_H
#define GW_KERNELS_UPDATE_ISA_H

#include <stddef.h>

#include "kernels/update/isa.h"

#define GW_REDUCE_FAN_IN 8 /* arrays that one pass of the tree reads */
#define GW_FUSED_FAN_IN  4 /* of a pass that also updates */

/* Scalars of one apply, rounded once; each rule uses some of them. */
struct gw_factors {
    float scale, lr, weight_decay, momentum;
    float keep;           /* 1 - lr weight_decay */
    float beta1, beta2;   /* decay of the moments */
    float fresh1, fresh2; /* 1 - beta */
    float step;           /* lr / (1 - beta1^t) */
    float unbias1;        /* 1 / (1 - beta1^t) */
    float unbias2;        /* 1 / sqrt(1 - beta2^t) */
    float eps;
};

enum gw_rule {
    GW_RULE_SGD,
    GW_RULE_MOMENTUM,
    GW_RULE_NESTEROV,
    GW_RULE_ADAM,
    GW_RULE_ADAMW,
    GW_RULE_LAMB_DIRECTION,
    GW_RULE_LAMB_APPLY,
    GW_RULE_NONE,
    GW_RULES
};

/*
 * The arrays of one call. The gradient is the tree sum of in[0..n-1], made on
 * the fly. out may be w or in[0]; m and v are for rules with these states.
 */
struct gw_rule_arrays {
    size_t elems;
    const float *in[GW_FUSED_FAN_IN];
    const float *w;
    float *out, *m, *v;
};

enum gw_reduce_found {
    GW_REDUCE_FINITE = 1,     /* all sums are finite */
    GW_REDUCE_WAS_FINITE = 2, /* and so was the old content of sum */
};

struct gw_update_loops {
    const char *name;
    /* 1..GW_REDUCE_FAN_IN arrays in tree order; GW_REDUCE_FINITE or 0 */
    int (*reduce)(const float *const *in, unsigned n, size_t elems, float *sum);
    /* the same for a sum that may be one of `in`, with GW_REDUCE_WAS_FINITE */
    int (*reduce_over)(const float *const *in,
                       unsigned n,
                       size_t elems,
                       float *sum);
    double (*square_sum)(const float *x, size_t elems);
    /* second index: n - 1; returns 0 if a sum is not finite, else 1 */
    int (*rule[GW_RULES][GW_FUSED_FAN_IN])(const struct gw_factors *factors,
                                           const struct gw_rule_arrays *arrays);
};

/* Indexed by enum gw_isa; call only what gw_isa_here() allows. */
extern const struct gw_update_loops gw_update_loops[GW_ISAS];

#endif
