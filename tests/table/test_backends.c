/*
 * kernels/kernels.h: every operation of every backend in gw_backends, against
 * the definitions in double and against differences.
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

#include "kernels/kernels.h"
#include "proto/random.h"
#include "tests/table/reference.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Rounding of fp32 sums, relative to the sum of the terms' sizes. */
#define TOLERANCE 2e-6

static const struct gw_backend_ops *ops;
static struct gw_device *device;

static int open_backend(void **state)
{
    ops = *state;
    device = NULL;
    char why[256];
    if (ops->probe(why, sizeof why) != GW_OK) {
        print_message("%s is not available: %s\n", ops->name, why);
        return 0;
    }
    struct gw_error error;
    struct gw_device_options options = {.threads = 1};
    return ops->open(&options, &device, &error) != GW_OK;
}

static int close_backend(void **state)
{
    (void)state;
    if (device)
        ops->close(device);
    return 0;
}

static void need_backend(void)
{
    if (!device)
        skip();
}

static float normal(uint32_t array, size_t i)
{
    uint32_t u[4];
    float z[2];
    gw_random4(5, GW_RANDOM_TEST, array, i, u);
    gw_random_normal2(u[0], u[1], z);
    return z[0];
}

/* Host memory, filled with normal numbers that depend on `array`. */
static float *random_host(uint32_t array, size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    for (size_t i = 0; i < elems; i++)
        host[i] = normal(array, i);
    return host;
}

static float *to_device(const float *host, size_t elems)
{
    float *memory = ops->alloc(device, elems * sizeof *host);
    assert_non_null(memory);
    ops->upload(device, memory, host, elems * sizeof *host);
    return memory;
}

static float *random_device(uint32_t array, size_t elems)
{
    float *host = random_host(array, elems);
    float *memory = to_device(host, elems);
    free(host);
    return memory;
}

/* Device memory full of NaN: whatever is not written or is read is seen. */
static float *poisoned(size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    for (size_t i = 0; i < elems; i++)
        host[i] = NAN;
    float *memory = to_device(host, elems);
    free(host);
    return memory;
}

static float *to_host(const float *memory, size_t elems)
{
    float *host = malloc(elems * sizeof *host + 1);
    ops->sync(device);
    ops->download(device, host, memory, elems * sizeof *host);
    return host;
}

/* memory[i] = expected[i] + beta base[i]; frees nothing. */
static void assert_near(const float *memory,
                        const struct value *expected,
                        float beta,
                        const float *base,
                        size_t elems)
{
    float *host = to_host(memory, elems);
    for (size_t i = 0; i < elems; i++) {
        double want = expected[i].sum, size = expected[i].size + FLT_MIN;
        if (beta > 0) {
            want += (double)base[i];
            size += fabs((double)base[i]);
        }
        if (!(fabs((double)host[i] - want) <= TOLERANCE * size))
            fail_msg("element %zu of %zu: %.9g, not %.9g", i, elems,
                     (double)host[i], want);
    }
    free(host);
}

static const struct gw_dense_shape dense_shapes[] = {
    {1, 1, 1, 0},    {1, 7, 3, 1},     {5, 3, 1, 0},
    {2, 64, 16, 1},  {33, 70, 41, 0},  {64, 128, 10, 0},
    {17, 300, 5, 1}, {64, 784, 32, 1}, {3, 1, 129, 1},
};

static void check_dense_forward(const struct gw_dense_shape *s)
{
    size_t nx = s->n * s->in, nw = s->out * s->in, ny = s->n * s->out;
    float *x = random_host(1, nx), *w = random_host(2, nw);
    float *b = random_host(3, s->out);
    struct value *y = malloc(ny * sizeof *y);
    reference_dense(s, x, w, b, y);
    float *dx = to_device(x, nx), *dw = to_device(w, nw);
    float *db = to_device(b, s->out), *dy = poisoned(ny);
    ops->dense_forward(device, s, dx, dw, db, dy);
    assert_near(dy, y, 0, NULL, ny);
    ops->free(device, dx), ops->free(device, dw);
    ops->free(device, db), ops->free(device, dy);
    free(x), free(w), free(b), free(y);
}

static void dense_forward(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(dense_shapes); i++)
        check_dense_forward(&dense_shapes[i]);
}

