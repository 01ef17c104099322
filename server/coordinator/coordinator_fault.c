/*
 * What is wrong with a decision of shard 0, as far as the coordinator can tell:
 * it is ahead of what workers report, or behind it, but it comes in order.
 * Whether a switch of policy fits is looked at where it is followed
 * (coordinator_switch.c). And what is wrong with a worker's report.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include "proto/schedule.h"
#include "server/policy/decision.h"

/* Workers that exchange every so many steps go beyond the last one; and they
   finish what they are at before they stand still. */
#define BEYOND (2 * GW_POLICY_N_MAX)

static uint64_t last_step(const struct gw_coordinator *self)
{
    uint64_t total = self->declare.total_steps, begin = self->state.clock;
    return begin > total ? begin : total; /* it was made by a longer job */
}

int gw_coordinator_is_beyond(const struct gw_coordinator *self, uint64_t clock)
{
    return clock > last_step(self) + BEYOND;
}

static const char *fault_of_cut(const struct gw_coordinator *self,
                                const struct gw_decision *decision)
{
    struct gw_cut cut;
    if (gw_cut_read(decision, &cut) != GW_OK)
        return "the state in a cut makes no sense";
    if (self->has_cut && decision->clock <= self->cut_clock)
        return "a cut of a step that was cut before";
    return NULL;
}

const char *gw_coordinator_fault(const struct gw_coordinator *self,
                                 const struct gw_decision *decision)
{
    if (self->phase < GW_PHASE_STARTING)
        return "the job has not begun";
    if (decision->number <= self->decided)
        return "it has the number of one that was before";
    if (decision->clocks_n != 0 &&
        decision->clocks_n != self->config->cluster.workers)
        return "it has clocks of another number of workers";
    if (gw_coordinator_is_beyond(self, decision->clock))
        return "the job does not come to its step";
    switch (decision->kind) {
    case GW_DECIDE_CUT:
        return fault_of_cut(self, decision);
    case GW_DECIDE_END:
        return self->end_decided ? "a second end" : NULL;
    case GW_DECIDE_STEP:
    case GW_DECIDE_TRUST:
    case GW_DECIDE_SCORE:
    case GW_DECIDE_DRAIN:
    case GW_DECIDE_RESUME:
    case GW_DECIDE_COUNT:
    case GW_DECIDE_SWITCH:
    case GW_DECIDE_SPLIT:
        return NULL;
    default:
        return "it is of no known kind";
    }
}

/* Where each goes at its own pace one may take all steps, while the others
   stand still, and tells of several at once. */
const char *gw_coordinator_report_fault(const struct gw_coordinator *self,
                                        const struct gw_report *report)
{
    const struct gw_course *course = &self->declare.course;
    uint64_t workers = self->config->cluster.workers;
    int each = self->regime.each ||
               gw_coordinator_regime_at(self, report->clock)->each;
    uint64_t most = gw_schedule_part_max(
        self->config, gw_schedule_step_max(self->config, course), workers);
    if (self->phase < GW_PHASE_STARTING)
        return "report of a step before the job has begun";
    if (each ? report->clock / workers > last_step(self) + BEYOND
             : gw_coordinator_is_beyond(self, report->clock))
        return "report of a step to which the job does not come";
    if (__builtin_mul_overflow(most, each ? report->clock + 1 : 1, &most))
        most = UINT64_MAX;
    return report->samples > most ? "report of more samples than it can have"
                                  : NULL;
}
