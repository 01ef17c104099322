/*
 * From one policy to the next at the coordinator: how steps are counted and
 * told, and the policy that checkpoints name.
 */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <inttypes.h>

static void begin(struct gw_coordinator *self)
{
    char word[GW_WORD_BYTES];
    gw_regimes_advance(self);
    uint64_t clock = gw_regimes_base_clock(self);
    gw_steps_reach(self, clock);
    for (uint32_t rank = 0; rank < self->config->cluster.workers; rank++)
        gw_steps_set_first(self, rank, clock);
    gw_gather_restart(self, clock);
    gw_policy_word_print(&gw_regimes_now(self)->word, word);
    gw_coordinator_note(self, "step %" PRIu64 ": the policy is %s from here on",
                        clock, word);
}

void gw_coordinator_switch_reached(struct gw_coordinator *self, uint64_t clock)
{
    while (gw_regimes_next_clock(self) != UINT64_MAX &&
           clock >= gw_regimes_next_clock(self))
        begin(self);
}

/* Per push, a switch says where all ranks stand. */
void gw_coordinator_switch(struct gw_coordinator *self,
                           const struct gw_decision *decision)
{
    struct gw_error error;
    struct gw_policy_word word;
    struct gw_regime regime;
    uint64_t clock = decision->clock, pushes = 0;
    int stands = decision->clocks_n > 0;
    enum gw_status status =
        gw_policy_word_parse(decision->policy, &word, &error);
    if (status == GW_OK)
        status = gw_config_check_word(self->config, &word, &error);
    if (status == GW_OK)
        status = gw_regime_make(self->config, &word, clock, &regime, &error);
    if (status != GW_OK) {
        gw_coordinator_end(self, GW_EPROTO, "decision %" PRIu64 ": %s",
                           decision->number, error.text);
        return;
    }
    /* it is decided where the one before the last has begun */
    if (clock > 0)
        gw_coordinator_switch_reached(self, clock - 1);
    if (!gw_regimes_may_add(self, clock, stands) ||
        (decision->values_n > 0 &&
         !gw_decision_count(decision->values[0], &pushes))) {
        gw_coordinator_end(self, GW_EPROTO,
                           "decision %" PRIu64
                           " of shard 0: a switch of policy at a "
                           "step where none can be",
                           decision->number);
        return;
    }
    gw_regimes_add(self, &regime, clock, pushes);
    if (!stands)
        return; /* it begins at a step to come */
    gw_decided_renumber(self, decision->number);
    begin(self);
}
