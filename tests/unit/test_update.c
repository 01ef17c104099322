/* kernels/update: the tree, the norms, every optimizer, equal bits. */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/update/update.h"
#include "kernels/update/update_isa.h"
#include "proto/random.h"

#define SLOTS 33
#define ELEMS (GW_BLOCK_ELEMS + 40)

/* Normal numbers over six decades, a pure function of (array, element). */
static float value_at(uint32_t array, size_t i)
{
    uint32_t u[4];
    float z[2];
    gw_random4(11, GW_RANDOM_TEST, array, i, u);
    gw_random_normal2(u[0], u[1], z);
    return z[0] * powf(10, (float)(u[2] % 7) - 3);
}

static void fill(uint32_t array, float *x, size_t elems)
{
    for (size_t i = 0; i < elems; i++)
        x[i] = value_at(array, i);
}

static void assert_same_bits(const float *a, const float *b, size_t elems)
{
    assert_memory_equal(a, b, elems * sizeof *a);
}

/* The definition, one element at a time; *present_p: a slot is present. */
static float
tree(const float *const *slots, uint32_t n, size_t i, int *present_p)
{
    if (n == 1) {
        *present_p = slots[0] != NULL;
        return slots[0] ? slots[0][i] : 0;
    }
    uint32_t half = 1;
    while (2 * half < n)
        half *= 2;
    int left_present, right_present;
    float left = tree(slots, half, i, &left_present);
    float right = tree(slots + half, n - half, i, &right_present);
    *present_p = left_present || right_present;
    if (left_present && right_present)
        return left + right;
    return left_present ? left : right;
}

static float pool[SLOTS][ELEMS];

static void make_slots(const float **slots, uint32_t n, uint64_t absent)
{
    for (uint32_t s = 0; s < n; s++)
        slots[s] = absent >> s & 1 ? NULL : pool[s];
}

static void
assert_tree(uint32_t n, uint64_t absent, size_t offset, size_t elems)
{
    const float *slots[SLOTS];
    float sum[GW_BLOCK_ELEMS], expected[GW_BLOCK_ELEMS];
    make_slots(slots, n, absent);
    for (size_t i = 0; i < elems; i++) {
        int present;
        expected[i] = tree(slots, n, offset + i, &present);
    }
    assert_int_equal(gw_reduce_block(slots, n, offset, elems, sum), 1);
    assert_same_bits(sum, expected, elems);
}

static void sums_are_the_balanced_tree(void **state)
{
    (void)state;
    for (uint32_t s = 0; s < SLOTS; s++)
        fill(s, pool[s], ELEMS);
    /* a sum of zeros of both signs shows whether an absent slot is left out */
    for (uint32_t s = 0; s < SLOTS; s++)
        pool[s][3] = s == 2 ? -0.0f : pool[s][3];
    for (uint32_t n = 1; n <= SLOTS; n++) {
        assert_tree(n, 0, 0, GW_BLOCK_ELEMS);
        assert_tree(n, 0, 5, 37);
        assert_tree(n, UINT64_MAX >> (64 - n), 0, 20); /* nobody */
        for (uint32_t s = 0; s < n; s++) {
            assert_tree(n, (uint64_t)1 << s, 1, 33);
            assert_tree(n, ~((uint64_t)1 << s), 0, 33); /* only s */
        }
        for (uint32_t k = 0; k < 50; k++) {
            uint32_t u[4];
            gw_random4(3, GW_RANDOM_TEST, n, k, u);
            assert_tree(n, (uint64_t)u[0] << 32 | u[1], u[2] % 40, 1 + k);
        }
    }
}

static void a_lone_negative_zero_stays(void **state)
{
    (void)state;
    const float zero[1] = {-0.0f};
    float sum[1];
    for (uint32_t n = 1; n <= SLOTS; n++) {
        for (uint32_t s = 0; s < n; s++) {
            const float *slots[SLOTS] = {0};
            slots[s] = zero;
            gw_reduce_block(slots, n, 0, 1, sum);
            assert_same_bits(sum, zero, 1);
        }
    }
}

static void the_sum_may_be_a_slot(void **state)
{
    (void)state;
    const uint32_t counts[] = {1, 2, 4, 7, 8, 9, 12, 16, 33};
    static float mine[ELEMS];
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (uint32_t own = 0; own < counts[c]; own++) {
            const float *slots[SLOTS];
            float expected[GW_BLOCK_ELEMS];
            make_slots(slots, counts[c], 0);
            gw_reduce_block(slots, counts[c], 7, 1001, expected);
            memcpy(mine, pool[own], sizeof mine);
            slots[own] = mine;
            gw_reduce_block(slots, counts[c], 7, 1001, mine + 7);
            assert_same_bits(mine + 7, expected, 1001);
        }
    }
}

