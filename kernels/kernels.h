/*
 * Compute backends: forward and backward of the layers that models are made
 * of, on one device. One table of operations per backend, tried in the order of
 * gw_backends. Knows no network, no file, no model.
 *
 * Shapes are row-major, the last index fastest. Images are [n][c][h][w].
 * Gradients are sums over the samples of the call, never means.
 * Pointers are device memory from `alloc` unless said; buffers of one call must
 * not overlap unless said. A device is used by one thread at a time.
 * Operations on the cpu are finished when they return; other devices queue them
 * in order, and the host goes on. A device that fails on the way does nothing
 * more, and says so where the host waits for it.
 */
#ifndef GW_KERNELS_KERNELS_H
#define GW_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"
#include "proto/status.h"

struct gw_device;

/* To what the factors of products may be rounded. A device that has no such
   arithmetic takes them as they are. */
enum gw_precision {
    GW_PRECISION_FP32,
    /* 10, 7 and 10 bits of mantissa, the last with a range that ends at 65504;
       sums in fp32 */
    GW_PRECISION_TF32,
    GW_PRECISION_BF16,
    GW_PRECISION_FP16,
};

/* As train.precision has it. */
static inline const char *gw_precision_name(enum gw_precision precision)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    return names[precision];
}

struct gw_device_options {
    int threads; /* of the BLAS, >= 1; of devices that compute on the host */
    unsigned ordinal; /* which of several devices of this kind */
    enum gw_precision precision;
};

#define GW_MEMORY_WORDS      88
#define GW_PARTS_MAX         64
#define GW_PCI_ADDRESS_BYTES 16
#define GW_REPORT_BYTES      640

/* Whole pages of a device's memory, as other devices of this machine take it.
 */
struct gw_pages {
    void *base;
    size_t bytes; /* 0: there are none, it is the host's */
    int fd;       /* their dma-buf, which the caller closes; -1: none */
};

/* Of one batch. */
struct gw_loss {
    double sum;       /* over its samples */
    uint64_t correct; /* samples whose largest logit is their label's */
};

/*
 * y[n][out] = x[n][in] w[out][in]^T + b[out], and max(y, 0) if relu. Backward
 * does not look at relu, so dy is to be masked before; with `masks` it masks
 * what it gives: x came out of a ReLU, and dx is 0 where x is not above 0.
 */
struct gw_dense_shape {
    size_t n, in, out;
    int relu, masks;
};

/*
 * y[n][out][oh][ow] = x[n][in][h][w] * k[out][in][kh][kw] + b[out] with
 * oh = (h + 2 pad - kh) / stride + 1, likewise ow; relu and masks as for dense.
 * An image
 * with its padding, an output with as much around it as windows reach over, and
 * a window of all channels have fewer than 2^31 elements each (asserted).
 */
struct gw_conv_shape {
    size_t n, in, h, w, out, kh, kw, stride, pad;
    int relu, masks;
};

/* Max over windows of size x size, NaN above all; edges that do not fill one
   are dropped. */
struct gw_pool_shape {
    size_t n, c, h, w, size, stride;
};

/* Where a dropout draw stands in the job; see GW_RANDOM_DROPOUT. */
struct gw_dropout_site {
    uint64_t seed, step;
    uint32_t layer;
    uint64_t first_sample; /* position of row 0 in the global batch */
    float p;               /* probability of zero, in [0, 1) */
};

/* Bytes of a device's own memory that are taken, beside those of `alloc`. */
struct gw_backend_takes {
    size_t open;    /* by each that is open */
    size_t process; /* by a process that opens one, besides, */
    size_t code;    /* and for what steps load after that: both as measured on
                       one kind of device */
    size_t page;    /* `alloc` takes whole ones of so many */
};

struct gw_backend_ops {
    const char *name;
    /* It computes in the host's memory, so that this is device memory as well,
       and in processes that are forked from one that has used it. */
    int on_host;
    struct gw_backend_takes takes; /* zeros where that is the host's memory */

    /* GW_OK, or GW_EUNSUPPORTED with the reason in words. */
    enum gw_status (*probe)(char *why, size_t why_bytes);

    /* GW_ENOMEM, GW_EUNSUPPORTED, GW_ERANGE (threads, ordinal), each with a
       line. */
    enum gw_status (*open)(const struct gw_device_options *options,
                           struct gw_device **device_p,
                           struct gw_error *error);
    void (*close)(struct gw_device *device);

