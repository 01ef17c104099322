/*
 * Cuts: the state of the job in the values of a decision, and out of them. And
 * the end, which the last cut comes before.
 */
#include "config.h"

#include "server/policy/decision_state.h"

#include <math.h>
#include <stdlib.h>

/* Cuts on their way to the disk; the end may add one. */
#define CUTS_OPEN_MAX 2

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

struct gw_leader_cuts {
    uint64_t clock;  /* the last cut's, GW_NEVER_CLOCK: there is none */
    uint64_t pushes; /* applied by then */
    uint32_t open;   /* cuts that are not stored yet */
    int is_wanted;
    uint64_t held; /* + 1: the clock at which a rank waits for a cut; 0: none */
};

enum gw_status gw_cuts_open(struct gw_leader *leader)
{
    const struct gw_leader_options *options = &leader->options;
    struct gw_leader_cuts *cuts = calloc(1, sizeof *cuts);
    leader->cuts = cuts;
    if (!cuts)
        return GW_ENOMEM;
    cuts->clock = options->resumed ? options->state.clock : GW_NEVER_CLOCK;
    cuts->pushes = options->state.pushes;
    return GW_OK;
}

void gw_cuts_close(struct gw_leader *leader)
{
    free(leader->cuts);
}

static int saves(const struct gw_leader *leader)
{
    return leader->options.config->checkpoint.dir[0] != '\0';
}

/* The last cut is of this very state. */
static int is_cut(const struct gw_leader *leader, uint64_t clock)
{
    const struct gw_leader_cuts *cuts = leader->cuts;
    return cuts->clock >= clock && cuts->clock != GW_NEVER_CLOCK &&
           cuts->pushes == leader->state.pushes;
}

/* ---- making them ---- */

/* A checkpoint's name is a step; two of one step, which only per-push policies
   make, are a step apart in name. The second may be of pushes together, where
   another policy began at that step. */
void gw_leader_cut(struct gw_leader *leader, uint64_t clock, int best)
{
    struct gw_leader_cuts *cuts = leader->cuts;
    const uint64_t version = clock;
    if (cuts->clock != GW_NEVER_CLOCK && cuts->clock >= clock)
        clock = cuts->clock + 1;
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
    char policy[GW_WORD_BYTES];
    gw_policy_word_print(&gw_leader_regime_at(leader, version)->word, policy);
    struct gw_decision cut = {
        .kind = GW_DECIDE_CUT,
        .reason = best != 0,
        .clock = clock,
        .policy = policy,
        .values = values,
        .values_n = CUT_VALUES,
    };
    cuts->is_wanted = 0;
    cuts->open++;
    cuts->clock = clock;
    cuts->pushes = state->pushes;
    gw_leader_emit(leader, &cut);
}

/* checkpoint.every asks for a cut between the last one and `clock`: versions,
   and the steps of per-push policies, may be some steps apart. */
static int is_due_by_steps(const struct gw_leader *leader, uint64_t clock)
{
    const struct gw_leader_options *options = &leader->options;
    const struct gw_every *every = &options->config->checkpoint.every;
    return gw_course_dues(&options->course, every, clock) >
           gw_course_dues(&options->course, every, leader->cuts->clock);
}

static int is_due_at(const struct gw_leader *leader, uint64_t version)
{
    if (!saves(leader) || leader->cuts->clock == version)
        return 0;
    if (version == leader->options.state.clock)
        return 1; /* the beginning is a checkpoint too */
    return leader->cuts->is_wanted || is_due_by_steps(leader, version);
}

/* A disk that is late makes the next checkpoint late, not the job. */
void gw_cuts_before(struct gw_leader *leader, uint64_t version)
{
    if (!is_due_at(leader, version))
        return;
    if (leader->cuts->open)
        leader->cuts->is_wanted = 1;
    else
        gw_leader_cut(leader, version, 0);
}

int gw_cuts_is_due(const struct gw_leader *leader)
{
    const struct gw_leader_cuts *cuts = leader->cuts;
    if (!saves(leader) || cuts->open > 0 || cuts->clock == GW_NEVER_CLOCK)
        return 0;
    return cuts->is_wanted || is_due_by_steps(leader, leader->state.clock);
}

void gw_cuts_want(struct gw_leader *leader)
{
    leader->cuts->is_wanted = 1;
}

/* No chunk goes beyond that clock while the rank does not push, so a cut of it
   need not have been decided before its weights were given. A cut of a clock
   still to come is made with the decisions before that clock. */
static void cut_held(struct gw_leader *leader)
{
    struct gw_leader_cuts *cuts = leader->cuts;
    uint64_t clock = cuts->held - 1;
    if (cuts->held == 0 || cuts->open > 0 || leader->seen_version != clock ||
        !leader->regime.lockstep)
        return;
    cuts->held = 0;
    cuts->is_wanted = 0;
    if (saves(leader) && leader->end_clock == GW_NEVER_CLOCK &&
        !is_cut(leader, clock))
        gw_leader_cut(leader, clock, 0);
}

void gw_cuts_hold(struct gw_leader *leader, uint64_t clock)
{
    leader->cuts->held = clock + 1;
    cut_held(leader);
}

void gw_cuts_keep_best(struct gw_leader *leader, uint64_t clock)
{
    if (saves(leader) && !is_cut(leader, clock))
        gw_leader_cut(leader, clock, 1);
}

/* ---- on their way to the disk ---- */

void gw_cuts_stored(struct gw_leader *leader)
{
    if (leader->cuts->open > 0)
        leader->cuts->open--;
    cut_held(leader);
}

void gw_cuts_forget(struct gw_leader *leader)
{
    if (leader->cuts->open > 1)
        leader->cuts->open = 1;
}

void gw_cuts_follow(struct gw_leader *leader,
                    const struct gw_decision *decision)
{
    struct gw_leader_cuts *cuts = leader->cuts;
    struct gw_cut cut;
    if (gw_cut_read(decision, &cut) != GW_OK)
        return;
    if (cut.state.evaluations != leader->state.evaluations)
        gw_scores_counted(leader, cut.version);
    leader->state = cut.state;
    leader->state.clock = cut.version;
    cuts->is_wanted = 0;
    gw_cuts_recall(leader, decision);
}

void gw_cuts_recall(struct gw_leader *leader,
                    const struct gw_decision *decision)
{
    struct gw_cut cut;
    if (gw_cut_read(decision, &cut) != GW_OK)
        return;
    leader->cuts->clock = decision->clock;
    leader->cuts->pushes = cut.state.pushes;
    leader->cuts->open = 1; /* as far as is known here */
}

int gw_cuts_are_stored(const struct gw_leader *leader)
{
    return leader->cuts->open == 0;
}

int gw_cuts_are_late(const struct gw_leader *leader)
{
    return saves(leader) && leader->cuts->open >= CUTS_OPEN_MAX;
}

/* ---- the end ---- */

void gw_leader_end(struct gw_leader *leader,
                   uint64_t clock,
                   enum gw_end_reason reason)
{
    if (leader->end_clock <= clock)
        return;
    leader->end_clock = clock;
    if (saves(leader) && !is_cut(leader, clock))
        gw_leader_cut(leader, clock, 0);
    struct gw_decision end = {
        .kind = GW_DECIDE_END, .reason = (uint8_t)reason, .clock = clock};
    gw_leader_emit(leader, &end);
}

/* ---- reading them ---- */

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
