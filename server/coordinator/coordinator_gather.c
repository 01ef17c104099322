/*
 * Workers' reports of a step, until it is complete and can be told:
 *
 *   together    when all have reported it (backup: all that count in it)
 *   per push    when the workers together have come to a multiple of log.every,
 *               or when it is time; each is at a clock of its own
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/schedule.h"

/* Steps for which a worker that is ahead keeps the reports that it may be
   polled for (worker/trainer/report.c), with some to spare. */
#define POLL_BEHIND 8

#define GATHERS 64

/* The learning rate that the program of rank 0 has set. */
struct rate {
    int is_set;
    double lr;
};

/* The reports of one step. */
struct gather {
    uint64_t clock; /* + 1; 0: unused */
    uint32_t n;
    struct rate rate;
    struct gw_score *part; /* [workers] */
    uint8_t *has;
};

/* backup: the ranks that count in a step. */
struct counted {
    uint64_t clock;  /* + 1; 0: unused */
    uint8_t *counts; /* [workers] */
};

struct per_push {
    struct gw_score sum;            /* since the last step was told */
    struct rate rate;               /* the last one */
    uint64_t told;                  /* step / cadence.steps, + 1 */
    uint64_t told_step;             /* the last one */
    struct gw_staleness *staleness; /* [workers] so far */
};

struct gw_gathers {
    struct gather gather[GATHERS];
    struct counted counted[GATHERS]; /* at clock % GATHERS */
    struct per_push per_push;
    struct gw_cadence cadence; /* log.every */
    uint64_t logged_us;        /* when a step was last told */
    uint64_t polled;           /* step + 1 that is asked for; 0: none */
    uint64_t skips, last_skip; /* since the policy began; the last of all */
};

enum gw_status gw_gather_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    size_t workers = self->config->cluster.workers;
    struct gw_gathers *gathers = calloc(1, sizeof *gathers);
    self->gathers = gathers;
    if (!gathers)
        return gw_fail(error, GW_ENOMEM, "no memory for reports");
    gathers->cadence =
        gw_config_log_every(self->config, self->options.terminal);
    gathers->per_push.staleness =
        calloc(workers, sizeof *gathers->per_push.staleness);
    if (!gathers->per_push.staleness)
        return gw_fail(error, GW_ENOMEM, "no memory for reports");
    for (size_t i = 0; i < GATHERS; i++) {
        struct gather *gather = &gathers->gather[i];
        struct counted *counted = &gathers->counted[i];
        gather->part = calloc(workers, sizeof *gather->part);
        gather->has = calloc(workers, sizeof *gather->has);
        counted->counts = calloc(workers, sizeof *counted->counts);
        if (!gather->part || !gather->has || !counted->counts)
            return gw_fail(error, GW_ENOMEM, "no memory for reports");
    }
    return GW_OK;
}

void gw_gather_close(struct gw_coordinator *self)
{
    struct gw_gathers *gathers = self->gathers;
    if (!gathers)
        return;
    for (size_t i = 0; i < GATHERS; i++) {
        free(gathers->gather[i].part);
        free(gathers->gather[i].has);
        free(gathers->counted[i].counts);
    }
    free(gathers->per_push.staleness);
    free(gathers);
    self->gathers = NULL;
}

void gw_gather_set_staleness(struct gw_coordinator *self,
                             const struct gw_seat *who,
                             const struct gw_report *report)
{
    struct gw_staleness *staleness = self->gathers->per_push.staleness;
    for (uint32_t i = 0; i < report->staleness_n && i < GW_STALENESS_BUCKETS;
         i++)
        staleness[who->id].chunks[i] = report->staleness[i];
}

const struct gw_staleness *
gw_gather_staleness(const struct gw_coordinator *self, uint32_t rank)
{
    return &self->gathers->per_push.staleness[rank];
}

/* The step before the clock was told, or will be. */
void gw_gather_restart(struct gw_coordinator *self, uint64_t clock)
{
    struct gw_gathers *gathers = self->gathers;
    struct per_push *per_push = &gathers->per_push;
    uint64_t every = gathers->cadence.steps;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        one->clocks = 0;
    per_push->told = clock > 0 ? (clock - 1) / every + 1 : 0;
    per_push->told_step = clock > 0 ? clock - 1 : 0;
    per_push->sum = (struct gw_score){0};
    gathers->skips = 0;
    gathers->polled = 0;
}

