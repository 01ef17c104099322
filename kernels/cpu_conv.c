/*
 * Convolution as matrix products over tiles of the output: a tile's windows are
 * unfolded into a matrix that stays in L2, so the unfolded batch never exists.
 *
 *   unfolded[in kh kw][cols]      cols = places of the tile, rows of the output
 *   y[out][cols]   = k[out][in kh kw] unfolded
 *   dk            += dy[out][cols] unfolded^T
 *   dunfolded      = k^T dy, then folded back: added up where windows overlap
 *
 * A tile is some rows of one image, or several whole images where one has fewer
 * places than a product needs to be fast. With one image, products read and
 * write y and dy where they lie; with several they go through a gathered copy.
 */
#include "config.h"

#include "kernels/cpu.h"

#include <string.h>

#include "kernels/isa.h"

#define TILE_ELEMS    ((size_t)64 << 10) /* of an unfolded tile: 256 KiB */
#define TILE_COLS_MIN 64
#define LANES         16

struct plan {
    size_t oh, ow, depth; /* depth = in kh kw */
    size_t images, rows;  /* of a full tile */
};

struct tile {
    size_t image, images, row, rows, cols;
};

/* Output positions [from, to) whose window place k lies inside the input. */
struct span {
    size_t from, to;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct plan plan_of(const struct gw_conv_shape *s)
{
    struct plan plan = {
        .oh = (s->h + 2 * s->pad - s->kh) / s->stride + 1,
        .ow = (s->w + 2 * s->pad - s->kw) / s->stride + 1,
        .depth = s->in * s->kh * s->kw,
        .images = 1,
    };
    size_t places = plan.oh * plan.ow;
    plan.rows = plan.oh;
    if (places < TILE_COLS_MIN) {
        plan.images = smaller(s->n, (TILE_COLS_MIN + places - 1) / places);
        return plan;
    }
    size_t fit = TILE_ELEMS / (plan.depth * plan.ow);
    fit = fit ? smaller(fit, plan.oh) : 1;
    size_t tiles = (plan.oh + fit - 1) / fit;
    plan.rows = (plan.oh + tiles - 1) / tiles; /* all about equal */
    return plan;
}

static struct tile first_tile(const struct gw_conv_shape *s,
                              const struct plan *plan)
{
    struct tile tile = {.images = smaller(plan->images, s->n),
                        .rows = plan->rows};
    tile.cols = tile.images * tile.rows * plan->ow;
    return tile;
}

static void next_tile(const struct gw_conv_shape *s,
                      const struct plan *plan,
                      struct tile *tile)
{
    tile->row += tile->rows;
    if (tile->row == plan->oh) {
        tile->row = 0;
        tile->image += tile->images;
    }
    tile->images = smaller(plan->images, s->n - tile->image);
    tile->rows = smaller(plan->rows, plan->oh - tile->row);
    tile->cols = tile->images * tile->rows * plan->ow;
}

static size_t unfolded_elems(const struct plan *plan)
{
    size_t elems = plan->depth * plan->images * plan->rows * plan->ow;
    return (elems + LANES - 1) / LANES * LANES;
}

size_t gw_cpu_conv_scratch_bytes(const struct gw_conv_shape *shape)
{
    struct plan plan = plan_of(shape);
    size_t gathered = shape->out * plan.images * plan.rows * plan.ow;
    return (unfolded_elems(&plan) + gathered) * sizeof(float);
}

GW_INLINE struct span
span_of(size_t k, size_t size, size_t pad, size_t stride, size_t places)
{
    struct span span = {0, places};
    if (k < pad)
        span.from = (pad - k + stride - 1) / stride;
    if (size + pad <= k)
        span.to = 0;
    else
        span.to = smaller(places, (size - 1 + pad - k) / stride + 1);
    span.from = smaller(span.from, span.to);
    return span;
}

/* Rows are short and many: a call of memcpy for each would cost more. */
GW_INLINE void copy_row(float *to, const float *from, size_t n, size_t stride)
{
    size_t i = 0;
    if (stride == 1)
        for (; i + 8 <= n; i += 8)
            memcpy(to + i, from + i, 8 * sizeof *to);
    for (; i < n; i++)
        to[i] = from[i * stride];
}

GW_INLINE void add_row(float *to, const float *from, size_t n, size_t stride)
{
    size_t i = 0;
    if (stride == 1)
        for (; i + 8 <= n; i += 8)
            for (size_t l = 0; l < 8; l++)
                to[i + l] += from[i + l];
    for (; i < n; i++)
        to[i * stride] += from[i];
}

GW_INLINE void zero_row(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = 0;
}

/* One place of the window over the tile's rows of one plane of the input. */
GW_INLINE void unfold_plane(const struct gw_conv_shape *s,
                            const struct plan *plan,
                            const struct tile *tile,
                            size_t ky,
                            size_t kx,
                            size_t stride,
                            const float *plane,
                            float *to)
{
    struct span y = span_of(ky, s->h, s->pad, stride, plan->oh);
    struct span x = span_of(kx, s->w, s->pad, stride, plan->ow);
    for (size_t oy = tile->row; oy < tile->row + tile->rows; oy++) {
        if (oy < y.from || oy >= y.to) {
            zero_row(to, plan->ow);
        } else {
            const float *from = plane + (oy * stride + ky - s->pad) * s->w +
                                (x.from * stride + kx - s->pad);
            zero_row(to, x.from);
            copy_row(to + x.from, from, x.to - x.from, stride);
            zero_row(to + x.to, plan->ow - x.to);
        }
        to += plan->ow;
    }
}

GW_INLINE void unfold(const struct gw_conv_shape *s,
                      const struct plan *plan,
                      const struct tile *tile,
                      size_t stride,
                      const float *x,
                      float *to)
{
    size_t plane = s->h * s->w, each = tile->rows * plan->ow;
    x += tile->image * s->in * plane;
    for (size_t c = 0; c < s->in; c++, x += plane)
        for (size_t ky = 0; ky < s->kh; ky++)
            for (size_t kx = 0; kx < s->kw; kx++)
                for (size_t i = 0; i < tile->images; i++, to += each)
                    unfold_plane(s, plan, tile, ky, kx, stride,
                                 x + i * s->in * plane, to);
}

/* The inverse of unfold_plane, adding. */
GW_INLINE void fold_plane(const struct gw_conv_shape *s,
                          const struct plan *plan,
                          const struct tile *tile,
                          size_t ky,
                          size_t kx,
                          size_t stride,
                          const float *from,
                          float *plane)
{
    struct span y = span_of(ky, s->h, s->pad, stride, plan->oh);
    struct span x = span_of(kx, s->w, s->pad, stride, plan->ow);
    size_t begin = y.from > tile->row ? y.from : tile->row;
    size_t end = smaller(y.to, tile->row + tile->rows);
    for (size_t oy = begin; oy < end; oy++)
        add_row(plane + (oy * stride + ky - s->pad) * s->w +
                    (x.from * stride + kx - s->pad),
                from + (oy - tile->row) * plan->ow + x.from, x.to - x.from,
                stride);
}

/* Window places outermost: between two additions to one element of dx lie all
   planes, so that none waits for the store of the other. */
GW_INLINE void fold(const struct gw_conv_shape *s,
                    const struct plan *plan,
                    const struct tile *tile,
                    size_t stride,
                    const float *from,
                    float *dx)
{
    size_t plane = s->h * s->w, window = s->kh * s->kw;
    size_t each = tile->rows * plan->ow;
    dx += tile->image * s->in * plane;
    if (tile->row == 0)
        memset(dx, 0, tile->images * s->in * plane * sizeof *dx);
    for (size_t at = 0; at < window; at++)
        for (size_t c = 0; c < s->in; c++)
            for (size_t i = 0; i < tile->images; i++)
                fold_plane(s, plan, tile, at / s->kw, at % s->kw, stride,
                           from + (c * window + at) * tile->cols + i * each,
                           dx + (i * s->in + c) * plane);
}

/* y = from + b over `cols` places of each channel; from may be y. */
GW_INLINE void add_bias(size_t channels,
                        size_t cols,
                        int relu,
                        const float *from,
                        size_t from_ld,
                        const float *b,
                        float *y,
                        size_t y_ld)
{
    for (size_t c = 0; c < channels; c++) {
        GW_SAME_INDEX_ONLY
        for (size_t i = 0; i < cols; i++) {
            float sum = from[c * from_ld + i] + b[c];
            y[c * y_ld + i] = relu && sum < 0 ? 0 : sum;
        }
    }
}

GW_INLINE void channel_sums(
    size_t channels, size_t cols, const float *dy, size_t ld, float *db)
{
    for (size_t c = 0; c < channels; c++, dy += ld) {
        float lane[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= cols; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                lane[l] += dy[i + l];
        for (size_t l = 0; i + l < cols; l++)
            lane[l] += dy[i + l];
        for (size_t width = LANES / 2; width > 0; width /= 2)
            for (size_t l = 0; l < width; l++)
                lane[l] += lane[l + width];
        db[c] += lane[0];
    }
}

/* clang-format off */
#define VARIANT(isa, target)                                                   \
    target static void unfold_##isa(                                           \
        const struct gw_conv_shape *s, const struct plan *plan,                \
        const struct tile *tile, const float *x, float *to)                    \
    {                                                                          \
        if (s->stride == 1)                                                    \
            unfold(s, plan, tile, 1, x, to);                                   \
        else                                                                   \
            unfold(s, plan, tile, s->stride, x, to);                           \
    }                                                                          \
    target static void fold_##isa(                                             \
        const struct gw_conv_shape *s, const struct plan *plan,                \
        const struct tile *tile, const float *from, float *dx)                 \
    {                                                                          \
        if (s->stride == 1)                                                    \
            fold(s, plan, tile, 1, from, dx);                                  \
        else                                                                   \
            fold(s, plan, tile, s->stride, from, dx);                          \
    }                                                                          \
    target static void add_bias_##isa(                                         \
        size_t channels, size_t cols, int relu, const float *from,             \
        size_t from_ld, const float *b, float *y, size_t y_ld)                 \
    {                                                                          \
        if (relu)                                                              \
            add_bias(channels, cols, 1, from, from_ld, b, y, y_ld);            \
        else                                                                   \
            add_bias(channels, cols, 0, from, from_ld, b, y, y_ld);            \
    }                                                                          \
    target static void channel_sums_##isa(                                     \
        size_t channels, size_t cols, const float *dy, size_t ld, float *db)   \
    {                                                                          \
        channel_sums(channels, cols, dy, ld, db);                              \
    }

