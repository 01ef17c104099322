/*
 * kernels/kernels.h: operations of every backend other than layers with
 * weights: ReLU, dropout, norms, the loss, NaN through all of them; and the
 * device.
 */
#include "config.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/table/backend.h"

/* ReLU as part of a layer: rows of one number, with weight 1 and bias 0. */
struct rows {
    size_t n;
    float *one, *zero, *dw; /* dw, and db after it */
    void *mask, *scratch;
};

static struct rows rows_of(size_t n)
{
    const struct gw_dense_shape shape = {n, 1, 1, 1, 1};
    const float one = 1, zero = 0;
    struct rows rows = {.n = n};
    rows.one = to_device(&one, 1), rows.zero = to_device(&zero, 1);
    rows.dw = poisoned(2);
    if (ops->dense_mask_bytes(&shape) > 0)
        rows.mask = ops->alloc(device, ops->dense_mask_bytes(&shape));
    rows.scratch =
        ops->alloc(device, ops->dense_scratch_bytes(&shape, precision));
    return rows;
}

static void drop_rows(struct rows *rows)
{
    ops->free(device, rows->one), ops->free(device, rows->zero);
    ops->free(device, rows->dw), ops->free(device, rows->mask);
    ops->free(device, rows->scratch);
}

static void let_through(const struct rows *rows, const float *x, float *y)
{
    const struct gw_dense_shape shape = {rows->n, 1, 1, 1, 0};
    ops->dense_forward(device, &shape, x, rows->one, rows->zero, y, rows->mask,
                       rows->scratch);
}

/* With the mask from the forward pass, or without. */
static void send_back(const struct rows *rows,
                      const float *y,
                      int noted,
                      const float *dy,
                      float *dx)
{
    const struct gw_dense_shape shape = {rows->n, 1, 1, 0, 1};
    ops->dense_backward(device, &shape, y, noted ? rows->mask : NULL, rows->one,
                        dy, 0, dx, rows->dw, rows->dw + 1, rows->scratch);
}

static void relu(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 7, 64, 1000};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        size_t n = sizes[i / 2];
        struct rows rows = rows_of(n);
        float *x = random_host(1, n), *dy = random_host(2, n);
        x[n / 2] = 0; /* gets no gradient */
        float *mx = to_device(x, n), *mdy = to_device(dy, n);
        float *my = poisoned(n), *mdx = poisoned(n);
        let_through(&rows, mx, my);
        send_back(&rows, my, i % 2 == 1, mdy, mdx);
        float *y = to_host(my, n), *dx = to_host(mdx, n);
        for (size_t e = 0; e < n; e++) {
            assert_true(y[e] == (x[e] > 0 ? x[e] : 0));
            assert_true(dx[e] == (x[e] > 0 ? dy[e] : 0));
        }
        ops->free(device, mx), ops->free(device, mdy);
        ops->free(device, my), ops->free(device, mdx);
        drop_rows(&rows);
        free(x), free(dy), free(y), free(dx);
    }
}

static struct gw_loss loss_of(size_t n,
                              size_t classes,
                              const float *logits,
                              const int32_t *labels,
                              float scale,
                              float *dlogits)
{
    struct gw_loss *memory = ops->alloc(device, sizeof *memory), loss;
    ops->softmax_loss(device, n, classes, logits, labels, scale, dlogits,
                      memory);
    ops->download(device, &loss, memory, sizeof loss);
    finish();
    ops->free(device, memory);
    return loss;
}

