/* While the job runs: what workers report, what shard 0 decides. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/policy/decision.h"
#include "proto/schedule.h"

/* Steps for which a worker that is ahead keeps what it may be polled for, of
   those that it has (worker/trainer/report.c), with some to spare. */
#define POLL_BEHIND 8

enum gw_status gw_coordinator_run_open(struct gw_coordinator *self,
                                       struct gw_error *error)
{
    size_t workers = self->config->cluster.workers;
    self->gather_each.staleness =
        calloc(workers, sizeof *self->gather_each.staleness);
    self->gather_each.first = calloc(workers, sizeof *self->gather_each.first);
    if (!self->gather_each.staleness || !self->gather_each.first)
        return gw_fail(error, GW_ENOMEM, "no memory for reports");
    self->end_clock = UINT64_MAX;
    self->cadence = gw_config_log_every(self->config, self->options.terminal);
    gw_ahead_open(self);
    gw_inner_open(self);
    self->next.clock = self->after.clock = UINT64_MAX;
    self->past[0].clock = self->past[1].clock = UINT64_MAX;
    for (size_t i = 0; i < GW_GATHERS; i++) {
        struct gw_gather *gather = &self->gather[i];
        gather->part = calloc(workers, sizeof *gather->part);
        gather->has = calloc(workers, sizeof *gather->has);
        struct gw_counted *counted = &self->counted[i];
        counted->counts = calloc(workers, sizeof *counted->counts);
        if (!gather->part || !gather->has || !counted->counts)
            return gw_fail(error, GW_ENOMEM, "no memory for reports");
    }
    return GW_OK;
}

void gw_coordinator_run_close(struct gw_coordinator *self)
{
    for (size_t i = 0; i < GW_GATHERS; i++) {
        free(self->gather[i].part);
        free(self->gather[i].has);
        free(self->counted[i].counts);
    }
    free(self->gather_each.staleness);
    free(self->gather_each.first);
    gw_ahead_close(self);
}

/* The place where reports of a step meet; the oldest makes room. */
static struct gw_gather *gather_of(struct gw_coordinator *self, uint64_t clock)
{
    struct gw_gather *oldest = &self->gather[0];
    for (size_t i = 0; i < GW_GATHERS; i++) {
        struct gw_gather *one = &self->gather[i];
        if (one->clock == clock + 1)
            return one;
        if (one->clock < oldest->clock)
            oldest = one;
    }
    memset(oldest->has, 0, self->config->cluster.workers);
    oldest->clock = clock + 1;
    oldest->n = 0;
    return oldest;
}

/* Updates made before a step: what schedules count. */
static uint64_t applied_before(const struct gw_coordinator *self, uint64_t step)
{
    uint64_t skips = self->skips;
    uint64_t before = self->base_pushes / self->config->cluster.workers;
    /* the decision on the step itself may be here already */
    if (skips > 0 && self->last_skip >= step)
        skips--;
    if (step >= self->base_clock)
        return before + (step - self->base_clock) - skips;
    /* told late: all of them counted, or that is not known any more */
    uint64_t late = self->base_clock - step;
    return late < before ? before - late : 0;
}

/* part: [workers] of each; NULL where each goes at its own pace */
static void tell_step(struct gw_coordinator *self,
                      uint64_t step,
                      struct gw_score sum,
                      const struct gw_score *part)
{
    struct gw_step_report report = {
        .step = step,
        .total_steps = self->declare.total_steps,
        .loss = sum.samples ? sum.loss / (double)sum.samples : 0,
        .samples = sum.samples,
        .correct = sum.correct,
        .workers = self->config->cluster.workers,
        .split = gw_splitter_samples(self, part),
    };
    const struct gw_regime *regime = gw_coordinator_regime_at(self, step);
    char policy[GW_POLICY_WORD_BYTES];
    gw_policy_word_print(&regime->word, policy);
    report.policy = policy;
    if (regime->each)
        report.staleness = self->gather_each.staleness;
    report.epoch = gw_course_at(&self->declare.course, report.step).epoch;
    report.lr = gw_schedule_lr(self->config, &self->declare.course,
                               applied_before(self, report.step),
                               self->declare.total_steps);
    for (const struct gw_roster *one = self->roster; one; one = one->next) {
        if (one->role != GW_ROLE_WORKER)
            continue;
        report.bytes_pushed += one->counters.value[GW_METRIC_BYTES_PUSHED];
        report.bytes_pulled += one->counters.value[GW_METRIC_BYTES_PULLED];
        report.all_samples += one->counters.value[GW_METRIC_SAMPLES];
    }
    self->logged_us = gw_loop_now(self->loop);
    self->polled = 0;
    self->options.events->step(self->options.owner, &report);
}

/* Whether no step has been told for as long as log.every says. */
static int is_quiet(const struct gw_coordinator *self, uint64_t now)
{
    uint64_t limit_us = self->cadence.seconds * 1000000;
    return limit_us > 0 && now - self->logged_us >= limit_us;
}