#define LOOPS(isa)                                                             \
    {                                                                          \
        .unfold = unfold_##isa,                                                \
        .fold = fold_##isa,                                                    \
        .add_bias = add_bias_##isa,                                            \
        .channel_sums = channel_sums_##isa,                                    \
    }
/* clang-format on */
GW_FOR_EACH_ISA(VARIANT)

struct loops {
    void (*unfold)(const struct gw_conv_shape *,
                   const struct plan *,
                   const struct tile *,
                   const float *,
                   float *);
    void (*fold)(const struct gw_conv_shape *,
                 const struct plan *,
                 const struct tile *,
                 const float *,
                 float *);
    void (*add_bias)(size_t,
                     size_t,
                     int,
                     const float *,
                     size_t,
                     const float *,
                     float *,
                     size_t);
    void (*channel_sums)(size_t, size_t, const float *, size_t, float *);
};

static const struct loops loops_table[] = {
    [GW_ISA_SSE2] = LOOPS(sse2),
    [GW_ISA_AVX2] = LOOPS(avx2),
    [GW_ISA_AVX512] = LOOPS(avx512),
};

void gw_cpu_conv_forward(struct gw_device *device,
                         const struct gw_conv_shape *shape,
                         const float *x,
                         const float *k,
                         const float *b,
                         float *y,
                         void *scratch)
{
    (void)device;
    const struct loops *loops = &loops_table[gw_isa_here()];
    struct plan plan = plan_of(shape);
    size_t places = plan.oh * plan.ow;
    float *unfolded = scratch, *gathered = unfolded + unfolded_elems(&plan);
    struct tile tile = first_tile(shape, &plan);
    for (; tile.image < shape->n; next_tile(shape, &plan, &tile)) {
        loops->unfold(shape, &plan, &tile, x, unfolded);
        float *out = y + tile.image * shape->out * places + tile.row * plan.ow;
        float *product = tile.images == 1 ? out : gathered;
        size_t ld = tile.images == 1 ? places : tile.cols;
        gw_cpu_gemm(shape->out, tile.cols, plan.depth,
                    (struct gw_matrix){k, plan.depth, 0},
                    (struct gw_matrix){unfolded, tile.cols, 0}, 0, product, ld);
        size_t each = tile.rows * plan.ow;
        for (size_t i = 0; i < tile.images; i++)
            loops->add_bias(shape->out, each, shape->relu, product + i * each,
                            ld, b, out + i * shape->out * places, places);
    }
}

