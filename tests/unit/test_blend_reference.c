/*
 * Numerical truth from outside: 50 steps of update policies on quadratics,
 * frozen from NumPy and PyTorch (tests/reference/policies.py), compared with
 * the calls that servers and workers make.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/blend.h"
#include "kernels/update/update.h"

/* The constants of policies.py. */
#define N        11
#define STEPS    50
#define PUSH     4 /* gradients that one push sums */
#define FRAGMENT 6 /* elements of the first of two */

#define RANKS_MAX  4
#define ARRAYS_MAX 5

static const struct frozen {
    const char *name;
    int arrays;
    double w[ARRAYS_MAX][N];
} frozen[] = {
#include "tests/reference/policies.inc"
};

/* Relative to the largest weight of all arrays. */
static void
assert_frozen(const char *name, int arrays, const float (*const *w)[N])
{
    const struct frozen *f = frozen;
    while (strcmp(f->name, name))
        assert_true(++f < frozen + sizeof frozen / sizeof *frozen);
    assert_int_equal(arrays, f->arrays);
    double largest = 0, off = 0;
    for (int k = 0; k < arrays; k++)
        for (int i = 0; i < N; i++) {
            largest = fmax(largest, fabs(f->w[k][i]));
            off = fmax(off, fabs((double)(*w[k])[i] - f->w[k][i]));
        }
    print_message("# %s: %.1e of the largest weight\n", name, off / largest);
    assert_true(off <= 1e-6 * largest);
}

static float fraction(int numerator)
{
    return (float)(numerator % 127 - 63) / 64;
}

static void start(float w[N])
{
    for (int i = 0; i < N; i++)
        w[i] = fraction(59 * i + 5);
}

static void gradient(int rank, int t, const float w[N], float g[N])
{
    for (int i = 0; i < N; i++) {
        float curvature = (float)(8 + 13 * i % 17) / 16;
        float optimum = fraction(37 * i + 53 * rank + 11);
        float noise = fraction(41 * i + 67 * rank + 29 * t + 3) / 4;
        g[i] = curvature * (w[i] - optimum) + noise;
    }
}

/* A worker's weights and its own optimizer's state. */
struct replica {
    float w[N], m[N], v[N];
};

static void local_step(const char *optimizer,
                       struct gw_update update,
                       struct replica *replica,
                       int rank,
                       int t)
{
    float g[N];
    gradient(rank, t, replica->w, g);
    update.scale = 1;
    update.t = (uint64_t)t + 1;
    gw_update_prepare(&update);
    gw_update_apply(gw_optimizer_find(optimizer), &update, N, g, replica->w,
                    replica->w, (float *[]){replica->m, replica->v});
}

/* The server's side of local steps: the mean of W deltas is its gradient. */
static void outer_step(const char *optimizer,
                       struct gw_update update,
                       uint32_t ranks,
                       float delta[][N],
                       size_t offset,
                       size_t elems,
                       struct replica *centre)
{
    const float *slots[RANKS_MAX];
    for (uint32_t k = 0; k < ranks; k++)
        slots[k] = delta[k];
    update.scale = 1 / (float)ranks;
    float *w = centre->w + offset;
    float *states[] = {centre->m + offset, centre->v + offset};
    assert_int_equal(gw_update_reduce_apply(gw_optimizer_find(optimizer),
                                            &update, slots, ranks, offset,
                                            elems, w, w, states),
                     1);
}

static const struct gw_update outer_nesterov = {.lr = 0.7, .momentum = 0.9};

static const struct gw_update inner_adamw = {
    .lr = 1 / 64.0,
    .weight_decay = 0.125,
    .beta1 = 0.9,
    .beta2 = 0.95,
    .eps = 1e-8,
};

static void delay_compensated(const char *name,
                              const struct gw_compensation *compensation,
                              int keeps_mean_square)
{
    const struct gw_update update = {.scale = 1, .lr = 0.125};
    float w[2][N], given[RANKS_MAX][N], mean_square[RANKS_MAX][N] = {0};
    start(w[0]);
    for (int k = 0; k < RANKS_MAX; k++)
        start(given[k]);
    for (int t = 0; t < STEPS; t++) {
        int rank = t * (t + 3) / 2 % RANKS_MAX;
        float g[N], *now = w[t % 2], *next = w[(t + 1) % 2];
        gradient(rank, t, given[rank], g);
        for (int i = 0; i < N; i++)
            g[i] *= PUSH;
        assert_int_equal(
            gw_compensate(compensation, N, g, now, given[rank],
                          keeps_mean_square ? mean_square[rank] : NULL, g),
            1);
        gw_update_apply(gw_optimizer_find("sgd"), &update, N, g, now, next,
                        NULL);
        memcpy(given[rank], next, sizeof given[rank]);
    }
    assert_frozen(name, 1, (const float(*const[])[N]){&w[STEPS % 2]});
}

