/*
 * Checks of shard 0's decisions, as far as the coordinator can tell: they run
 * ahead of the workers' reports, or behind them, but they come in order.
 * Whether a switch of policy fits is checked where it is followed
 * (coordinator_switch.c). And checks of a worker's report.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include "proto/schedule.h"

static const char *fault_of_cut(const struct gw_coordinator *self,
                                const struct gw_decision *decision)
{
    struct gw_cut cut;
    uint64_t before;
    if (!self->config->checkpoint.dir[0])
        return "a cut of a job without checkpoint.dir";
    if (gw_cut_read(decision, &cut) != GW_OK)
        return "the state in a cut makes no sense";
    if (gw_decided_cut(self, &before) && decision->clock <= before)
        return "a cut of a step that was cut before";
    return NULL;
}

const char *gw_coordinator_fault(const struct gw_coordinator *self,
                                 const struct gw_decision *decision)
{
    if (self->phase < GW_PHASE_STARTING)
        return "the job has not begun";
    if (decision->number <= gw_decided_last(self))
        return "it has the number of one that was before";
    if (decision->clocks_n != 0 &&
        decision->clocks_n != self->config->cluster.workers)
        return "it has clocks of another number of workers";
    if (gw_steps_is_beyond(self, decision->clock))
        return "the job does not come to its step";
    switch (decision->kind) {
    case GW_DECIDE_CUT:
        return fault_of_cut(self, decision);
    case GW_DECIDE_END:
        return gw_decided_has_end(self) ? "a second end" : NULL;
    case GW_DECIDE_STEP:
    case GW_DECIDE_TRUST:
    case GW_DECIDE_SCORE:
    case GW_DECIDE_QUIESCE:
    case GW_DECIDE_RESUME:
    case GW_DECIDE_COUNT:
    case GW_DECIDE_SWITCH:
    case GW_DECIDE_SPLIT:
        return NULL;
    default:
        return "it is of no known kind";
    }
}

/* Per push, one rank may take all steps while the others stand still, and
   report several at once. */
const char *gw_coordinator_report_fault(const struct gw_coordinator *self,
                                        const struct gw_report *report)
{
    const struct gw_course *course = &gw_declaration(self)->course;
    uint64_t workers = self->config->cluster.workers;
    int per_push = gw_regimes_is_per_push(self) ||
                   gw_regimes_at(self, report->clock)->per_push;
    uint64_t most = gw_schedule_part_max(
        self->config, gw_schedule_step_max(self->config, course), workers);
    if (self->phase < GW_PHASE_STARTING)
        return "report of a step before the job has begun";
    if (per_push
            ? report->clock / workers > gw_steps_last(self) + GW_STEPS_BEYOND
            : gw_steps_is_beyond(self, report->clock))
        return "report of a step to which the job does not come";
    if (__builtin_mul_overflow(most, per_push ? report->clock + 1 : 1, &most))
        most = UINT64_MAX;
    return report->samples > most ? "report of more samples than it can have"
                                  : NULL;
}