void gw_gather_rejoin(struct gw_coordinator *self,
                      uint64_t clock,
                      uint64_t skips)
{
    gw_gather_restart(self, clock);
    self->gathers->skips = skips;
    self->gathers->last_skip = clock > 0 ? clock - 1 : 0;
}

void gw_gather_skip(struct gw_coordinator *self, uint64_t clock)
{
    self->gathers->skips++;
    self->gathers->last_skip = clock;
}

/* ---- a step is told ---- */

/* Updates made before a step: the argument of schedules. */
static uint64_t applied_before(const struct gw_coordinator *self, uint64_t step)
{
    uint64_t skips = self->gathers->skips;
    uint64_t base = gw_regimes_base_clock(self);
    uint64_t before =
        gw_regimes_base_pushes(self) / self->config->cluster.workers;
    /* the decision on the step itself may be here already */
    if (skips > 0 && self->gathers->last_skip >= step)
        skips--;
    if (step >= base)
        return before + (step - base) - skips;
    /* told late: all of them counted, or that is not known any more */
    uint64_t late = base - step;
    return late < before ? before - late : 0;
}

static void add_counters(const struct gw_seat *one,
                         struct gw_step_report *report)
{
    for (; one; one = one->next) {
        if (one->role != GW_ROLE_WORKER)
            continue;
        report->bytes_pushed += one->counters.value[GW_METRIC_BYTES_PUSHED];
        report->bytes_pulled += one->counters.value[GW_METRIC_BYTES_PULLED];
        report->all_samples += one->counters.value[GW_METRIC_SAMPLES];
    }
}

/* part: [workers] of the step; NULL per push */
static void tell_step(struct gw_coordinator *self,
                      uint64_t step,
                      struct gw_score sum,
                      const struct gw_score *part,
                      const struct rate *rate)
{
    const struct gw_declare *declare = gw_declaration(self);
    const struct gw_regime *regime = gw_regimes_at(self, step);
    char policy[GW_WORD_BYTES];
    struct gw_step_report report = {
        .step = step,
        .epoch = gw_course_at(&declare->course, step).epoch,
        .total_steps = declare->total_steps,
        .loss = sum.samples ? sum.loss / (double)sum.samples : NAN,
        .lr = rate->is_set ? rate->lr
                           : gw_schedule_lr(self->config, &declare->course,
                                            applied_before(self, step),
                                            declare->total_steps),
        .samples = sum.samples,
        .correct = sum.correct,
        .policy = policy,
        .staleness =
            regime->per_push ? self->gathers->per_push.staleness : NULL,
        .workers = self->config->cluster.workers,
        .split = gw_splitter_samples(self, part),
    };
    gw_policy_word_print(&regime->word, policy);
    add_counters(gw_roster_first(self), &report);
    add_counters(gw_roster_gone(self), &report);
    self->gathers->logged_us = gw_loop_now(self->loop);
    self->gathers->polled = 0;
    self->options.events->step(self->options.owner, &report);
}

/* No step was told for as long as log.every says. */
static int is_quiet(const struct gw_gathers *gathers, uint64_t now)
{
    uint64_t limit_us = gathers->cadence.seconds * 1000000;
    return limit_us > 0 && now - gathers->logged_us >= limit_us;
}

/* ---- polls ---- */

/* The step that is complete soonest and that the fastest worker still knows. */
static uint64_t to_be_polled(const struct gw_coordinator *self)
{
    uint64_t furthest = gw_coordinator_step(self), least = gw_steps_least(self);
    return furthest - least <= POLL_BEHIND ? least : furthest;
}

/* One step at a time. A worker that has begun the next one answers at its end;
   a step that all have left further behind is lost. Per push, workers watch the
   time themselves. */
void gw_gather_poll(struct gw_coordinator *self, uint64_t now)
{
    struct gw_gathers *gathers = self->gathers;
    struct gw_message message = {.kind = GW_MESSAGE_POLL};
    if (self->phase != GW_PHASE_RUNNING)
        gathers->logged_us = now; /* the time of the first step begins */
    if (self->phase != GW_PHASE_RUNNING || gw_decided_has_end(self) ||
        gw_regimes_is_per_push(self) || !is_quiet(gathers, now) ||
        (gathers->polled && gw_steps_least(self) <= gathers->polled))
        return;
    message.poll.clock = to_be_polled(self);
    gathers->polled = message.poll.clock + 1;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (one->role == GW_ROLE_WORKER)
            gw_peer_tell(one->peer, &message);
}

/* ---- per push ---- */

