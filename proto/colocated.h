/*
 * The members of a job on one host, gathered from the parts of a view: each
 * member of the host comes to the same result, in any order of the view. Pure
 * but for its memory; any thread, one at a time.
 */
#ifndef GW_PROTO_COLOCATED_H
#define GW_PROTO_COLOCATED_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/status.h"

/* A member's place among the members of its host, and their needs: in the order
   of ranks, and of the numbers of shards. */
struct gw_colocated {
    uint32_t workers, shards;     /* in all, with itself */
    uint32_t place;               /* so many of its own role come before it */
    const struct gw_need *worker; /* [workers], of at least 1 thread */
    const struct gw_need *shard;  /* [shards] */
};

struct gw_colocated_member;

struct gw_colocation {
    struct gw_colocated_member *mate; /* [most] */
    struct gw_need *need;             /* [most] */
    uint32_t n, most;
};

/* Room for the members of a view, until gw_colocation_close, which accepts a
   zeroed struct as well. GW_ENOMEM: it is zeroed then. */
enum gw_status gw_colocation_open(struct gw_colocation *colocation,
                                  uint32_t most);
void gw_colocation_close(struct gw_colocation *colocation);

/* Adds a member if it is on the host `machine`, or is the caller itself;
   members that do not say a machine are alone. More than `most` are left out.
 */
void gw_colocation_add(struct gw_colocation *colocation,
                       uint64_t machine,
                       int is_self,
                       const struct gw_view_member *member);

/* All that were added, as the member `id` of a role sees them; until
   gw_colocation_close. */
void gw_colocation_seen_by(struct gw_colocation *colocation,
                           uint8_t role,
                           uint32_t id,
                           struct gw_colocated *colocated_p);

#endif