static void delay_compensation_is_zheng_s(void **state)
{
    (void)state;
    const struct gw_compensation constant = {.scale = 0.125f, .lambda = 0.5};
    const struct gw_compensation adaptive = {
        .scale = 0.125f, .lambda = 2, .decay = 0.95, .eps = 0.01};
    delay_compensated("dc-async", &constant, 0);
    delay_compensated("dc-async adaptive", &adaptive, 1);
}

static void
elastic(const char *name, const char *optimizer, struct gw_update update)
{
    enum {
        RANKS = 4,
        PERIOD = 5
    };
    static const double alpha = 0.225;
    struct replica x[RANKS] = {0};
    float c[2][N]; /* the server's two arrays of weights */
    int now = 0;
    start(c[0]);
    for (int k = 0; k < RANKS; k++)
        start(x[k].w);
    for (int t = 0; t < STEPS; t++)
        for (int k = 0; k < RANKS; k++) {
            local_step(optimizer, update, &x[k], k, t);
            if ((t + 1 + k) % PERIOD)
                continue;
            assert_int_equal(
                gw_elastic(alpha, N, x[k].w, c[now], x[k].w, c[!now]), 1);
            now = !now;
        }
    assert_frozen(name, 5,
                  (const float(*const[])[N]){&c[now], &x[0].w, &x[1].w, &x[2].w,
                                             &x[3].w});
}

static void elastic_averaging_is_zhang_s(void **state)
{
    (void)state;
    elastic("easgd", "sgd", (struct gw_update){.lr = 0.05});
    elastic("easgd nesterov", "nesterov",
            (struct gw_update){.lr = 0.05, .momentum = 0.9});
}

/* Rounds of H local steps from the centre's weights. */
static void rounds(const char *name,
                   const char *inner,
                   struct gw_update inner_update,
                   const char *outer,
                   struct gw_update outer_update)
{
    enum {
        RANKS = 3,
        H = 5
    };
    struct replica x[RANKS] = {0}, centre = {0};
    float delta[RANKS][N];
    start(centre.w);
    for (int first = 0; first < STEPS; first += H) {
        for (int k = 0; k < RANKS; k++) {
            memcpy(x[k].w, centre.w, sizeof x[k].w);
            for (int t = first; t < first + H; t++)
                local_step(inner, inner_update, &x[k], k, t);
            assert_int_equal(gw_difference(N, centre.w, x[k].w, delta[k]), 1);
        }
        outer_step(outer, outer_update, RANKS, delta, 0, N, &centre);
    }
    assert_frozen(name, 1, (const float(*const[])[N]){&centre.w});
}

static void local_sgd_is_the_mean_of_weights(void **state)
{
    (void)state;
    rounds("local", "sgd", (struct gw_update){.lr = 0.125}, "sgd",
           (struct gw_update){.lr = 1});
}

static void diloco_is_pytorch_s_adamw_and_nesterov(void **state)
{
    (void)state;
    rounds("diloco", "adamw", inner_adamw, "nesterov", outer_nesterov);
}

static void fragments_are_merged_late(void **state)
{
    (void)state;
    enum {
        RANKS = 3,
        H = 10,
        LATE = 2
    };
    const size_t offset[] = {0, FRAGMENT, N};
    struct replica x[RANKS] = {0}, centre = {0};
    float delta[RANKS][N];
    start(centre.w);
    for (int k = 0; k < RANKS; k++)
        start(x[k].w);
    for (int t = 0; t < STEPS; t++) {
        for (int k = 0; k < RANKS; k++)
            local_step("adamw", inner_adamw, &x[k], k, t);
        for (int p = 0; p < 2; p++) {
            int phase = (t + 1 + p * H / 2) % H;
            size_t at = offset[p], elems = offset[p + 1] - at;
            for (int k = 0; k < RANKS && phase == 0; k++)
                gw_difference(elems, centre.w + at, x[k].w + at, delta[k] + at);
            if (phase == 0)
                outer_step("nesterov", outer_nesterov, RANKS, delta, at, elems,
                           &centre);
            for (int k = 0; k < RANKS && phase == LATE && t + 1 > LATE; k++)
                gw_mix(0.375, elems, x[k].w + at, centre.w + at);
        }
    }
    assert_frozen(
        "diloco streaming", 4,
        (const float(*const[])[N]){&centre.w, &x[0].w, &x[1].w, &x[2].w});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delay_compensation_is_zheng_s),
        cmocka_unit_test(elastic_averaging_is_zhang_s),
        cmocka_unit_test(local_sgd_is_the_mean_of_weights),
        cmocka_unit_test(diloco_is_pytorch_s_adamw_and_nesterov),
        cmocka_unit_test(fragments_are_merged_late),
    };
    return cmocka_run_group_tests_name("blend_reference", tests, NULL, NULL);
}
