#include <config.h>

#include "proto/colocated.h"

#include <stdlib.h>

#include "proto/login.h"

struct gw_colocated_member {
    uint8_t role;
    uint32_t id;
    struct gw_need need;
};

enum gw_status gw_colocation_open(struct gw_colocation *colocation,
                                  uint32_t most)
{
    size_t room = (size_t)most + 1;
    *colocation =
        (struct gw_colocation){.mate = calloc(room, sizeof *colocation->mate),
                               .need = calloc(room, sizeof *colocation->need),
                               .most = most};
    if (colocation->mate && colocation->need)
        return GW_OK;
    gw_colocation_close(colocation);
    return GW_ENOMEM;
}

void gw_colocation_close(struct gw_colocation *colocation)
{
    free(colocation->mate);
    free(colocation->need);
    *colocation = (struct gw_colocation){0};
}

void gw_colocation_add(struct gw_colocation *colocation,
                       uint64_t machine,
                       int is_self,
                       const struct gw_view_member *member)
{
    int is_here = machine != 0 && member->machine == machine;
    if ((!is_here && !is_self) || colocation->n == colocation->most)
        return;
    colocation->mate[colocation->n++] = (struct gw_colocated_member){
        .role = member->role, .id = member->id, .need = member->need};
}

static int order_of(uint8_t role)
{
    return role == GW_ROLE_WORKER ? 0 : role == GW_ROLE_SERVER ? 1 : 2;
}

/* Workers first, then shards, then standbys; each by rank or number. */
static int compare(const void *a, const void *b)
{
    const struct gw_colocated_member *one = a, *other = b;
    if (one->role != other->role)
        return order_of(one->role) - order_of(other->role);
    return (one->id > other->id) - (one->id < other->id);
}

void gw_colocation_seen_by(struct gw_colocation *colocation,
                           uint8_t role,
                           uint32_t id,
                           struct gw_colocated *colocated_p)
{
    struct gw_colocated colocated = {.worker = colocation->need};
    if (colocation->n > 0)
        qsort(colocation->mate, colocation->n, sizeof *colocation->mate,
              compare);
    for (uint32_t i = 0; i < colocation->n; i++) {
        const struct gw_colocated_member *mate = &colocation->mate[i];
        colocation->need[i] = mate->need;
        if (colocation->need[i].threads == 0) /* it did not say */
            colocation->need[i].threads = 1;
        colocated.workers += mate->role == GW_ROLE_WORKER;
        colocated.shards += mate->role != GW_ROLE_WORKER;
        colocated.place += mate->role == role && mate->id < id;
        /* standbys come behind the shards of this host */
        colocated.place +=
            role == GW_ROLE_STANDBY && mate->role == GW_ROLE_SERVER;
    }
    colocated.shard = colocation->need + colocated.workers;
    *colocated_p = colocated;
}