/* Arrays may begin anywhere in an allocation. */
static void views(void **state)
{
    (void)state;
    enum {
        ELEMS = 70,
    };
    const struct gw_dropout_site site = {.seed = 1, .p = 0.5f};
    for (size_t at = 0; at < 5; at++) {
        size_t n = ELEMS - at - 1; /* the last one must not be used */
        float *x = random_host(1, ELEMS), *dy = random_host(2, ELEMS);
        float *mx = to_device(x, ELEMS), *mdy = to_device(dy, ELEMS);
        float *my = poisoned(ELEMS), *mdx = poisoned(ELEMS);
        struct rows rows = rows_of(n);
        let_through(&rows, mx + at, my + at);
        send_back(&rows, my + at, 0, mdy + at, mdx + at);
        ops->dropout(device, &site, 1, n, mdx + at, mx + at);
        float *y = to_host(my, ELEMS), *dx = to_host(mdx, ELEMS);
        float *dropped = to_host(mx, ELEMS);
        for (size_t e = 0; e < ELEMS; e++) {
            int inside = e >= at && e + 1 < ELEMS;
            if (!inside) {
                assert_true(isnan(y[e]) && isnan(dx[e]) && dropped[e] == x[e]);
                continue;
            }
            assert_true(y[e] == (x[e] > 0 ? x[e] : 0));
            assert_true(dx[e] == (x[e] > 0 ? dy[e] : 0));
            assert_true(dropped[e] == 0 || dropped[e] == 2 * dx[e]);
        }
        ops->free(device, mx), ops->free(device, mdy);
        ops->free(device, my), ops->free(device, mdx);
        drop_rows(&rows);
        free(x), free(dy), free(y), free(dx), free(dropped);
    }
}

/* ---- norms ---- */

static double square_sum_of(const float *x, size_t elems)
{
    double *memory = ops->alloc(device, sizeof *memory), sum;
    ops->square_sum(device, elems, x, memory);
    ops->download(device, &sum, memory, sizeof sum);
    finish();
    ops->free(device, memory);
    return sum;
}

/* All squares, at any alignment, with the same bits each time. */
static void squares_are_added(void **state)
{
    (void)state;
    const size_t sizes[] = {
        0, 1, 3, 4, 255, 1024, 1025, 70001, (size_t)1 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t at = 0; at < 5; at += 2) {
            size_t n = sizes[i];
            float *x = random_host((uint32_t)i, n + at + 1);
            float *mx = to_device(x, n + at + 1);
            long double expected = 0;
            for (size_t e = at; e < at + n; e++)
                expected += (long double)x[e] * (long double)x[e];
            double got = square_sum_of(mx + at, n);
            if (!(fabsl((long double)got - expected) <= 1e-13L * expected))
                fail_msg("%zu from %zu on: %.17g, not %.17Lg", n, at, got,
                         expected);
            assert_true(square_sum_of(mx + at, n) == got);
            ops->free(device, mx);
            free(x);
        }
}

static void a_square_sum_is_finite_if_all_are(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t elems = 3001;
    float *x = malloc(elems * sizeof *x);
    for (size_t i = 0; i < elems; i++)
        x[i] = i % 2 ? FLT_MAX : -FLT_MAX;
    float *mx = to_device(x, elems);
    assert_true(isfinite(square_sum_of(mx, elems)) != 0);
    for (size_t i = 0; i < COUNT(bad); i++)
        for (size_t at = 0; at < elems; at += 1500) {
            float kept = x[at];
            x[at] = bad[i];
            ops->upload(device, mx, x, elems * sizeof *x);
            assert_true(!isfinite(square_sum_of(mx, elems)));
            x[at] = kept;
        }
    ops->free(device, mx);
    free(x);
}

/* A NaN in the activations must reach the loss: the finite guard relies on it.
 */
static void nan_is_not_swallowed(void **state)
{
    (void)state;
    for (size_t at = 0; at < 4; at++) {
        float x[4] = {1, -2, 3, 4};
        x[at] = NAN;
        float *mx = to_device(x, 4), *my = poisoned(4);
        uint8_t *argmax = ops->alloc(device, 4);
        const struct gw_pool_shape s = {1, 1, 2, 2, 2, 2};
        ops->pool_forward(device, &s, mx, my, argmax);
        float *y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        const struct gw_dense_shape d = {1, 4, 1, 1, 0};
        const struct gw_conv_shape c = {1, 1, 2, 2, 1, 2, 2, 1, 0, 1, 0};
        float *one = random_device(1, 4), *zero = random_device(2, 1);
        size_t room = ops->conv_scratch_bytes(&c, precision) +
                      ops->dense_scratch_bytes(&d, precision);
        void *scratch = ops->alloc(device, room);
        ops->dense_forward(device, &d, mx, one, zero, my, NULL, scratch);
        y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        ops->conv_forward(device, &c, mx, one, zero, my, scratch);
        y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        int32_t label = 0;
        int32_t *mlabel = ops->alloc(device, sizeof label);
        ops->upload(device, mlabel, &label, sizeof label);
        assert_true(isnan(loss_of(1, 4, mx, mlabel, 1, mx).sum));
        y = to_host(mx, 4);
        for (size_t i = 0; i < 4; i++)
            assert_true(isnan(y[i]));
        free(y);
        ops->free(device, mx), ops->free(device, my);
        ops->free(device, argmax), ops->free(device, mlabel);
        ops->free(device, one), ops->free(device, zero);
        ops->free(device, scratch);
    }
}