/* dy of a tile of several images as one matrix [out][cols]. */
static void gather(const struct gw_conv_shape *s,
                   const struct tile *tile,
                   size_t places,
                   const float *dy,
                   float *to)
{
    for (size_t c = 0; c < s->out; c++)
        for (size_t i = 0; i < tile->images; i++, to += places)
            memcpy(to, dy + (i * s->out + c) * places, places * sizeof *to);
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
    (void)device;
    const struct loops *loops = &loops_table[gw_isa_here()];
    struct plan plan = plan_of(shape);
    size_t places = plan.oh * plan.ow;
    float *unfolded = scratch, *gathered = unfolded + unfolded_elems(&plan);
    struct tile tile = first_tile(shape, &plan);
    if (beta == 0)
        memset(db, 0, shape->out * sizeof *db);
    for (; tile.image < shape->n; next_tile(shape, &plan, &tile)) {
        const float *from =
            dy + tile.image * shape->out * places + tile.row * plan.ow;
        struct gw_matrix out = {from, places, 0};
        if (tile.images > 1) {
            gather(shape, &tile, places, from, gathered);
            out = (struct gw_matrix){gathered, tile.cols, 0};
        }
        loops->channel_sums(shape->out, tile.cols, out.at, out.ld, db);
        loops->unfold(shape, &plan, &tile, x, unfolded);
        gw_cpu_gemm(shape->out, plan.depth, tile.cols, out,
                    (struct gw_matrix){unfolded, tile.cols, 1}, beta, dk,
                    plan.depth);
        beta = 1;
        if (!dx)
            continue;
        gw_cpu_gemm(plan.depth, tile.cols, shape->out,
                    (struct gw_matrix){k, plan.depth, 1}, out, 0, unfolded,
                    tile.cols);
        loops->fold(shape, &plan, &tile, unfolded, dx);
    }
}
