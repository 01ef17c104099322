/*
 * Private to kernels/: the cuda backend, one file per group of operations. What
 * each does is said in kernels.h. Read by C and by C++, and includes nothing of
 * CUDA's, so it can be read where there is none: an error is a cudaError_t.
 *
 * Streams:  uploads --(uploaded)--> compute --(computed)--> fetches --> points
 *
 * Everything but copies is queued on `compute`, one after the other, so one
 * workspace serves all.
 */
#ifndef GW_KERNELS_CUDA_H
#define GW_KERNELS_CUDA_H

#include "kernels/cuda/cuda_sizes.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GW_CUDA_POINTS 256
#define GW_CUDA_ALGOS  8 /* of a product, at most */
/* Shapes come and go, as where shares of a batch follow speed. Of graphs, and
   of plans, so many are kept at least; of more the least recently used one is
   dropped when another comes, unless it was used within so many calls: a model
   that has more in a step keeps them all. */
#define GW_CUDA_KEPT      256
#define GW_CUDA_IDLE      1024
#define GW_CUDA_INDEX_MAX 0x7fffffffu /* of what kernels count in */

/* Which of several ways each product takes, in the order in which they come:
   "batches of 128, NVIDIA H100, bf16: 0 3 1". */
struct gw_cuda_tuning {
    int on;
    char text[GW_TUNED_BYTES];  /* what was chosen; "" before the first time */
    char known[GW_TUNED_BYTES]; /* as far as it is still to come */
};

struct gw_device {
    int ordinal;
    enum gw_precision precision;
    struct CUstream_st *compute, *uploads, *fetches;
    struct CUevent_st *uploaded, *computed;
    /* Point p is the event p % GW_CUDA_POINTS until a later one takes it. */
    struct CUevent_st *points[GW_CUDA_POINTS];
    uint64_t last, reached;
    struct cublasLtContext *blas;
    struct gw_cuda_plan *plans;     /* of products, a list, */
    size_t plans_n;                 /* of so many */
    struct gw_cuda_mask *masks;     /* of dense layers, a list */
    struct gw_cuda_graph *graphs;   /* of operations, a list, */
    size_t graphs_n;                /* of so many */
    uint64_t graph_calls, products; /* so far */
    struct gw_cuda_block *blocks;   /* of its memory, a list, */
    struct gw_cuda_block *pinned;   /* and of the host's that it has pinned */
    struct gw_cuda_import *imports; /* of others' memory, a list */
    float *workspace;
    struct gw_cuda_tuning tuning;
    uint64_t launches;  /* noted so far */
    const char *latest; /* operation that was queued */
    int failed; /* then `error` says how, and nothing is queued any more */
    struct gw_error error;
};

/* Every operation begins with it. 0: the device has failed. */
int gw_cuda_enter(struct gw_device *device);
/* Keeps the first error, if it is one. `what` is the operation that was to be
   queued, a constant; what it waits for may have failed and not it. */
void gw_cuda_check(struct gw_device *device, const char *op, unsigned error);
/* "GPU 0 failed in WHATBEFORE: TEXT", if it is the first. */
void gw_cuda_fail(struct gw_device *device,
                  const char *op,
                  const char *before,
                  const char *text);

/* GW_OK: this build runs on that GPU. GW_ERANGE, GW_EUNSUPPORTED, each with a
   line. */
enum gw_status gw_cuda_check_ordinal(unsigned ordinal, struct gw_error *error);

/* ---- operations of several launches ---- */

/* An operation and all that it is told: equal ones, byte for byte, queue the
   same. Set to zeros before it is filled in. */
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
/* Queues it, or does the same in one launch. */
void gw_cuda_run(struct gw_device *device, const struct gw_cuda_call *call);
void gw_cuda_drop_graphs(struct gw_device *device);

/* ---- products ---- */

/* A factor of a product. Row-major, ld and stride (from one of a batch to the
   next) in elements, each as the device's precision has them; "t" means that
   the stored matrix is the transpose. */
struct gw_cuda_matrix {
    const void *at;
    size_t ld;
    int t;
    size_t stride;
};

/* What is done to c = a b + beta c before it is written. */
enum gw_cuda_epilogue {
    GW_CUDA_PLAIN,
    GW_CUDA_BIAS,  /* + bias[n] */
    GW_CUDA_RELU,  /* + bias[n], and max(.., 0); NaN stays NaN. With a mask: and
                      what is above 0, and no 0, is noted there */
    GW_CUDA_DRELU, /* 0 where the mask has not noted it */
};

/* c[m][n] */
struct gw_cuda_product {
    size_t m, n, k, batch;
    struct gw_cuda_matrix a, b;
    float beta;
    enum gw_cuda_epilogue epilogue;
    const float *bias;
    void *mask; /* gw_cuda_mask_bytes(m, n), of one, not of batches */
    float *c;
    size_t ld, stride;
};
void gw_cuda_multiply(struct gw_device *device,
                      const char *op,
                      const struct gw_cuda_product *product);
/* The same if cublasLt can do all of it at once; 0: nothing is queued, the
   caller does it in several steps. A bias alone is always done by the former.
 */
int gw_cuda_multiply_fused(struct gw_device *device,
                           const char *op,
                           const struct gw_cuda_product *product);
void gw_cuda_drop_plans(struct gw_device *device);

/* ---- what has come of it, for the device's report ---- */

