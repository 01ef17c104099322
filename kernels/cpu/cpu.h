/*
 * Private to kernels/: the cpu backend, one file per group of operations;
 * kernels.h and operations.h document each operation.
 */
#ifndef GW_KERNELS_CPU_H
#define GW_KERNELS_CPU_H

#include "kernels/kernels.h"

extern const struct gw_backend_ops gw_cpu_ops;

#define GW_SIZE_OPERATION(name, parameters, arguments)                         \
    size_t gw_cpu_##name parameters;
#define GW_OPERATION(name, parameters, arguments) void gw_cpu_##name parameters;
#include "kernels/operations.h"

/* worker.threads: with 1, small dense products do not use the CBLAS. */
int gw_cpu_threads(const struct gw_device *device);

/* c[m][n] = a b + beta c, row-major, ld in elements; "t" means that the stored
   matrix is the transpose. */
struct gw_matrix {
    const float *at;
    size_t ld;
    int t;
};
void gw_cpu_gemm(const struct gw_device *device,
                 size_t m,
                 size_t n,
                 size_t k,
                 struct gw_matrix a,
                 struct gw_matrix b,
                 float beta,
                 float *c,
                 size_t ld);

/*
 * Two products of a dense layer on one thread (cpu_dense_sums.c), for up to
 * GW_DENSE_SUMS_SAMPLES samples: forward adds b and applies the ReLU, dw adds
 * to the old dw if beta is not 0. For more samples the CBLAS is as fast.
 */
#define GW_DENSE_SUMS_SAMPLES 128
size_t gw_cpu_dense_sums_bytes(const struct gw_dense_shape *shape);
void gw_cpu_dense_sums_forward(const struct gw_dense_shape *shape,
                               const float *x,
                               const float *w,
                               const float *b,
                               float *y,
                               void *scratch);
void gw_cpu_dense_sums_dw(const struct gw_dense_shape *shape,
                          const float *x,
                          const float *dy,
                          float beta,
                          float *dw,
                          void *scratch);

/* dx = dy where y > 0, else 0; dx may be dy. */
void gw_cpu_relu_backward(struct gw_device *device,
                          size_t elems,
                          const float *y,
                          const float *dy,
                          float *dx);

#endif
