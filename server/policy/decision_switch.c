/*
 * The next policy, and its clock: the one that the user has asked for, else the
 * next one of the job's plan. server/switch.c is the side of a shard.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <stdlib.h>

struct gw_leader_switch {
    int is_asked; /* by the user, for this word */
    struct gw_policy_word asked;
};

/* A regime holds from this clock on. */
static void
hold(struct gw_leader *leader, const struct gw_regime *regime, uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    leader->regime = *regime;
    leader->rounds =
        gw_rounds_of(options->config, &regime->word, clock, regime->until,
                     options->total_steps, &options->course);
}

enum gw_status gw_switch_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    leader->policy = calloc(1, sizeof *leader->policy);
    if (!leader->policy)
        return GW_ENOMEM;
    leader->next_clock = GW_NEVER_CLOCK;
    hold(leader, &options->regime, options->state.clock);
    return GW_OK;
}

void gw_switch_close(struct gw_leader *leader)
{
    free(leader->policy);
}

void gw_switch_ask(struct gw_leader *leader, const struct gw_policy_word *word)
{
    leader->policy->is_asked = 1;
    leader->policy->asked = *word;
}

int gw_switch_is_asked(const struct gw_leader *leader)
{
    return leader->policy->is_asked;
}

/* The policy that is to hold from a step on; 0: the one in force. */
static int find_next(const struct gw_leader *leader,
                     uint64_t step,
                     struct gw_regime *regime)
{
    const struct gw_config *config = leader->options.config;
    if (leader->policy->is_asked)
        return gw_regime_make(config, &leader->policy->asked, step, regime,
                              NULL) == GW_OK;
    return step >= leader->regime.until &&
           gw_regime_at(config, step, regime, NULL) == GW_OK;
}

static void
decide(struct gw_leader *leader, const struct gw_regime *regime, uint64_t clock)
{
    char word[GW_WORD_BYTES];
    uint64_t steps = clock - leader->state.clock;
    const double pushes =
        (double)(leader->state.pushes + steps * leader->options.ranks);
    gw_policy_word_print(&regime->word, word);
    struct gw_decision next = {.kind = GW_DECIDE_SWITCH,
                               .clock = clock,
                               .policy = word,
                               .values = &pushes,
                               .values_n = 1};
    leader->policy->is_asked = 0;
    gw_leader_emit(leader, &next);
}

static void
begin(struct gw_leader *leader, const struct gw_regime *regime, uint64_t clock)
{
    if (regime->optimizer != leader->regime.optimizer)
        leader->state.applied = 0; /* another one makes its first step */
    hold(leader, regime, clock);
    leader->next_clock = GW_NEVER_CLOCK;
    gw_count_next(leader);
}

/* ---- pushes together ---- */

void gw_switch_announce(struct gw_leader *leader)
{
    uint64_t clock = gw_rounds_meeting(&leader->rounds, leader->state.clock);
    struct gw_regime next;
    if (leader->regime.per_push || leader->end_clock != GW_NEVER_CLOCK ||
        clock >= leader->options.total_steps ||
        !find_next(leader, clock, &next))
        return;
    leader->next = next;
    leader->next_clock = clock;
    decide(leader, &next, clock);
}

uint64_t gw_switch_begin(struct gw_leader *leader, uint64_t version)
{
    struct gw_regime next = leader->next;
    uint64_t clock = leader->next_clock;
    if (clock == GW_NEVER_CLOCK || version < clock)
        return GW_NEVER_CLOCK;
    begin(leader, &next, clock);
    return clock;
}

/* ---- per-push policies ---- */

int gw_switch_is_due(const struct gw_leader *leader)
{
    struct gw_regime next;
    return leader->regime.per_push && gw_cuts_are_stored(leader) &&
           find_next(leader, leader->state.clock, &next);
}

int gw_switch_meet(struct gw_leader *leader, struct gw_decision *resume)
{
    struct gw_regime next;
    uint64_t clock = leader->state.clock;
    if (!find_next(leader, clock, &next))
        return 0;
    decide(leader, &next, clock);
    resume->clock = clock;
    gw_leader_emit(leader, resume);
    /* other decisions on this clock are made when its version is given out */
    leader->seen_version = GW_NEVER_CLOCK;
    begin(leader, &next, clock);
    return 1;
}