static void note_rate(struct rate *rate,
                      const struct gw_seat *who,
                      const struct gw_report *report)
{
    if (who->id == 0 && report->has_lr)
        *rate = (struct rate){.is_set = 1, .lr = report->lr};
}

static void report_per_push(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const struct gw_report *report)
{
    struct gw_gathers *gathers = self->gathers;
    struct per_push *per_push = &gathers->per_push;
    uint64_t first = gw_steps_first(self)[who->id];
    uint64_t every = gathers->cadence.steps, clocks = 0;
    uint64_t now = gw_loop_now(self->loop);
    if (report->clock + 1 < first)
        return; /* a step before its first */
    note_rate(&per_push->rate, who, report);
    per_push->sum =
        gw_score_tree((const struct gw_score[]){per_push->sum,
                                                {.loss = report->loss,
                                                 .correct = report->correct,
                                                 .samples = report->samples}},
                      0, 2);
    who->clocks = report->clock + 1 - first;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        clocks += one->role == GW_ROLE_WORKER ? one->clocks : 0;
    uint64_t step =
        gw_regimes_base_clock(self) + clocks / self->config->cluster.workers;
    gw_steps_reach(self, step);
    int due = step / every + 1 > per_push->told;
    if (!due && (step <= per_push->told_step || !is_quiet(gathers, now)))
        return;
    per_push->told = step / every + 1;
    per_push->told_step = due ? step / every * every : step;
    tell_step(self, per_push->told_step, per_push->sum, NULL, &per_push->rate);
    per_push->sum = (struct gw_score){0};
}

/* ---- backup: a step is told when all that count have reported it ---- */

static const struct counted *counted_in(const struct gw_gathers *gathers,
                                        uint64_t clock)
{
    const struct counted *counted = &gathers->counted[clock % GATHERS];
    return counted->clock == clock + 1 ? counted : NULL;
}

static int
is_left_out(const struct gw_gathers *gathers, uint64_t clock, uint32_t rank)
{
    const struct counted *counted = counted_in(gathers, clock);
    return counted && !counted->counts[rank];
}

static void maybe_tell_counted(struct gw_coordinator *self,
                               struct gather *gather)
{
    uint64_t clock = gather->clock - 1;
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    const struct counted *counted = counted_in(self->gathers, clock);
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
              gather->part, &gather->rate);
}

void gw_gather_count(struct gw_coordinator *self,
                     const struct gw_decision *decision)
{
    uint32_t workers = (uint32_t)self->config->cluster.workers;
    struct gw_gathers *gathers = self->gathers;
    struct counted *counted = &gathers->counted[decision->clock % GATHERS];
    counted->clock = decision->clock + 1;
    memset(counted->counts, 0, workers);
    for (uint32_t i = 0; i < decision->ranks_n; i++)
        if (decision->ranks[i] < workers)
            counted->counts[decision->ranks[i]] = 1;
    for (size_t i = 0; i < GATHERS; i++)
        if (gathers->gather[i].clock == decision->clock + 1)
            maybe_tell_counted(self, &gathers->gather[i]);
}

/* ---- together ---- */

/* The entry of a step's reports; the oldest one makes room. */
static struct gather *gather_of(struct gw_coordinator *self, uint64_t clock)
{
    struct gather *oldest = &self->gathers->gather[0];
    for (size_t i = 0; i < GATHERS; i++) {
        struct gather *one = &self->gathers->gather[i];
        if (one->clock == clock + 1)
            return one;
        if (one->clock < oldest->clock)
            oldest = one;
    }
    memset(oldest->has, 0, self->config->cluster.workers);
    oldest->clock = clock + 1;
    oldest->n = 0;
    oldest->rate = (struct rate){.is_set = 0};
    return oldest;
}

static void report_together(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const struct gw_report *report)
{
    int counts = counted_in(self->gathers, report->clock) ||
                 (gw_regimes_now(self)->quorum > 0 &&
                  report->clock >= gw_regimes_base_clock(self));
    gw_steps_reach(self, report->clock);
    if (counts && is_left_out(self->gathers, report->clock, who->id))
        return;
    struct gather *gather = gather_of(self, report->clock);
    if (gather->has[who->id])
        return;
    gather->has[who->id] = 1;
    note_rate(&gather->rate, who, report);
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
              gather->part, &gather->rate);
}

void gw_gather_report(struct gw_coordinator *self,
                      struct gw_seat *who,
                      const struct gw_report *report)
{
    if (gw_regimes_is_per_push(self) &&
        report->clock >= gw_regimes_base_clock(self))
        report_per_push(self, who, report);
    else
        report_together(self, who, report);
}
