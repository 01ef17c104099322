/*
 * From one policy to the next, as the coordinator sees it: how steps are
 * counted and told, and what checkpoints say of themselves.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>

#include "server/policy/decision.h"

static void begin(struct gw_coordinator *self)
{
    struct gw_gather_each *gather = &self->gather_each;
    uint64_t clock = self->next.clock, every = self->cadence.steps;
    char word[GW_POLICY_WORD_BYTES];
    self->past[1] = self->past[0];
    self->past[0] =
        (struct gw_coming){self->regime, self->base_clock, self->base_pushes};
    self->regime = self->next.regime;
    self->base_clock = clock;
    self->base_pushes = self->next.pushes;
    self->next = self->after;
    self->after.clock = UINT64_MAX;
    self->skips = 0;
    if (clock > self->step)
        self->step = clock;
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        gather->first[rank] = clock;
    for (struct gw_roster *one = self->roster; one; one = one->next)
        one->clocks = 0;
    /* the step before was told, or will be */
    gather->told = clock > 0 ? (clock - 1) / every + 1 : 0;
    gather->told_step = clock > 0 ? clock - 1 : 0;
    gather->sum = (struct gw_score){0};
    self->polled = 0;
    gw_policy_word_print(&self->regime.word, word);
    gw_coordinator_note(self, "step %" PRIu64 ": the policy is %s from here on",
                        clock, word);
}

void gw_coordinator_switch_reached(struct gw_coordinator *self, uint64_t clock)
{
    while (self->next.clock != UINT64_MAX && clock >= self->next.clock)
        begin(self);
}

const struct gw_regime *
gw_coordinator_regime_at(const struct gw_coordinator *self, uint64_t clock)
{
    if (self->after.clock != UINT64_MAX && clock >= self->after.clock)
        return &self->after.regime;
    if (self->next.clock != UINT64_MAX && clock >= self->next.clock)
        return &self->next.regime;
    if (clock >= self->base_clock || self->past[0].clock == UINT64_MAX)
        return &self->regime;
    if (clock >= self->past[0].clock || self->past[1].clock == UINT64_MAX)
        return &self->past[0].regime;
    return &self->past[1].regime;
}

const struct gw_policy_word *
gw_coordinator_word(const struct gw_coordinator *self, int *last_p)
{
    const struct gw_coming *next = &self->next;
    int begun =
        next->clock != UINT64_MAX && gw_coordinator_step(self) >= next->clock;
    *last_p = (begun ? &self->after : next)->clock == UINT64_MAX;
    return begun ? &next->regime.word : &self->regime.word;
}

/* From single pushes all ranks say where they stand, and nothing is to come
   first; else it comes behind what is decided. */
static int may_follow(const struct gw_coordinator *self,
                      const struct gw_decision *decision)
{
    const struct gw_coming *next = &self->next;
    int stands = decision->clocks_n > 0;
    if (stands != self->regime.each)
        return 0;
    if (next->clock == UINT64_MAX)
        return 1;
    return !stands && self->after.clock == UINT64_MAX &&
           decision->clock > next->clock;
}

void gw_coordinator_switch(struct gw_coordinator *self,
                           const struct gw_decision *decision)
{
    struct gw_error error;
    struct gw_policy_word word;
    struct gw_coming coming = {.clock = decision->clock};
    enum gw_status status =
        gw_policy_word_parse(decision->policy, &word, &error);
    if (status == GW_OK)
        status = gw_config_check_word(self->config, &word, &error);
    if (status == GW_OK)
        status = gw_regime_make(self->config, &word, decision->clock,
                                &coming.regime, &error);
    if (status != GW_OK) {
        gw_coordinator_end(self, GW_EPROTO, "decision %" PRIu64 ": %s",
                           decision->number, error.text);
        return;
    }
    /* it is decided where the one before the last has begun */
    if (decision->clock > 0)
        gw_coordinator_switch_reached(self, decision->clock - 1);
    if (!may_follow(self, decision) ||
        (decision->values_n > 0 &&
         !gw_decision_count(decision->values[0], &coming.pushes))) {
        gw_coordinator_end(self, GW_EPROTO,
                           "decision %" PRIu64
                           " of shard 0: a switch of policy at a "
                           "step where none can be",
                           decision->number);
        return;
    }
    /* the one before it may have been decided when it was asked for */
    if (word.kind == self->asked_word.kind && word.n == self->asked_word.n)
        self->asked = 0;
    *(self->next.clock == UINT64_MAX ? &self->next : &self->after) = coming;
    if (decision->clocks_n == 0)
        return; /* of steps to come */
    self->renumbered = decision->number;
    begin(self);
}
