/*
 * Private to kernels/: the cuda backend, one file per group of operations;
 * kernels.h and operations.h document each operation. Used from C and C++.
 * Includes no header of CUDA, so that machines without CUDA can read it:
 * `unsigned error` is a cudaError_t.
 *
 * Streams:  uploads --(uploaded)--> compute --(computed)--> fetches --> points
 *
 * Everything but copies is queued on `compute`, in order, so all operations
 * share one workspace.
 */
#ifndef GW_KERNELS_CUDA_H
#define GW_KERNELS_CUDA_H

#include "kernels/cuda/cuda_sizes.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GW_CUDA_POINTS 256
#define GW_CUDA_ALGOS  8 /* per product, at most */
/* The lists of graphs and of plans are caches, since shapes vary when shares of
   a batch follow speed. Beyond GW_CUDA_KEPT entries, a new one evicts the least
   recently used one, unless it was used within the last GW_CUDA_IDLE calls: a
   model with more entries per step keeps them all. */
#define GW_CUDA_KEPT      256
#define GW_CUDA_IDLE      1024
#define GW_CUDA_INDEX_MAX 0x7fffffffu /* for 32-bit indices in kernels */

/* The algorithm of each product, in the order in which products first come:
   "batches of 128, NVIDIA H100, bf16: 0 3 1". */
struct gw_cuda_tuning {
    int on;
    char text[GW_TUNED_BYTES];  /* choices so far; "" before `tune` */
    char known[GW_TUNED_BYTES]; /* choices still to be taken over */
};

struct gw_device {
    int ordinal;
    enum gw_precision precision;
    struct CUstream_st *compute, *uploads, *fetches;
    struct CUevent_st *uploaded, *computed;
    /* Point p is the event p % GW_CUDA_POINTS until a later point reuses it. */
    struct CUevent_st *points[GW_CUDA_POINTS];
    uint64_t last, reached;
    struct cublasLtContext *blas;
    struct gw_cuda_plan *plans;     /* list of matrix products */
    size_t plans_n;                 /* its length */
    struct gw_cuda_mask *masks;     /* list of ReLU masks */
    struct gw_cuda_graph *graphs;   /* list of recorded operations */
    size_t graphs_n;                /* its length */
    uint64_t graph_calls, products; /* totals */
    struct gw_cuda_block *blocks;   /* allocated device memory */
    struct gw_cuda_block *pinned;   /* pinned host memory */
    struct gw_cuda_import *imports; /* memory of other processes */
    float *workspace;
    struct gw_cuda_tuning tuning;
    uint64_t launches;  /* successful calls checked so far */
    const char *latest; /* last operation that was queued */
    int failed; /* then `error` is set, and nothing is queued any more */
    struct gw_error error;
};

/* Makes the device current; each operation begins with it. 0: the device has
   failed. */
int gw_cuda_enter(struct gw_device *device);
/* Fails the device if `error` is one. `op`, a constant, names the operation
   that was being queued; the failed one may be an earlier one. */
void gw_cuda_check(struct gw_device *device, const char *op, unsigned error);
/* Keeps the device's first failure: "GPU 0 failed in OPBEFORE: TEXT". */
void gw_cuda_fail(struct gw_device *device,
                  const char *op,
                  const char *before,
                  const char *text);

/* GW_OK: this build runs on that GPU. GW_ERANGE, GW_EUNSUPPORTED, each with a
   line. */
enum gw_status gw_cuda_check_ordinal(unsigned ordinal, struct gw_error *error);

/* ---- operations of several launches ---- */

/* An operation and all its arguments: calls with equal bytes queue the same
   launches. Must be zeroed before it is filled in. */
struct gw_cuda_call {
    const float *x;
    void (*queue)(struct gw_device *device, const struct gw_cuda_call *call);
    const char *op;
    union {
        struct gw_dense_shape dense;
        struct gw_conv_shape conv;
    } shape;
    const float *w, *b, *dy;
    float *y, *dx, *dw, *db;
    void *mask, *scratch;
    float beta;
};
/* Queues the operation, or launches the graph that was recorded from an equal
   call. */
void gw_cuda_run(struct gw_device *device, const struct gw_cuda_call *call);
void gw_cuda_drop_graphs(struct gw_device *device);

/* ---- products ---- */

/* An operand of a product. Row-major; ld and stride (between matrices of a
   batch) in elements of the operand's type; "t" means that the stored matrix is
   the transpose. */
struct gw_cuda_matrix {
    const void *at;
    size_t ld;
    int t;
    size_t stride;
};

/* `from` as an operand: itself, or a converted copy at *scratch, which is
   advanced behind the copy. */
