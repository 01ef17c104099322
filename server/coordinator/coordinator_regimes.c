/*
 * The policies of the job along its clocks: two that are past, the one in
 * force, and up to two that are decided. Pure state; coordinator_switch.c moves
 * it on.
 */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <stdlib.h>

/* Decided to hold from a clock on; UINT64_MAX: there is none. */
struct coming {
    struct gw_regime regime;
    uint64_t clock;
    uint64_t pushes; /* that are applied by then */
};

struct gw_regimes {
    struct coming now;
    struct coming next, after; /* two where phases are of one exchange */
    /* The last one first: workers may tell of steps under the next policy while
       a cut, or a step of another worker, before it is still on its way. */
    struct coming past[2];
    int has_changed;             /* before this coordinator began */
    int is_asked;                /* for a word that is not decided yet: */
    struct gw_policy_word asked; /* the last one */
};

enum gw_status gw_regimes_open(struct gw_coordinator *self,
                               struct gw_error *error)
{
    struct gw_regimes *regimes = calloc(1, sizeof *regimes);
    self->regimes = regimes;
    if (!regimes)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    regimes->next.clock = regimes->after.clock = UINT64_MAX;
    regimes->past[0].clock = regimes->past[1].clock = UINT64_MAX;
    return GW_OK;
}

void gw_regimes_close(struct gw_coordinator *self)
{
    free(self->regimes);
    self->regimes = NULL;
}

void gw_regimes_begin(struct gw_coordinator *self,
                      const struct gw_regime *regime,
                      uint64_t clock,
                      uint64_t pushes)
{
    self->regimes->now = (struct coming){*regime, clock, pushes};
}

void gw_regimes_rejoin(struct gw_coordinator *self,
                       const struct gw_regime *regime,
                       uint64_t clock,
                       uint64_t pushes,
                       int has_changed)
{
    gw_regimes_begin(self, regime, clock, pushes);
    self->regimes->has_changed = has_changed;
}

/* ---- questions ---- */

const struct gw_regime *gw_regimes_now(const struct gw_coordinator *self)
{
    return &self->regimes->now.regime;
}

int gw_regimes_is_per_push(const struct gw_coordinator *self)
{
    return self->regimes->now.regime.per_push;
}

uint64_t gw_regimes_base_clock(const struct gw_coordinator *self)
{
    return self->regimes->now.clock;
}

uint64_t gw_regimes_base_pushes(const struct gw_coordinator *self)
{
    return self->regimes->now.pushes;
}

uint64_t gw_regimes_next_clock(const struct gw_coordinator *self)
{
    return self->regimes->next.clock;
}

int gw_regimes_has_changed(const struct gw_coordinator *self)
{
    return self->regimes->has_changed ||
           self->regimes->past[0].clock != UINT64_MAX;
}

static int has_begun(const struct coming *one, uint64_t clock)
{
    return one->clock != UINT64_MAX && clock >= one->clock;
}

const struct gw_regime *gw_regimes_at(const struct gw_coordinator *self,
                                      uint64_t clock)
{
    const struct gw_regimes *regimes = self->regimes;
    const struct coming *past = regimes->past;
    if (has_begun(&regimes->after, clock))
        return &regimes->after.regime;
    if (has_begun(&regimes->next, clock))
        return &regimes->next.regime;
    if (clock >= regimes->now.clock || past[0].clock == UINT64_MAX)
        return &regimes->now.regime;
    if (clock >= past[0].clock || past[1].clock == UINT64_MAX)
        return &past[0].regime;
    return &past[1].regime;
}

const struct gw_policy_word *
gw_regimes_word(const struct gw_coordinator *self, uint64_t step, int *last_p)
{
    const struct gw_regimes *regimes = self->regimes;
    const struct coming *next = &regimes->next;
    int begun = has_begun(next, step);
    *last_p = (begun ? &regimes->after : next)->clock == UINT64_MAX;
    return begun ? &next->regime.word : &regimes->now.regime.word;
}

/* ---- decisions ---- */

int gw_regimes_may_add(const struct gw_coordinator *self,
                       uint64_t clock,
                       int stands)
{
    const struct gw_regimes *regimes = self->regimes;
    if (stands != gw_regimes_is_per_push(self))
        return 0;
    if (regimes->next.clock == UINT64_MAX)
        return 1;
    return !stands && regimes->after.clock == UINT64_MAX &&
           clock > regimes->next.clock;
}

/* A decision on another word was made before the user asked. */
void gw_regimes_add(struct gw_coordinator *self,
                    const struct gw_regime *regime,
                    uint64_t clock,
                    uint64_t pushes)
{
    struct gw_regimes *regimes = self->regimes;
    const struct gw_policy_word *word = &regime->word;
    if (word->kind == regimes->asked.kind && word->n == regimes->asked.n)
        regimes->is_asked = 0;
    *(regimes->next.clock == UINT64_MAX ? &regimes->next : &regimes->after) =
        (struct coming){*regime, clock, pushes};
}

void gw_regimes_advance(struct gw_coordinator *self)
{
    struct gw_regimes *regimes = self->regimes;
    regimes->past[1] = regimes->past[0];
    regimes->past[0] = regimes->now;
    regimes->now = regimes->next;
    regimes->next = regimes->after;
    regimes->after.clock = UINT64_MAX;
}

void gw_regimes_skip(struct gw_coordinator *self)
{
    struct coming *next = &self->regimes->next;
    uint64_t workers = self->config->cluster.workers;
    if (next->clock != UINT64_MAX && next->pushes >= workers)
        next->pushes -= workers;
}

void gw_regimes_ask(struct gw_coordinator *self,
                    const struct gw_policy_word *word)
{
    self->regimes->is_asked = 1;
    self->regimes->asked = *word;
}

int gw_regimes_is_asked(const struct gw_coordinator *self)
{
    return self->regimes->is_asked;
}
