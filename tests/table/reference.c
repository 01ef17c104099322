#include "config.h"

#include "tests/table/reference.h"

#include <math.h>
#include <string.h>

static void add(struct value *to, double term)
{
    to->sum += term;
    to->size += fabs(term);
}

static void finish(struct value *y, int relu)
{
    if (relu && y->sum < 0)
        y->sum = 0;
}

/* Masks dx by the ReLU that x came out of. */
static void mask(const float *x, size_t elems, struct value *dx)
{
    for (size_t i = 0; i < elems; i++)
        if (!(x[i] > 0))
            dx[i] = (struct value){0, 0};
}

void reference_dense(const struct gw_dense_shape *s,
                     const float *x,
                     const float *w,
                     const float *b,
                     struct value *y)
{
    for (size_t r = 0; r < s->n; r++)
        for (size_t o = 0; o < s->out; o++, y++) {
            *y = (struct value){0, 0};
            add(y, (double)b[o]);
            for (size_t i = 0; i < s->in; i++)
                add(y, (double)x[r * s->in + i] * (double)w[o * s->in + i]);
            finish(y, s->relu);
        }
}

void reference_dense_backward(const struct gw_dense_shape *s,
                              const float *x,
                              const float *w,
                              const float *dy,
                              struct value *dx,
                              struct value *dw,
                              struct value *db)
{
    memset(dx, 0, s->n * s->in * sizeof *dx);
    memset(dw, 0, s->out * s->in * sizeof *dw);
    memset(db, 0, s->out * sizeof *db);
    for (size_t r = 0; r < s->n; r++)
        for (size_t o = 0; o < s->out; o++) {
            double d = (double)dy[r * s->out + o];
            add(&db[o], d);
            for (size_t i = 0; i < s->in; i++) {
                add(&dw[o * s->in + i], d * (double)x[r * s->in + i]);
                add(&dx[r * s->in + i], d * (double)w[o * s->in + i]);
            }
        }
    if (s->masks)
        mask(x, s->n * s->in, dx);
}

size_t reference_conv_oh(const struct gw_conv_shape *s)
{
    return (s->h + 2 * s->pad - s->kh) / s->stride + 1;
}

size_t reference_conv_ow(const struct gw_conv_shape *s)
{
    return (s->w + 2 * s->pad - s->kw) / s->stride + 1;
}

/* Walks over every product of a convolution. */
typedef void visit_fn(void *context, size_t y, size_t x, size_t k, size_t out);

static void visit(const struct gw_conv_shape *s, visit_fn *fn, void *context)
{
    size_t oh = reference_conv_oh(s), ow = reference_conv_ow(s);
    size_t window = s->kh * s->kw;
    for (size_t y = 0; y < s->n * s->out * oh * ow; y++) {
        size_t ox = y % ow, oy = y / ow % oh, out = y / ow / oh % s->out;
        size_t image = y / ow / oh / s->out;
        for (size_t k = 0; k < s->in * window; k++) {
            size_t iy = oy * s->stride + k % window / s->kw;
            size_t ix = ox * s->stride + k % s->kw;
            if (iy < s->pad || iy - s->pad >= s->h)
                continue;
            if (ix < s->pad || ix - s->pad >= s->w)
                continue;
            size_t plane = image * s->in + k / window;
            size_t x = (plane * s->h + iy - s->pad) * s->w + ix - s->pad;
            fn(context, y, x, out * s->in * window + k, out);
        }
    }
}

struct arrays {
    const float *x, *k, *dy;
    struct value *y, *dx, *dk;
};

static void
visit_forward(void *context, size_t y, size_t x, size_t k, size_t out)
{
    (void)out;
    struct arrays *a = context;
    add(&a->y[y], (double)a->x[x] * (double)a->k[k]);
}

static void
visit_backward(void *context, size_t y, size_t x, size_t k, size_t out)
{
    (void)out;
    struct arrays *a = context;
    add(&a->dx[x], (double)a->dy[y] * (double)a->k[k]);
    add(&a->dk[k], (double)a->dy[y] * (double)a->x[x]);
}

void reference_conv(const struct gw_conv_shape *s,
                    const float *x,
                    const float *k,
                    const float *b,
                    struct value *y)
{
    struct arrays arrays = {.x = x, .k = k, .y = y};
    size_t places = reference_conv_oh(s) * reference_conv_ow(s);
    size_t elems = s->n * s->out * places;
    memset(y, 0, elems * sizeof *y);
    visit(s, visit_forward, &arrays);
    for (size_t i = 0; i < elems; i++) {
        add(&y[i], (double)b[i / places % s->out]);
        finish(&y[i], s->relu);
    }
}

void reference_conv_backward(const struct gw_conv_shape *s,
                             const float *x,
                             const float *k,
                             const float *dy,
                             struct value *dx,
                             struct value *dk,
                             struct value *db)
{
    struct arrays arrays = {.x = x, .k = k, .dy = dy, .dx = dx, .dk = dk};
    size_t places = reference_conv_oh(s) * reference_conv_ow(s);
    memset(dx, 0, s->n * s->in * s->h * s->w * sizeof *dx);
    memset(dk, 0, s->out * s->in * s->kh * s->kw * sizeof *dk);
    memset(db, 0, s->out * sizeof *db);
    visit(s, visit_backward, &arrays);
    for (size_t i = 0; i < s->n * s->out * places; i++)
        add(&db[i / places % s->out], (double)dy[i]);
    if (s->masks)
        mask(x, s->n * s->in * s->h * s->w, dx);
}

size_t reference_pool_elems(const struct gw_pool_shape *s)
{
    return s->n * s->c * ((s->h - s->size) / s->stride + 1) *
           ((s->w - s->size) / s->stride + 1);
}

size_t reference_pool_source(const struct gw_pool_shape *s,
                             const float *x,
                             size_t o,
                             size_t *window_p)
{
    size_t oh = (s->h - s->size) / s->stride + 1;
    size_t ow = (s->w - s->size) / s->stride + 1;
    size_t plane = o / ow / oh, oy = o / ow % oh, ox = o % ow, best = 0;
    for (size_t at = 0; at < s->size * s->size; at++) {
        size_t y = oy * s->stride + at / s->size;
        size_t source = (plane * s->h + y) * s->w + ox * s->stride;
        source += at % s->size;
        if (at == 0 || x[source] > x[best]) {
            best = source;
            *window_p = at;
        }
    }
    return best;
}
