/*
 * kernels/kernels.h: dense layers, convolutions and pools of every backend,
 * against their definitions in double and against finite differences.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/table/backend.h"

static const struct gw_dense_shape dense_shapes[] = {
    {1, 1, 1, 0, 1},    {1, 7, 3, 1, 0},     {5, 3, 1, 0, 1},
    {2, 64, 16, 1, 0},  {33, 70, 41, 0, 1},  {64, 128, 10, 0, 0},
    {17, 300, 5, 1, 1}, {64, 784, 32, 1, 0}, {3, 1, 129, 1, 1},
};

static void *dense_scratch(const struct gw_dense_shape *s)
{
    return poisoned(ops->dense_scratch_bytes(s, precision) / sizeof(float));
}

static void check_dense_forward(const struct gw_dense_shape *s)
{
    size_t nx = s->n * s->in, nw = s->out * s->in, ny = s->n * s->out;
    float *x = random_host(1, nx), *w = random_host(2, nw);
    float *b = random_host(3, s->out);
    struct value *y = malloc(ny * sizeof *y);
    reference_dense(s, x, w, b, y);
    float *dx = to_device(x, nx), *dw = to_device(w, nw);
    float *db = to_device(b, s->out), *dy = poisoned(ny);
    void *scratch = dense_scratch(s);
    ops->dense_forward(device, s, dx, dw, db, dy, NULL, scratch);
    assert_near(dy, y, 0, NULL, ny);
    ops->free(device, dx), ops->free(device, dw), ops->free(device, scratch);
    ops->free(device, db), ops->free(device, dy);
    free(x), free(w), free(b), free(y);
}

static void dense_forward(void **state)
{
    (void)state;
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
    void *scratch = dense_scratch(s);
    ops->dense_backward(device, s, mx, NULL, mw, mdy, beta, mdx, mdw, mdb,
                        scratch);
    if (with_dx)
        assert_near(mdx, rx, 0, NULL, nx);
    assert_near(mdw, rw, beta, base_w, nw);
    assert_near(mdb, rb, beta, base_b, s->out);
    ops->free(device, mx), ops->free(device, mw), ops->free(device, mdy);
    ops->free(device, mdx), ops->free(device, mdw), ops->free(device, mdb);
    ops->free(device, scratch);
    free(x), free(w), free(dy), free(base_w), free(base_b);
    free(rx), free(rw), free(rb);
}

static void dense_backward(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(dense_shapes); i++) {
        check_dense_backward(&dense_shapes[i], 0, 1);
        check_dense_backward(&dense_shapes[i], 1, 1);
        check_dense_backward(&dense_shapes[i], 0, 0);
    }
}

static const struct gw_conv_shape conv_shapes[] = {
    /* n, in, h, w, out, kh, kw, stride, pad, relu, masks */
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0},
    {2, 1, 28, 28, 4, 5, 5, 1, 0, 1, 1},
    {3, 2, 7, 5, 3, 3, 2, 1, 0, 0, 0},
    {2, 3, 9, 9, 4, 3, 3, 2, 0, 0, 1},
    {2, 3, 10, 9, 4, 3, 3, 2, 0, 1, 0}, /* the last row of the input is unused
                                         */
    {2, 3, 8, 8, 4, 3, 3, 1, 1, 0, 1},
    {5, 2, 6, 6, 3, 3, 3, 2, 1, 0, 0},
    {7, 3, 4, 4, 5, 4, 4, 1, 0, 1, 1}, /* one place per image */
    {2, 2, 5, 5, 3, 5, 5, 1, 2, 0, 0},
    {1, 2, 3, 3, 2, 3, 3, 1, 3, 0, 1}, /* windows inside the padding */
    {2, 1, 1, 1, 2, 5, 5, 1, 2, 0, 0}, /* a window wider than the input */
    {3, 4, 40, 40, 6, 5, 5, 1, 2, 1, 1},
    {2, 40, 33, 37, 3, 5, 5, 1, 0, 0, 0}, /* several tiles per image */
    {1, 70, 64, 64, 2, 5, 5, 2, 2, 0, 1}, /* the same with stride and padding */
    {2, 24, 3, 900, 3, 3, 3, 1, 1, 0, 0}, /* a row per tile */
    {70, 2, 3, 3, 4, 2, 2, 1, 0, 0, 1},   /* several images per tile */
    {19, 3, 6, 6, 5, 3, 3, 1, 0, 1, 0},   /* and an incomplete last tile */
    {4, 8, 12, 12, 16, 1, 1, 1, 0, 0, 1},
    {3, 32, 74, 74, 1, 5, 5, 1, 0, 1, 0}, /* more than one group on a GPU */
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
    float *scratch =
        poisoned(ops->conv_scratch_bytes(s, precision) / sizeof *scratch);
    ops->conv_forward(device, s, mx, mk, mb, my, scratch);
    assert_near(my, y, 0, NULL, ny);
    ops->free(device, mx), ops->free(device, mk), ops->free(device, mb);
    ops->free(device, my), ops->free(device, scratch);
    free(x), free(k), free(b), free(y);
}