static void non_finite_sums_are_noticed(void **state)
{
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX};
    const uint32_t counts[] = {1, 2, 3, 4, 5, 8, 13};
    float sum[70];
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t at = 0; at < 70; at++) {
                const float *slots[SLOTS];
                uint32_t n = counts[c];
                float one[70], two[70];
                fill(1, one, 70);
                fill(2, two, 70);
                make_slots(slots, n, 0);
                slots[n - 1] = one;
                one[at] = bad[b];
                if (n > 1 && bad[b] == FLT_MAX)
                    slots[n - 2] = two, two[at] = FLT_MAX; /* overflows */
                int finite = n == 1 && bad[b] == FLT_MAX;
                assert_int_equal(gw_reduce_block(slots, n, 0, 70, sum), finite);
            }
        }
    }
}

static void square_sums_use_sixteen_lanes(void **state)
{
    (void)state;
    float x[333];
    fill(9, x, 333);
    for (size_t elems = 0; elems <= 333; elems++) {
        double lane[16] = {0};
        for (size_t i = 0; i < elems; i++)
            lane[i % 16] += (double)x[i] * (double)x[i];
        for (size_t width = 8; width > 0; width /= 2)
            for (size_t l = 0; l < width; l++)
                lane[l] += lane[l + width];
        double sum = gw_square_sum(x, elems);
        assert_memory_equal(&sum, lane, sizeof sum);
    }
}

static struct gw_update some_update(void)
{
    struct gw_update update = {
        .scale = 1 / 3.0f,
        .lr = 0.013,
        .weight_decay = 0.017,
        .momentum = 0.91,
        .beta1 = 0.9,
        .beta2 = 0.997,
        .eps = 1e-8,
        .t = 5,
        .trust_ratio = 0.7,
    };
    gw_update_prepare(&update);
    return update;
}

struct outcome {
    float out[ELEMS], m[ELEMS], v[ELEMS];
    int finite;
};

