/*
 * Weights in bf16, for their way to the workers: the upper half of an fp32
 * number, which keeps its range and 8 bits of its fraction. Pure functions on
 * host memory, any thread, any number of elements, any alignment (64 bytes is
 * fastest); the arrays of one call do not overlap. The same bits on every
 * x86-64 and aarch64.
 */
#ifndef GW_KERNELS_BF16_H
#define GW_KERNELS_BF16_H

#include <stddef.h>
#include <stdint.h>

/*
 * out[i] = x[i], rounded to nearest, ties to even (IEEE 754-2019, 4.3.1): too
 * large numbers become infinite, zeros and infinities keep their sign, a NaN
 * stays a quiet NaN. Subnormal results are not flushed to zero.
 */
void gw_bf16_round(size_t elems, const float *x, uint16_t *out);

/* out[i] = x[i], exactly. */
void gw_bf16_widen(size_t elems, const uint16_t *x, float *out);

#endif
