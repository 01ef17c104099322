/*
 * Private to kernels/cpu_conv*: the loops of a convolution, once per
 * instruction set. "Places" and "terms" are said in cpu_conv.c.
 */
#ifndef GW_KERNELS_CPU_CONV_ISA_H
#define GW_KERNELS_CPU_CONV_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/isa.h"

/* Places whose sums stay in registers at once: with two vectors of channels
   each, 12 sums hide the latency of two multiply-adds per cycle. */
#define GW_GROUP 6

/* c[j][width] = sum over t of x[place[j] + term[t]] w[t][width] */
struct gw_group {
    const float *x;
    const int32_t *place, *term;
    size_t terms;
    const float *w;
    float *c;
};

struct gw_conv_loops {
    size_t lanes; /* of a vector; width is this, or twice this */

    /* [0] one vector of channels, [1] two; 1 to GW_GROUP places. With add, the
       old c is a further term. w and c begin at a multiple of a vector. */
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

    /* The other way: panel[place][channel] = dy[channel][place], zeros from
       `channels` to `width`; the sum over places is added to db[channel]. */
    void (*gather)(const float *dy,
                   size_t ld,
                   size_t places,
                   size_t channels,
                   size_t width,
                   float *panel,
                   float *db);
};

extern const struct gw_conv_loops gw_conv_loops[GW_ISAS];

#endif
