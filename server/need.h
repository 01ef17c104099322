/* The memory of a server, by purpose: the manual's formula, with the sizes
   that the program itself takes. Pure, any thread. */
#ifndef GW_SERVER_NEED_H
#define GW_SERVER_NEED_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/map.h"
#include "proto/status.h"

/* In bytes. Where cluster.policy has several phases: the most of each. */
struct gw_server_need {
    uint64_t weights;  /* and their next version */
    uint64_t states;   /* of the optimizer */
    uint64_t landing;  /* a slot for each worker */
    uint64_t sums;     /* whole steps, groups */
    uint64_t ranks;    /* kept by a policy for each worker */
    uint64_t shared;   /* not its own: weights of near workers, that it writes,
                          and their gradients, that it reads */
    uint64_t copies;   /* cluster.copies: of another shard, which it stands by
                          for; in the place of its server landing slots, too */
    uint64_t snapshot; /* with checkpoint.dir, from the first one on */
    uint64_t tables;
    uint64_t messages; /* and connections; measured, not counted */
};

/* Needs of the thread that has shard `number` of the map. `near`: workers
   whose links with it are in shared memory. A job without arithmetic has no
   arrays. Errors of gw_regime_make. */
enum gw_status gw_server_need(const struct gw_config *config,
                              const struct gw_map *map,
                              uint32_t number,
                              uint32_t near,
                              struct gw_server_need *need_p,
                              struct gw_error *error);

/* *bytes_p: the part of a near worker's memory that all shards together see,
   at most. */
enum gw_status gw_server_sees(const struct gw_config *config,
                              const struct gw_map *map,
                              uint64_t *bytes_p,
                              struct gw_error *error);

/* Needs of a coordinator: its messages and connections, and the keys. */
uint64_t gw_coordinator_need(const struct gw_config *config,
                             const struct gw_map *map);

#endif
