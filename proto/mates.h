/*
 * The members of a job on one host, gathered from the parts of a view: each
 * member of the host comes to the same result, in any order of the view. Pure
 * but for its memory; any thread, one at a time.
 */
#ifndef GW_PROTO_MATES_H
#define GW_PROTO_MATES_H

#include <stdint.h>

#include "proto/control.h"
#include "proto/status.h"

/* A member's place among the members of its host, and their needs: in the order
   of ranks, and of the numbers of shards. */
struct gw_mates {
    uint32_t workers, shards;     /* in all, with itself */
    uint32_t place;               /* so many of its own role come before it */
    const struct gw_need *worker; /* [workers], of at least 1 thread */
    const struct gw_need *shard;  /* [shards] */
};

struct gw_mate;

struct gw_met {
    struct gw_mate *mate; /* [most] */
    struct gw_need *need; /* [most] */
    uint32_t n, most;
};

/* Room for the members of a view, until gw_met_close, which accepts a zeroed
   struct as well. GW_ENOMEM: it is zeroed then. */
enum gw_status gw_met_open(struct gw_met *met, uint32_t most);
void gw_met_close(struct gw_met *met);

/* Adds a member if it is on the host `machine`, or is the caller itself;
   members that do not say a machine are alone. More than `most` are left out.
 */
void gw_met_add(struct gw_met *met,
                uint64_t machine,
                int is_self,
                const struct gw_view_member *member);

/* All that were added, as the member `id` of a role sees them; until
   gw_met_close. */
void gw_met_mates(struct gw_met *met,
                  uint8_t role,
                  uint32_t id,
                  struct gw_mates *mates_p);

#endif