/* Ties, ends of the ranges, and values below and beyond them. */
static const float edges[] = {
    0,
    -0.0f,
    1,
    -1,
    0x1.01p0f,
    -0x1.03p0f,
    0x1.018p0f,
    0x1.fefp0f,
    0x1.fffp0f,
    0x1.002p0f,
    0x1.006p0f,
    0x1.003p0f,
    -0x1.0021p0f,
    65504,
    65519,
    65520,
    -70000,
    3e38f,
    FLT_MAX,
    0x1p-14f,
    0x1.ffcp-15f,
    0x1.004p-15f,
    0x1p-24f,
    0x1.8p-24f,
    -0x1p-25f,
    0x1.1p-25f,
    0x1p-126f,
    INFINITY,
    -INFINITY,
    NAN,
};

/* Products with 1 are the other operand, as a dense layer and a convolution
   read it in each direction. */
static void operands_are_rounded_to_nearest(void **state)
{
    (void)state;
    enum {
        N = COUNT(edges)
    };
    const struct gw_dense_shape d = {N, 1, 1, 0, 0};
    const struct gw_conv_shape c = {N, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};
    const float one = 1, none = 0;
    float *x = to_device(edges, N), *w = to_device(&one, 1);
    float *b = to_device(&none, 1), *dw = poisoned(2);
    float *to[] = {poisoned(N), poisoned(N), poisoned(N), poisoned(N)};
    size_t room = ops->conv_scratch_bytes(&c, precision) +
                  ops->dense_scratch_bytes(&d, precision);
    void *scratch = ops->alloc(device, room);
    ops->dense_forward(device, &d, x, w, b, to[0], NULL, scratch);
    ops->dense_backward(device, &d, x, NULL, w, x, 0, to[1], dw, dw + 1,
                        scratch);
    ops->conv_forward(device, &c, x, w, b, to[2], scratch);
    ops->conv_backward(device, &c, x, w, x, 0, to[3], dw, dw + 1, scratch);
    for (size_t k = 0; k < COUNT(to); k++) {
        float *is = to_host(to[k], N);
        for (size_t i = 0; i < N; i++)
            if (is[i] != rounded(edges[i]) &&
                !(isnan(is[i]) && isnan(edges[i])))
                fail_msg("call %zu: %a becomes %a, not %a", k, (double)edges[i],
                         (double)is[i], (double)rounded(edges[i]));
        free(is);
        ops->free(device, to[k]);
    }
    ops->free(device, x), ops->free(device, w), ops->free(device, b);
    ops->free(device, dw), ops->free(device, scratch);
}

static void dropout_draws_are_the_jobs(void **state)
{
    (void)state;
    enum {
        N = 6,
        ELEMS = 37
    };
    struct gw_dropout_site site = {
        .seed = 3, .step = 812, .layer = 2, .first_sample = 1000, .p = 0.3f};
    float x[N * ELEMS], expected[N * ELEMS];
    for (size_t i = 0; i < N * ELEMS; i++) {
        uint32_t u[4], a = 812 << 8 | 2;
        uint64_t row = i / ELEMS, at = i % ELEMS;
        x[i] = 1 + (float)i;
        gw_random4(3, GW_RANDOM_DROPOUT, a, (1000 + row) << 32 | at / 4, u);
        float keep = gw_random_uniform(u[at % 4]) < 0.3f ? 0.0f : 1.0f;
        expected[i] = keep * x[i] * (1 / (1 - 0.3f));
    }
    float *mx = to_device(x, N * ELEMS), *my = poisoned(N * ELEMS);
    ops->dropout(device, &site, N, ELEMS, mx, my);
    float *whole = to_host(my, N * ELEMS);
    for (size_t i = 0; i < N * ELEMS; i++)
        assert_true(fabsf(whole[i] - expected[i]) <= 1e-6f * expected[i]);

    /* for any split of the batch, and in place */
    for (size_t split = 1; split < N; split++) {
        ops->upload(device, my, x, sizeof x);
        site.first_sample = 1000;
        ops->dropout(device, &site, split, ELEMS, my, my);
        site.first_sample = 1000 + split;
        ops->dropout(device, &site, N - split, ELEMS, my + split * ELEMS,
                     my + split * ELEMS);
        float *parts = to_host(my, N * ELEMS);
        assert_memory_equal(parts, whole, sizeof x);
        free(parts);
    }
    ops->free(device, mx), ops->free(device, my);
    free(whole);
}

