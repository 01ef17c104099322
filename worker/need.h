/*
 * What a worker holds in memory, by what it is for: the manual's formula, with
 * the sizes that the program itself takes. Pure, any thread.
 */
#ifndef GW_WORKER_NEED_H
#define GW_WORKER_NEED_H

#include <stdint.h>

#include "kernels/kernels.h"
#include "proto/config.h"
#include "proto/map.h"
#include "proto/status.h"
#include "worker/dataset.h"

/* In bytes. Where cluster.policy has several phases: the most of each. */
struct gw_worker_need {
    uint64_t weights, gradients;
    uint64_t activations; /* and their gradients */
    uint64_t workspace;   /* of convolutions */
    uint64_t batch;       /* samples and labels */
    uint64_t data;        /* unpacked files, labels */
    uint64_t local;       /* what steps of the worker's own need */
    uint64_t snapshot;    /* with checkpoint.dir, from the first one on */
    uint64_t shared;      /* not its own: landing slots of near shards, what it
                             sums of neighbours' and gives them */
    uint64_t tables;
    uint64_t messages; /* and connections; measured, not counted */
    uint64_t mapped;   /* files: the system may drop them and read them again */
    uint64_t opening;  /* of data while it is opened, before all else */
};

struct gw_worker_case {
    const struct gw_config *config;
    const struct gw_dataset *train, *test; /* test: or NULL */
    const struct gw_backend_ops *backend;
};

/*
 * The keys of the job, as its workers declare them: *map_p says where they are
 * on so many shards; the caller frees it. FLOP of a sample, forward and
 * backward. Errors of gw_model_outline and gw_map_create.
 */
enum gw_status gw_worker_map(const struct gw_worker_case *what,
                             struct gw_map **map_p,
                             uint64_t *sample_flop_p,
                             struct gw_error *error);

/* Who is on the worker's host, where links within it are in shared memory. */
struct gw_worker_near {
    const uint8_t *shard; /* [shards of the map], whether it is */
    uint32_t neighbours;  /* workers that push one sum with it */
};

/* `near`: NULL: nobody. Errors of gw_plan_make and gw_model_outline. */
enum gw_status gw_worker_need(const struct gw_worker_case *what,
                              const struct gw_map *map,
                              const struct gw_worker_near *near,
                              struct gw_worker_need *need_p,
                              struct gw_error *error);

#endif
