/* The running job: acts on the workers' reports and on shard 0's decisions. */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"

void gw_coordinator_report_act(struct gw_coordinator *self,
                               struct gw_seat *who,
                               const struct gw_report *report)
{
    who->rss_bytes = report->rss_bytes;
    for (uint32_t i = 0; i < report->counters_n && i < GW_METRICS; i++)
        who->counters.value[i] = report->counters[i];
    if (who->role != GW_ROLE_WORKER)
        return;
    gw_gather_set_staleness(self, who, report);
    if (report->decision < gw_decided_renumbered(self))
        return; /* its clocks have other numbers now */
    const char *fault = gw_coordinator_report_fault(self, report);
    if (fault) {
        gw_peer_reject(who->peer, 0, fault);
        return;
    }
    gw_coordinator_switch_reached(self, report->clock);
    gw_gather_report(self, who, report);
}

/* ---- decisions ---- */

static void skipped(struct gw_coordinator *self,
                    const struct gw_decision *decision)
{
    char names[256] = "nobody alone: the sum overflows";
    size_t used = 0;
    gw_gather_skip(self, decision->clock);
    gw_regimes_skip(self);
    for (uint32_t i = 0; i < decision->ranks_n && used < sizeof names; i++) {
        const struct gw_seat *who =
            gw_roster_find(self, GW_ROLE_WORKER, decision->ranks[i]);
        int n = snprintf(names + used, sizeof names - used, "%sworker %u (%s)",
                         used ? ", " : "", decision->ranks[i],
                         who ? who->host : "unknown");
        used += n > 0 ? (size_t)n : 0;
    }
    gw_coordinator_note(self,
                        "step %" PRIu64 " is skipped: the gradient is not "
                        "finite, sent by %s",
                        decision->clock, names);
}

static void got_step(struct gw_coordinator *self,
                     const struct gw_decision *decision)
{
    if (!decision->apply)
        skipped(self, decision);
}

static void got_cut(struct gw_coordinator *self,
                    const struct gw_decision *decision)
{
    struct gw_cut cut = {.version = 0};
    gw_cut_read(decision, &cut); /* it has no fault, so it can be read */
    gw_decided_set_cut(self, decision->clock);
    if (gw_decided_is_recalled(self, decision->number))
        gw_keeper_recall(self, decision, &cut);
    else
        gw_keeper_cut(self, decision, &cut);
}

static void got_score(struct gw_coordinator *self,
                      const struct gw_decision *decision)
{
    const struct gw_score_report score = {
        .step = decision->clock,
        .loss = decision->values_n > 0 ? decision->values[0] : 0,
        .accuracy = decision->values_n > 1 ? decision->values[1] : 0,
        .best = decision->reason};
    gw_final_set_score(self, &score);
    self->options.events->score(self->options.owner, &score);
}

static void got_end(struct gw_coordinator *self,
                    const struct gw_decision *decision)
{
    gw_decided_set_end(self, decision->clock, decision->reason);
    gw_steps_set(self, decision->clock);
    gw_coordinator_maybe_done(self);
}

/* Decisions that concern the coordinator. */
static const struct {
    enum gw_decision_kind kind;
    void (*handle)(struct gw_coordinator *self,
                   const struct gw_decision *decision);
} handlers[] = {
    {GW_DECIDE_STEP, got_step},
    {GW_DECIDE_COUNT, gw_gather_count},
    {GW_DECIDE_SWITCH, gw_coordinator_switch},
    {GW_DECIDE_SPLIT, gw_splitter_decided},
    {GW_DECIDE_CUT, got_cut},
    {GW_DECIDE_SCORE, got_score},
    {GW_DECIDE_END, got_end},
};

/* A switch and a split are decided before anybody gets to their step. */
static void reached(struct gw_coordinator *self,
                    const struct gw_decision *decision)
{
    struct gw_cut cut = {.version = 0};
    uint64_t clock = decision->clock;
    if (decision->kind == GW_DECIDE_SWITCH || decision->kind == GW_DECIDE_SPLIT)
        return;
    if (decision->kind == GW_DECIDE_CUT && gw_cut_read(decision, &cut) == GW_OK)
        clock = cut.version;
    gw_coordinator_switch_reached(self, clock);
    gw_steps_reach(self, decision->clock);
}

void gw_coordinator_decided(struct gw_coordinator *self,
                            const struct gw_decision *decision)
{
    /* all that matters is told again behind where the job stands */
    if (self->phase == GW_PHASE_REJOINING)
        return;
    /* a server in the place of shard 0 says again what that one had told */
    if (self->config->cluster.copies > 1 &&
        decision->number <= gw_decided_last(self))
        return;
    const char *fault = gw_coordinator_fault(self, decision);
    if (fault) {
        gw_coordinator_end(self, GW_EPROTO,
                           "decision %" PRIu64 " of shard 0: %s",
                           decision->number, fault);
        return;
    }
    reached(self, decision);
    for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
        if (handlers[i].kind == decision->kind)
            handlers[i].handle(self, decision);
    gw_decided_set_number(self, decision->number);
    gw_ahead_recheck(self);
}