static size_t zeros_of(const struct gw_dropout_site *site, size_t elems)
{
    float *mx = random_device(1, elems);
    ops->dropout(device, site, 1, elems, mx, mx);
    float *y = to_host(mx, elems);
    size_t zeros = 0;
    for (size_t i = 0; i < elems; i++)
        zeros += y[i] == 0;
    ops->free(device, mx);
    free(y);
    return zeros;
}

static void dropout_keeps_its_rate(void **state)
{
    (void)state;
    struct gw_dropout_site site = {.seed = 1, .p = 0};
    assert_int_equal(zeros_of(&site, 5000), 0);
    const float rates[] = {0.1f, 0.5f, 0.9f};
    for (size_t i = 0; i < COUNT(rates); i++) {
        site.p = rates[i];
        double zeros = (double)zeros_of(&site, 100000) / 100000;
        assert_true(fabs(zeros - (double)rates[i]) < 0.005);
    }
    /* other steps, layers and seeds give other masks */
    float ones[64];
    for (size_t i = 0; i < 64; i++)
        ones[i] = 1;
    float *mx = to_device(ones, 64), *my = poisoned(64);
    const struct gw_dropout_site sites[] = {
        {1, 1, 1, 0, 0.5f}, {2, 1, 1, 0, 0.5f}, {1, 2, 1, 0, 0.5f},
        {1, 1, 2, 0, 0.5f}, {1, 1, 1, 1, 0.5f},
    };
    float *first = NULL;
    for (size_t i = 0; i < COUNT(sites); i++) {
        ops->dropout(device, &sites[i], 1, 64, mx, my);
        float *mask = to_host(my, 64);
        if (first)
            assert_memory_not_equal(mask, first, sizeof ones);
        if (first)
            free(mask);
        else
            first = mask;
    }
    free(first);
    ops->free(device, mx), ops->free(device, my);
}

struct loss_case {
    size_t n, classes;
    float spread; /* range of the logits */
};

static void check_loss(const struct loss_case *c)
{
    size_t elems = c->n * c->classes;
    float *logits = random_host(1, elems), scale = 0.7f;
    int32_t *labels = malloc(c->n * sizeof *labels);
    struct value *gradient = calloc(elems, sizeof *gradient);
    double expected = 0;
    uint64_t hits = 0;
    for (size_t i = 0; i < elems; i++)
        logits[i] *= c->spread;
    for (size_t r = 0; r < c->n; r++) {
        float *x = logits + r * c->classes;
        size_t label = r * 7 % c->classes, best = 0;
        double sum = 0;
        labels[r] = (int32_t)label;
        for (size_t i = 1; i < c->classes; i++)
            best = x[i] > x[best] ? i : best;
        for (size_t i = 0; i < c->classes; i++)
            sum += exp((double)x[i] - (double)x[best]);
        for (size_t i = 0; i < c->classes; i++) {
            double p = exp((double)x[i] - (double)x[best]) / sum;
            struct value *g = &gradient[r * c->classes + i];
            g->sum = (double)scale * (p - (i == label));
            g->size = (double)scale;
        }
        expected += log(sum) - (double)x[label] + (double)x[best];
        hits += best == label;
    }
    float *mx = to_device(logits, elems), *mdx = poisoned(elems);
    int32_t *mlabels = ops->alloc(device, c->n * sizeof *labels);
    ops->upload(device, mlabels, labels, c->n * sizeof *labels);
    float *targets[] = {NULL, mdx, mx}; /* the last is in place */
    for (size_t i = 0; i < COUNT(targets); i++) {
        const struct gw_loss loss =
            loss_of(c->n, c->classes, mx, mlabels, scale, targets[i]);
        assert_true(fabs(loss.sum - expected) <= 1e-6 * fabs(expected) + 1e-9);
        assert_int_equal(loss.correct, hits);
        if (targets[i])
            assert_near(targets[i], gradient, 0, NULL, elems);
    }
    ops->free(device, mx), ops->free(device, mdx), ops->free(device, mlabels);
    free(logits), free(labels), free(gradient);
}

