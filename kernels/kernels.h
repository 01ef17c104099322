/*
 * Compute backends: forward and backward passes of model layers on one device.
 * One table of operations per backend, tried in the order of gw_backends.
 * Knows no network, no file, no model.
 *
 * Shapes are row-major, the last index fastest. Images are [n][c][h][w].
 * Gradients are sums over the samples of the call, never means.
 * Pointers are device memory from `alloc` unless said; buffers of one call must
 * not overlap unless said. A device is used by one thread at a time.
 * Operations on the cpu are finished when they return; other devices queue them
 * in order and return at once. A device that fails executes nothing more, and
 * returns the error where the host waits for it.
 */
#ifndef GW_KERNELS_KERNELS_H
#define GW_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/device.h"
#include "proto/status.h"

struct gw_device;

/* Precision to which the operands of matrix products may be rounded. A device
   without such arithmetic uses them as they are. */
enum gw_precision {
    GW_PRECISION_FP32,
    /* tf32, bf16, fp16: 10, 7 and 10 bits of mantissa, the last with a range
       that ends at 65504; sums in fp32 */
    GW_PRECISION_TF32,
    GW_PRECISION_BF16,
    GW_PRECISION_FP16,
};

/* The name that train.precision has for it. */
static inline const char *gw_precision_name(enum gw_precision precision)
{
    static const char *const names[] = {"fp32", "tf32", "bf16", "fp16"};
    return names[precision];
}

struct gw_device_options {
    int threads; /* BLAS threads, >= 1, for devices that compute on the host */
    unsigned ordinal; /* index among the devices of this kind */
    enum gw_precision precision;
};

#define GW_MEMORY_WORDS      88
#define GW_PARTS_MAX         64
#define GW_PCI_ADDRESS_BYTES 16
#define GW_REPORT_BYTES      640

/* Whole pages of device memory, for other devices of this machine to read. */
struct gw_pages {
    void *base;
    size_t bytes; /* 0: none, the memory is the host's */
    int fd;       /* dma-buf of the pages, closed by the caller; -1: none */
};

/* Loss of one batch. */
struct gw_loss {
    double sum;       /* over its samples */
    uint64_t correct; /* samples whose largest logit is their label's */
};

/*
 * y[n][out] = x[n][in] w[out][in]^T + b[out], and max(y, 0) if relu. Backward
 * does not look at relu: the caller masks dy before. With `masks`, x came out
 * of a ReLU, and backward masks dx: dx is 0 where x is not above 0.
 */
struct gw_dense_shape {
    size_t n, in, out;
    int relu, masks;
};

/*
 * y[n][out][oh][ow] = x[n][in][h][w] * k[out][in][kh][kw] + b[out] with
 * oh = (h + 2 pad - kh) / stride + 1, likewise ow; relu and masks as for dense.
 * An image with its padding, an output with the margin that windows reach over,
 * and a window of all channels have fewer than 2^31 elements each (asserted).
 */
struct gw_conv_shape {
    size_t n, in, h, w, out, kh, kw, stride, pad;
    int relu, masks;
};

/* Max over windows of size x size, NaN above all; edges that do not fill a
   window are dropped. */
struct gw_pool_shape {
    size_t n, c, h, w, size, stride;
};

/* Position of a dropout draw in the job; see GW_RANDOM_DROPOUT. */
struct gw_dropout_site {
    uint64_t seed, step;
    uint32_t layer;
    uint64_t first_sample; /* position of row 0 in the global batch */
    float p;               /* probability of zero, in [0, 1) */
};

/* Device memory that the backend takes, besides the bytes of `alloc`. */
struct gw_backend_takes {
    size_t open;    /* per open device */
    size_t process; /* once per process that opens a device, and */
    size_t code;    /* for kernels that the first steps load; both measured on
                       one kind of device */
    size_t page;    /* `alloc` takes whole pages of this size */
};

struct gw_backend_ops {
    const char *name;
    /* Computes in the host's memory: host memory is device memory, also in
       processes forked from one that has used the device. */
    int on_host;
    struct gw_backend_takes takes; /* zeros for a backend on the host */

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

    /* How many optional fast paths were taken so far, and the first reason why
       one was not, for the last log line: "graphs 6 of 6, bias in products 2 of
       3 (not supported)", at most GW_REPORT_BYTES. "": the device has none. */
    void (*report)(struct gw_device *device, char *text, size_t text_bytes);

