#include <config.h>

#include "proto/mates.h"

#include <stdlib.h>

#include "proto/login.h"

struct gw_mate {
    uint8_t role;
    uint32_t id;
    struct gw_need need;
};

enum gw_status gw_met_open(struct gw_met *met, uint32_t most)
{
    size_t room = (size_t)most + 1;
    *met = (struct gw_met){.mate = calloc(room, sizeof *met->mate),
                           .need = calloc(room, sizeof *met->need),
                           .most = most};
    if (met->mate && met->need)
        return GW_OK;
    gw_met_close(met);
    return GW_ENOMEM;
}

void gw_met_close(struct gw_met *met)
{
    free(met->mate);
    free(met->need);
    *met = (struct gw_met){0};
}

void gw_met_add(struct gw_met *met,
                uint64_t machine,
                int is_self,
                const struct gw_view_member *member)
{
    int is_here = machine != 0 && member->machine == machine;
    if ((!is_here && !is_self) || met->n == met->most)
        return;
    met->mate[met->n++] = (struct gw_mate){
        .role = member->role, .id = member->id, .need = member->need};
}

/* Workers first, then by rank or number. */
static int compare(const void *a, const void *b)
{
    const struct gw_mate *one = a, *other = b;
    int is_worker = one->role == GW_ROLE_WORKER;
    if (is_worker != (other->role == GW_ROLE_WORKER))
        return is_worker ? -1 : 1;
    return (one->id > other->id) - (one->id < other->id);
}

void gw_met_mates(struct gw_met *met,
                  uint8_t role,
                  uint32_t id,
                  struct gw_mates *mates_p)
{
    struct gw_mates mates = {.worker = met->need};
    if (met->n > 0)
        qsort(met->mate, met->n, sizeof *met->mate, compare);
    for (uint32_t i = 0; i < met->n; i++) {
        const struct gw_mate *mate = &met->mate[i];
        met->need[i] = mate->need;
        if (met->need[i].threads == 0) /* it did not say */
            met->need[i].threads = 1;
        mates.workers += mate->role == GW_ROLE_WORKER;
        mates.shards += mate->role == GW_ROLE_SERVER;
        mates.place += mate->role == role && mate->id < id;
    }
    mates.shard = met->need + mates.workers;
    *mates_p = mates;
}
