#include "config.h"

#include "kernels/update/update.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "kernels/update/slots.h"
#include "kernels/update/update_isa.h"

/*
 * Replaces an absent slot that needs a value: x + -0.0 is x for every x, the
 * sign of zero included. Stays in L1.
 */
static const float identity[GW_BLOCK_ELEMS] = {
    [0 ... GW_BLOCK_ELEMS - 1] = -0.0f,
};

static const struct gw_update_loops *loops(void)
{
    return &gw_update_loops[gw_isa_here()];
}

const char *gw_update_isa(void)
{
    return loops()->name;
}

static uint32_t power_below(uint32_t n)
{
    uint32_t power = 1;
    while (power < n - power)
        power *= 2;
    return power;
}

static int any_present(const float *const *slots, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (slots[i])
            return 1;
    return 0;
}

/* The tree over at most GW_REDUCE_FAN_IN slots, not all absent, in one pass. */
static int reduce_leaf(const float *const *slots,
                       uint32_t n,
                       size_t offset,
                       size_t elems,
                       float *sum)
{
    const float *in[GW_REDUCE_FAN_IN];
    for (uint32_t i = 0; i < n; i++)
        in[i] = slots[i] ? slots[i] + offset : identity;
    return loops()->reduce(in, n, elems, sum);
}

int gw_reduce_block(const float *const *slots,
                    uint32_t n,
                    size_t offset,
                    size_t elems,
                    float *sum)
{
    assert(elems <= GW_BLOCK_ELEMS);
    if (!any_present(slots, n)) {
        memset(sum, 0, elems * sizeof *sum);
        return 1;
    }
    if (n <= GW_REDUCE_FAN_IN)
        return reduce_leaf(slots, n, offset, elems, sum);

    uint32_t left_n = power_below(n), right_n = n - left_n;
    const float *const *right_slots = slots + left_n;
    if (!any_present(slots, left_n))
        return gw_reduce_block(right_slots, right_n, offset, elems, sum);
    if (!any_present(right_slots, right_n))
        return gw_reduce_block(slots, left_n, offset, elems, sum);

    /* sum may be one of the slots, so it is written by the last pass only */
    float left[GW_BLOCK_ELEMS], right[GW_BLOCK_ELEMS];
    gw_reduce_block(slots, left_n, offset, elems, left);
    gw_reduce_block(right_slots, right_n, offset, elems, right);
    return loops()->reduce((const float *[]){left, right}, 2, elems, sum);
}

double gw_square_sum(const float *x, size_t elems)
{
    return loops()->square_sum(x, elems);
}

/* PyTorch's guard against a norm of zero. */
#define CLIP_EPSILON 1e-6

double gw_clip_to(double limit, double norm)
{
    return isfinite(norm) ? fmin(1, limit / (norm + CLIP_EPSILON)) : 1;
}

