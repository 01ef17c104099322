/* Cuts: the state of the job in the values of a decision, and out of them. */
#include "config.h"

#include "server/policy/decision_state.h"

#include <math.h>

/* values[] of a cut: the state of the job at its clock */
enum {
    CUT_APPLIED,
    CUT_LOSS_SCALE,
    CUT_GOOD_STEPS,
    CUT_SKIPPED,
    CUT_BEST_LOSS,
    CUT_BEST_CLOCK,
    CUT_EVALUATIONS,
    CUT_WITHOUT_PROGRESS,
    CUT_PUSHES,
    CUT_VERSION,
    CUT_VALUES,
};

/* A checkpoint's name is a step; two of one step, which only single pushes
   make, are a step apart in name. The second may be of pushes together, where
   another policy began at that step. */
void gw_leader_cut(struct gw_leader *leader, uint64_t clock, int best)
{
    const uint64_t version = clock;
    if (leader->cut_clock != GW_NEVER_CLOCK && leader->cut_clock >= clock)
        clock = leader->cut_clock + 1;
    const struct gw_decision_state *state = &leader->state;
    double values[CUT_VALUES] = {
        [CUT_APPLIED] = (double)state->applied,
        [CUT_LOSS_SCALE] = state->loss_scale,
        [CUT_GOOD_STEPS] = (double)state->good_steps,
        [CUT_SKIPPED] = state->skipped_in_a_row,
        [CUT_BEST_LOSS] = state->best_loss,
        [CUT_BEST_CLOCK] = (double)state->best_clock,
        [CUT_EVALUATIONS] = state->evaluations,
        [CUT_WITHOUT_PROGRESS] = state->evaluations_without_progress,
        [CUT_PUSHES] = (double)state->pushes,
        [CUT_VERSION] = (double)version,
    };
    struct gw_decision cut = {
        .kind = GW_DECIDE_CUT,
        .reason = best != 0,
        .clock = clock,
        .values = values,
        .values_n = CUT_VALUES,
    };
    leader->want_cut = 0;
    leader->cuts_open++;
    leader->cut_clock = clock;
    leader->cut_pushes = state->pushes;
    gw_leader_emit(leader, &cut);
}

int gw_decision_count(double value, uint64_t *count_p)
{
    /* not NaN either */
    if (!(value >= 0 && value < (double)GW_CLOCK_MAX) || value != floor(value))
        return 0;
    *count_p = (uint64_t)value;
    return 1;
}

static int count_in_32_bits(double value, uint32_t *count_p)
{
    uint64_t count;
    if (!gw_decision_count(value, &count) || count > UINT32_MAX)
        return 0;
    *count_p = (uint32_t)count;
    return 1;
}

enum gw_status gw_cut_read(const struct gw_decision *decision,
                           struct gw_cut *cut_p)
{
    double values[CUT_VALUES] = {[CUT_VERSION] = (double)decision->clock};
    struct gw_cut cut = {.state = {.clock = decision->clock}};
    struct gw_decision_state *state = &cut.state;
    for (uint32_t i = 0; i < CUT_VALUES && i < decision->values_n; i++)
        values[i] = decision->values[i];
    state->loss_scale = values[CUT_LOSS_SCALE];
    state->best_loss = values[CUT_BEST_LOSS];
    if (!isfinite(state->loss_scale) || !isfinite(state->best_loss) ||
        !gw_decision_count(values[CUT_APPLIED], &state->applied) ||
        !gw_decision_count(values[CUT_GOOD_STEPS], &state->good_steps) ||
        !count_in_32_bits(values[CUT_SKIPPED], &state->skipped_in_a_row) ||
        !gw_decision_count(values[CUT_BEST_CLOCK], &state->best_clock) ||
        !count_in_32_bits(values[CUT_EVALUATIONS], &state->evaluations) ||
        !count_in_32_bits(values[CUT_WITHOUT_PROGRESS],
                          &state->evaluations_without_progress) ||
        !gw_decision_count(values[CUT_PUSHES], &state->pushes) ||
        !gw_decision_count(values[CUT_VERSION], &cut.version))
        return GW_EPROTO;
    *cut_p = cut;
    return GW_OK;
}
