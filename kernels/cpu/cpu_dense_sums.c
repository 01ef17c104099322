/*
 * Forward and dw of a dense layer on one thread, for batches that are small
 * compared to the weights. A general GEMM would copy the weights and clear the
 * sums first; here the weights are read in place, once per 64 samples, and each
 * of their gradients is written once.
 *
 *              places     terms      w, by              c
 *   forward    outputs    inputs     x, by sample       y, transposed
 *   dw         outputs    samples    x, by input        dw
 *
 * A packed panel fits L2; the sums of forward do up to some 1000 outputs. A
 * sum's terms are added one by one in order, so neither blocking nor the size
 * of vectors changes bits.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu_sums.h"
#include "kernels/size.h"

#define WIDEST 32 /* columns of a panel at most, on any set */

/* Block sizes: */
#define SAMPLES   64   /* forward */
#define INPUTS    1024 /* forward */
#define DW_INPUTS 512
#define RUN       (8 * GW_GROUP) /* dw: outputs */
#define TERMS     1024           /* at most, of both products */

/* Offsets of rows and terms in a plain matrix. */
struct strides {
    int32_t place[GW_GROUP], term[TERMS];
};

static void
fill_strides(struct strides *strides, size_t place, size_t term, size_t terms)
{
    assert(place <= INT32_MAX / GW_GROUP && term <= INT32_MAX / TERMS &&
           terms <= TERMS);
    for (size_t j = 0; j < GW_GROUP; j++)
        strides->place[j] = (int32_t)(j * place);
    for (size_t t = 0; t < terms; t++)
        strides->term[t] = (int32_t)(t * term);
}

size_t gw_cpu_dense_sums_bytes(const struct gw_dense_shape *shape)
{
    size_t samples = gw_size_round_up(gw_size_min(shape->n, SAMPLES), WIDEST);
    size_t forward = samples * (gw_size_min(shape->in, INPUTS) + shape->out);
    size_t inputs = gw_size_round_up(gw_size_min(shape->in, DW_INPUTS), WIDEST);
    size_t dw = shape->n * (inputs + RUN);
    return (forward > dw ? forward : dw) * sizeof(float);
}

/* ---- forward ---- */

/* State for up to SAMPLES samples: sums[panel][out][sample of the panel]. */
struct forward {
    const struct gw_dense_shape *shape;
    const struct gw_sum_loops *loops;
    struct strides strides;
    size_t samples;
    float *panels, *sums;
};

static void pack_samples(const struct forward *f, const float *x, size_t inputs)
{
    size_t width;
    for (size_t s = 0; s < f->samples; s += width) {
        width = gw_sums_width(f->loops, f->samples - s);
        f->loops->gather(x + s * f->shape->in, f->shape->in, inputs,
                         gw_size_min(width, f->samples - s), width,
                         f->panels + s * inputs, NULL);
    }
}

static void begin_sums(const struct forward *f, const float *b)
{
    size_t width;
    for (size_t s = 0; s < f->samples; s += width) {
        width = gw_sums_width(f->loops, f->samples - s);
        float *sums = f->sums + s * f->shape->out;
        for (size_t o = 0; o < f->shape->out; o++)
            for (size_t l = 0; l < width; l++)
                *sums++ = b[o];
    }
}

/* The weights of a group stay in L1 for all samples. */
static void add_inputs(struct forward *f, const float *w, size_t inputs)
{
    struct gw_cut cut = gw_cut_of(f->shape->out);
    for (size_t g = 0; g < cut.groups; g++) {
        size_t o = gw_cut_at(cut, g), width;
        for (size_t s = 0; s < f->samples; s += width) {
            width = gw_sums_width(f->loops, f->samples - s);
            const struct gw_group group = {
                .x = w + o * f->shape->in,
                .place = f->strides.place,
                .term = f->strides.term,
                .terms = inputs,
                .w = f->panels + s * inputs,
                .c = f->sums + s * f->shape->out + o * width,
                .ld = width,
            };
            f->loops->product[width > f->loops->lanes](
                &group, gw_cut_at(cut, g + 1) - o, 1);
        }
    }
}

static void end_sums(const struct forward *f, float *y)
{
    size_t width, out = f->shape->out;
    for (size_t s = 0; s < f->samples; s += width) {
        width = gw_sums_width(f->loops, f->samples - s);
        f->loops->spread(f->sums + s * out, width, out,
                         gw_size_min(width, f->samples - s), NULL,
                         f->shape->relu, y + s * out, out);
    }
}

