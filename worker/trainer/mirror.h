/*
 * Weights and gradients as a device has them, beside the arenas in host memory
 * that the network writes and reads. Where the device computes in host memory
 * there is nothing to copy, and a mirror gives back what it is given.
 *
 * Weights go to the device layer by layer, while it computes the layers before;
 * gradients leave it layer by layer, while it computes those below. Used by one
 * thread at a time.
 */
#ifndef GW_WORKER_MIRROR_H
#define GW_WORKER_MIRROR_H

#include "kernels/kernels.h"
#include "proto/map.h"
#include "proto/wire.h"

struct gw_mirror;

/* What is mirrored. Views belong to the caller, and may be set to other places
   between two steps; copies are fast where they are of alloc_host or pinned
   memory. Aligned to 64 bytes. */
struct gw_mirror_of {
    const struct gw_backend_ops *ops;
    struct gw_device *device;
    const struct gw_key *key; /* [keys] */
    size_t keys;
    const float *arena; /* where the first weights lie, in so many bytes; the
                           device's, and gradients, lie alike */
    size_t bytes;
    float *const *weight;   /* [keys] of host memory */
    float *const *gradient; /* likewise; NULL: none are made */
    /* where weights may be as bf16 instead: an arena of half the size, in which
       they lie at half the place; NULL: nowhere */
    const uint16_t *bf16;
};

/* What is allocated of the device for an arena of so many bytes: with weights
   those as bf16, if they come so; and for gradients. */
size_t gw_mirror_weights_bytes(size_t arena_bytes, int bf16);
size_t gw_mirror_gradients_bytes(size_t arena_bytes);

/* The device must outlive it, and what `of` points to. GW_ENOMEM with what is
   needed and what the device has. */
enum gw_status gw_mirror_open(const struct gw_mirror_of *of,
                              struct gw_mirror **mirror_p,
                              struct gw_error *error);
void gw_mirror_close(struct gw_mirror *mirror);

/* Where the device finds weight i and makes gradient i. Valid until a view is
   set to another place. */
const float *const *gw_mirror_weights(const struct gw_mirror *mirror);
float *const *gw_mirror_gradients(const struct gw_mirror *mirror);

/* The host's weights will be others from here on; gradients that have not been
   handed over never will be. Waits for the device to do what it was still told
   to do. GW_EIO: it has failed, with a line. */
enum gw_status gw_mirror_begin(struct gw_mirror *mirror,
                               struct gw_error *error);

/*
 * Of a key's weights, `bytes` from byte `at` on (of fp32) are true in some
 * memory, as bf16 or whole (GW_ENCODING_RAW), where they do not change before
 * gw_mirror_begin: that of the host (NULL); an arena that the device sees of
 * another one, and which is as gw_mirror_weight_arena is; or this one itself.
 * Queued for the device, once after gw_mirror_begin.
 */
void gw_mirror_show_part(struct gw_mirror *mirror,
                         size_t key,
                         size_t at,
                         size_t bytes,
                         enum gw_encoding encoding,
                         const void *from);
/* Whether that is done already, or need not be: the device computes in the
   host's memory. */
int gw_mirror_has(const struct gw_mirror *mirror, size_t key);
/* That was all of them: what is queued now finds them. */
void gw_mirror_shown(struct gw_mirror *mirror,
                     size_t key,
                     enum gw_encoding encoding);
/* Both, of all weights of these keys in host memory. */
void gw_mirror_show(struct gw_mirror *mirror,
                    size_t first,
                    size_t n,
                    enum gw_encoding encoding);

/* All weights as the device has them, as the arena is, or where they are as
   bf16 on their way: in one allocation, which begins with the raw ones. NULL:
   in the host's memory, or nowhere. */
void *gw_mirror_weight_arena(const struct gw_mirror *mirror,
                             enum gw_encoding encoding);

/*
 * What the device has queued makes a key's gradients: `bytes` of them, from
 * byte `at` on, follow it to the host.
 */
void gw_mirror_fetch_part(struct gw_mirror *mirror,
                          size_t key,
                          size_t at,
                          size_t bytes);
/* The same makes the gradients of these keys: gw_mirror_next tells of them when
   they are made, and what is fetched of them has come; the rest stays where it
   is. */
void gw_mirror_hand_over(struct gw_mirror *mirror, size_t first, size_t n);
/* Both, of all that these keys have. */
void gw_mirror_fetch(struct gw_mirror *mirror, size_t first, size_t n);

/* All gradients as the device has them, as the arena is, in an allocation of
   their own; NULL: in the host's memory. */
float *gw_mirror_gradient_arena(const struct gw_mirror *mirror);

/*
 * The next run of keys that was to be handed over, in that order, whose
 * gradients have come: GW_OK. GW_EAGAIN: none is, though some may be on their
 * way; with `wait`, none is on its way. GW_EIO: the device has failed, with a
 * line.
 */
enum gw_status gw_mirror_next(struct gw_mirror *mirror,
                              int wait,
                              size_t *first_p,
                              size_t *n_p,
                              struct gw_error *error);

#endif