static void
check_dense_backward(const struct gw_dense_shape *s, float beta, int with_dx)
{
    size_t nx = s->n * s->in, nw = s->out * s->in, ny = s->n * s->out;
    float *x = random_host(1, nx), *w = random_host(2, nw);
    float *dy = random_host(4, ny);
    float *base_w = random_host(5, nw), *base_b = random_host(6, s->out);
    struct value *rx = malloc(nx * sizeof *rx), *rw = malloc(nw * sizeof *rw);
    struct value *rb = malloc(s->out * sizeof *rb);
    reference_dense_backward(s, x, w, dy, rx, rw, rb);
    float *mx = to_device(x, nx), *mw = to_device(w, nw);
    float *mdy = to_device(dy, ny), *mdx = with_dx ? poisoned(nx) : NULL;
    float *mdw = beta > 0 ? to_device(base_w, nw) : poisoned(nw);
    float *mdb = beta > 0 ? to_device(base_b, s->out) : poisoned(s->out);
    ops->dense_backward(device, s, mx, mw, mdy, beta, mdx, mdw, mdb);
    if (with_dx)
        assert_near(mdx, rx, 0, NULL, nx);
    assert_near(mdw, rw, beta, base_w, nw);
    assert_near(mdb, rb, beta, base_b, s->out);
    ops->free(device, mx), ops->free(device, mw), ops->free(device, mdy);
    ops->free(device, mdx), ops->free(device, mdw), ops->free(device, mdb);
    free(x), free(w), free(dy), free(base_w), free(base_b);
    free(rx), free(rw), free(rb);
}

static void dense_backward(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(dense_shapes); i++) {
        check_dense_backward(&dense_shapes[i], 0, 1);
        check_dense_backward(&dense_shapes[i], 1, 1);
        check_dense_backward(&dense_shapes[i], 0, 0);
    }
}

static const struct gw_conv_shape conv_shapes[] = {
    /* n, in, h, w, out, kh, kw, stride, pad, relu */
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0},
    {2, 1, 28, 28, 4, 5, 5, 1, 0, 1},
    {3, 2, 7, 5, 3, 3, 2, 1, 0, 0},
    {2, 3, 9, 9, 4, 3, 3, 2, 0, 0},
    {2, 3, 10, 9, 4, 3, 3, 2, 0, 1}, /* a row of the input is not reached */
    {2, 3, 8, 8, 4, 3, 3, 1, 1, 0},
    {5, 2, 6, 6, 3, 3, 3, 2, 1, 0},
    {7, 3, 4, 4, 5, 4, 4, 1, 0, 1}, /* one place per image */
    {2, 2, 5, 5, 3, 5, 5, 1, 2, 0},
    {1, 2, 3, 3, 2, 3, 3, 1, 3, 0}, /* windows that see only padding */
    {2, 1, 1, 1, 2, 5, 5, 1, 2, 0}, /* a window wider than the input */
    {3, 4, 40, 40, 6, 5, 5, 1, 2, 1},
    {2, 40, 33, 37, 3, 5, 5, 1, 0, 0}, /* several tiles per image */
    {1, 70, 64, 64, 2, 5, 5, 2, 2, 0}, /* and with stride and padding */
    {2, 24, 3, 900, 3, 3, 3, 1, 1, 0}, /* a row per tile */
    {70, 2, 3, 3, 4, 2, 2, 1, 0, 0},   /* several images per tile */
    {19, 3, 6, 6, 5, 3, 3, 1, 0, 1},   /* and an incomplete last one */
    {4, 8, 12, 12, 16, 1, 1, 1, 0, 0},
};

static void check_conv_forward(const struct gw_conv_shape *s)
{
    size_t places = reference_conv_oh(s) * reference_conv_ow(s);
    size_t nx = s->n * s->in * s->h * s->w, ny = s->n * s->out * places;
    size_t nk = s->out * s->in * s->kh * s->kw;
    float *x = random_host(1, nx), *k = random_host(2, nk);
    float *b = random_host(3, s->out);
    struct value *y = malloc(ny * sizeof *y);
    reference_conv(s, x, k, b, y);
    float *mx = to_device(x, nx), *mk = to_device(k, nk);
    float *mb = to_device(b, s->out), *my = poisoned(ny);
    float *scratch = poisoned(ops->conv_scratch_bytes(s) / sizeof *scratch);
    ops->conv_forward(device, s, mx, mk, mb, my, scratch);
    assert_near(my, y, 0, NULL, ny);
    ops->free(device, mx), ops->free(device, mk), ops->free(device, mb);
    ops->free(device, my), ops->free(device, scratch);
    free(x), free(k), free(b), free(y);
}

