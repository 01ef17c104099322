/*
 * Which policy comes next, and when: what somebody has asked for, else what the
 * job's plan has. See switch.c for what a shard makes of it.
 */
#include "config.h"

#include "server/policy/decision_state.h"

void gw_leader_switch(struct gw_leader *leader,
                      const struct gw_policy_word *word)
{
    leader->asked = 1;
    leader->asked_word = *word;
    gw_meet_maybe(leader);
}

/* What is to hold from a step on; 0: what does now. */
static int find_next(const struct gw_leader *leader,
                     uint64_t step,
                     struct gw_regime *regime)
{
    const struct gw_config *config = leader->options.config;
    if (leader->asked)
        return gw_regime_make(config, &leader->asked_word, step, regime,
                              NULL) == GW_OK;
    return step >= leader->regime.until &&
           gw_regime_at(config, step, regime, NULL) == GW_OK;
}

static void
decide(struct gw_leader *leader, const struct gw_regime *regime, uint64_t clock)
{
    char word[GW_POLICY_WORD_BYTES];
    uint64_t steps = clock - leader->state.clock;
    const double pushes =
        (double)(leader->state.pushes + steps * leader->options.ranks);
    gw_policy_word_print(&regime->word, word);
    struct gw_decision next = {.kind = GW_DECIDE_SWITCH,
                               .clock = clock,
                               .policy = word,
                               .values = &pushes,
                               .values_n = 1};
    leader->asked = 0;
    gw_leader_emit(leader, &next);
}

void gw_switch_hold(struct gw_leader *leader,
                    const struct gw_regime *regime,
                    uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    leader->regime = *regime;
    leader->rounds =
        gw_rounds_of(options->config, &regime->word, clock, regime->until,
                     options->total_steps, &options->course);
}

static void
begin(struct gw_leader *leader, const struct gw_regime *regime, uint64_t clock)
{
    if (regime->optimizer != leader->regime.optimizer)
        leader->state.applied = 0; /* another one makes its first step */
    gw_switch_hold(leader, regime, clock);
    leader->next_clock = GW_NEVER_CLOCK;
    gw_count_next(leader);
    gw_meet_begin(leader, clock);
}

/* ---- pushes together ---- */

void gw_switch_announce(struct gw_leader *leader)
{
    uint64_t clock = gw_rounds_meeting(&leader->rounds, leader->state.clock);
    struct gw_regime next;
    if (leader->regime.each || leader->end_clock != GW_NEVER_CLOCK ||
        clock >= leader->options.total_steps ||
        !find_next(leader, clock, &next))
        return;
    leader->next = next;
    leader->next_clock = clock;
    decide(leader, &next, clock);
}

void gw_switch_begin(struct gw_leader *leader, uint64_t version)
{
    struct gw_regime next = leader->next;
    if (version >= leader->next_clock && leader->next_clock != GW_NEVER_CLOCK)
        begin(leader, &next, leader->next_clock);
}

/* ---- single pushes ---- */

int gw_switch_is_due(const struct gw_leader *leader)
{
    struct gw_regime next;
    return leader->regime.each && leader->cuts_open == 0 &&
           find_next(leader, leader->state.clock, &next);
}

void gw_switch_meet(struct gw_leader *leader, struct gw_decision *resume)
{
    struct gw_regime next;
    uint64_t clock = leader->state.clock;
    if (!find_next(leader, clock, &next))
        return;
    decide(leader, &next, clock);
    resume->clock = clock;
    gw_leader_emit(leader, resume);
    /* what this clock brings is looked at when its version is given out */
    leader->seen_version = GW_NEVER_CLOCK;
    begin(leader, &next, clock);
}