/* By squaring: multiplication gives the same bits on every machine. */
static double power(double base, uint64_t exponent)
{
    double result = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

void gw_update_prepare(struct gw_update *update)
{
    assert(update->t >= 1);
    update->bias1 = 1 - power(update->beta1, update->t);
    update->bias2 = 1 - power(update->beta2, update->t);
}

static struct gw_factors make_factors(enum gw_rule rule,
                                      const struct gw_update *update)
{
    struct gw_factors factors = {
        .scale = update->scale,
        .lr = (float)update->lr,
        .weight_decay = (float)update->weight_decay,
        .momentum = (float)update->momentum,
    };
    if (rule == GW_RULE_LAMB_APPLY)
        factors.step = (float)(update->lr * update->trust_ratio);
    if (rule != GW_RULE_ADAM && rule != GW_RULE_ADAMW &&
        rule != GW_RULE_LAMB_DIRECTION)
        return factors;

    assert(update->bias1 > 0 && update->bias2 > 0); /* gw_update_prepare */
    factors.keep = (float)(1 - update->lr * update->weight_decay);
    factors.beta1 = (float)update->beta1;
    factors.beta2 = (float)update->beta2;
    factors.fresh1 = (float)(1 - update->beta1);
    factors.fresh2 = (float)(1 - update->beta2);
    factors.step = (float)(update->lr / update->bias1);
    factors.unbias1 = (float)(1 / update->bias1);
    factors.unbias2 = (float)(1 / sqrt(update->bias2));
    factors.eps = (float)update->eps;
    return factors;
}

static int run(enum gw_rule rule,
               const struct gw_update *update,
               unsigned n,
               struct gw_rule_arrays *arrays,
               unsigned n_states,
               float *const *states)
{
    struct gw_factors factors = make_factors(rule, update);
    /* a rule without that state does not use it, but advances its pointer */
    arrays->m = n_states > 0 ? states[0] : arrays->out;
    arrays->v = n_states > 1 ? states[1] : arrays->out;
    return loops()->rule[rule][n - 1](&factors, arrays);
}

void gw_update_apply(const struct gw_optimizer *optimizer,
                     const struct gw_update *update,
                     size_t elems,
                     const float *g,
                     const float *w,
                     float *w_next,
                     float *const *states)
{
    struct gw_rule_arrays arrays = {
        .elems = elems, .in = {g}, .w = w, .out = w_next};
    unsigned n_states = optimizer->two_phase ? 0 : optimizer->states;
    run((enum gw_rule)optimizer->rule, update, 1, &arrays, n_states, states);
}

void gw_update_direction(const struct gw_optimizer *optimizer,
                         const struct gw_update *update,
                         size_t elems,
                         float *g,
                         const float *w,
                         float *const *states)
{
    assert(optimizer->two_phase);
    struct gw_rule_arrays arrays = {
        .elems = elems, .in = {g}, .w = w, .out = g};
    run(GW_RULE_LAMB_DIRECTION, update, 1, &arrays, optimizer->states, states);
}

/* Reduces through a block of scratch: any number of slots, also absent ones. */
static int reduce_apply_blocks(const struct gw_optimizer *optimizer,
                               const struct gw_update *update,
                               const float *const *slots,
                               uint32_t n,
                               size_t offset,
                               struct gw_rule_arrays rest,
                               float *const *states)
{
    float sum[GW_BLOCK_ELEMS] __attribute__((aligned(64)));
    float *state[GW_STATE_MAX] = {0};
    int finite = 1;
    for (size_t at = 0; at < rest.elems; at += GW_BLOCK_ELEMS) {
        size_t elems = rest.elems - at;
        if (elems > GW_BLOCK_ELEMS)
            elems = GW_BLOCK_ELEMS;
        for (unsigned s = 0; s < optimizer->states; s++)
            state[s] = states[s] + at;
        finite &= gw_reduce_block(slots, n, offset + at, elems, sum);
        gw_update_apply(optimizer, update, elems, sum, rest.w + at,
                        rest.out + at, state);
    }
    return finite;
}

int gw_update_reduce_apply(const struct gw_optimizer *optimizer,
                           const struct gw_update *update,
                           const float *const *slots,
                           uint32_t n,
                           size_t offset,
                           size_t elems,
                           const float *w,
                           float *w_next,
                           float *const *states)
{
    assert(!optimizer->two_phase);
    struct gw_rule_arrays arrays = {.elems = elems, .w = w, .out = w_next};
    if (n > GW_FUSED_FAN_IN || !gw_slots_are_present(slots, n))
        return reduce_apply_blocks(optimizer, update, slots, n, offset, arrays,
                                   states);
    for (uint32_t i = 0; i < n; i++)
        arrays.in[i] = slots[i] + offset;
    return run((enum gw_rule)optimizer->rule, update, n, &arrays,
               optimizer->states, states);
}

/* State names are those of torch.optim's state dictionaries. */
static const struct gw_optimizer sgd = {
    .name = "sgd",
    .rule = GW_RULE_SGD,
};
static const struct gw_optimizer momentum = {
    .name = "momentum",
    .states = 1,
    .state_names = {"momentum_buffer"},
    .rule = GW_RULE_MOMENTUM,
};
static const struct gw_optimizer nesterov = {
    .name = "nesterov",
    .states = 1,
    .state_names = {"momentum_buffer"},
    .rule = GW_RULE_NESTEROV,
};
static const struct gw_optimizer adam = {
    .name = "adam",
    .states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .rule = GW_RULE_ADAM,
};
static const struct gw_optimizer adamw = {
    .name = "adamw",
    .states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .rule = GW_RULE_ADAMW,
};
static const struct gw_optimizer lamb = {
    .name = "lamb",
    .states = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .two_phase = 1,
    .rule = GW_RULE_LAMB_APPLY,
};
static const struct gw_optimizer none = {
    .name = "none",
    .rule = GW_RULE_NONE,
};

const struct gw_optimizer *const gw_optimizers[] = {
    &sgd, &momentum, &nesterov, &adam, &adamw, &lamb, &none, NULL,
};

const struct gw_optimizer *gw_optimizer_find(const char *name)
{
    for (size_t i = 0; gw_optimizers[i]; i++)
        if (!strcasecmp(gw_optimizers[i]->name, name))
            return gw_optimizers[i];
    return NULL;
}
