/* The decisions of shard 0 that others ask about later. Pure state. */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <stdlib.h>

struct gw_decided {
    uint64_t number;     /* all decisions up to this one are known */
    uint64_t last;       /* the last one that came, */
    uint64_t recalled;   /* where those up to here are told once more */
    uint64_t renumbered; /* the last one that numbered clocks again */
    uint64_t cut_clock;
    int has_cut;
    int awaits_cut; /* a user has asked for one */
    uint64_t end_clock;
    int has_end;
    enum gw_end_reason end_reason;
};

enum gw_status gw_decided_open(struct gw_coordinator *self,
                               struct gw_error *error)
{
    struct gw_decided *decided = calloc(1, sizeof *decided);
    self->decided = decided;
    if (!decided)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    decided->end_clock = UINT64_MAX;
    return GW_OK;
}

void gw_decided_close(struct gw_coordinator *self)
{
    free(self->decided);
    self->decided = NULL;
}

uint64_t gw_decided_number(const struct gw_coordinator *self)
{
    return self->decided->number;
}

uint64_t gw_decided_last(const struct gw_coordinator *self)
{
    return self->decided->last;
}

void gw_decided_set_number(struct gw_coordinator *self, uint64_t number)
{
    self->decided->last = number;
    if (number > self->decided->number)
        self->decided->number = number;
}

void gw_decided_rejoin(struct gw_coordinator *self,
                       uint64_t number,
                       uint64_t renumbered)
{
    self->decided->number = self->decided->recalled = number;
    self->decided->renumbered = renumbered;
}

int gw_decided_is_recalled(const struct gw_coordinator *self, uint64_t number)
{
    return number <= self->decided->recalled;
}

uint64_t gw_decided_renumbered(const struct gw_coordinator *self)
{
    return self->decided->renumbered;
}

void gw_decided_renumber(struct gw_coordinator *self, uint64_t number)
{
    self->decided->renumbered = number;
}

int gw_decided_cut(const struct gw_coordinator *self, uint64_t *clock_p)
{
    if (self->decided->has_cut)
        *clock_p = self->decided->cut_clock;
    return self->decided->has_cut;
}

void gw_decided_set_cut(struct gw_coordinator *self, uint64_t clock)
{
    self->decided->cut_clock = clock;
    self->decided->has_cut = 1;
    self->decided->awaits_cut = 0;
}

void gw_decided_await_cut(struct gw_coordinator *self)
{
    self->decided->awaits_cut = 1;
}

int gw_decided_awaits_cut(const struct gw_coordinator *self)
{
    return self->decided->awaits_cut;
}

int gw_decided_has_end(const struct gw_coordinator *self)
{
    return self->decided->has_end;
}

uint64_t gw_decided_end_clock(const struct gw_coordinator *self)
{
    return self->decided->end_clock;
}

enum gw_end_reason gw_decided_end_reason(const struct gw_coordinator *self)
{
    return self->decided->end_reason;
}

void gw_decided_set_end(struct gw_coordinator *self,
                        uint64_t clock,
                        enum gw_end_reason reason)
{
    self->decided->has_end = 1;
    self->decided->end_clock = clock;
    self->decided->end_reason = reason;
}
