/*
 * What the coordinator waits for. Steps are watched by the shards; everything
 * around them is here: who has not joined, declared its model, made its
 * weights, saved its part of a checkpoint, or said good-bye. A wait without
 * progress is told every cluster.step_deadline, by name, and where the job
 * stands still it ends after cluster.abort_after.
 *
 * A job that is asked to stop takes as long as its step and its checkpoint do,
 * and says so. Only where neither comes on at all it ends without them.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdio.h>

#define WATCH_US 250000

/* After a stop: before it says what it waits for, and before it gives that up,
   though not within a few times what a step has taken. */
#define SAY_US        2000000
#define GIVE_UP_US    60000000
#define GIVE_UP_STEPS 4

/* Names that a line has room for. */
#define NAMES_BYTES 256

static int has_declared(const struct gw_roster *who)
{
    return who->role != GW_ROLE_WORKER || who->declared;
}

static int is_ready(const struct gw_roster *who)
{
    return who->role != GW_ROLE_SERVER || who->ready;
}

static int has_left(const struct gw_roster *who)
{
    return who->role != GW_ROLE_WORKER || who->bye;
}

/* "worker 1 (host, pid 7), worker 2 (...)": those who have not `done` it. */
static void name_others(const struct gw_coordinator *self,
                        int (*done)(const struct gw_roster *who),
                        char names[NAMES_BYTES])
{
    size_t used = 0;
    names[0] = '\0';
    for (const struct gw_roster *one = self->roster; one && used < NAMES_BYTES;
         one = one->next) {
        if (done(one))
            continue;
        int n = snprintf(names + used, NAMES_BYTES - used, "%s%s",
                         used ? ", " : "", one->peer->name);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* ---- steps ---- */

uint64_t gw_coordinator_least(const struct gw_coordinator *self)
{
    uint64_t least = UINT64_MAX;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER && one->peer->clock < least)
            least = one->peer->clock;
    return least;
}

static uint64_t sum_of_clocks(const struct gw_coordinator *self)
{
    uint64_t sum = 0;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER)
            sum += one->peer->clock;
    return sum;
}

/* "step 7, of worker 1 (host, pid 7)": of those who are furthest behind. */
static void
name_step(const struct gw_coordinator *self, char *text, size_t room)
{
    uint64_t least = gw_coordinator_least(self);
    int n = snprintf(text, room, "step %" PRIu64 " to end",
                     gw_coordinator_step(self));
    size_t used = n > 0 ? (size_t)n : 0;
    const char *comma = ", the furthest behind is ";
    for (const struct gw_roster *one = self->roster; one; one = one->next) {
        if (one->role != GW_ROLE_WORKER || one->peer->clock != least ||
            used >= room)
            continue;
        n = snprintf(text + used, room - used, "%s%s", comma, one->peer->name);
        used += n > 0 ? (size_t)n : 0;
        comma = ", ";
    }
}

static void note_pace(struct gw_coordinator *self, uint64_t now)
{
    struct gw_pace *pace = &self->pace;
    uint64_t clocks = sum_of_clocks(self);
    if (self->phase == GW_PHASE_RUNNING && clocks == pace->clocks)
        return;
    if (self->phase == GW_PHASE_RUNNING &&
        now - pace->moved_us > pace->longest_us)
        pace->longest_us = now - pace->moved_us;
    pace->clocks = clocks;
    pace->moved_us = now;
}

/* ---- waits ---- */

/* What the job waits for, in words; 0 where it waits for nothing here. */
static int awaited(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    char names[NAMES_BYTES];
    if (self->phase == GW_PHASE_GATHERING && self->shards == 0) {
        snprintf(text, room,
                 "members to join: %u of %" PRIu64
                 " worker%s and %u of %" PRIu64 " server%s are here",
                 self->workers, config->cluster.workers,
                 gw_plural(config->cluster.workers), self->servers,
                 config->cluster.servers, gw_plural(config->cluster.servers));
    } else if (self->phase == GW_PHASE_GATHERING) {
        name_others(self, has_declared, names);
        snprintf(text, room, "%s to declare its model and data", names);
    } else if (self->phase == GW_PHASE_STARTING) {
        name_others(self, is_ready, names);
        snprintf(text, room, "%s to have its weights", names);
    } else if (self->phase != GW_PHASE_RUNNING) {
        return 0;
    } else if (gw_keeper_is_busy(self)) {
        gw_keeper_awaited(self, text, room);
    } else if (self->end_decided) {
        name_others(self, has_left, names);
        snprintf(text, room, "%s to end", names);
    } else if (self->is_stopping) {
        name_step(self, text, room);
    } else {
        return 0;
    }
    return 1;
}

