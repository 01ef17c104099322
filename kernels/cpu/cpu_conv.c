/*
 * Direct convolution, without im2col: all three products are sums over terms,
 * computed for groups of places at once and read from the image itself.
 *
 *   c[place][channel] = sum over terms of x[place + term] w[term][channel]
 *
 *              places            terms                w, by channel
 *   forward    outputs           (ky, in, kx)         k, by out
 *   dx         inputs            (ky, out, kx)        k backwards, by in
 *   dk         (in, ky, kx)      outputs              dy, by out
 *
 * A place and a term are offsets into one image, kept in tables; if windows
 * reach over the edge, that image is a zero-padded copy. Terms are in order of
 * ky, so that a place near the edge takes the run of terms that meet the image.
 * Channels come in blocks of one or two vectors, and w is packed so that a
 * block's terms follow each other. The working set of one image fits L2.
 *
 * With a stride, dx splits into stride x stride phases: inputs whose windows'
 * places k are equal modulo the stride share their terms.
 */
#include "config.h"

#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>

#include "kernels/cpu/cpu_sums.h"
#include "kernels/size.h"

#define ALIGN 64
#define RUN   (16 * GW_GROUP) /* places per run, so that c stays in L1 */
#define CHUNK 256             /* terms of dk per panel, for the same reason */

/* Places, and the terms of each place. */
struct view {
    size_t places, terms;
    int32_t *place, *term;
    int32_t *from, *to; /* [places]: the run of terms of each place */
};

/* One zero-padded image. */
struct frame {
    size_t planes, h, w; /* the image */
    size_t top, left, full_h, full_w;
};

struct scratch {
    struct view view;
    float *image, *packed, *sums, *panel, *c, *db;
    size_t bytes;
};

static size_t out_h(const struct gw_conv_shape *s)
{
    return (s->h + 2 * s->pad - s->kh) / s->stride + 1;
}

static size_t out_w(const struct gw_conv_shape *s)
{
    return (s->w + 2 * s->pad - s->kw) / s->stride + 1;
}

static size_t frame_elems(const struct frame *f)
{
    return f->planes * f->full_h * f->full_w;
}

/* The input, read by forward and dk, padded by pad. */
static struct frame input_frame(const struct gw_conv_shape *s)
{
    return (struct frame){
        .planes = s->in,
        .h = s->h,
        .w = s->w,
        .top = s->pad,
        .left = s->pad,
        .full_h = s->h + 2 * s->pad,
        .full_w = s->w + 2 * s->pad,
    };
}

/* The output gradient, read by dx, padded by as many rows and columns as
   windows reach over. */
static struct frame output_frame(const struct gw_conv_shape *s)
{
    struct frame f = {
        .planes = s->out,
        .h = out_h(s),
        .w = out_w(s),
        .top = (s->kh - 1) / s->stride,
        .left = (s->kw - 1) / s->stride,
    };
    f.full_h = f.top + gw_size_max(f.h, (s->h - 1 + s->pad) / s->stride + 1);
    f.full_w = f.left + gw_size_max(f.w, (s->w - 1 + s->pad) / s->stride + 1);
    return f;
}

static void *carve(void *base, size_t *used, size_t bytes)
{
    void *piece = base ? (char *)base + *used : NULL;
    *used += gw_size_round_up(bytes, ALIGN);
    return piece;
}

/* Scratch for all three products and every instruction set: a block of channels
   is at most 32 wide. */