static void conv_forward(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(conv_shapes); i++)
        check_conv_forward(&conv_shapes[i]);
}

static void
check_conv_backward(const struct gw_conv_shape *s, float beta, int with_dx)
{
    size_t places = reference_conv_oh(s) * reference_conv_ow(s);
    size_t nx = s->n * s->in * s->h * s->w, ny = s->n * s->out * places;
    size_t nk = s->out * s->in * s->kh * s->kw;
    float *x = random_host(1, nx), *k = random_host(2, nk);
    float *dy = random_host(4, ny);
    float *base_k = random_host(5, nk), *base_b = random_host(6, s->out);
    struct value *rx = malloc(nx * sizeof *rx), *rk = malloc(nk * sizeof *rk);
    struct value *rb = malloc(s->out * sizeof *rb);
    reference_conv_backward(s, x, k, dy, rx, rk, rb);
    float *mx = to_device(x, nx), *mk = to_device(k, nk);
    float *mdy = to_device(dy, ny), *mdx = with_dx ? poisoned(nx) : NULL;
    float *mdk = beta > 0 ? to_device(base_k, nk) : poisoned(nk);
    float *mdb = beta > 0 ? to_device(base_b, s->out) : poisoned(s->out);
    float *scratch = poisoned(ops->conv_scratch_bytes(s) / sizeof *scratch);
    ops->conv_backward(device, s, mx, mk, mdy, beta, mdx, mdk, mdb, scratch);
    if (with_dx)
        assert_near(mdx, rx, 0, NULL, nx);
    assert_near(mdk, rk, beta, base_k, nk);
    assert_near(mdb, rb, beta, base_b, s->out);
    ops->free(device, mx), ops->free(device, mk), ops->free(device, mdy);
    ops->free(device, mdx), ops->free(device, mdk), ops->free(device, mdb);
    ops->free(device, scratch);
    free(x), free(k), free(dy), free(base_k), free(base_b);
    free(rx), free(rk), free(rb);
}

static void conv_backward(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(conv_shapes); i++) {
        check_conv_backward(&conv_shapes[i], 0, 1);
        check_conv_backward(&conv_shapes[i], 1, 1);
        check_conv_backward(&conv_shapes[i], 0, 0);
    }
}

/* Scratch for the largest n also serves a smaller one. */
static void conv_scratch_serves_smaller_batches(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(conv_shapes); i++) {
        struct gw_conv_shape s = conv_shapes[i];
        size_t bytes = ops->conv_scratch_bytes(&s);
        for (s.n = 1; s.n <= conv_shapes[i].n; s.n++)
            assert_true(ops->conv_scratch_bytes(&s) <= bytes);
    }
}

/*
 * Backward against differences: with L = sum of r y, dL/dx_i is
 * (L(x + h) - L(x - h)) / 2h, exact for a function linear in x.
 */
static double weighted(const struct value *y, const float *r, size_t elems)
{
    double sum = 0;
    for (size_t i = 0; i < elems; i++)
        sum += (double)r[i] * y[i].sum;
    return sum;
}

static void gradients_are_differences(void **state)
{
    (void)state;
    need_backend();
    const struct gw_conv_shape s = {2, 2, 6, 5, 3, 3, 2, 2, 1, 0};
    size_t places = reference_conv_oh(&s) * reference_conv_ow(&s);
    size_t nx = s.n * s.in * s.h * s.w, ny = s.n * s.out * places;
    size_t nk = s.out * s.in * s.kh * s.kw;
    float *x = random_host(1, nx), *k = random_host(2, nk);
    float *b = random_host(3, s.out), *r = random_host(4, ny);
    struct value *y = malloc(ny * sizeof *y);
    float *mx = to_device(x, nx), *mk = to_device(k, nk);
    float *mr = to_device(r, ny), *mdx = poisoned(nx), *mdk = poisoned(nk);
    float *mdb = poisoned(s.out);
    float *scratch = poisoned(ops->conv_scratch_bytes(&s) / sizeof *scratch);
    ops->conv_backward(device, &s, mx, mk, mr, 0, mdx, mdk, mdb, scratch);

    float *at[] = {x, k, b}, *gradient[] = {mdx, mdk, mdb};
    const size_t elems[] = {nx, nk, s.out};
    for (int which = 0; which < 3; which++) {
        float *ours = to_host(gradient[which], elems[which]);
        for (size_t i = 0; i < elems[which]; i++) {
            float old = at[which][i];
            at[which][i] = old + 0.5f;
            reference_conv(&s, x, k, b, y);
            double above = weighted(y, r, ny), high = (double)at[which][i];
            at[which][i] = old - 0.5f;
            reference_conv(&s, x, k, b, y);
            double below = weighted(y, r, ny), low = (double)at[which][i];
            at[which][i] = old;
            double slope = (above - below) / (high - low);
            assert_true(fabs(slope - (double)ours[i]) < 1e-4);
        }
        free(ours);
    }
    ops->free(device, mx), ops->free(device, mk), ops->free(device, mr);
    ops->free(device, mdx), ops->free(device, mdk), ops->free(device, mdb);
    ops->free(device, scratch);
    free(x), free(k), free(b), free(r), free(y);
}

