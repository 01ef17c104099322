/*
 * Reports that are ahead of the decisions. They come over different
 * connections, and a worker may tell of a step, with its score and under its
 * policy, before shard 0's word of either is here: such a report waits (DESIGN
 * 5.6), so that what is told of a step is whole.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdlib.h>
#include <string.h>

/* More than come while a connection is made again; a worker that names
   decisions which nobody made holds no more than these. */
#define AHEAD_MAX 4096

struct gw_ahead {
    struct gw_roster *who;
    struct gw_report report; /* its arrays are these: */
    uint64_t counters[GW_METRICS], staleness[GW_STALENESS_BUCKETS];
    struct gw_ahead *next;
};

static uint32_t
copy(uint64_t *to, uint32_t room, const uint64_t *from, uint32_t n)
{
    n = n < room ? n : room;
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    return n;
}

/* Non-zero where its sender knew of a decision that may yet come. */
static int is_ahead(const struct gw_coordinator *self,
                    const struct gw_report *report)
{
    return report->decision > self->decided && self->phase < GW_PHASE_ENDING;
}

static void append(struct gw_coordinator *self, struct gw_ahead *one)
{
    one->next = NULL;
    *self->ahead_end = one;
    self->ahead_end = &one->next;
    self->ahead_n++;
}

static struct gw_ahead *take_all(struct gw_coordinator *self)
{
    struct gw_ahead *first = self->ahead;
    gw_ahead_open(self);
    return first;
}

/* All that may go, and `least` of the oldest whether they may or not. */
static void recheck(struct gw_coordinator *self, size_t least)
{
    struct gw_ahead *next, *one = take_all(self);
    for (; one; one = next) {
        next = one->next;
        if (least == 0 && is_ahead(self, &one->report)) {
            append(self, one);
            continue;
        }
        least -= least > 0;
        gw_coordinator_report_act(self, one->who, &one->report);
        free(one);
    }
}

void gw_coordinator_reported(struct gw_coordinator *self,
                             struct gw_roster *who,
                             const struct gw_report *report)
{
    if (report->correct > report->samples || report->loss < 0) {
        gw_peer_reject(who->peer, 0,
                       "report of a loss below 0, or of more that is right "
                       "than there is");
        return;
    }
    struct gw_ahead *one =
        is_ahead(self, report) ? calloc(1, sizeof *one) : NULL;
    if (!one) { /* without memory it is better told early than not */
        gw_coordinator_report_act(self, who, report);
        return;
    }
    one->who = who;
    one->report = *report;
    one->report.counters = one->counters;
    one->report.counters_n =
        copy(one->counters, GW_METRICS, report->counters, report->counters_n);
    one->report.staleness = one->staleness;
    one->report.staleness_n = copy(one->staleness, GW_STALENESS_BUCKETS,
                                   report->staleness, report->staleness_n);
    append(self, one);
    if (self->ahead_n > AHEAD_MAX)
        recheck(self, self->ahead_n / 2);
}

void gw_ahead_recheck(struct gw_coordinator *self)
{
    recheck(self, 0);
}

void gw_ahead_open(struct gw_coordinator *self)
{
    self->ahead = NULL;
    self->ahead_end = &self->ahead;
    self->ahead_n = 0;
}

void gw_ahead_close(struct gw_coordinator *self)
{
    struct gw_ahead *next, *one = take_all(self);
    for (; one; one = next) {
        next = one->next;
        free(one);
    }
}