    /* "OpenBLAS 0.3.21, core SkylakeX, 1 thread": for the first log line. */
    void (*describe)(struct gw_device *device, char *text, size_t text_bytes);

    /* Which of what may be done faster was done so far, and the first reason
       where it was not, for the last log line: "graphs 6 of 6, bias in products
       2 of 3 (not supported)", of GW_REPORT_BYTES at most. "": there is no
       choice. */
    void (*report)(struct gw_device *device, char *text, size_t text_bytes);

    /* Where a device of this kind is, by its ordinal: "0000:81:00.0", as the
       system has it; "" where it is none of PCI's, or cannot be asked. */
    void (*locate)(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES]);

    /* Whether this build computes on that device of this kind, which may be too
       old for it; who names no device goes past it. */
    int (*usable)(unsigned ordinal);

    /* Whether two different devices of this kind are linked by more than the
       machine's bus. */
    int (*linked)(unsigned one, unsigned other);

    /* Of its own memory, what there is and what nobody holds; zeros where that
       is the host's. */
    void (*memory)(struct gw_device *device,
                   uint64_t *total_p,
                   uint64_t *free_p);

    /* 64-byte aligned, zeroed; NULL when there is no memory. */
    void *(*alloc)(struct gw_device *device, size_t bytes);
    void (*free)(struct gw_device *device, void *memory);
    /* The same of the host's memory, for bytes that go to the device or come
       from there while both work. */
    void *(*alloc_host)(struct gw_device *device, size_t bytes);
    void (*free_host)(struct gw_device *device, void *memory);
    /*
     * Makes host memory that the caller brings and keeps (of whole pages) fit
     * for that until `unpin`. GW_EUNSUPPORTED with a line: copies are slower,
     * and the host waits for them.
     */
    enum gw_status (*pin)(struct gw_device *device,
                          void *host,
                          size_t bytes,
                          struct gw_error *error);
    void (*unpin)(struct gw_device *device, void *host);

    /*
     * Words by which another process of this host finds memory of `alloc`, or
     * of a part of it, on a device of its own: GW_MEMORY_WORDS bytes, for one
     * that this process trusts. 0: it cannot be found, as on the cpu.
     */
    int (*show)(struct gw_device *device,
                const void *memory,
                uint8_t handle[GW_MEMORY_WORDS]);
    /* The memory that another process has shown, for this device to read, until
       `unsee`; what it has when its owner is gone is undefined. NULL with a
       line: this device does not reach it, or the words are none. */
    const void *(*see)(struct gw_device *device,
                       const uint8_t handle[GW_MEMORY_WORDS],
                       struct gw_error *error);
    /* How the device reaches what it sees, a constant: "the same GPU", "NVLink"
       or "PCIe"; "": it is not known. */
    const char *(*path)(struct gw_device *device, const void *imported);
    void (*unsee)(struct gw_device *device, const void *memory);

    /*
     * The pages that have memory of `alloc`, or a part of it, for a device of
     * the network to read until it is freed. What has been queued is there for
     * it when the host has seen a point behind that (`fetch`, `reach`).
     */
    void (*pages)(struct gw_device *device,
                  const void *memory,
                  size_t bytes,
                  struct gw_pages *pages_p);

    /*
     * What is queued from now on finds the bytes. Goes on beside what has been
     * queued before, which must not use `to`. `host` is read until something
     * that was queued later is reached, or until it returns where the memory is
     * neither from alloc_host nor pinned.
     */
    void (*upload)(struct gw_device *device,
                   void *to,
                   const void *host,
                   size_t bytes);
    /* `upload` of what was seen of another process's device. */
    void (*take)(struct gw_device *device,
                 void *to,
                 const void *imported,
                 size_t bytes);
    /* What has been queued before made the bytes; goes on beside what is queued
       from now on, which must not write them. `host` has them when the point
       that is returned is reached; of 0 bytes that is the point alone. Points
       are reached in their order. */
    uint64_t (*fetch)(struct gw_device *device,
                      void *host,
                      const void *from,
                      size_t bytes);
    /* GW_OK: it has come so far. GW_EAGAIN: not yet, only without `wait`.
       GW_EIO: the device has failed, with a line that says how. */
    enum gw_status (*reach)(struct gw_device *device,
                            uint64_t point,
                            int wait,
                            struct gw_error *error);
    /* `fetch`, and waits; what `host` has is true if a later `sync` succeeds.
     */
    void (*download)(struct gw_device *device,
                     void *host,
                     const void *from,
                     size_t bytes);
    /* Waits for all that is queued. Errors of `reach`. */
    enum gw_status (*sync)(struct gw_device *device, struct gw_error *error);

    /*
     * Until `tuned`: a product of a shape that is new is computed in each way
     * that there is, some times, and in the fastest from then on; what layers
     * give meanwhile is void. `of` says in words, without a colon, what the
     * calls depend on. `known` is what `tuned` once said: if it was of the
     * same, on such a device, its ways are taken instead of being timed; NULL:
     * there are none. Where the ways of a shape are not known, it is computed
     * in the one that the library thinks best.
     */
    void (*tune)(struct gw_device *device, const char *of, const char *known);
    /* The ways that were taken, in words, of GW_TUNED_BYTES at most; "": there
       is no choice. What came after those that have room is not tuned. */
    void (*tuned)(struct gw_device *device, char text[GW_TUNED_BYTES]);

    /* Bytes of scratch that the two dense calls of a device with that precision
       need for up to shape->n; it may be NULL where that is 0. */
    size_t (*dense_scratch_bytes)(const struct gw_dense_shape *shape,
                                  enum gw_precision precision);
    /* Bytes in which the device keeps what ReLU lets through of y, for up to
       shape->n; 0: it keeps nothing. */
    size_t (*dense_mask_bytes)(const struct gw_dense_shape *shape);
    /* mask: dense_mask_bytes of the same device, aligned like `alloc`, for the
       backward pass of a dense layer that reads y as it is; NULL: there is
       none. */
    void (*dense_forward)(struct gw_device *device,
                          const struct gw_dense_shape *shape,
                          const float *x,
                          const float *w,
                          const float *b,
                          float *y,
                          void *mask,
                          void *scratch);
    /*
     * dw = dy^T x + beta dw, db = column sums of dy + beta db, dx = dy w.
     * dx may be NULL (first layer). beta is 0 or 1; with 0 the old dw and db
     * are not read. mask: that of the dense layer with relu whose y is x, from
     * its last forward pass; NULL: x came from elsewhere.
     */
    void (*dense_backward)(struct gw_device *device,
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

    /* As dense_scratch_bytes, for the two conv calls. */
    size_t (*conv_scratch_bytes)(const struct gw_conv_shape *shape,
                                 enum gw_precision precision);
    void (*conv_forward)(struct gw_device *device,
                         const struct gw_conv_shape *shape,
                         const float *x,
                         const float *k,
                         const float *b,
                         float *y,
                         void *scratch);
    /* dx may be NULL; beta as in dense_backward. */
    void (*conv_backward)(struct gw_device *device,
                          const struct gw_conv_shape *shape,
                          const float *x,
                          const float *k,
                          const float *dy,
                          float beta,
                          float *dx,
                          float *dk,
                          float *db,
                          void *scratch);

    /* argmax: one byte per output, the index inside its window (size <= 15);
       the first of equals wins. */
    void (*pool_forward)(struct gw_device *device,
                         const struct gw_pool_shape *shape,
                         const float *x,
                         float *y,
                         uint8_t *argmax);
    /* Writes every element of dx. */
    void (*pool_backward)(struct gw_device *device,
                          const struct gw_pool_shape *shape,
                          const float *dy,
                          const uint8_t *argmax,
                          float *dx);

    /*
     * x[n][elems]; kept elements are scaled by 1 / (1 - p). In place allowed.
     * Backward is the same call on the gradient: the mask is drawn again.
     */
    void (*dropout)(struct gw_device *device,
                    const struct gw_dropout_site *site,
                    size_t n,
                    size_t elems,
                    const float *x,
                    float *y);

    /*
     * sum[i] = parts[0][i] + parts[1][i] + .. over i < elems, as the tree of
     * gw_reduce_block (update.h) with the same bits. parts: [n] of device
     * memory, also what was seen, and NULL for those that leave their place
     * out; the array is read before it returns. sum may be one of them.
     * bad[n], device memory: 1 where a part has something that is not finite,
     * else 0. n <= GW_PARTS_MAX.
     */
    void (*add_parts)(struct gw_device *device,
                      const float *const *parts,
                      uint32_t n,
                      size_t elems,
                      float *sum,
                      uint8_t *nonfinite);

    /* *sum, in device memory: of the squares of x[i] over i < elems, in double
       and in a fixed order, so that the same call gives the same bits. Not
       finite if any of x is not, and only then. */
    void (*square_sum)(struct gw_device *device,
                       size_t elems,
                       const float *x,
                       double *sum);

    /* out[i] = x[i], bf16 numbers (bf16.h) in device memory, as fp32: exactly,
       but for the bits of a NaN. */
    void (*widen)(struct gw_device *device,
                  size_t elems,
                  const uint16_t *x,
                  float *out);

    /*
     * logits[n][classes], labels[n] in 0..classes-1 (checked by the caller).
     * *loss gets the sum over samples of -log softmax(logits)[label] (in double
     * and in a fixed order) and how many have their first maximum at the label.
     * dlogits (may be NULL, may be logits) = scale (softmax - onehot).
     */
    void (*softmax_loss)(struct gw_device *device,
                         size_t n,
                         size_t classes,
                         const float *logits,
                         const int32_t *labels,
                         float scale,
                         float *dlogits,
                         struct gw_loss *loss);
};

