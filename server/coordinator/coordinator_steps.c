/*
 * The furthest step of the job: by reports, which are exact but late, and by
 * heartbeats, which are there long before a step is told.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include <stdlib.h>

struct gw_steps {
    uint64_t begin;  /* the job goes on from here */
    uint64_t known;  /* the furthest one reported */
    uint64_t *first; /* [workers] per push: a rank's steps count from here */
};

enum gw_status gw_steps_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    struct gw_steps *steps = calloc(1, sizeof *steps);
    self->steps = steps;
    if (steps)
        steps->first =
            calloc(self->config->cluster.workers, sizeof *steps->first);
    if (!steps || !steps->first)
        return gw_fail(error, GW_ENOMEM, "no memory for reports");
    return GW_OK;
}

void gw_steps_close(struct gw_coordinator *self)
{
    if (!self->steps)
        return;
    free(self->steps->first);
    free(self->steps);
    self->steps = NULL;
}

void gw_steps_resume(struct gw_coordinator *self, uint64_t clock)
{
    self->steps->begin = self->steps->known = clock;
}

uint64_t gw_steps_begin(const struct gw_coordinator *self)
{
    return self->steps->begin;
}

uint64_t gw_steps_known(const struct gw_coordinator *self)
{
    return self->steps->known;
}

void gw_steps_reach(struct gw_coordinator *self, uint64_t clock)
{
    if (clock > self->steps->known)
        self->steps->known = clock;
}

void gw_steps_set(struct gw_coordinator *self, uint64_t clock)
{
    self->steps->known = clock;
}

const uint64_t *gw_steps_first(const struct gw_coordinator *self)
{
    return self->steps->first;
}

void gw_steps_set_first(struct gw_coordinator *self,
                        uint32_t rank,
                        uint64_t clock)
{
    self->steps->first[rank] = clock;
}

uint64_t gw_steps_last(const struct gw_coordinator *self)
{
    uint64_t total = gw_declaration(self)->total_steps;
    uint64_t begin = self->steps->begin;
    return begin > total ? begin : total; /* it was made by a longer job */
}

int gw_steps_is_beyond(const struct gw_coordinator *self, uint64_t clock)
{
    return clock > gw_steps_last(self) + GW_STEPS_BEYOND;
}

uint64_t gw_steps_least(const struct gw_coordinator *self)
{
    uint64_t least = UINT64_MAX;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer->clock < least)
            least = one->peer->clock;
    return least;
}

/* Per push, ranks are at clocks of their own: the mean of their steps. */
static uint64_t step_per_push(const struct gw_coordinator *self)
{
    const uint64_t *first = self->steps->first;
    uint64_t clocks = 0, total = gw_declaration(self)->total_steps;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer->clock > first[one->id])
            clocks += one->peer->clock - first[one->id];
    uint64_t step =
        gw_regimes_base_clock(self) + clocks / self->config->cluster.workers;
    return step < total ? step : total;
}

uint64_t gw_coordinator_step(const struct gw_coordinator *self)
{
    uint64_t step = self->steps->known;
    if (gw_regimes_is_per_push(self)) {
        uint64_t done = step_per_push(self);
        return done > step ? done : step;
    }
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer &&
            one->peer->clock > step &&
            !gw_steps_is_beyond(self, one->peer->clock))
            step = one->peer->clock;
    return step;
}
