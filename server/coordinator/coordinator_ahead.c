/*
 * Reports that are ahead of the decisions. The two come over different
 * connections, and a worker may report a step, with its score and under its
 * policy, before shard 0's word of either is here: the report waits, so that
 * a step is told whole.
 */
#include "config.h"

#include "server/coordinator/coordinator_run.h"

#include <stdlib.h>
#include <string.h>

/* More than come while a connection is made again; a worker that names
   decisions which nobody made holds no more than these. */
#define AHEAD_MAX 4096

struct ahead {
    struct gw_seat *who;
    struct gw_report report; /* its arrays are these: */
    uint64_t counters[GW_METRICS], staleness[GW_STALENESS_BUCKETS];
    struct ahead *next;
};

struct gw_ahead {
    struct ahead *first, **end;
    size_t n;
};

static uint32_t
copy(uint64_t *to, uint32_t room, const uint64_t *from, uint32_t n)
{
    n = n < room ? n : room;
    if (n > 0)
        memcpy(to, from, n * sizeof *to);
    return n;
}

/* Non-zero where its sender knew a decision that may yet come. */
static int is_ahead(const struct gw_coordinator *self,
                    const struct gw_report *report)
{
    return report->decision > gw_decided_number(self) &&
           self->phase < GW_PHASE_ENDING;
}

static void append(struct gw_ahead *ahead, struct ahead *one)
{
    one->next = NULL;
    *ahead->end = one;
    ahead->end = &one->next;
    ahead->n++;
}

static struct ahead *take_all(struct gw_ahead *ahead)
{
    struct ahead *first = ahead->first;
    ahead->first = NULL;
    ahead->end = &ahead->first;
    ahead->n = 0;
    return first;
}

/* Acts on all that need not wait, and on `least` of the oldest in any case. */
static void recheck(struct gw_coordinator *self, size_t least)
{
    struct ahead *next, *one = take_all(self->ahead);
    for (; one; one = next) {
        next = one->next;
        if (least == 0 && is_ahead(self, &one->report)) {
            append(self->ahead, one);
            continue;
        }
        least -= least > 0;
        self->up->report(self, one->who, &one->report);
        free(one);
    }
}

void gw_coordinator_reported(struct gw_coordinator *self,
                             struct gw_seat *who,
                             const struct gw_report *report)
{
    int is_below = report->loss < 0 && !gw_config_is_external(self->config);
    if (report->correct > report->samples || is_below) {
        gw_peer_reject(who->peer, 0,
                       "report of a loss below 0, or of more that is right "
                       "than there is");
        return;
    }
    struct ahead *one = is_ahead(self, report) ? calloc(1, sizeof *one) : NULL;
    if (!one) { /* without memory it is better told early than not */
        self->up->report(self, who, report);
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
    append(self->ahead, one);
    if (self->ahead->n > AHEAD_MAX)
        recheck(self, self->ahead->n / 2);
}

void gw_ahead_recheck(struct gw_coordinator *self)
{
    recheck(self, 0);
}

void gw_ahead_forget(struct gw_coordinator *self, const struct gw_seat *who)
{
    struct ahead *next, *one = take_all(self->ahead);
    for (; one; one = next) {
        next = one->next;
        if (one->who == who)
            free(one);
        else
            append(self->ahead, one);
    }
}

int gw_ahead_is_empty(const struct gw_coordinator *self)
{
    return self->ahead->n == 0;
}

enum gw_status gw_ahead_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    self->ahead = calloc(1, sizeof *self->ahead);
    if (!self->ahead)
        return gw_fail(error, GW_ENOMEM, "no memory for reports");
    take_all(self->ahead);
    return GW_OK;
}

void gw_ahead_close(struct gw_coordinator *self)
{
    if (!self->ahead)
        return;
    for (struct ahead *next, *one = take_all(self->ahead); one; one = next) {
        next = one->next;
        free(one);
    }
    free(self->ahead);
    self->ahead = NULL;
}