/* The step that all have done soonest, of which the fastest still knows. */
static uint64_t to_be_polled(const struct gw_coordinator *self)
{
    uint64_t furthest = gw_coordinator_step(self),
             least = gw_coordinator_least(self);
    return furthest - least <= POLL_BEHIND ? least : furthest;
}

/* One step at a time. Who had begun the next one when he was asked answers at
   its end; what all have left further behind is lost. Where each goes
   at its own pace workers watch the time themselves. */
void gw_coordinator_poll(struct gw_coordinator *self, uint64_t now)
{
    struct gw_message message = {.kind = GW_MESSAGE_POLL};
    if (self->phase != GW_PHASE_RUNNING)
        self->logged_us = now; /* the time of the first step begins */
    if (self->phase != GW_PHASE_RUNNING || self->end_decided ||
        self->regime.each || !is_quiet(self, now) ||
        (self->polled && gw_coordinator_least(self) <= self->polled))
        return;
    message.poll.clock = to_be_polled(self);
    self->polled = message.poll.clock + 1;
    for (struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER)
            gw_peer_tell(one->peer, &message);
}

/* A step is told when the workers together have come to a multiple of
   log.every, or when it is time. */
static void gather_each(struct gw_coordinator *self,
                        struct gw_roster *who,
                        const struct gw_report *report)
{
    struct gw_gather_each *gather = &self->gather_each;
    uint64_t every = self->cadence.steps, clocks = 0;
    uint64_t now = gw_loop_now(self->loop);
    if (report->clock + 1 < gather->first[who->id])
        return; /* of a step before its first */
    gather->sum =
        gw_score_tree((const struct gw_score[]){gather->sum,
                                                {.loss = report->loss,
                                                 .correct = report->correct,
                                                 .samples = report->samples}},
                      0, 2);
    who->clocks = report->clock + 1 - gather->first[who->id];
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        clocks += one->role == GW_ROLE_WORKER ? one->clocks : 0;
    uint64_t step = self->base_clock + clocks / self->config->cluster.workers;
    if (step > self->step)
        self->step = step;
    int due = step / every + 1 > gather->told;
    if (!due && (step <= gather->told_step || !is_quiet(self, now)))
        return;
    gather->told = step / every + 1;
    gather->told_step = due ? step / every * every : step;
    tell_step(self, gather->told_step, gather->sum, NULL);
    gather->sum = (struct gw_score){0};
}

/* ---- backup: a step is told when those who count have told of it ---- */

static const struct gw_counted *counted_in(const struct gw_coordinator *self,
                                           uint64_t clock)
{
    const struct gw_counted *counted = &self->counted[clock % GW_GATHERS];
    return counted->clock == clock + 1 ? counted : NULL;
}

static int
is_left_out(const struct gw_coordinator *self, uint64_t clock, uint32_t rank)
{
    const struct gw_counted *counted = counted_in(self, clock);
    return counted && !counted->counts[rank];
}

static void maybe_tell_counted(struct gw_coordinator *self,
                               struct gw_gather *gather)
{
    uint64_t clock = gather->clock - 1;
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    const struct gw_counted *counted = counted_in(self, clock);
    for (uint32_t rank = 0; counted && rank < workers; rank++)
        if (counted->counts[rank] && !gather->has[rank])
            return;
    if (!counted)
        return;
    for (uint32_t rank = 0; rank < workers; rank++)
        if (!counted->counts[rank])
            gather->part[rank] = (struct gw_score){0};
    gather->clock = 0;
    tell_step(self, clock, gw_score_tree(gather->part, 0, workers),
              gather->part);
}

static void count(struct gw_coordinator *self,
                  const struct gw_decision *decision)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    struct gw_counted *counted = &self->counted[decision->clock % GW_GATHERS];
    counted->clock = decision->clock + 1;
    memset(counted->counts, 0, workers);
    for (uint32_t i = 0; i < decision->ranks_n; i++)
        if (decision->ranks[i] < workers)
            counted->counts[decision->ranks[i]] = 1;
    for (size_t i = 0; i < GW_GATHERS; i++)
        if (self->gather[i].clock == decision->clock + 1)
            maybe_tell_counted(self, &self->gather[i]);
}

/* Pushes together: a step is told when all have told of it. */
static void gather_together(struct gw_coordinator *self,
                            struct gw_roster *who,
                            const struct gw_report *report)
{
    int counts = counted_in(self, report->clock) ||
                 (self->regime.quorum > 0 && report->clock >= self->base_clock);
    if (report->clock > self->step)
        self->step = report->clock;
    if (counts && is_left_out(self, report->clock, who->id))
        return;
    struct gw_gather *gather = gather_of(self, report->clock);
    if (gather->has[who->id])
        return;
    gather->has[who->id] = 1;
    gather->part[who->id] = (struct gw_score){.clock = report->clock,
                                              .loss = report->loss,
                                              .correct = report->correct,
                                              .samples = report->samples};
    gather->n++;
    if (counts)
        maybe_tell_counted(self, gather);
    if (counts || gather->n < self->config->cluster.workers)
        return;
    gather->clock = 0;
    tell_step(self, report->clock, gw_score_tree(gather->part, 0, gather->n),
              gather->part);
}