static struct scratch lay_out(const struct gw_conv_shape *s, void *base)
{
    struct scratch scratch = {.bytes = 0};
    struct frame x = input_frame(s), y = output_frame(s);
    size_t window = s->kh * s->kw, *used = &scratch.bytes;
    size_t outs = gw_size_round_up(s->out, 32);
    size_t ins = gw_size_round_up(s->in, 32);
    size_t places =
        gw_size_max(gw_size_max(x.h * x.w, y.h * y.w), s->in * window);
    size_t terms = gw_size_max(gw_size_max(s->in, s->out) * window, y.h * y.w);
    size_t weights = window * gw_size_max(outs * s->in, ins * s->out);
    struct view *view = &scratch.view;
    assert(frame_elems(&x) <= INT32_MAX && frame_elems(&y) <= INT32_MAX &&
           places <= INT32_MAX && terms <= INT32_MAX);
    view->place = carve(base, used, places * sizeof(int32_t));
    view->from = carve(base, used, places * sizeof(int32_t));
    view->to = carve(base, used, places * sizeof(int32_t));
    view->term = carve(base, used, terms * sizeof(int32_t));
    size_t image = gw_size_max(frame_elems(&x), frame_elems(&y));
    scratch.image = carve(base, used, image * sizeof(float));
    scratch.packed = carve(base, used, weights * sizeof(float));
    scratch.sums = carve(base, used, outs * s->in * window * sizeof(float));
    scratch.panel = carve(base, used, CHUNK * 32 * sizeof(float));
    scratch.c = carve(base, used, RUN * 32 * sizeof(float));
    scratch.db = carve(base, used, outs * sizeof(float));
    return scratch;
}

size_t gw_cpu_conv_scratch_bytes(const struct gw_conv_shape *shape,
                                 enum gw_precision precision)
{
    (void)precision;
    return lay_out(shape, NULL).bytes;
}

/* ---- frames ---- */

/* Images overwrite only the inside: the padding stays zero. */
static void clear_frame(const struct frame *f, float *image)
{
    memset(image, 0, frame_elems(f) * sizeof *image);
}

/* x itself if the frame has no padding, else its copy in `image`. */
static const float *
fill_frame(const struct frame *f, const float *x, float *image)
{
    if (f->full_h == f->h && f->full_w == f->w)
        return x;
    float *to = image + f->top * f->full_w + f->left;
    for (size_t plane = 0; plane < f->planes; plane++) {
        for (size_t y = 0; y < f->h; y++, x += f->w)
            memcpy(to + y * f->full_w, x, f->w * sizeof *x);
        to += f->full_h * f->full_w;
    }
    return image;
}

/* ---- views ---- */

/* Outputs over (ky, in, kx). */
static void view_outputs(const struct gw_conv_shape *s, struct view *view)
{
    struct frame f = input_frame(s);
    size_t oh = out_h(s), ow = out_w(s), each = s->in * s->kw, n = 0;
    view->places = oh * ow;
    for (size_t oy = 0; oy < oh; oy++)
        for (size_t ox = 0; ox < ow; ox++, n++) {
            size_t y = oy * s->stride; /* first padded row of its window */
            size_t from = s->pad > y ? s->pad - y : 0;
            size_t to = s->h + s->pad > y ? s->h + s->pad - y : 0;
            view->place[n] = (int32_t)(y * f.full_w + ox * s->stride);
            view->from[n] = (int32_t)(gw_size_min(from, s->kh) * each);
            view->to[n] = (int32_t)(gw_size_min(to, s->kh) * each);
        }
    view->terms = 0;
    for (size_t ky = 0; ky < s->kh; ky++)
        for (size_t c = 0; c < s->in; c++)
            for (size_t kx = 0; kx < s->kw; kx++)
                view->term[view->terms++] =
                    (int32_t)((c * f.full_h + ky) * f.full_w + kx);
}

/* (in, ky, kx) over outputs. */
static void view_kernel(const struct gw_conv_shape *s, struct view *view)
{
    struct frame f = input_frame(s);
    size_t oh = out_h(s), ow = out_w(s);
    view->places = view->terms = 0;
    for (size_t c = 0; c < s->in; c++)
        for (size_t ky = 0; ky < s->kh; ky++)
            for (size_t kx = 0; kx < s->kw; kx++)
                view->place[view->places++] =
                    (int32_t)((c * f.full_h + ky) * f.full_w + kx);
    for (size_t oy = 0; oy < oh; oy++)
        for (size_t ox = 0; ox < ow; ox++)
            view->term[view->terms++] =
                (int32_t)((oy * f.full_w + ox) * s->stride);
}

/* One phase of dx along one axis: inputs first, first + stride, .. and the
   window's places that meet them: k, k + stride, .. below size. */