/*
 * Computes nothing: what `alloc` gives are addresses without memory, which
 * nobody may read or write, and every operation leaves them alone; a loss is 0.
 * For simulations of what does not fit on one machine; not among gw_backends.
 */
extern const struct gw_backend_ops gw_no_arithmetic;

/* What can compute, in order of preference: each i below gw_backend_count() has
   a name, "cuda" or "cpu". */
size_t gw_backend_count(void);
const char *gw_backend_name(size_t i);
/* NULL with the reason in words where it does not work here. */
const struct gw_backend_ops *
gw_backend_get(size_t i, char *why, size_t why_bytes);

#define GW_WHY_BYTES 400

struct gw_backend_choice {
    const struct gw_backend_ops *ops;
    int numbered;               /* the name says which device: */
    unsigned ordinal;           /* else, until one is opened, 0 */
    char why[2 * GW_WHY_BYTES]; /* not those before: "no cuda: ..", or "" */
    int leaves_gpu; /* "auto" took the CPU, and a GPU is here: `why` is a fault
                     */
};

/*
 * What computes as worker.device says (proto/device.h), of "auto" the first
 * that works here. GW_EUSAGE (no such name) and GW_EUNSUPPORTED (not here, and
 * why), each with a line.
 */
enum gw_status gw_backend_choose(const char *name,
                                 struct gw_backend_choice *choice_p,
                                 struct gw_error *error);