static void conv_forward(void **state)
{
    (void)state;
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
    float *scratch =
        poisoned(ops->conv_scratch_bytes(s, precision) / sizeof *scratch);
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
    for (size_t i = 0; i < COUNT(conv_shapes); i++) {
        check_conv_backward(&conv_shapes[i], 0, 1);
        check_conv_backward(&conv_shapes[i], 1, 1);
        check_conv_backward(&conv_shapes[i], 0, 0);
    }
}

/* Scratch for the largest n is enough for a smaller one. */
static void conv_scratch_serves_smaller_batches(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(conv_shapes); i++) {
        struct gw_conv_shape s = conv_shapes[i];
        size_t bytes = ops->conv_scratch_bytes(&s, precision);
        for (s.n = 1; s.n <= conv_shapes[i].n; s.n++)
            assert_true(ops->conv_scratch_bytes(&s, precision) <= bytes);
    }
}

/*
 * Backward against finite differences: with L = sum of r y, dL/dx_i is (L(x +
 * h) - L(x - h)) / 2h, exact for a function linear in x.
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
    const struct gw_conv_shape s = {2, 2, 6, 5, 3, 3, 2, 2, 1, 0, 0};
    size_t places = reference_conv_oh(&s) * reference_conv_ow(&s);
    size_t nx = s.n * s.in * s.h * s.w, ny = s.n * s.out * places;
    size_t nk = s.out * s.in * s.kh * s.kw;
    float *x = random_host(1, nx), *k = random_host(2, nk);
    float *b = random_host(3, s.out), *r = random_host(4, ny);
    struct value *y = malloc(ny * sizeof *y);
    float *mx = to_device(x, nx), *mk = to_device(k, nk);
    float *mr = to_device(r, ny), *mdx = poisoned(nx), *mdk = poisoned(nk);
    float *mdb = poisoned(s.out);
    float *scratch =
        poisoned(ops->conv_scratch_bytes(&s, precision) / sizeof *scratch);
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
        x[i] = (float)(int)x[i]; /* few distinct values: many ties */
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
    ops->download(device, argmax, margmax, ny);
    finish();
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
    for (size_t i = 0; i < COUNT(pool_shapes); i++) {
        check_pool(&pool_shapes[i], 0);
        check_pool(&pool_shapes[i], 1);
    }
}