void gw_coordinator_report_act(struct gw_coordinator *self,
                               struct gw_roster *who,
                               const struct gw_report *report)
{
    who->rss_bytes = report->rss_bytes;
    for (uint32_t i = 0; i < report->counters_n && i < GW_METRICS; i++)
        who->counters.value[i] = report->counters[i];
    if (who->role != GW_ROLE_WORKER)
        return;
    for (uint32_t i = 0; i < report->staleness_n && i < GW_STALENESS_BUCKETS;
         i++)
        self->gather_each.staleness[who->id].chunks[i] = report->staleness[i];
    if (report->decision < self->renumbered)
        return; /* of clocks that are numbered anew since */
    const char *fault = gw_coordinator_report_fault(self, report);
    if (fault) {
        gw_peer_reject(who->peer, 0, fault);
        return;
    }
    gw_coordinator_switch_reached(self, report->clock);
    if (self->regime.each && report->clock >= self->base_clock)
        gather_each(self, who, report);
    else
        gather_together(self, who, report);
}

static void skipped(struct gw_coordinator *self,
                    const struct gw_decision *decision)
{
    char names[256] = "nobody alone: the sum overflows";
    size_t used = 0;
    uint64_t workers = self->config->cluster.workers;
    self->skips++;
    self->last_skip = decision->clock;
    /* what was decided ahead of it counts on its pushes */
    if (self->next.clock != UINT64_MAX && self->next.pushes >= workers)
        self->next.pushes -= workers;
    for (uint32_t i = 0; i < decision->ranks_n && used < sizeof names; i++) {
        const struct gw_roster *who =
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

static void reached(struct gw_coordinator *self,
                    const struct gw_decision *decision,
                    const struct gw_cut *cut)
{
    /* both are decided before anybody gets there */
    if (decision->kind == GW_DECIDE_SWITCH || decision->kind == GW_DECIDE_SPLIT)
        return;
    gw_coordinator_switch_reached(
        self, decision->kind == GW_DECIDE_CUT ? cut->version : decision->clock);
    if (decision->clock > self->step)
        self->step = decision->clock;
}

void gw_coordinator_decided(struct gw_coordinator *self,
                            const struct gw_decision *decision)
{
    const char *fault = gw_coordinator_fault(self, decision);
    struct gw_cut cut = {.version = 0};
    if (fault) {
        gw_coordinator_end(self, GW_EPROTO,
                           "decision %" PRIu64 " of shard 0: %s",
                           decision->number, fault);
        return;
    }
    if (decision->kind == GW_DECIDE_CUT)
        gw_cut_read(decision, &cut); /* it can be read: there is no fault */
    reached(self, decision, &cut);
    switch (decision->kind) {
    case GW_DECIDE_STEP:
        if (!decision->apply)
            skipped(self, decision);
        break;
    case GW_DECIDE_COUNT:
        count(self, decision);
        break;
    case GW_DECIDE_SWITCH:
        gw_coordinator_switch(self, decision);
        break;
    case GW_DECIDE_SPLIT:
        gw_splitter_decided(self, decision);
        break;
    case GW_DECIDE_CUT:
        self->cut_clock = decision->clock;
        self->has_cut = 1;
        gw_keeper_cut(self, decision, &cut);
        break;
    case GW_DECIDE_SCORE:
        self->final.has_score = 1;
        self->final.score = (struct gw_score_report){
            .step = decision->clock,
            .loss = decision->values_n > 0 ? decision->values[0] : 0,
            .accuracy = decision->values_n > 1 ? decision->values[1] : 0,
            .best = decision->reason};
        self->options.events->score(self->options.owner, &self->final.score);
        break;
    case GW_DECIDE_END:
        self->end_decided = 1;
        self->end_clock = decision->clock;
        self->step = decision->clock; /* workers may have told of more */
        self->end_reason = decision->reason;
        gw_coordinator_maybe_done(self);
        break;
    default:
        break;
    }
    self->decided = decision->number;
    gw_ahead_recheck(self);
}

/* The watch tells it, of all that are stuck together. */
static void keep_stuck(struct gw_roster *who, const char *text)
{
    snprintf(who->stuck, sizeof who->stuck, "%s", text);
    gw_text_clean(who->stuck);
    who->stuck_told = 0;
}

void gw_coordinator_stalled(struct gw_coordinator *self,
                            struct gw_roster *who,
                            const struct gw_stall *stall)
{
    double limit = self->config->cluster.abort_after;
    char why[GW_STUCK_BYTES];
    if (stall->stuck) {
        keep_stuck(who, stall->text);
        return;
    }
    gw_coordinator_stuck_words(self, why);
    gw_coordinator_note(self, "%.400s%s", gw_reason(stall->text), why);
    if (limit > 0 && stall->seconds >= limit)
        gw_coordinator_end(self, GW_ETIMEOUT,
                           "no progress for %.1f s (cluster.abort_after): "
                           "%.300s%s",
                           stall->seconds, gw_reason(stall->text), why);
}
