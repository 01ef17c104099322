/*
 * Private to kernels/: the sums of dense layers and convolutions on the cpu,
 * once per instruction set. cpu_conv.c and cpu_dense_sums.c define "places" and
 * "terms".
 */
#ifndef GW_KERNELS_CPU_SUMS_H
#define GW_KERNELS_CPU_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/update/isa.h"

/* Places whose sums stay in registers: with two vectors of channels each, 12
   sums hide the latency of two multiply-adds per cycle. */
#define GW_GROUP 6

/* c[j][width] = sum over t of x[place[j] + term[t]] w[t][width], in the order
   of t. c has any alignment; ld: elements per row of c, width or more. */
struct gw_group {
    const float *x;
    const int32_t *place, *term;
    size_t terms;
    const float *w;
    float *c;
    size_t ld;
};

struct gw_sum_loops {
    size_t lanes; /* floats per vector; width is one or two vectors */

    /* [0] one vector of channels, [1] two; 1 to GW_GROUP places. With add, the
       old c is the first term. w begins at a multiple of a vector. */
    void (*product[2])(const struct gw_group *group, size_t places, int add);

    /* y[channel][place] = c[place][channel] + b[channel], and ReLU; b may be
       NULL. ld: elements from channel to channel of y. */
    void (*spread)(const float *c,
                   size_t width,
                   size_t places,
                   size_t channels,
                   const float *b,
                   int relu,
                   float *y,
                   size_t ld);

    /* The inverse: panel[place][channel] = dy[channel][place], zeros from
       `channels` to `width`; adds the sum over places to db[channel], unless db
       is NULL. */
    void (*gather)(const float *dy,
                   size_t ld,
                   size_t places,
                   size_t channels,
                   size_t width,
                   float *panel,
                   float *db);

    /* panel[term][column] = w[term][column], zeros from `columns` to `width`.
       ld: elements from term to term of w. */
    void (*pack)(const float *w,
                 size_t ld,
                 size_t terms,
                 size_t columns,
                 size_t width,
                 float *panel);
};

/* Width of the next block when `left` channels are left. */
GW_INLINE size_t gw_sums_width(const struct gw_sum_loops *loops, size_t left)
{
    return left > loops->lanes ? 2 * loops->lanes : loops->lanes;
}

/* Cuts places [0, places) into groups of about equal size. */
struct gw_cut {
    size_t places, groups;
};

GW_INLINE struct gw_cut gw_cut_of(size_t places)
{
    return (struct gw_cut){places, (places + GW_GROUP - 1) / GW_GROUP};
}

GW_INLINE size_t gw_cut_at(struct gw_cut cut, size_t group)
{
    return cut.places * group / cut.groups;
}

extern const struct gw_sum_loops gw_sum_loops[GW_ISAS];

#endif