static const struct gw_pool_shape pool_shapes[] = {
    {1, 1, 2, 2, 2, 2},     {3, 2, 7, 9, 2, 2},   {3, 2, 24, 24, 2, 2},
    {2, 3, 8, 8, 3, 3},     {2, 2, 9, 7, 3, 2},   {1, 2, 5, 5, 5, 5},
    {2, 1, 15, 15, 15, 15}, {1, 1, 4, 201, 2, 2}, {1, 2, 6, 300, 3, 1},
    {4, 3, 5, 5, 1, 1},     {2, 2, 6, 6, 2, 3},   {2, 2, 3, 3, 2, 1},
};

static void check_pool(const struct gw_pool_shape *s, int ties)
{
    size_t nx = s->n * s->c * s->h * s->w, ny = reference_pool_elems(s);
    float *x = random_host(1, nx), *dy = random_host(2, ny);
    for (size_t i = 0; ties && i < nx; i++)
        x[i] = (float)(int)x[i]; /* few values: many equals */
    struct value *y = calloc(ny, sizeof *y), *dx = calloc(nx, sizeof *dx);
    uint8_t *window = malloc(ny), *argmax = malloc(ny);
    for (size_t o = 0; o < ny; o++) {
        size_t at, from = reference_pool_source(s, x, o, &at);
        window[o] = (uint8_t)at;
        y[o].sum = y[o].size = (double)x[from];
        y[o].size = fabs(y[o].size);
        dx[from].sum += (double)dy[o];
        dx[from].size += fabs((double)dy[o]);
    }
    float *mx = to_device(x, nx), *mdy = to_device(dy, ny);
    float *my = poisoned(ny), *mdx = poisoned(nx);
    uint8_t *margmax = ops->alloc(device, ny);
    ops->pool_forward(device, s, mx, my, margmax);
    assert_near(my, y, 0, NULL, ny);
    ops->sync(device);
    ops->download(device, argmax, margmax, ny);
    assert_memory_equal(argmax, window, ny);
    ops->pool_backward(device, s, mdy, margmax, mdx);
    assert_near(mdx, dx, 0, NULL, nx);
    ops->free(device, mx), ops->free(device, mdy), ops->free(device, my);
    ops->free(device, mdx), ops->free(device, margmax);
    free(x), free(dy), free(y), free(dx), free(window), free(argmax);
}

static void pools(void **state)
{
    (void)state;
    need_backend();
    for (size_t i = 0; i < COUNT(pool_shapes); i++) {
        check_pool(&pool_shapes[i], 0);
        check_pool(&pool_shapes[i], 1);
    }
}

static void relu(void **state)
{
    (void)state;
    need_backend();
    const size_t sizes[] = {1, 7, 64, 1000};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        size_t n = sizes[i];
        float *x = random_host(1, n), *dy = random_host(2, n);
        float *mx = to_device(x, n), *mdy = to_device(dy, n), *my = poisoned(n);
        ops->relu_forward(device, n, mx, my);
        ops->relu_forward(device, n, mx, mx);
        ops->relu_backward(device, n, my, mdy, mdy);
        float *y = to_host(my, n), *same = to_host(mx, n);
        float *dx = to_host(mdy, n);
        for (size_t e = 0; e < n; e++) {
            assert_true(y[e] == (x[e] > 0 ? x[e] : 0) && same[e] == y[e]);
            assert_true(dx[e] == (x[e] > 0 ? dy[e] : 0));
        }
        ops->free(device, mx), ops->free(device, mdy), ops->free(device, my);
        free(x), free(dy), free(y), free(same), free(dx);
    }
}

