/*
 * Wants: at most one open want per (rank, chunk). A worker posts a run of
 * chunks; each chunk is answered once, as soon as its condition holds. The
 * answer's send lives here too, so that answering allocates nothing.
 */
#ifndef GW_SERVER_WANT_H
#define GW_SERVER_WANT_H

#include <stdint.h>

#include "proto/map.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "transport/link/transport.h"

struct gw_want_slot {
    struct gw_want want; /* narrowed to this chunk: `offset` is its own */
    uint64_t decision;   /* the last that the sender knew */
    uint8_t open;
    uint8_t sending;      /* the answer is on its way out */
    uint32_t rank, chunk; /* local index */
    void *owner;
    struct gw_send answer;
};

struct gw_wants {
    const struct gw_map *map;
    uint32_t shard, ranks, chunks;
    struct gw_want_slot *slot; /* [chunks][ranks] */
};

/* owner: of every slot. */
enum gw_status gw_wants_create(const struct gw_map *map,
                               uint32_t shard,
                               uint32_t ranks,
                               void *owner,
                               struct gw_wants **wants_p,
                               struct gw_error *error);
void gw_wants_destroy(struct gw_wants *wants);

/* chunk: local index */
struct gw_want_slot *
gw_wants_slot(struct gw_wants *wants, uint32_t rank, uint32_t chunk);

/*
 * Opens a want on every chunk of its run that this shard owns and that goes
 * over the link it came on, of `links`, as far as the want means it (want->of,
 * want->nth), and calls `opened` for each. A chunk that has an open want takes
 * the newer one. GW_EPROTO: the run leaves the map.
 */
enum gw_status
gw_wants_post(struct gw_wants *wants,
              uint32_t rank,
              unsigned link,
              unsigned links,
              const struct gw_want *want,
              uint64_t decision,
              void (*opened)(void *owner, uint32_t rank, uint32_t chunk),
              void *owner);

#endif