struct phase {
    size_t first, count, k, taps, at; /* at: of the first, in dy */
};

static struct phase
phase_of(size_t k, size_t inputs, size_t size, size_t pad, size_t stride)
{
    size_t least = pad > k ? (pad - k + stride - 1) / stride : 0;
    struct phase phase = {.k = k, .first = least * stride + k - pad};
    if (phase.first < inputs)
        phase.count = (inputs - 1 - phase.first) / stride + 1;
    if (k < size)
        phase.taps = (size - 1 - k) / stride + 1;
    phase.at = least;
    return phase;
}

/* Inputs of a phase over (ky, out, kx): y[at - tap] meets k[k + tap stride]. */
static void view_inputs(const struct gw_conv_shape *s,
                        struct phase py,
                        struct phase px,
                        struct view *view)
{
    struct frame f = output_frame(s);
    size_t each = s->out * px.taps;
    view->places = view->terms = 0;
    for (size_t i = 0; i < py.count; i++)
        for (size_t l = 0; l < px.count; l++) {
            size_t n = view->places++, y = py.at + i;
            size_t from = y >= f.h ? y - f.h + 1 : 0;
            view->place[n] =
                (int32_t)((y + f.top) * f.full_w + px.at + l + f.left);
            view->from[n] = (int32_t)(gw_size_min(from, py.taps) * each);
            view->to[n] = (int32_t)(gw_size_min(y + 1, py.taps) * each);
        }
    for (size_t ty = 0; ty < py.taps; ty++)
        for (size_t o = 0; o < s->out; o++)
            for (size_t tx = 0; tx < px.taps; tx++)
                view->term[view->terms++] = (int32_t)(o * f.full_h * f.full_w) -
                                            (int32_t)(ty * f.full_w + tx);
}

/* ---- weights by term ---- */

/* [block of outs][ky][in][kx][width] */
static void pack_forward(const struct gw_conv_shape *s,
                         size_t width,
                         const float *k,
                         float *to)
{
    size_t window = s->kh * s->kw;
    for (size_t block = 0; block < s->out; block += width)
        for (size_t ky = 0; ky < s->kh; ky++)
            for (size_t c = 0; c < s->in; c++)
                for (size_t kx = 0; kx < s->kw; kx++)
                    for (size_t l = 0; l < width; l++, to++) {
                        size_t o = block + l;
                        size_t at = (o * s->in + c) * window + ky * s->kw + kx;
                        *to = o < s->out ? k[at] : 0;
                    }
}

/* [block of ins][ky of the phase][out][kx of the phase][width] */
static void pack_backward(const struct gw_conv_shape *s,
                          struct phase py,
                          struct phase px,
                          size_t width,
                          const float *k,
                          float *to)
{
    size_t window = s->kh * s->kw;
    for (size_t block = 0; block < s->in; block += width)
        for (size_t ty = 0; ty < py.taps; ty++)
            for (size_t o = 0; o < s->out; o++)
                for (size_t tx = 0; tx < px.taps; tx++)
                    for (size_t l = 0; l < width; l++, to++) {
                        size_t c = block + l;
                        size_t ky = py.k + ty * s->stride;
                        size_t kx = px.k + tx * s->stride;
                        size_t at = (o * s->in + c) * window + ky * s->kw + kx;
                        *to = c < s->in ? k[at] : 0;
                    }
}

/* dk[out][in ky kx] = sums[block of outs][in ky kx][width] + beta dk */
static void unpack_kernel(const struct gw_conv_shape *s,
                          size_t width,
                          const float *sums,
                          float beta,
                          float *dk)
{
    size_t depth = s->in * s->kh * s->kw;
    for (size_t o = 0; o < s->out; o++, dk += depth) {
        const float *from = sums + o / width * width * depth + o % width;
        if (beta == 0)
            for (size_t i = 0; i < depth; i++)
                dk[i] = from[i * width];
        else
            for (size_t i = 0; i < depth; i++)
                dk[i] += from[i * width];
    }
}

/* ---- the three products ---- */