/* A NaN in the activations must reach the loss: the finite guard relies on
   it. */
static void nan_is_not_swallowed(void **state)
{
    (void)state;
    need_backend();
    for (size_t at = 0; at < 4; at++) {
        float x[4] = {1, -2, 3, 4};
        x[at] = NAN;
        float *mx = to_device(x, 4), *my = poisoned(4);
        uint8_t *argmax = ops->alloc(device, 4);
        ops->relu_forward(device, 4, mx, my);
        float *y = to_host(my, 4);
        assert_true(isnan(y[at]));
        free(y);
        const struct gw_pool_shape s = {1, 1, 2, 2, 2, 2};
        ops->pool_forward(device, &s, mx, my, argmax);
        y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        const struct gw_dense_shape d = {1, 4, 1, 1};
        float *one = random_device(1, 4), *zero = random_device(2, 1);
        ops->dense_forward(device, &d, mx, one, zero, my);
        y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        const struct gw_conv_shape c = {1, 1, 2, 2, 1, 2, 2, 1, 0, 1};
        float *scratch = ops->alloc(device, ops->conv_scratch_bytes(&c));
        ops->conv_forward(device, &c, mx, one, zero, my, scratch);
        y = to_host(my, 1);
        assert_true(isnan(y[0]));
        free(y);

        int32_t label = 0;
        int32_t *mlabel = ops->alloc(device, sizeof label);
        double loss;
        uint64_t correct;
        ops->upload(device, mlabel, &label, sizeof label);
        ops->softmax_loss(device, 1, 4, mx, mlabel, 1, mx, &loss, &correct);
        assert_true(isnan(loss));
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

static void dropout_draws_are_the_jobs(void **state)
{
    (void)state;
    need_backend();
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

    /* however the batch is split, and in place */
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
    need_backend();
    struct gw_dropout_site site = {.seed = 1, .p = 0};
    assert_int_equal(zeros_of(&site, 5000), 0);
    const float rates[] = {0.1f, 0.5f, 0.9f};
    for (size_t i = 0; i < COUNT(rates); i++) {
        site.p = rates[i];
        double zeros = (double)zeros_of(&site, 100000) / 100000;
        assert_true(fabs(zeros - (double)rates[i]) < 0.005);
    }
    /* other steps, layers and seeds draw other masks */
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
    float spread; /* of the logits */
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
    double loss;
    uint64_t correct;
    float *targets[] = {NULL, mdx, mx}; /* the last is in place */
    for (size_t i = 0; i < COUNT(targets); i++) {
        ops->softmax_loss(device, c->n, c->classes, mx, mlabels, scale,
                          targets[i], &loss, &correct);
        assert_true(fabs(loss - expected) <= 1e-6 * fabs(expected) + 1e-9);
        assert_int_equal(correct, hits);
        if (targets[i])
            assert_near(targets[i], gradient, 0, NULL, elems);
    }
    ops->free(device, mx), ops->free(device, mdx), ops->free(device, mlabels);
    free(logits), free(labels), free(gradient);
}

static void losses(void **state)
{
    (void)state;
    need_backend();
    const struct loss_case cases[] = {
        {1, 2, 1},    {64, 10, 3},    {5, 1000, 1},
        {7, 3, 1e4f}, {3, 10, 1e30f}, {1, 1, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_loss(&cases[i]);
}

/* Equal maxima count for the first of them, and only there. */
static void ties_go_to_the_first(void **state)
{
    (void)state;
    need_backend();
    const float logits[4] = {0, 2, 2, 1};
    float *mx = to_device(logits, 4);
    int32_t *mlabel = ops->alloc(device, sizeof *mlabel);
    for (int32_t label = 0; label < 4; label++) {
        double loss;
        uint64_t correct;
        ops->upload(device, mlabel, &label, sizeof label);
        ops->softmax_loss(device, 1, 4, mx, mlabel, 1, NULL, &loss, &correct);
        assert_int_equal(correct, label == 1);
    }
    ops->free(device, mx), ops->free(device, mlabel);
}

static void bits_repeat(void **state)
{
    (void)state;
    need_backend();
    const struct gw_conv_shape s = {8, 4, 12, 12, 8, 5, 5, 1, 0, 0};
    size_t nx = s.n * s.in * s.h * s.w, ny = s.n * s.out * 64, nk = 800;
    float *mx = random_device(1, nx), *mdy = random_device(2, ny);
    float *mk = random_device(3, nk), *mdx = poisoned(nx), *mdk = poisoned(nk);
    float *mdb = poisoned(s.out), *first = NULL;
    void *scratch = ops->alloc(device, ops->conv_scratch_bytes(&s));
    for (int round = 0; round < 20; round++) {
        ops->conv_backward(device, &s, mx, mk, mdy, 0, mdx, mdk, mdb, scratch);
        float *dk = to_host(mdk, nk);
        if (first)
            assert_memory_equal(dk, first, nk * sizeof *dk);
        if (first)
            free(dk);
        else
            first = dk;
    }
    free(first);
    ops->free(device, mx), ops->free(device, mdy), ops->free(device, mk);
    ops->free(device, mdx), ops->free(device, mdk), ops->free(device, mdb);
    ops->free(device, scratch);
}

static void memory_is_aligned_and_zeroed(void **state)
{
    (void)state;
    need_backend();
    const size_t sizes[] = {1, 63, 4096, (size_t)3 << 20};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint8_t *memory = ops->alloc(device, sizes[i]);
        uint8_t *host = malloc(sizes[i]), *back = malloc(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        ops->download(device, host, memory, sizes[i]);
        for (size_t b = 0; b < sizes[i]; b++)
            assert_int_equal(host[b], 0);
        memset(host, 0x5a, sizes[i]);
        ops->upload(device, memory, host, sizes[i]);
        ops->sync(device);
        ops->download(device, back, memory, sizes[i]);
        assert_memory_equal(host, back, sizes[i]);
        ops->free(device, memory);
        free(host), free(back);
    }
    ops->free(device, NULL);
}

static void describes_itself(void **state)
{
    (void)state;
    need_backend();
    char text[512];
    ops->describe(device, text, sizeof text);
    print_message("# %s: %s\n", ops->name, text);
    assert_true(strlen(text) > 5);
    ops->describe(device, text, 8);
    assert_true(strlen(text) < 8);
}

static void wrong_thread_counts_are_refused(void **state)
{
    (void)state;
    need_backend();
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

static void backends_are_found_by_name(void **state)
{
    (void)state;
    struct gw_error error;
    assert_ptr_equal(gw_backend_find("cpu", &error), gw_backends[0]);
    assert_non_null(gw_backend_find("auto", &error));
    assert_null(gw_backend_find("toaster", &error));
    assert_int_equal(error.status, GW_ENOENT);
    assert_non_null(strstr(error.text, "\"toaster\""));
    assert_non_null(strstr(error.text, "auto, cpu"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(dense_forward),
        cmocka_unit_test(dense_backward),
        cmocka_unit_test(conv_forward),
        cmocka_unit_test(conv_backward),
        cmocka_unit_test(conv_scratch_serves_smaller_batches),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(pools),
        cmocka_unit_test(relu),
        cmocka_unit_test(nan_is_not_swallowed),
        cmocka_unit_test(dropout_draws_are_the_jobs),
        cmocka_unit_test(dropout_keeps_its_rate),
        cmocka_unit_test(losses),
        cmocka_unit_test(ties_go_to_the_first),
        cmocka_unit_test(bits_repeat),
        cmocka_unit_test(memory_is_aligned_and_zeroed),
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(wrong_thread_counts_are_refused),
    };
    size_t backends = 0, n = 0;
    while (gw_backends[backends])
        backends++;
    struct CMUnitTest tests[1 + 8 * COUNT(cases)];
    static char names[8 * COUNT(cases)][64];
    if (backends > 8)
        return 1;
    tests[n++] =
        (struct CMUnitTest)cmocka_unit_test(backends_are_found_by_name);
    for (size_t b = 0; b < backends; b++)
        for (size_t c = 0; c < COUNT(cases); c++, n++) {
            snprintf(names[n - 1], sizeof names[0], "%s %s",
                     gw_backends[b]->name, cases[c].name);
            tests[n] = cases[c];
            tests[n].name = names[n - 1];
            tests[n].setup_func = open_backend;
            tests[n].teardown_func = close_backend;
            tests[n].initial_state = (void *)(uintptr_t)gw_backends[b];
        }
    return _cmocka_run_group_tests("backends", tests, n, NULL, NULL);
}
