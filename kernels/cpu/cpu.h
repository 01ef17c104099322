/*
 * Private to kernels/: the cpu backend, one file per group of operations.
 * kernels.h documents each operation.
 */
#ifndef GW_KERNELS_CPU_H
#define GW_KERNELS_CPU_H

#include "kernels/kernels.h"

extern const struct gw_backend_ops gw_cpu_ops;

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

size_t gw_cpu_dense_scratch_bytes(const struct gw_dense_shape *shape,
                                  enum gw_precision precision);
size_t gw_cpu_dense_mask_bytes(const struct gw_dense_shape *shape);
void gw_cpu_dense_forward(struct gw_device *device,
                          const struct gw_dense_shape *shape,
                          const float *x,
                          const float *w,
                          const float *b,
                          float *y,
                          void *mask,
                          void *scratch);
void gw_cpu_dense_backward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const void *mask,
                           const float *w,
                           const float *dy,
                           float beta,
                           float *dx,
                           float *dw,
                           float *db,
                           void *scratch);

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

size_t gw_cpu_conv_scratch_bytes(const struct gw_conv_shape *shape,
                                 enum gw_precision precision);
void gw_cpu_conv_forward(struct gw_device *device,
                         const struct gw_conv_shape *shape,
                         const float *x,
                         const float *k,
                         const float *b,
                         float *y,
                         void *scratch);
void gw_cpu_conv_backward(struct gw_device *device,
                          const struct gw_conv_shape *shape,
                          const float *x,
                          const float *k,
                          const float *dy,
                          float beta,
                          float *dx,
                          float *dk,
                          float *db,
                          void *scratch);

void gw_cpu_pool_forward(struct gw_device *device,
                         const struct gw_pool_shape *shape,
                         const float *x,
                         float *y,
                         uint8_t *argmax);
void gw_cpu_pool_backward(struct gw_device *device,
                          const struct gw_pool_shape *shape,
                          const float *dy,
                          const uint8_t *argmax,
                          float *dx);

/* dx = dy where y > 0, else 0; dx may be dy. */
void gw_cpu_relu_backward(struct gw_device *device,
                          size_t elems,
                          const float *y,
                          const float *dy,
                          float *dx);
void gw_cpu_dropout(struct gw_device *device,
                    const struct gw_dropout_site *site,
                    size_t n,
                    size_t elems,
                    const float *x,
                    float *y);
void gw_cpu_add_parts(struct gw_device *device,
                      const float *const *parts,
                      uint32_t n,
                      size_t elems,
                      float *sum,
                      uint8_t *nonfinite);
void gw_cpu_square_sum(struct gw_device *device,
                       size_t elems,
                       const float *x,
                       double *sum);
void gw_cpu_softmax_loss(struct gw_device *device,
                         size_t n,
                         size_t classes,
                         const float *logits,
                         const int32_t *labels,
                         float scale,
                         float *dlogits,
                         struct gw_loss *loss);

#endif