static void losses(void **state)
{
    (void)state;
    const struct loss_case cases[] = {
        {1, 2, 1},    {64, 10, 3},    {5, 1000, 1},
        {7, 3, 1e4f}, {3, 10, 1e30f}, {1, 1, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_loss(&cases[i]);
}

/* Equal maxima count as the first of them, and only as that. */
static void ties_go_to_the_first(void **state)
{
    (void)state;
    const float logits[4] = {0, 2, 2, 1};
    float *mx = to_device(logits, 4);
    int32_t *mlabel = ops->alloc(device, sizeof *mlabel);
    for (int32_t label = 0; label < 4; label++) {
        ops->upload(device, mlabel, &label, sizeof label);
        assert_int_equal(loss_of(1, 4, mx, mlabel, 1, NULL).correct,
                         label == 1);
    }
    ops->free(device, mx), ops->free(device, mlabel);
}

static void memory_is_aligned_and_zeroed(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 63, 4096, (size_t)3 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint8_t *memory = ops->alloc(device, sizes[i]);
        uint8_t *host = malloc(sizes[i]), *back = malloc(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        ops->download(device, host, memory, sizes[i]);
        finish();
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(host[b], 0);
        memset(host, 0x5a, sizes[i]);
        ops->upload(device, memory, host, sizes[i]);
        ops->download(device, back, memory, sizes[i]);
        finish();
        assert_memory_equal(host, back, sizes[i]);
        ops->free(device, memory);
        free(host), free(back);
    }
    ops->free(device, NULL);
}

static void describes_itself(void **state)
{
    (void)state;
    char text[512];
    ops->describe(device, text, sizeof text);
    print_message("# %s: %s\n", ops->name, text);
    assert_true(strlen(text) > 5);
    ops->describe(device, text, 8);
    assert_true(strlen(text) < 8);
}

/* A PCI device has an address as in sysfs; otherwise, and on the cpu, it is
   empty. */
static void has_a_pci_address(void **state)
{
    (void)state;
    char address[GW_PCI_ADDRESS_BYTES];
    unsigned domain, bus, slot, function;
    char end;
    ops->locate(0, address);
    if (ops->on_host)
        assert_string_equal(address, "");
    else
        assert_int_equal(sscanf(address, "%4x:%2x:%2x.%1x%c", &domain, &bus,
                                &slot, &function, &end),
                         4);
    for (const char *at = address; *at; at++)
        assert_false(*at >= 'A' && *at <= 'Z');
    ops->locate(1000, address);
    assert_string_equal(address, "");
}

static void wrong_thread_counts_are_refused(void **state)
{
    (void)state;
    const int wrong[] = {0, -1, 1 << 20};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct gw_device_options options = {.threads = wrong[i]};
        struct gw_device *other = NULL;
        struct gw_error error;
        assert_int_equal(ops->open(&options, &other, &error), GW_ERANGE);
        assert_non_null(strstr(error.text, "worker.threads"));
        assert_null(other);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(relu),
        cmocka_unit_test(views),
        cmocka_unit_test(squares_are_added),
        cmocka_unit_test(a_square_sum_is_finite_if_all_are),
        cmocka_unit_test(nan_is_not_swallowed),
        cmocka_unit_test(operands_are_rounded_to_nearest),
        cmocka_unit_test(dropout_draws_are_the_jobs),
        cmocka_unit_test(dropout_keeps_its_rate),
        cmocka_unit_test(losses),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(memory_is_aligned_and_zeroed),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(has_a_pci_address),
        cmocka_unit_test(wrong_thread_counts_are_refused),
    };
    return run_on_backends("backends", cases, COUNT(cases));
}