static void bits_repeat(void **state)
{
    (void)state;
    const struct gw_conv_shape s = {8, 4, 12, 12, 8, 5, 5, 1, 0, 0, 0};
    size_t nx = s.n * s.in * s.h * s.w, ny = s.n * s.out * 64, nk = 800;
    float *mx = random_device(1, nx), *mdy = random_device(2, ny);
    float *mk = random_device(3, nk), *mdx = poisoned(nx), *mdk = poisoned(nk);
    float *mdb = poisoned(s.out), *first = NULL;
    void *scratch = ops->alloc(device, ops->conv_scratch_bytes(&s, precision));
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

/* ---- the same again ---- */

#define RESULTS 4

/* Results of a layer: y, dx, dw, db. */
struct results {
    float *at[RESULTS];
    size_t elems[RESULTS];
};

static void spoil(const struct results *results)
{
    for (size_t i = 0; i < RESULTS; i++) {
        float *none = malloc(results->elems[i] * sizeof *none);
        for (size_t e = 0; e < results->elems[i]; e++)
            none[e] = NAN;
        ops->upload(device, results->at[i], none,
                    results->elems[i] * sizeof *none);
        finish();
        free(none);
    }
}

/* Stores the first results, and compares later ones. */
static void
assert_repeated(const struct results *results, float *first[RESULTS], int times)
{
    for (size_t i = 0; i < RESULTS; i++) {
        float *host = to_host(results->at[i], results->elems[i]);
        if (times == 0) {
            first[i] = host;
            continue;
        }
        assert_memory_equal(host, first[i], results->elems[i] * sizeof *host);
        free(host);
    }
}

static struct results results_of(size_t ny, size_t nx, size_t nw, size_t nb)
{
    return (struct results){
        {poisoned(ny), poisoned(nx), poisoned(nw), poisoned(nb)},
        {ny, nx, nw, nb}};
}

static void drop_results(struct results *results, float *first[RESULTS])
{
    for (size_t i = 0; i < RESULTS; i++) {
        ops->free(device, results->at[i]);
        free(first[i]);
    }
}

static void check_dense_again(const struct gw_dense_shape *s)
{
    size_t nx = s->n * s->in, nw = s->out * s->in, ny = s->n * s->out;
    struct results to = results_of(ny, nx, nw, s->out);
    float *x = random_device(1, nx), *w = random_device(2, nw);
    float *b = random_device(3, s->out), *dy = random_device(4, ny);
    float *first[RESULTS];
    void *scratch = dense_scratch(s);
    for (int times = 0; times < 3; times++) {
        spoil(&to);
        ops->dense_forward(device, s, x, w, b, to.at[0], NULL, scratch);
        ops->dense_backward(device, s, x, NULL, w, dy, 0, to.at[1], to.at[2],
                            to.at[3], scratch);
        assert_repeated(&to, first, times);
    }
    drop_results(&to, first);
    ops->free(device, x), ops->free(device, w), ops->free(device, b);
    ops->free(device, dy), ops->free(device, scratch);
}

static void check_conv_again(const struct gw_conv_shape *s)
{
    size_t nx = s->n * s->in * s->h * s->w;
    size_t nw = s->out * s->in * s->kh * s->kw;
    size_t ny = s->n * s->out * reference_conv_oh(s) * reference_conv_ow(s);
    struct results to = results_of(ny, nx, nw, s->out);
    float *x = random_device(1, nx), *k = random_device(2, nw);
    float *b = random_device(3, s->out), *dy = random_device(4, ny);
    float *first[RESULTS];
    void *scratch = ops->alloc(device, ops->conv_scratch_bytes(s, precision));
    for (int times = 0; times < 3; times++) {
        spoil(&to);
        ops->conv_forward(device, s, x, k, b, to.at[0], scratch);
        ops->conv_backward(device, s, x, k, dy, 0, to.at[1], to.at[2], to.at[3],
                           scratch);
        assert_repeated(&to, first, times);
    }
    drop_results(&to, first);
    ops->free(device, x), ops->free(device, k), ops->free(device, b);
    ops->free(device, dy), ops->free(device, scratch);
}

/* A device may take another path for a call that it has seen before. */
static void the_same_again_has_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(dense_shapes); i++)
        check_dense_again(&dense_shapes[i]);
    for (size_t i = 0; i < COUNT(conv_shapes); i += 3)
        check_conv_again(&conv_shapes[i]);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(dense_forward),
        cmocka_unit_test(dense_backward),
        cmocka_unit_test(conv_forward),
        cmocka_unit_test(conv_backward),
        cmocka_unit_test(the_same_again_has_the_same_bits),
        cmocka_unit_test(conv_scratch_serves_smaller_batches),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(pools),
        cmocka_unit_test(bits_repeat),
    };
    return run_on_backends("backend layers", cases, COUNT(cases));
}