const void *gw_cuda_operand(struct gw_device *device,
                            const char *op,
                            const float *from,
                            size_t elems,
                            char **scratch);
void gw_cuda_narrow(struct gw_device *device,
                    const char *op,
                    const float *from,
                    size_t elems,
                    void *to);

/* Applied to c = a b + beta c before it is written. */
enum gw_cuda_epilogue {
    GW_CUDA_PLAIN,
    GW_CUDA_BIAS,  /* + bias[n] */
    GW_CUDA_RELU,  /* + bias[n], and max(.., 0); NaN stays NaN. With a mask:
                      sets the bits of elements above 0, and of no 0 */
    GW_CUDA_DRELU, /* 0 unless the mask's bit is set */
};

/* c[m][n] */
struct gw_cuda_product {
    size_t m, n, k, batch;
    struct gw_cuda_matrix a, b;
    float beta;
    enum gw_cuda_epilogue epilogue;
    const float *bias;
    void *mask; /* gw_cuda_mask_bytes(m, n), not for batches */
    float *c;
    size_t ld, stride;
};
void gw_cuda_multiply(struct gw_device *device,
                      const char *op,
                      const struct gw_cuda_product *product);
/* The same in one call of cublasLt; 0: cublasLt cannot, nothing is queued, and
   the caller takes several steps. gw_cuda_multiply does so for GW_CUDA_BIAS. */
int gw_cuda_multiply_fused(struct gw_device *device,
                           const char *op,
                           const struct gw_cuda_product *product);
void gw_cuda_drop_plans(struct gw_device *device);
/* Forgets the masks that forward passes of dense layers wrote. */
void gw_cuda_drop_masks(struct gw_device *device);

/*
 * Tests whether a product with ReLU works as GW_CUDA_RELU says: NULL, or the
 * reason why not; with *permanent_p at 0 another attempt may succeed.
 * queue(context, alpha, bias) queues it with its operands' product times alpha
 * and that bias; 0: it cannot.
 */
typedef int gw_cuda_queue_trial(void *context, float alpha, const float *bias);
const char *gw_cuda_try_relu(struct gw_device *device,
                             const struct gw_cuda_product *product,
                             gw_cuda_queue_trial *queue,
                             void *context,
                             int *permanent_p);

/* Chooses one of n > 0 algorithms for a new product. queue(context, i), which
   may be called many times, queues it with algorithm i; 0: it fails. */
int gw_cuda_choose_algo(struct gw_device *device,
                        int n,
                        int (*queue)(void *context, int algo),
                        void *context);

/* ---- counts for the device's report ---- */

/* Number of distinct calls that a fast path was tried for, and that took it. */
struct gw_cuda_count {
    size_t all, taken;
    const char *why; /* reason of the first one that did not */
};
/* Fast paths of products. */
enum gw_cuda_fusion {
    GW_CUDA_FUSED_BIAS,
    GW_CUDA_FUSED_RELU,
    GW_CUDA_FUSED_RELU_MASK, /* ReLU that writes a mask, */
    GW_CUDA_FUSED_DRELU,     /* and its backward pass by that mask */
    GW_CUDA_FUSIONS,
};
/* Both add to *counts, which begin as zeros. */
void gw_cuda_count_plans(const struct gw_device *device,
                         struct gw_cuda_count counts[GW_CUDA_FUSIONS]);
void gw_cuda_count_graphs(const struct gw_device *device,
                          struct gw_cuda_count *count);

/* ---- memory of the device and imported memory ---- */

struct gw_cuda_block {
    struct gw_cuda_block *next;
    const char *memory;
    size_t bytes;
};
/* 0: no memory for the entry. */
int gw_cuda_add_block(struct gw_cuda_block **list,
                      const void *memory,
                      size_t bytes);
void gw_cuda_drop_block(struct gw_cuda_block **list, const void *memory);
void gw_cuda_drop_blocks(struct gw_cuda_block **list);
/* The block that contains all of it, or NULL. */
const struct gw_cuda_block *gw_cuda_find_block(const struct gw_cuda_block *list,
                                               const void *memory,
                                               size_t bytes);
/* Releases all remaining imports. */
void gw_cuda_drop_imports(struct gw_device *device);

/* ---- passes over memory ---- */

/* y[rows][columns] += b[columns], and max(y, 0) if relu. */
void gw_cuda_add_bias(struct gw_device *device,
                      const char *op,
                      size_t rows,
                      size_t columns,
                      const float *b,
                      int relu,
                      float *y);

/* dx = dy where y > 0, else 0; dx may be dy. */
void gw_cuda_relu_backward(struct gw_device *device,
                           size_t elems,
                           const float *y,
                           const float *dy,
                           float *dx);

/* sums[columns] = columns of x[rows][columns] + beta sums, in a fixed order.
   Uses the workspace. */