static void run_rule(enum gw_isa isa,
                     enum gw_rule rule,
                     unsigned n,
                     size_t from,
                     size_t elems,
                     struct outcome *outcome)
{
    const struct gw_factors factors = {
        0.33f, 0.013f, 0.017f, 0.91f, 0.999f,  0.9f,  0.997f,
        0.1f,  0.003f, 0.03f,  2.5f,  1.0312f, 1e-8f,
    };
    struct gw_rule_arrays arrays = {
        .elems = elems,
        .w = pool[8] + from,
        .out = outcome->out,
        .m = outcome->m,
        .v = outcome->v,
    };
    for (unsigned i = 0; i < n; i++)
        arrays.in[i] = pool[i] + from;
    fill(20, outcome->m, ELEMS);
    fill(21, outcome->v, ELEMS);
    for (size_t i = 0; i < ELEMS; i++)
        outcome->v[i] = fabsf(outcome->v[i]);
    memset(outcome->out, 0, sizeof outcome->out);
    outcome->finite = gw_update_loops[isa].rule[rule][n - 1](&factors, &arrays);
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    static struct outcome plain, wide;
    float sum[GW_BLOCK_ELEMS], wide_sum[GW_BLOCK_ELEMS];
    const size_t sizes[] = {0, 1, 3, 15, 16, 17, 31, 40, 100, 1024};
    const enum gw_isa first = 0;
    if (gw_isa_here() == first)
        skip();
    for (int isa = first + 1; isa <= (int)gw_isa_here(); isa++) {
        const struct gw_update_loops *loops = &gw_update_loops[isa];
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            size_t elems = sizes[s];
            for (int rule = 0; rule < GW_RULES; rule++)
                for (unsigned n = 1; n <= GW_FUSED_FAN_IN; n++) {
                    run_rule(first, (enum gw_rule)rule, n, s % 3, elems,
                             &plain);
                    run_rule((enum gw_isa)isa, (enum gw_rule)rule, n, s % 3,
                             elems, &wide);
                    assert_memory_equal(&plain, &wide, sizeof plain);
                }
            for (unsigned n = 1; n <= GW_REDUCE_FAN_IN; n++) {
                const float *slots[SLOTS];
                make_slots(slots, n, 0);
                gw_update_loops[first].reduce(slots, n, elems, sum);
                loops->reduce(slots, n, elems, wide_sum);
                assert_same_bits(sum, wide_sum, elems);
            }
            double a = loops->square_sum(pool[1], elems);
            double b = gw_update_loops[first].square_sum(pool[1], elems);
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
}

/* Both paths over n slots; the fused one must give the blocks' bits. */
static void assert_fused(const struct gw_optimizer *optimizer,
                         uint32_t n,
                         uint64_t absent,
                         int in_place)
{
    static struct outcome blocks, fused;
    struct gw_update update = some_update();
    const float *slots[SLOTS];
    float sum[GW_BLOCK_ELEMS];
    const size_t offset = 3, elems = ELEMS - 3;
    make_slots(slots, n, absent);
    for (int which = 0; which < 2; which++) {
        struct outcome *to = which ? &fused : &blocks;
        fill(20, to->m, ELEMS);
        fill(21, to->v, ELEMS);
        for (size_t i = 0; i < ELEMS; i++)
            to->v[i] = fabsf(to->v[i]);
        fill(22, to->out, ELEMS);
    }
    for (size_t at = 0; at < elems; at += GW_BLOCK_ELEMS) {
        size_t some = elems - at < GW_BLOCK_ELEMS ? elems - at : GW_BLOCK_ELEMS;
        float *const states[] = {blocks.m + at, blocks.v + at};
        gw_reduce_block(slots, n, offset + at, some, sum);
        gw_update_apply(optimizer, &update, some, sum,
                        in_place ? blocks.out + at : pool[30] + at,
                        blocks.out + at, states);
    }
    float *const states[] = {fused.m, fused.v};
    int finite = gw_update_reduce_apply(optimizer, &update, slots, n, offset,
                                        elems, in_place ? fused.out : pool[30],
                                        fused.out, states);
    assert_int_equal(finite, 1);
    assert_memory_equal(&blocks, &fused, sizeof blocks);
}

static void one_pass_gives_the_bits_of_two(void **state)
{
    (void)state;
    for (size_t o = 0; gw_optimizers[o]; o++) {
        if (gw_optimizers[o]->two_phase)
            continue;
        for (uint32_t n = 1; n <= 9; n++) {
            assert_fused(gw_optimizers[o], n, 0, 0);
            assert_fused(gw_optimizers[o], n, 0, 1);
            assert_fused(gw_optimizers[o], n, 2, 0);
            assert_fused(gw_optimizers[o], n, UINT64_MAX, 1);
        }
    }
}

static void one_pass_notices_non_finite_sums(void **state)
{
    (void)state;
    struct gw_update update = some_update();
    float one[50], two[50], m[50], v[50], w[50];
    for (size_t o = 0; gw_optimizers[o]; o++) {
        for (size_t at = 0; at < 50 && !gw_optimizers[o]->two_phase; at++) {
            fill(1, one, 50), fill(2, two, 50), fill(3, m, 50), fill(4, w, 50);
            memset(v, 0, sizeof v);
            one[at] = INFINITY;
            assert_int_equal(gw_update_reduce_apply(gw_optimizers[o], &update,
                                                    (const float *[]){two, one},
                                                    2, 0, 50, w, w,
                                                    (float *[]){m, v}),
                             0);
        }
    }
}

/* The frozen numbers of tests/reference/optimizers.py. */
#define FROZEN_WEIGHTS 8
#define FROZEN_STEPS   20

struct frozen {
    const char *name;
    double lr, momentum, beta1, beta2, weight_decay;
    double w[FROZEN_WEIGHTS];
};

static const struct frozen frozen[] = {
#include "tests/reference/optimizers.inc"
};

static float fraction(int numerator, int denominator)
{
    return (float)numerator / (float)denominator - 0.5f;
}

static void assert_frozen(const struct frozen *f)
{
    const struct gw_optimizer *optimizer = gw_optimizer_find(f->name);
    struct gw_update update = {
        .scale = 0.25f, /* with four times the gradient: exact */
        .lr = f->lr,
        .momentum = f->momentum,
        .beta1 = f->beta1,
        .beta2 = f->beta2,
        .eps = 1e-8,
        .weight_decay = f->weight_decay,
    };
    float w[FROZEN_WEIGHTS], m[FROZEN_WEIGHTS] = {0}, v[FROZEN_WEIGHTS] = {0};
    double largest = 0;
    for (int i = 0; i < FROZEN_WEIGHTS; i++)
        w[i] = fraction((37 * i + 11) % 101, 101);
    for (int step = 0; step < FROZEN_STEPS; step++) {
        float g[FROZEN_WEIGHTS];
        for (int i = 0; i < FROZEN_WEIGHTS; i++)
            g[i] = 4 * fraction((53 * i + 29 * step + 7) % 97, 97);
        update.t = (uint64_t)step + 1;
        gw_update_prepare(&update);
        gw_update_apply(optimizer, &update, FROZEN_WEIGHTS, g, w, w,
                        (float *[]){m, v});
    }
    for (int i = 0; i < FROZEN_WEIGHTS; i++)
        largest = fmax(largest, fabs(f->w[i]));
    for (int i = 0; i < FROZEN_WEIGHTS; i++)
        assert_true(fabs((double)w[i] - f->w[i]) <= 1e-6 * largest);
}

static void optimizers_do_what_pytorch_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frozen / sizeof *frozen; i++)
        assert_frozen(&frozen[i]);
}

