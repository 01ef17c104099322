/*
 * What the tests on a real GPU share: its device in each precision, and layers
 * of the sizes of models, which the cpu computes as well.
 */
#ifndef GW_TESTS_GPU_H
#define GW_TESTS_GPU_H

#include "tests/table/backend.h"

#define GIB ((size_t)1 << 30)

/*
 * How far results may be off, relative to the sum of the terms' sizes: fp32
 * sums; sums that tensor cores take, which do not round but cut off; and of
 * factors with 10 bits of mantissa. Each of two factors may be rounded, by half
 * of 2^-10, or cut off, by all of it: which of both a GPU does is not said.
 */
#define CLOSE      2e-6
#define CLOSE_CUT  1e-5
#define CLOSE_TF32 (2.0 / 1024 + CLOSE_CUT)

extern const struct gw_backend_ops *cuda, *cpu;
extern double most_flop; /* of a layer that is looked at */

/*
 * Finds both, leaves cases out that $GW_CASES does not name, and layers that
 * are more arithmetic than argv[1] GFLOP. 0: there is no GPU, and a line says
 * so.
 */
int find_gpu(int argc, char **argv);

struct gw_device *open_on(const struct gw_backend_ops *on,
                          enum gw_precision rounds);
/* Set-ups and the tear-down of a case. The last says what its device reports.
 */
int open_fp32(void **state);
int open_tf32(void **state);
int open_bf16(void **state);
int open_fp16(void **state);
int close_device(void **state);
#define CASE(name, open)                                                       \
    cmocka_unit_test_setup_teardown(name, open, close_device)

/* Arrays of a layer; those from Y on are results. */
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

/* A dense layer, or a convolution where conv.n is set. */
struct layer {
    struct gw_dense_shape dense;
    struct gw_conv_shape conv;
};

void sizes_of(const struct layer *l, size_t elems[ARRAYS]);
double flop_of(const struct layer *l);
size_t scratch_of(const struct gw_backend_ops *on, const struct layer *l);
/* Forward and backward on any backend, and waits. */
void compute(const struct gw_backend_ops *on,
             struct gw_device *at,
             const struct layer *l,
             float *const a[ARRAYS],
             void *scratch);
/* By the device: results come to host memory, which the caller frees. */
void on_device(const struct layer *l,
               float *const given[GIVEN],
               float *results[ARRAYS]);
/* The same of random numbers, for what it leaves behind. */
void compute_once(const struct layer *l);

/* The largest difference, relative to the size of the sum. */
double
farthest(const float *is, const float *should, const float *size, size_t elems);
/* Of the device to the cpu; fails where it is more than the limit. */
double compare(const struct layer *l, double limit);

#endif