    /* PCI address of the device with that ordinal, "0000:81:00.0", as the
       system writes it; "" if it is no PCI device or cannot be asked. */
    void (*locate)(unsigned ordinal, char address[GW_PCI_ADDRESS_BYTES]);

    /* 1 if this build computes on that device, 0 if the device is too old for
       it. Jobs that name no device skip unusable ones. */
    int (*usable)(unsigned ordinal);

    /* 1 if two different devices of this kind have a faster link than the
       machine's bus. */
    int (*linked)(unsigned one, unsigned other);

    /* Total and free bytes of the device's own memory; zeros for a backend on
       the host. */
    void (*memory)(struct gw_device *device,
                   uint64_t *total_p,
                   uint64_t *free_p);

    /* 64-byte aligned, zeroed; NULL when there is no memory. */
    void *(*alloc)(struct gw_device *device, size_t bytes);
    void (*free)(struct gw_device *device, void *memory);
    /* The same in host memory, for bytes that are copied to or from the device
       while both work. */
    void *(*alloc_host)(struct gw_device *device, size_t bytes);
    void (*free_host)(struct gw_device *device, void *memory);
    /*
     * Pins host memory of the caller (whole pages) for such copies until
     * `unpin`. GW_EUNSUPPORTED with a line: copies are slower, and the host
     * waits for them.
     */
    enum gw_status (*pin)(struct gw_device *device,
                          void *host,
                          size_t bytes,
                          struct gw_error *error);
    void (*unpin)(struct gw_device *device, void *host);

    /*
     * Exports memory of `alloc`, or a part of it: a handle of GW_MEMORY_WORDS
     * bytes by which another process of this host, which must be trusted, maps
     * it on its own device. 0: memory cannot be exported, as on the cpu.
     */
    int (*export_memory)(struct gw_device *device,
                         const void *memory,
                         uint8_t handle[GW_MEMORY_WORDS]);
    /* Imports memory that another process has exported, for this device to read
       until `release_import`; its content is undefined after the owner has
       gone. NULL with a line: this device does not reach the memory, or the
       handle is invalid. */
    const void *(*import_memory)(struct gw_device *device,
                                 const uint8_t handle[GW_MEMORY_WORDS],
                                 struct gw_error *error);
    /* The path from the device to imported memory, a constant: "the same GPU",
       "NVLink" or "PCIe"; "": unknown. */
    const char *(*path)(struct gw_device *device, const void *imported);
    void (*release_import)(struct gw_device *device, const void *memory);

    /*
     * The pages that hold memory of `alloc`, or a part of it, for a device of
     * the network to read until it is freed. The network device sees queued
     * writes once the host has reached a point behind them (`fetch`, `reach`).
     */
    void (*pages)(struct gw_device *device,
                  const void *memory,
                  size_t bytes,
                  struct gw_pages *pages_p);

    /*
     * Operations queued from now on find the bytes. The copy overlaps with
     * operations queued before, which must not use `to`. Pinned memory, or
     * memory of alloc_host, is read until a later operation is reached; other
     * memory is read before the call returns.
     */
    void (*upload)(struct gw_device *device,
                   void *to,
                   const void *host,
                   size_t bytes);
    /* `upload` from imported memory of another process. */
    void (*copy_import)(struct gw_device *device,
                        void *to,
                        const void *imported,
                        size_t bytes);
    /* Copies to the host after all operations queued before; overlaps with
       operations queued from now on, which must not write `from`. Returns a
       point (a fence): `host` has the bytes when it is reached. With 0 bytes it
       makes a point alone. Points are reached in order. */
    uint64_t (*fetch)(struct gw_device *device,
                      void *host,
                      const void *from,
                      size_t bytes);
    /* GW_OK: the point is reached. GW_EAGAIN: not yet, only without `wait`.
       GW_EIO: the device has failed, with a line that says how. */
    enum gw_status (*reach)(struct gw_device *device,
                            uint64_t point,
                            int wait,
                            struct gw_error *error);
    /* `fetch`, and waits; the bytes in `host` are valid if a later `sync`
       succeeds. */
    void (*download)(struct gw_device *device,
                     void *host,
                     const void *from,
                     size_t bytes);
    /* Waits for all queued operations. Errors of `reach`. */
    enum gw_status (*sync)(struct gw_device *device, struct gw_error *error);