static void lamb_follows_its_formula(void **state)
{
    (void)state;
    enum {
        N = 37
    };
    const struct gw_optimizer *lamb = gw_optimizer_find("lamb");
    struct gw_update update = some_update();
    float g[N], w[N], m[N] = {0}, v[N] = {0};
    double rw[N], rm[N] = {0}, rv[N] = {0}, ru[N];
    for (size_t i = 0; i < N; i++)
        rw[i] = (double)(w[i] = fraction((int)(37 * i + 11) % 101, 101));
    assert_true(lamb->two_phase);
    for (uint64_t t = 1; t <= 10; t++) {
        double w2 = 0, u2 = 0;
        update.t = t;
        gw_update_prepare(&update);
        for (size_t i = 0; i < N; i++) {
            g[i] = fraction((int)(53 * i + 29 * t + 7) % 97, 97);
            double d = (double)g[i] * (double)update.scale;
            rm[i] = update.beta1 * rm[i] + (1 - update.beta1) * d;
            rv[i] = update.beta2 * rv[i] + (1 - update.beta2) * d * d;
            double mh = rm[i] / (1 - pow(update.beta1, (double)t));
            double vh = rv[i] / (1 - pow(update.beta2, (double)t));
            ru[i] = mh / (sqrt(vh) + update.eps) + update.weight_decay * rw[i];
            w2 += rw[i] * rw[i];
            u2 += ru[i] * ru[i];
        }
        for (size_t i = 0; i < N; i++)
            rw[i] -= update.lr * sqrt(w2) / sqrt(u2) * ru[i];

        gw_update_direction(lamb, &update, N, g, w, (float *[]){m, v});
        double ours = sqrt(gw_square_sum(w, N)) / sqrt(gw_square_sum(g, N));
        update.trust_ratio = ours;
        gw_update_apply(lamb, &update, N, g, w, w, NULL);
        for (size_t i = 0; i < N; i++)
            assert_true(fabs((double)w[i] - rw[i]) < 1e-6);
    }
}

static void none_hands_the_scaled_sum_out(void **state)
{
    (void)state;
    struct gw_update update = {.scale = 0.5f};
    const float g[3] = {2, -4, 6}, w[3] = {9, 9, 9};
    float next[3];
    gw_update_apply(gw_optimizer_find("none"), &update, 3, g, w, next, NULL);
    assert_true(next[0] == 1 && next[1] == -2 && next[2] == 3);
}

static void bias_corrections_are_powers(void **state)
{
    (void)state;
    const uint64_t steps[] = {1, 2, 3, 10, 999, 1000, 65537, 10000000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct gw_update update = {
            .beta1 = 0.9, .beta2 = 0.99999, .t = steps[i]};
        gw_update_prepare(&update);
        double t = (double)steps[i];
        assert_true(fabs(update.bias1 - (1 - pow(0.9, t))) < 1e-13);
        assert_true(fabs(update.bias2 - (1 - pow(0.99999, t))) < 1e-11);
    }
}

static void optimizers_are_found_by_name(void **state)
{
    (void)state;
    const char *const names[] = {"sgd",   "momentum", "nesterov", "adam",
                                 "adamw", "lamb",     "none"};
    size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++) {
        const struct gw_optimizer *found = gw_optimizer_find(names[i]);
        assert_ptr_equal(found, gw_optimizers[i]);
        assert_true(found->states <= GW_STATE_MAX);
        for (unsigned s = 0; s < found->states; s++)
            assert_non_null(found->state_names[s]);
    }
    assert_null(gw_optimizers[n]);
    assert_null(gw_optimizer_find("adagrad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_balanced_tree),
        cmocka_unit_test(a_lone_negative_zero_stays),
        cmocka_unit_test(the_sum_may_be_a_slot),
        cmocka_unit_test(non_finite_sums_are_noticed),
        cmocka_unit_test(square_sums_use_sixteen_lanes),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(one_pass_gives_the_bits_of_two),
        cmocka_unit_test(one_pass_notices_non_finite_sums),
        cmocka_unit_test(optimizers_do_what_pytorch_does),
        cmocka_unit_test(lamb_follows_its_formula),
        cmocka_unit_test(none_hands_the_scaled_sum_out),
        cmocka_unit_test(bias_corrections_are_powers),
        cmocka_unit_test(optimizers_are_found_by_name),
    };
    return cmocka_run_group_tests_name("update", tests, NULL, NULL);
}