/* Of that the operations alone; NULL with a line in *error. */
const struct gw_backend_ops *gw_backend_find(const char *name,
                                             struct gw_error *error);

/*
 * What such a device would be, wherever it is: for questions of name and sizes
 * alone, what `takes` says and the calls that say bytes of scratch and masks;
 * it need not be here, and is not to be opened. "auto" is what works here.
 * GW_EUSAGE: no such name.
 */
const struct gw_backend_ops *gw_backend_outline(const char *name,
                                                struct gw_error *error);

/* What devices of a job have for its workers here, whose places go round them.
 */
struct gw_device_room {
    unsigned devices; /* that these go round, at least 1 */
    uint64_t total_bytes;
    uint64_t free_bytes; /* with what this call took of it */
};

/*
 * Opens each that `workers` of them meet, one after the other, and says of the
 * one that has least for each of its own what it has. GW_EUNSUPPORTED also
 * where it is the host's memory. What CUDA loads stays in the process. Errors
 * of gw_device_open.
 */
struct gw_config;
enum gw_status gw_device_look(const struct gw_config *config,
                              uint32_t workers,
                              struct gw_device_room *room_p,
                              struct gw_error *error);

/*
 * A device as a job has it: worker.device, worker.threads, train.precision;
 * where the name does not say which, those who count `place` on this host go
 * round its devices, those that are linked one after the other. The caller
 * closes it. Errors of gw_backend_choose and of `open`.
 */
enum gw_precision gw_precision_of(const struct gw_config *config);
enum gw_status gw_device_open(const struct gw_config *config,
                              uint32_t place,
                              struct gw_backend_choice *choice_p,
                              struct gw_device **device_p,
                              struct gw_error *error);

/* Where that device is, without opening it: `locate`; "" also where there is
   none, and where it takes a `place` of GW_RANK_NONE, which is not known yet,
   to say which. Returns how many threads compute on the host's cores. */
uint32_t gw_device_locate(const struct gw_config *config,
                          uint32_t place,
                          char address[GW_PCI_ADDRESS_BYTES]);

#endif