/* Grows with everything that is waited for. */
static uint64_t progress(const struct gw_coordinator *self)
{
    uint64_t sum = self->phase + (self->end_decided != 0) + self->declared +
                   self->ready + self->keys_seen;
    sum += gw_keeper_progress(self);
    if (self->is_stopping)
        sum += self->pace.clocks;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        sum += one->bye ? 2 : 1;
    return sum;
}

/* The patient are told what is waited for, and the impatient what they can do.
 */
static void
judge_stop(struct gw_coordinator *self, uint64_t now, const char *text)
{
    uint64_t deadline_us =
        (uint64_t)(self->config->cluster.step_deadline * 1e6);
    uint64_t limit_us = GIVE_UP_STEPS * self->pace.longest_us;
    uint64_t waited_us = now - self->moved_us;
    if (limit_us < GIVE_UP_US)
        limit_us = GIVE_UP_US;
    if (waited_us >= limit_us) {
        gw_coordinator_stop_in_vain(self, (double)waited_us / 1e6, text);
    } else if (now - self->stop_told_us >=
               (self->stop_told ? deadline_us : SAY_US)) {
        self->stop_told_us = now;
        self->stop_told = 1;
        gw_coordinator_note(self,
                            "stopping: waiting for %s; another signal ends the "
                            "job at once",
                            text);
    }
}

void gw_coordinator_stuck_words(const struct gw_coordinator *self,
                                char words[GW_STUCK_BYTES])
{
    const struct gw_roster *one = self->roster;
    while (one && !one->stuck[0])
        one = one->next;
    words[0] = '\0';
    if (one)
        snprintf(words, GW_STUCK_BYTES, "; %s %s", one->peer->name, one->stuck);
}

/* Where a hundred cannot reach one, a line is enough. */
static void tell_stuck(struct gw_coordinator *self)
{
    const struct gw_roster *first = NULL;
    char more[48] = "";
    unsigned n = 0;
    for (struct gw_roster *one = self->roster; one; one = one->next) {
        if (!one->stuck[0] || one->stuck_told)
            continue;
        one->stuck_told = 1;
        first = first ? first : one;
        n++;
    }
    if (n > 1)
        snprintf(more, sizeof more, "; nor can %u more reach theirs", n - 1);
    if (first && self->phase < GW_PHASE_ENDING)
        gw_coordinator_note(self, "%s %s%s", first->peer->name, first->stuck,
                            more);
}

static void judge(struct gw_coordinator *self, uint64_t now, const char *text)
{
    const struct gw_config *config = self->config;
    double waited = (double)(now - self->moved_us) / 1e6;
    double told = (double)(now - self->told_us) / 1e6;
    if (waited < config->cluster.step_deadline ||
        told < config->cluster.step_deadline)
        return;
    self->told_us = now;
    char why[GW_STUCK_BYTES];
    gw_coordinator_stuck_words(self, why);
    gw_coordinator_note(self, "waiting for %.500s, for %.1f s%s", text, waited,
                        why);
    int stands = self->phase != GW_PHASE_RUNNING || self->end_decided;
    double limit = config->cluster.abort_after;
    if (stands && limit > 0 && waited >= limit)
        gw_coordinator_end(self, GW_ETIMEOUT,
                           "no progress for %.1f s (cluster.abort_after): "
                           "waiting for %s",
                           waited, text);
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    uint64_t now = gw_loop_now(self->loop), sum = progress(self);
    uint64_t paused_us_ago = gw_member_paused_us_ago(self->member);
    char text[GW_ERROR_TEXT_BYTES - 64];
    int waits = awaited(self, text, sizeof text);
    gw_timer_start(self->loop, timer, WATCH_US);
    note_pace(self, now);
    gw_strangers_expire(self, now);
    gw_coordinator_poll(self, now);
    /* steps are no wait, and what they took counts for none that comes after */
    if (sum != self->progress || !waits)
        self->moved_us = self->told_us = now;
    else if (paused_us_ago < now - self->moved_us) /* its own absence */
        self->moved_us = self->told_us = now - paused_us_ago;
    self->progress = sum;
    tell_stuck(self);
    gw_decline_judge(self, now);
    if (self->phase >= GW_PHASE_ENDING)
        return;
    if (waits && self->is_stopping)
        judge_stop(self, now, text);
    else if (waits)
        judge(self, now, text);
}

void gw_coordinator_watch_stop(struct gw_coordinator *self)
{
    self->moved_us = self->stop_told_us = gw_loop_now(self->loop);
}

void gw_coordinator_watch(struct gw_coordinator *self)
{
    self->watch.fire = on_watch;
    self->watch.owner = self;
    self->moved_us = self->told_us = gw_loop_now(self->loop);
    gw_timer_start(self->loop, &self->watch, WATCH_US);
}
