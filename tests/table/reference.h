/*
 * What every backend must compute, written the slow way in double: the
 * definitions of kernels/kernels.h, one sum after the other.
 */
#ifndef GW_TESTS_TABLE_REFERENCE_H
#define GW_TESTS_TABLE_REFERENCE_H

#include "kernels/kernels.h"

/* Each result comes with the sum of the absolute values of its terms, against
   which a rounding error is small. */
struct value {
    double sum, size;
};

void reference_dense(const struct gw_dense_shape *s,
                     const float *x,
                     const float *w,
                     const float *b,
                     struct value *y);
void reference_dense_backward(const struct gw_dense_shape *s,
                              const float *x,
                              const float *w,
                              const float *dy,
                              struct value *dx,
                              struct value *dw,
                              struct value *db);

size_t reference_conv_oh(const struct gw_conv_shape *s);
size_t reference_conv_ow(const struct gw_conv_shape *s);
void reference_conv(const struct gw_conv_shape *s,
                    const float *x,
                    const float *k,
                    const float *b,
                    struct value *y);
void reference_conv_backward(const struct gw_conv_shape *s,
                             const float *x,
                             const float *k,
                             const float *dy,
                             struct value *dx,
                             struct value *dk,
                             struct value *db);

/* The element of x that output o of a pool shows. */
size_t reference_pool_source(const struct gw_pool_shape *s,
                             const float *x,
                             size_t o,
                             size_t *window_p);
size_t reference_pool_elems(const struct gw_pool_shape *s);

#endif
