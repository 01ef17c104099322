/*
 * Groups: workers of one host that sum their gradients among themselves, and
 * push the sum. A group is an aligned block of ranks, a power of two of them,
 * which is a subtree of the sum over all ranks (gw_reduce_block): its members'
 * sum equals the servers', to the bit.
 *
 *   ranks   0 1 2 3 | 4 5 | 6 | 7        blocks 4, 2, 1, 1 of a job of 8
 *   host    a a a a | b b | b | c
 *
 * Each member owns every n-th chunk: it sums that chunk of all of them, pushes
 * it, and gives them the weights that come back. Pure functions, any thread.
 */
#ifndef GW_PROTO_GROUPS_H
#define GW_PROTO_GROUPS_H

#include <stdint.h>

#include "proto/wire.h"

/* A block is no larger; more ranks of one host are several. */
#define GW_GROUP_MAX 64

struct gw_group {
    uint32_t first, n; /* ranks first .. first + n - 1; n = 1: by itself */
};

/*
 * place[rank]: where the rank meets others, equal for ranks that can share
 * memory; "" for one that cannot. Fills in the size of each block, in the order
 * of ranks; size has room for `ranks`. Returns how many blocks.
 */
uint32_t
gw_groups_make(const char *const *place, uint32_t ranks, uint32_t *size);

/*
 * The rank for a worker that meets others at `where`, as they come one by one:
 * next to the ranks of its place, so that they form one block; the first of a
 * place goes where most room is left for the rest of it. "": the lowest. place:
 * as above, NULL for a rank that is free; at least one is.
 */
uint32_t
gw_groups_rank(const char *const *place, uint32_t ranks, const char *where);

/* How many blocks `n` ranks from `first` on are that share a place. */
uint32_t gw_groups_blocks(uint32_t first, uint32_t n);

/* Non-zero when blocks, which may come from anyone, are groups of so many
   ranks. */
int gw_groups_are_valid(const uint32_t *size, uint32_t blocks, uint32_t ranks);

/* The group of a rank; none are told of: it is by itself. */
struct gw_group
gw_group_of(const uint32_t *size, uint32_t blocks, uint32_t rank);

/* The rank that sums and pushes a chunk of the map. */
uint32_t gw_group_owner(struct gw_group group, uint32_t chunk);

int gw_group_has(struct gw_group group, uint32_t rank);

/*
 * The parts of a chunk's sum: payload of a GW_FRAME_PARTS. From a member to the
 * chunk's owner, of itself: its gradient is where the owner sees it. From the
 * owner to a shard, of all members in the order of ranks, before the push that
 * is their sum (GW_FLAG_SUM).
 */
enum gw_part_gradient {
    GW_GRADIENT_MADE = 0,      /* also where there are no samples */
    GW_GRADIENT_NONFINITE = 1, /* it has something that is not finite */
    GW_GRADIENT_COUNTED = 2, /* there is none, and samples count all the same */
    GW_GRADIENT_UNCOUNTED = 3, /* there is none, and samples do not count */
};

struct gw_part {
    uint32_t rank;
    uint32_t samples;
    enum gw_part_gradient gradient;
    uint8_t terms; /* the rank sets terms at this clock (proto/terms.h) */
};

#define GW_PART_BYTES 12

void gw_parts_encode(const struct gw_part *part, uint32_t n, uint8_t *out);

/* GW_EPROTO: not parts of this very group, `n` of them in order from the rank
   `first` on; or a reserved bit. */
enum gw_status gw_parts_decode(const uint8_t *in,
                               uint32_t bytes,
                               uint32_t first,
                               uint32_t n,
                               struct gw_part *part);

#endif
