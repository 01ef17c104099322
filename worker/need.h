/*
 * The memory that a worker holds, by purpose: the manual's formula, with the
 * sizes that the program itself takes, on its host and on its device. Pure, any
 * thread.
 */
#ifndef GW_WORKER_NEED_H
#define GW_WORKER_NEED_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/map.h"
#include "proto/status.h"
#include "worker/data/dataset.h"

/* On a device with memory of its own, in bytes of its whole pages. */
struct gw_device_need {
    uint64_t weights; /* and as bf16, where they come so */
    uint64_t gradients;
    uint64_t activations; /* and their gradients */
    uint64_t scratch;     /* for products */
    uint64_t batch;       /* samples and labels */
    uint64_t workspace;   /* its own, */
    uint64_t lent; /* and another one if others than this worker's computation
                      may use the device: without it they do not */
    uint64_t code; /* CUDA's libraries, which steps load, */
    uint64_t process; /* and CUDA itself: as measured on one kind of GPU */
};

/* In bytes of host memory, except `device`. If cluster.policy has several
   phases: the most of each. */
struct gw_worker_need {
    struct gw_device_need device; /* zeros: it computes in host memory, */
    uint64_t activations;         /* only then: and their gradients, */
    uint64_t scratch;             /* and memory for products */
    uint64_t weights, gradients;  /* with a device: as they arrive and leave */
    uint64_t batch; /* samples and labels; with a device the next batch too */
    uint64_t data;  /* unpacked files, labels */
    uint64_t local; /* arenas and states for local steps */
    uint64_t snapshot; /* with checkpoint.dir, from the first one on */
    uint64_t shared;   /* not its own: landing slots of near shards, the group's
                          gradients to sum and weights for them */
    uint64_t tables;
    uint64_t messages; /* and connections; measured, not counted */
    uint64_t mapped;   /* files: the system may drop them and read them again */
    uint64_t opening;  /* data while it is opened, before all else */
};

struct gw_worker_case {
    const struct gw_config *config;
    /* the tensors that travel, of a program's own model: [keys]; NULL: those of
       the job's model */
    const struct gw_key *key;
    size_t keys;
    /* what a step computes; NULL with `key`: the program does, with data,
       activations and a device that are its own */
    const struct gw_dataset *train, *test; /* test: or NULL */
    const struct gw_backend_ops *backend;
};

/*
 * Makes the map of the job's keys, as its workers declare them, over its
 * shards; the caller frees it. *sample_flop_p: FLOP of a sample, forward and
 * backward; 0 for a program. Errors of gw_model_outline and gw_map_create.
 */
enum gw_status gw_worker_map(const struct gw_worker_case *what,
                             struct gw_map **map_p,
                             uint64_t *sample_flop_p,
                             struct gw_error *error);

/* The members on the worker's host, if links within it are in shared memory. */
struct gw_worker_near {
    const uint8_t *shard; /* [shards of the map] non-zero: on this host */
    uint32_t grouped;     /* workers that push one sum with it */
};

/* `near`: NULL: nobody. An outline of the backend (gw_backend_outline) gives
   the same result. A program's worker has the part of libgradweir.so. Errors of
   gw_plan_make, gw_policy_plan_parse and gw_model_outline. */
enum gw_status gw_worker_need(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_worker_near *near,
                              struct gw_worker_need *need_p,
                              struct gw_error *error);

/* ---- a device ---- */

/* The bytes from which the need is counted: of the model with its scratch, of
   weights, and of a batch. */
struct gw_device_parts {
    uint64_t model_bytes, scratch_bytes, arena_bytes, sample_bytes, labels;
};
struct gw_device_need gw_device_need_of(const struct gw_worker_case *what,
                                        const struct gw_device_parts *parts);

/* The bytes that must be free for certain: all but `process`, which CUDA itself
   takes, and `lent`, which the worker can do without. */
uint64_t gw_device_need_own(const struct gw_device_need *need);

/*
 * GW_ENOMEM with one line if a worker does not fit into the free memory of its
 * device: its needs by name, the free memory, and the largest batch with which
 * it fits, by the key that the job sets. Errors as above.
 */
enum gw_status gw_worker_check_device(const struct gw_worker_case *what,
                                      const struct gw_device_room *room,
                                      struct gw_error *error);

/* ---- words, and the largest batch ---- */

#define GW_NEED_TEXT       256
#define GW_NEED_BYTES_TEXT 24

/* "1.2 GiB"; returns the text. */
const char *gw_need_say_bytes(uint64_t bytes, char text[GW_NEED_BYTES_TEXT]);
/* "weights 1.0 MiB, gradients ..", the parts of gw_device_need_own. */
void gw_device_need_say(const struct gw_device_need *need,
                        char text[GW_NEED_TEXT]);

/* The key that sets a job's batch: of a worker, or of all. */
struct gw_batch_key {
    const char *name;
    uint64_t *value, least; /* the smallest that makes sense */
};
struct gw_batch_key gw_batch_key_of(struct gw_config *config);

/* Non-zero if the need fits with that number. */
typedef int gw_need_fits_cb(const void *owner, uint64_t value);

/*
 * The number nearest to `bad` that fits, if all numbers beyond it do. `bad`
 * does not fit and `good` does, the smaller or the larger of the two. Asks at
 * most GW_NEED_TURNS times, with any answers.
 */
#define GW_NEED_TURNS 64
uint64_t gw_need_nearest(uint64_t bad,
                         uint64_t good,
                         gw_need_fits_cb *fits_cb,
                         const void *owner);

#endif
