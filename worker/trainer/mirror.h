/*
 * Weights and gradients in the memory of a device, and copies between it and
 * the arenas in host memory, which the network writes and reads. If the device
 * computes in host memory there is nothing to copy, and a mirror returns the
 * host's views.
 *
 * Weights go to the device layer by layer, while it computes the layers before;
 * gradients leave it layer by layer, while it computes the layers below. Used
 * by one thread at a time.
 */
#ifndef GW_WORKER_MIRROR_H
#define GW_WORKER_MIRROR_H

#include "kernels/kernels.h"
#include "proto/map.h"
#include "proto/wire.h"

struct gw_mirror;

/* The arenas that are mirrored. Views belong to the caller, and may be set to
   other places between two steps; copies are fast if the views are in memory of
   alloc_host or pinned memory. Aligned to 64 bytes. */
struct gw_mirror_of {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    const struct gw_key *key; /* [keys] */
    size_t keys;
    const float *arena; /* the weights' arena, of so many bytes; the device's,
                           and gradients, have the same layout */
    size_t bytes;
    float *const *weight;   /* [keys] in host memory */
    float *const *gradient; /* likewise; NULL: none are made */
    /* an arena of half the size, in which weights may be as bf16 instead, at
       half the place; NULL: there is none */
    const uint16_t *bf16;
};

/* Bytes that are allocated on the device for an arena of so many bytes: for
   weights, also as bf16 if they come so; and for gradients. */
size_t gw_mirror_weights_bytes(size_t arena_bytes, int bf16);
size_t gw_mirror_gradients_bytes(size_t arena_bytes);

/* The device, and everything that `of` points to, outlives the mirror.
   GW_ENOMEM: the line has the memory that is needed, and the device's. */
enum gw_status gw_mirror_open(const struct gw_mirror_of *of,
                              struct gw_mirror **mirror_p,
                              struct gw_error *error);
void gw_mirror_close(struct gw_mirror *mirror);

/* The places from which the device reads weight i, and in which it makes
   gradient i. Valid until a view is set to another place. */
const float *const *gw_mirror_weights(const struct gw_mirror *mirror);
float *const *gw_mirror_gradients(const struct gw_mirror *mirror);

/* The host's weights change from here on; gradients that have not been handed
   over never are. Waits until the device has done its queued work. GW_EIO: the
   device has failed, with a line. */
enum gw_status gw_mirror_begin(struct gw_mirror *mirror,
                               struct gw_error *error);

/*
 * Queues the copy of a part of a key's weights to the device, once after
 * gw_mirror_begin: `bytes` from byte `at` on (of fp32), as bf16 or whole
 * (GW_ENCODING_RAW). They are in host memory (`from` is NULL); in the arena of
 * another device, in the layout of gw_mirror_weight_arena, which this device
 * sees; or in this device's own arena, and are not copied. They do not change
 * before gw_mirror_begin.
 */
void gw_mirror_upload_part(struct gw_mirror *mirror,
                           size_t key,
                           size_t at,
                           size_t bytes,
                           enum gw_encoding encoding,
                           const void *from);
/* Non-zero if all weights of the key are uploaded already, or need not be: the
   device computes in host memory. */
int gw_mirror_has(const struct gw_mirror *mirror, size_t key);
/* All parts of the key are uploaded: work that is queued from here on finds
   them. */
void gw_mirror_uploaded(struct gw_mirror *mirror,
                        size_t key,
                        enum gw_encoding encoding);
/* Both, for all weights of these keys in host memory. */
void gw_mirror_upload(struct gw_mirror *mirror,
                      size_t first,
                      size_t n,
                      enum gw_encoding encoding);

/* The device's arena of weights, in the layout of the host's, or its arena of
   weights that arrive as bf16: both in one allocation, which begins with the
   raw ones. NULL: the device computes in host memory, or has no arena of
   bf16. */
void *gw_mirror_weight_arena(const struct gw_mirror *mirror,
                             enum gw_encoding encoding);

/*
 * Queues the copy of a part of a key's gradients to the host: `bytes` from byte
 * `at` on, after the queued work that makes them.
 */
void gw_mirror_fetch_part(struct gw_mirror *mirror,
                          size_t key,
                          size_t at,
                          size_t bytes);
/* The queued work makes the gradients of these keys: gw_mirror_next returns
   them when they are made and their fetched parts have come; the rest stays on
   the device. */
void gw_mirror_hand_over(struct gw_mirror *mirror, size_t first, size_t n);
/* Both, for all gradients of these keys. */
void gw_mirror_fetch(struct gw_mirror *mirror, size_t first, size_t n);

/* The device's arena of gradients, in the layout of the host's, in an
   allocation of its own; NULL: the device computes in host memory. */
float *gw_mirror_gradient_arena(const struct gw_mirror *mirror);

/*
 * GW_OK: the next run of keys, in the order of gw_mirror_hand_over; its
 * gradients have come. GW_EAGAIN: none have come, though some may be on their
 * way; with `wait`, none are on their way. GW_EIO: the device has failed, with
 * a line.
 */
enum gw_status gw_mirror_next(struct gw_mirror *mirror,
                              int wait,
                              size_t *first_p,
                              size_t *n_p,
                              struct gw_error *error);

#endif