void gw_cpu_dense_sums_forward(const struct gw_dense_shape *shape,
                               const float *x,
                               const float *w,
                               const float *b,
                               float *y,
                               void *scratch)
{
    struct forward f = {
        .shape = shape,
        .loops = &gw_sum_loops[gw_isa_here()],
        .panels = scratch,
    };
    size_t samples = gw_size_round_up(gw_size_min(shape->n, SAMPLES), WIDEST);
    f.sums = f.panels + samples * gw_size_min(shape->in, INPUTS);
    fill_strides(&f.strides, shape->in, 1, gw_size_min(shape->in, INPUTS));
    for (size_t s = 0; s < shape->n; s += SAMPLES) {
        f.samples = gw_size_min(SAMPLES, shape->n - s);
        begin_sums(&f, b);
        for (size_t i = 0; i < shape->in; i += INPUTS) {
            size_t inputs = gw_size_min(INPUTS, shape->in - i);
            pack_samples(&f, x + s * shape->in + i, inputs);
            add_inputs(&f, w + i, inputs);
        }
        end_sums(&f, y + s * shape->out);
    }
}

/* ---- dw ---- */

/* Product of a panel that is wider than the rest of c: c[places][columns]. */
static void product_of_few(const struct gw_sum_loops *loops,
                           struct gw_group group,
                           size_t places,
                           size_t width,
                           size_t columns,
                           int add)
{
    float sums[GW_GROUP * WIDEST] = {0}, *c = group.c;
    size_t ld = group.ld;
    for (size_t j = 0; add && j < places; j++)
        memcpy(sums + j * width, c + j * ld, columns * sizeof *c);
    group.c = sums;
    group.ld = width;
    loops->product[width > loops->lanes](&group, places, add);
    for (size_t j = 0; j < places; j++)
        memcpy(c + j * ld, sums + j * width, columns * sizeof *c);
}

static void product(const struct gw_sum_loops *loops,
                    const struct gw_group *group,
                    size_t places,
                    size_t width,
                    size_t columns,
                    int add)
{
    if (columns < width)
        product_of_few(loops, *group, places, width, columns, add);
    else
        loops->product[width > loops->lanes](group, places, add);
}

/* State for all samples and up to DW_INPUTS inputs. */
struct dw {
    const struct gw_dense_shape *shape;
    const struct gw_sum_loops *loops;
    struct strides strides;
    size_t inputs;
    float *run, *panels;
    int add;
};

static void pack_inputs(const struct dw *d, const float *x)
{
    size_t width, n = d->shape->n;
    for (size_t i = 0; i < d->inputs; i += width) {
        width = gw_sums_width(d->loops, d->inputs - i);
        d->loops->pack(x + i, d->shape->in, n,
                       gw_size_min(width, d->inputs - i), width,
                       d->panels + i * n);
    }
}

static void add_group(const struct dw *d, size_t o, size_t outputs, float *dw)
{
    size_t width;
    for (size_t i = 0; i < d->inputs; i += width) {
        width = gw_sums_width(d->loops, d->inputs - i);
        const struct gw_group group = {
            .x = d->run + o,
            .place = d->strides.place,
            .term = d->strides.term,
            .terms = d->shape->n,
            .w = d->panels + i * d->shape->n,
            .c = dw + o * d->shape->in + i,
            .ld = d->shape->in,
        };
        product(d->loops, &group, outputs, width,
                gw_size_min(width, d->inputs - i), d->add);
    }
}

/* Adds up to RUN outputs; their dy is copied into L1. */
static void
add_run(const struct dw *d, size_t outputs, const float *dy, float *dw)
{
    for (size_t s = 0; s < d->shape->n; s++)
        memcpy(d->run + s * RUN, dy + s * d->shape->out, outputs * sizeof *dy);
    struct gw_cut cut = gw_cut_of(outputs);
    for (size_t g = 0; g < cut.groups; g++) {
        size_t o = gw_cut_at(cut, g);
        add_group(d, o, gw_cut_at(cut, g + 1) - o, dw);
    }
}

void gw_cpu_dense_sums_dw(const struct gw_dense_shape *shape,
                          const float *x,
                          const float *dy,
                          float beta,
                          float *dw,
                          void *scratch)
{
    struct dw d = {
        .shape = shape,
        .loops = &gw_sum_loops[gw_isa_here()],
        .run = scratch,
        .panels = (float *)scratch + shape->n * RUN,
        .add = beta != 0,
    };
    fill_strides(&d.strides, 1, RUN, shape->n);
    for (size_t i = 0; i < shape->in; i += DW_INPUTS) {
        d.inputs = gw_size_min(DW_INPUTS, shape->in - i);
        pack_inputs(&d, x + i);
        for (size_t o = 0; o < shape->out; o += RUN)
            add_run(&d, gw_size_min(RUN, shape->out - o), dy + o,
                    dw + o * shape->in + i);
    }
}