    /*
     * Starts tuning, until `tuned`: a product of a new shape is timed with each
     * algorithm, and uses the fastest from then on; layer outputs are undefined
     * meanwhile. `of` describes, without a colon, the parameters that the calls
     * depend on. `known` is the text of an earlier `tuned` or NULL: if it is
     * for the same `of` on the same kind of device, its algorithms are used and
     * nothing is timed. A shape that was never tuned uses the library's first
     * choice.
     */
    void (*tune)(struct gw_device *device, const char *of, const char *known);
    /* Ends tuning. The text lists the chosen algorithms, at most
       GW_TUNED_BYTES; "": the device has no choice. Products that do not fit in
       the text are not tuned. */
    void (*tuned)(struct gw_device *device, char text[GW_TUNED_BYTES]);

    /* The operations on layers, documented in operations.h. */
#define GW_SIZE_OPERATION(name, parameters, arguments) size_t(*name) parameters;
#define GW_OPERATION(name, parameters, arguments)      void(*name) parameters;
#include "kernels/operations.h"
};

/*
 * A backend that computes nothing: `alloc` returns addresses without memory,
 * which must not be read or written, operations leave them alone, and a loss is
 * 0. For simulations of models that do not fit on one machine; not among
 * gw_backends.
 */
extern const struct gw_backend_ops gw_no_arithmetic;

/* The backends in order of preference: each i below gw_backend_count() has a
   name, "cuda" or "cpu". */
size_t gw_backend_count(void);
const char *gw_backend_name(size_t i);
/* NULL with the reason in words if it does not work here. */
const struct gw_backend_ops *
gw_backend_get(size_t i, char *why, size_t why_bytes);

#define GW_WHY_BYTES 400

struct gw_backend_choice {
    const struct gw_backend_ops *ops;
    int numbered;               /* the name has a number, the ordinal; */
    unsigned ordinal;           /* otherwise 0 until a device is opened */
    char why[2 * GW_WHY_BYTES]; /* why preferred ones were passed over, "no
                                   cuda: ..", or "" */
    int leaves_gpu; /* "auto" took the CPU although a GPU is here: `why` is a
                       fault */
};

/*
 * Chooses the backend that worker.device names (proto/device.h); for "auto",
 * the first that works here. GW_EUSAGE (no such name) and GW_EUNSUPPORTED (not
 * here, and why), each with a line.
 */
enum gw_status gw_backend_choose(const char *name,
                                 struct gw_backend_choice *choice_p,
                                 struct gw_error *error);

/* The operations of gw_backend_choose alone; NULL with a line in *error. */
const struct gw_backend_ops *gw_backend_find(const char *name,
                                             struct gw_error *error);

/*
 * The table of a device that need not be here, for planning: only its name,
 * `takes` and the calls that count bytes of scratch and masks may be used; it
 * must not be opened. "auto" means the backend that works here. GW_EUSAGE: no
 * such name.
 */
const struct gw_backend_ops *gw_backend_outline(const char *name,
                                                struct gw_error *error);

/* Memory of the devices that a job's workers on this host use. */
struct gw_device_room {
    unsigned devices; /* over which workers are dealt out, at least 1 */
    uint64_t total_bytes;
    uint64_t free_bytes; /* including the bytes that measuring took */
};

/*
 * Opens each device that the `workers` are dealt to, one after the other, and
 * reports the one with the least memory per worker. GW_EUNSUPPORTED also for a
 * backend on the host. Libraries that CUDA loads stay in the process. Errors of
 * gw_device_open.
 */
struct gw_config;
enum gw_status gw_device_look(const struct gw_config *config,
                              uint32_t workers,
                              struct gw_device_room *room_p,
                              struct gw_error *error);

/*
 * Opens the device that a job configures: worker.device, worker.threads,
 * train.precision. If the name has no number, workers are dealt out over the
 * host's devices by `place`, their index on this host, linked devices one after
 * the other. The caller closes it. Errors of gw_backend_choose and of `open`.
 */
enum gw_precision gw_precision_of(const struct gw_config *config);
enum gw_status gw_device_open(const struct gw_config *config,
                              uint32_t place,
                              struct gw_backend_choice *choice_p,
                              struct gw_device **device_p,
                              struct gw_error *error);

/* Address of that device by `locate`, without opening it; "" also if there is
   none, or if it depends on a `place` of GW_RANK_NONE, not known yet. Returns
   the number of threads that compute on the host's cores. */
uint32_t gw_device_locate(const struct gw_config *config,
                          uint32_t place,
                          char address[GW_PCI_ADDRESS_BYTES]);

#endif
