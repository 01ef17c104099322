/*
 * Shared by the tests on a real GPU: its device in each precision, and layers
 * of the sizes of models, which the cpu computes as well.
 */
#ifndef GW_TESTS_GPU_H
#define GW_TESTS_GPU_H

#include "tests/table/backend.h"

#define GIB ((size_t)1 << 30)

/*
 * Tolerances, relative to the sum of the terms' magnitudes: fp32 sums; sums on
 * tensor cores, which truncate instead of rounding; and operands with 10 bits
 * of mantissa. Each of two operands may be rounded, by half of 2^-10, or
 * truncated, by all of it: no GPU documents which.
 */
#define CLOSE      2e-6
#define CLOSE_CUT  1e-5
#define CLOSE_TF32 (2.0 / 1024 + CLOSE_CUT)

extern const struct gw_backend_ops *cuda, *cpu;
extern double most_flop; /* limit of a tested layer */

/*
 * Finds cpu and GPU, and reads the limits: $GW_CASES selects cases, argv[1] is
 * the most GFLOP of a layer. Returns 0, with a line, if there is no GPU.
 */
int find_gpu(int argc, char **argv);

struct gw_device *open_on(const struct gw_backend_ops *on,
                          enum gw_precision rounds);
/* Set-ups and the tear-down of a case. The tear-down prints the device's
   report. */
int open_fp32(void **state);
int open_tf32(void **state);
int open_bf16(void **state);
int open_fp16(void **state);
int close_device(void **state);
#define CASE(name, open)                                                       \
    cmocka_unit_test_setup_teardown(name, open, close_device)

/* Arrays of a layer; the ones from Y on are results. */
enum array {
    X,
    W,
    B,
    DY,
    GIVEN,
    Y = GIVEN,
    DX,
    DW,
    DB,
    ARRAYS
};

/* A dense layer, or a convolution if conv.n is set. */
struct layer {
    struct gw_dense_shape dense;
    struct gw_conv_shape conv;
};

void sizes_of(const struct layer *l, size_t elems[ARRAYS]);
double flop_of(const struct layer *l);
size_t scratch_of(const struct gw_backend_ops *on, const struct layer *l);
/* Both passes on any backend; waits for them. */
void compute(const struct gw_backend_ops *on,
             struct gw_device *at,
             const struct layer *l,
             float *const a[ARRAYS],
             void *scratch);
/* On the device: results come to host memory, which the caller frees. */
void on_device(const struct layer *l,
               float *const given[GIVEN],
               float *results[ARRAYS]);
/* The same with random numbers, for its side effects. */
void compute_once(const struct layer *l);

/* The largest difference, relative to the sum of magnitudes. */
double
farthest(const float *is, const float *should, const float *size, size_t elems);
/* Compares the device with the cpu; fails above the limit. */
double compare(const struct layer *l, double limit);

#endif