/* c of up to RUN places, groups [first, end), of one block of channels. */
static void sum_run(const struct gw_sum_loops *loops,
                    const struct view *view,
                    struct gw_cut cut,
                    size_t first,
                    size_t end,
                    const float *x,
                    const float *w,
                    size_t width,
                    float *c)
{
    for (size_t g = first; g < end; g++) {
        size_t at = gw_cut_at(cut, g), n = gw_cut_at(cut, g + 1) - at;
        int32_t from = view->from[at], to = view->to[at];
        for (size_t i = at; i < at + n; i++) {
            from = view->from[i] < from ? view->from[i] : from;
            to = view->to[i] > to ? view->to[i] : to;
        }
        const struct gw_group group = {
            .x = x,
            .place = view->place + at,
            .term = view->term + from,
            .terms = to > from ? (size_t)(to - from) : 0,
            .w = w + (size_t)from * width,
            .c = c,
            .ld = width,
        };
        loops->product[width > loops->lanes](&group, n, 0);
        c += n * width;
    }
}

/* Destination of all channels of an image's places: y[channel][place], as
   spread writes it. */
struct target {
    size_t channels, ld;
    const float *b;
    int relu;
    float *y;
    const struct phase *py, *px; /* dx with a stride: places in y */
    size_t stride, w;
};

static void store_run(const struct gw_sum_loops *loops,
                      const struct target *target,
                      size_t block,
                      size_t width,
                      size_t first,
                      size_t n,
                      const float *c)
{
    size_t channels = gw_size_min(width, target->channels - block);
    float *y = target->y + block * target->ld;
    const float *b = target->b ? target->b + block : NULL;
    if (target->stride == 1) {
        loops->spread(c, width, n, channels, b, target->relu, y + first,
                      target->ld);
        return;
    }
    for (size_t p = first; p < first + n; p++, c += width) {
        size_t row = p / target->px->count, column = p % target->px->count;
        size_t at = (target->py->first + row * target->stride) * target->w +
                    target->px->first + column * target->stride;
        for (size_t l = 0; l < channels; l++)
            y[l * target->ld + at] = c[l];
    }
}

static void sum_image(const struct gw_sum_loops *loops,
                      const struct view *view,
                      const float *x,
                      const float *packed,
                      const struct target *target,
                      float *c)
{
    size_t width = gw_sums_width(loops, target->channels);
    struct gw_cut cut = gw_cut_of(view->places);
    for (size_t block = 0; block < target->channels; block += width) {
        const float *w = packed + block * view->terms;
        for (size_t g = 0; g < cut.groups; g += RUN / GW_GROUP) {
            size_t end = gw_size_min(g + RUN / GW_GROUP, cut.groups);
            size_t first = gw_cut_at(cut, g);
            sum_run(loops, view, cut, g, end, x, w, width, c);
            store_run(loops, target, block, width, first,
                      gw_cut_at(cut, end) - first, c);
        }
    }
}

void gw_cpu_conv_forward(struct gw_device *device,
                         const struct gw_conv_shape *shape,
                         const float *x,
                         const float *k,
                         const float *b,
                         float *y,
                         void *scratch)
{
    (void)device;
    const struct gw_sum_loops *loops = &gw_sum_loops[gw_isa_here()];
    struct scratch s = lay_out(shape, scratch);
    struct frame frame = input_frame(shape);
    view_outputs(shape, &s.view);
    pack_forward(shape, gw_sums_width(loops, shape->out), k, s.packed);
    clear_frame(&frame, s.image);
    struct target target = {.channels = shape->out,
                            .ld = s.view.places,
                            .b = b,
                            .relu = shape->relu,
                            .stride = 1};
    for (size_t i = 0; i < shape->n; i++) {
        const float *image = fill_frame(
            &frame, x + i * shape->in * shape->h * shape->w, s.image);
        target.y = y + i * shape->out * s.view.places;
        sum_image(loops, &s.view, image, s.packed, &target, s.c);
    }
}

