/*
 * The definitions of kernels/kernels.h in double, computed the slow way, one
 * sum after the other, against which every backend is checked.
 */
#ifndef GW_TESTS_TABLE_REFERENCE_H
#define GW_TESTS_TABLE_REFERENCE_H

#include "kernels/kernels.h"

/* A result with the sum of the absolute values of its terms, to which rounding
   errors are relative. */
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

/* The element of x that output o of a pool copies. */
size_t reference_pool_source(const struct gw_pool_shape *s,
                             const float *x,
                             size_t o,
                             size_t *window_p);
size_t reference_pool_elems(const struct gw_pool_shape *s);

#endif