/* What may be done faster, in so many kinds of calls. */
struct gw_cuda_count {
    size_t all, taken;
    const char *why; /* the first of the others was not */
};
/* What products may do besides. */
enum gw_cuda_fusion {
    GW_CUDA_FUSED_BIAS,
    GW_CUDA_FUSED_RELU,
    GW_CUDA_FUSED_RELU_MASK, /* ReLU that is noted, */
    GW_CUDA_FUSED_DRELU,     /* and what is masked by that */
    GW_CUDA_FUSIONS,
};
/* Both add to zeros. */
void gw_cuda_count_plans(const struct gw_device *device,
                         struct gw_cuda_count counts[GW_CUDA_FUSIONS]);
void gw_cuda_count_graphs(const struct gw_device *device,
                          struct gw_cuda_count *count);

/* `from` as a factor: itself, or a copy at *room, which goes on behind it. */
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

/*
 * Whether a product with ReLU does as GW_CUDA_RELU says: NULL, or why not; with
 * *permanent_p at 0 that may be otherwise another time. queue(context, alpha,
 * bias) queues it with its factors times alpha and that bias; 0: it cannot.
 */
typedef int gw_cuda_queue_trial(void *context, float alpha, const float *bias);
const char *gw_cuda_try_relu(struct gw_device *device,
                             const struct gw_cuda_product *product,
                             gw_cuda_queue_trial *queue,
                             void *context,
                             int *permanent_p);

/* Which of n > 0 ways of a new product is taken. queue(context, i), which may
   be called many times, queues way i of it; 0: it does not work. */
int gw_cuda_choose_algo(struct gw_device *device,
                        int n,
                        int (*queue)(void *context, int algo),
                        void *context);

/* ---- what it has of its own and of others' memory ---- */

struct gw_cuda_block {
    struct gw_cuda_block *next;
    const char *memory;
    size_t bytes;
};
/* 0: no memory to keep it in mind. */
int gw_cuda_add_block(struct gw_cuda_block **list,
                      const void *memory,
                      size_t bytes);
void gw_cuda_drop_block(struct gw_cuda_block **list, const void *memory);
void gw_cuda_drop_blocks(struct gw_cuda_block **list);
/* That in which all of it lies; NULL: none. */
const struct gw_cuda_block *gw_cuda_find_block(const struct gw_cuda_block *list,
                                               const void *memory,
                                               size_t bytes);
/* Lets go of what is still seen. */
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

/* sums[slice][rows] of a factor x[rows][columns], `slice` columns each. */
void gw_cuda_row_sums(struct gw_device *device,
                      const char *op,
                      size_t rows,
                      size_t columns,
                      size_t slice,
                      const void *x,
                      float *sums);

/* Some samples of a convolution; `columns` are the places of all of them and a
   few more, where unfold and gather write zeros. */
struct gw_cuda_group {
    uint32_t samples, columns;
    uint32_t in, h, w, out, oh, ow, kh, kw, stride, pad;
};
/* A factor columns[in kh kw][columns] from x[samples][in][h][w] */
void gw_cuda_unfold(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *x,
                    void *columns);
/* and back, of a result: dx is the sum of all that came from there; where x,
   unless NULL, is not above 0 it is 0 */
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
/* and back, as a factor */
void gw_cuda_gather(struct gw_device *device,
                    const char *op,
                    const struct gw_cuda_group *group,
                    const float *dy,
                    void *outputs);

void gw_cuda_drop_masks(struct gw_device *device);

/* ---- of the table ---- */

int gw_cuda_show(struct gw_device *device,
                 const void *memory,
                 uint8_t handle[GW_MEMORY_WORDS]);
const void *gw_cuda_see(struct gw_device *device,
                        const uint8_t handle[GW_MEMORY_WORDS],
                        struct gw_error *error);
const char *gw_cuda_path(struct gw_device *device, const void *imported);
void gw_cuda_unsee(struct gw_device *device, const void *memory);
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
void gw_cuda_take(struct gw_device *device,
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

void gw_cuda_dense_forward(struct gw_device *device,
                           const struct gw_dense_shape *shape,
                           const float *x,
                           const float *w,
                           const float *b,
                           float *y,
                           void *mask,
                           void *scratch);
void gw_cuda_dense_backward(struct gw_device *device,
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

void gw_cuda_conv_forward(struct gw_device *device,
                          const struct gw_conv_shape *shape,
                          const float *x,
                          const float *k,
                          const float *b,
                          float *y,
                          void *scratch);
void gw_cuda_conv_backward(struct gw_device *device,
                           const struct gw_conv_shape *shape,
                           const float *x,
                           const float *k,
                           const float *dy,
                           float beta,
                           float *dx,
                           float *dk,
                           float *db,
                           void *scratch);

void gw_cuda_pool_forward(struct gw_device *device,
                          const struct gw_pool_shape *shape,
                          const float *x,
                          float *y,
                          uint8_t *argmax);
void gw_cuda_pool_backward(struct gw_device *device,
                           const struct gw_pool_shape *shape,
                           const float *dy,
                           const uint8_t *argmax,
                           float *dx);

void gw_cuda_dropout(struct gw_device *device,
                     const struct gw_dropout_site *site,
                     size_t n,
                     size_t elems,
                     const float *x,
                     float *y);
void gw_cuda_add_parts(struct gw_device *device,
                       const float *const *parts,
                       uint32_t n,
                       size_t elems,
                       float *sum,
                       uint8_t *nonfinite);
void gw_cuda_square_sum(struct gw_device *device,
                        size_t elems,
                        const float *x,
                        double *sum);
void gw_cuda_widen(struct gw_device *device,
                   size_t elems,
                   const uint16_t *x,
                   float *out);
void gw_cuda_softmax_loss(struct gw_device *device,
                          size_t n,
                          size_t classes,
                          const float *logits,
                          const int32_t *labels,
                          float scale,
                          float *dlogits,
                          struct gw_loss *loss);

/* The device's own part of the table, without what the module adds. */
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