static void backward_input(const struct gw_sum_loops *loops,
                           const struct gw_conv_shape *shape,
                           struct scratch *s,
                           const float *k,
                           const float *dy,
                           float *dx)
{
    struct frame frame = output_frame(shape);
    size_t stride = shape->stride, image = shape->h * shape->w;
    size_t width = gw_sums_width(loops, shape->in);
    clear_frame(&frame, s->image);
    for (size_t phase = 0; phase < stride * stride; phase++) {
        struct phase py =
            phase_of(phase / stride, shape->h, shape->kh, shape->pad, stride);
        struct phase px =
            phase_of(phase % stride, shape->w, shape->kw, shape->pad, stride);
        view_inputs(shape, py, px, &s->view);
        pack_backward(shape, py, px, width, k, s->packed);
        struct target target = {.channels = shape->in,
                                .ld = image,
                                .py = &py,
                                .px = &px,
                                .stride = stride,
                                .w = shape->w};
        for (size_t i = 0; i < shape->n; i++) {
            const float *from = fill_frame(
                &frame, dy + i * shape->out * frame.h * frame.w, s->image);
            target.y = dx + i * shape->in * image;
            sum_image(loops, &s->view, from, s->packed, &target, s->c);
        }
    }
}

/* Adds one image's contribution to the sums of dk, and to db. */
static void backward_image(const struct gw_sum_loops *loops,
                           const struct gw_conv_shape *shape,
                           const struct scratch *s,
                           const float *image,
                           const float *dy)
{
    const struct view *view = &s->view;
    size_t width = gw_sums_width(loops, shape->out);
    struct gw_cut cut = gw_cut_of(view->places);
    for (size_t block = 0; block < shape->out; block += width)
        for (size_t t = 0; t < view->terms; t += CHUNK) {
            size_t n = gw_size_min(CHUNK, view->terms - t);
            loops->gather(dy + block * view->terms + t, view->terms, n,
                          gw_size_min(width, shape->out - block), width,
                          s->panel, s->db + block);
            for (size_t g = 0; g < cut.groups; g++) {
                size_t at = gw_cut_at(cut, g);
                const struct gw_group group = {
                    .x = image,
                    .place = view->place + at,
                    .term = view->term + t,
                    .terms = n,
                    .w = s->panel,
                    .c = s->sums + block * view->places + at * width,
                    .ld = width,
                };
                loops->product[width > loops->lanes](
                    &group, gw_cut_at(cut, g + 1) - at, 1);
            }
        }
}

static void backward_kernel(const struct gw_sum_loops *loops,
                            const struct gw_conv_shape *shape,
                            struct scratch *s,
                            const float *x,
                            const float *dy,
                            float beta,
                            float *dk,
                            float *db)
{
    struct frame frame = input_frame(shape);
    size_t width = gw_sums_width(loops, shape->out);
    size_t outs = gw_size_round_up(shape->out, width);
    view_kernel(shape, &s->view);
    clear_frame(&frame, s->image);
    memset(s->sums, 0, outs * s->view.places * sizeof *s->sums);
    memset(s->db, 0, outs * sizeof *s->db);
    for (size_t i = 0; i < shape->n; i++) {
        const float *image = fill_frame(
            &frame, x + i * shape->in * shape->h * shape->w, s->image);
        backward_image(loops, shape, s, image,
                       dy + i * shape->out * s->view.terms);
    }
    unpack_kernel(shape, width, s->sums, beta, dk);
    for (size_t o = 0; o < shape->out; o++)
        db[o] = s->db[o] + (beta == 0 ? 0 : db[o]);
}

void gw_cpu_conv_backward(struct gw_device *device,
                          const struct gw_conv_shape *shape,
                          const float *x,
                          const float *k,
                          const float *dy,
                          float beta,
                          float *dx,
                          float *dk,
                          float *db,
                          void *scratch)
{
    const struct gw_sum_loops *loops = &gw_sum_loops[gw_isa_here()];
    struct scratch s = lay_out(shape, scratch);
    backward_kernel(loops, shape, &s, x, dy, beta, dk, db);
    if (dx)
        backward_input(loops, shape, &s, k, dy, dx);
    if (dx && shape->masks)
        gw_cpu_relu_backward(device, shape->n * shape->in * shape->h * shape->w,
                             x, dx, dx);
}