void gw_cuda_column_sums(struct gw_device *device,
                         const char *op,
                         size_t rows,
                         size_t columns,
                         const float *x,
                         float beta,
                         float *sums);

/* sums[slice][rows] of an operand x[rows][columns], `slice` columns each. */
void gw_cuda_row_sums(struct gw_device *device,
                      const char *op,
                      size_t rows,
                      size_t columns,
                      size_t slice,
                      const void *x,
                      float *sums);

/* A group of samples of a convolution; `columns` are all their places, rounded
   up: unfold and gather write zeros into the rest. */
struct gw_cuda_group {
    uint32_t samples, columns;
    uint32_t in, h, w, out, oh, ow, kh, kw, stride, pad;
};
/* im2col: an operand columns[in kh kw][columns] from x[samples][in][h][w] */
void gw_cuda_unfold(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *x,
                    void *columns);
/* col2im: dx sums the columns of each element; it is 0 where x, unless NULL, is
   not above 0 */
void gw_cuda_fold(struct gw_device *device,
                  const char *op,
                  const struct gw_cuda_group *group,
                  const float *columns,
                  const float *x,
                  float *dx);
/* y[samples][out][oh][ow] from a result outputs[out][columns], + b, ReLU if
   relu */
void gw_cuda_scatter(struct gw_device *device,
                     const char *op,
                     const struct gw_cuda_group *group,
                     const float *outputs,
                     const float *b,
                     int relu,
                     float *y);
/* the inverse of scatter: outputs as an operand from dy */
void gw_cuda_gather(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *dy,
                    void *outputs);

/* ---- operations of the table ---- */

#define GW_SIZE_OPERATION(name, parameters, arguments) /* cuda_sizes.h */
#define GW_OPERATION(name, parameters, arguments)                              \
    void gw_cuda_##name parameters;
#include "kernels/operations.h"

int gw_cuda_export_memory(struct gw_device *device,
                          const void *memory,
                          uint8_t handle[GW_MEMORY_WORDS]);
const void *gw_cuda_import_memory(struct gw_device *device,
                                  const uint8_t handle[GW_MEMORY_WORDS],
                                  struct gw_error *error);
const char *gw_cuda_path(struct gw_device *device, const void *imported);
void gw_cuda_release_import(struct gw_device *device, const void *memory);
void gw_cuda_pages(struct gw_device *device,
                   const void *memory,
                   size_t bytes,
                   struct gw_pages *pages_p);

void gw_cuda_tune(struct gw_device *device, const char *of, const char *known);
void gw_cuda_tuned(struct gw_device *device, char text[GW_TUNED_BYTES]);

void gw_cuda_upload(struct gw_device *device,
                    void *to,
                    const void *host,
                    size_t bytes);
void gw_cuda_copy_import(struct gw_device *device,
                         void *to,
                         const void *imported,
                         size_t bytes);
uint64_t gw_cuda_fetch(struct gw_device *device,
                       void *host,
                       const void *from,
                       size_t bytes);
enum gw_status gw_cuda_reach(struct gw_device *device,
                             uint64_t point,
                             int wait,
                             struct gw_error *error);
void gw_cuda_download(struct gw_device *device,
                      void *host,
                      const void *from,
                      size_t bytes);
enum gw_status gw_cuda_sync(struct gw_device *device, struct gw_error *error);

/* The part of the table that cuda_device.c, cuda_probe.c and cuda_report.c
   implement. */
enum gw_status gw_cuda_probe(char *why, size_t why_bytes);
enum gw_status gw_cuda_open(const struct gw_device_options *options,
                            struct gw_device **device_p,
                            struct gw_error *error);
void gw_cuda_close(struct gw_device *device);
void gw_cuda_describe(struct gw_device *device, char *text, size_t text_bytes);
void gw_cuda_report(struct gw_device *device, char *text, size_t text_bytes);
void gw_cuda_locate(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES]);
int gw_cuda_usable(unsigned ordinal);
int gw_cuda_linked(unsigned one, unsigned other);
void gw_cuda_memory(struct gw_device *device,
                    uint64_t *total_p,
                    uint64_t *free_p);
void *gw_cuda_alloc(struct gw_device *device, size_t bytes);
void gw_cuda_free(struct gw_device *device, void *memory);
void *gw_cuda_alloc_host(struct gw_device *device, size_t bytes);
void gw_cuda_free_host(struct gw_device *device, void *memory);
enum gw_status gw_cuda_pin(struct gw_device *device,
                           void *host,
                           size_t bytes,
                           struct gw_error *error);
void gw_cuda_unpin(struct gw_device *device, void *host);

#ifdef __cplusplus
}
#endif

#endif
