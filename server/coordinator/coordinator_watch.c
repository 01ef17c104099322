/*
 * The coordinator's waits. Steps are watched by the shards; everything around
 * them is here: members that have not joined, declared their model, made their
 * weights, saved their part of a checkpoint, or said good-bye. A wait without
 * progress is told every cluster.step_deadline, by name, and where the job
 * stands still it ends after cluster.abort_after.
 *
 * A job that is asked to stop takes as long as its step and its checkpoint do,
 * and says so. Only where neither comes on at all it ends without them.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#define WATCH_US 250000

/* After a stop: before the first line about the wait, and before the job ends
   without its step, though not within a few times the longest step. */
#define SAY_US        2000000
#define GIVE_UP_US    60000000
#define GIVE_UP_STEPS 4

/* Names that a line has room for. */
#define NAMES_BYTES 256

/* How steps come on. */
struct pace {
    uint64_t clocks;     /* of all workers together */
    uint64_t moved_us;   /* when that last grew */
    uint64_t longest_us; /* between two times that it grew */
};

struct gw_waits {
    struct gw_timer timer;
    uint64_t progress;          /* grows with everything that is waited for */
    uint64_t moved_us, told_us; /* when it grew, when a line last said so */
    uint64_t paused_us;         /* pauses of this process, so far */
    int sees_stop;
    int stop_told; /* a line has named the wait of a stop */
    uint64_t stop_told_us;
    struct pace pace;
};

static int has_declared(const struct gw_seat *who)
{
    return who->role != GW_ROLE_WORKER || who->declared;
}

static int is_ready(const struct gw_seat *who)
{
    return !gw_seat_has_shard(who) || who->ready;
}

static int has_left(const struct gw_seat *who)
{
    return who->role != GW_ROLE_WORKER || who->bye;
}

/* "worker 1 (host, pid 7), worker 2 (...)": all that have not `done` it. */
static void name_others(const struct gw_coordinator *self,
                        int (*done)(const struct gw_seat *who),
                        char names[NAMES_BYTES])
{
    size_t used = 0;
    names[0] = '\0';
    for (const struct gw_seat *one = gw_roster_first(self);
         one && used < NAMES_BYTES; one = one->next) {
        if (done(one))
            continue;
        int n = snprintf(names + used, NAMES_BYTES - used, "%s%s",
                         used ? ", " : "", one->peer->name);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* ---- steps ---- */

static uint64_t sum_of_clocks(const struct gw_coordinator *self)
{
    uint64_t sum = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER)
            sum += one->peer->clock;
    return sum;
}

/* "step 7, of worker 1 (host, pid 7)": the workers that are furthest behind. */
static void
name_step(const struct gw_coordinator *self, char *text, size_t room)
{
    uint64_t least = gw_steps_least(self);
    int n = snprintf(text, room, "step %" PRIu64 " to end",
                     gw_coordinator_step(self));
    size_t used = n > 0 ? (size_t)n : 0;
    const char *comma = ", the furthest behind is ";
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
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
    struct pace *pace = &self->watch->pace;
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

/* The wait of the job, in words; 0 where it waits for nothing here. */
static int awaited(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    char names[NAMES_BYTES];
    if (self->phase == GW_PHASE_GATHERING && gw_roster_shards(self) == 0) {
        snprintf(text, room,
                 "members to join: %u of %" PRIu64
                 " worker%s and %u of %" PRIu64 " server%s are here",
                 gw_roster_workers(self), config->cluster.workers,
                 gw_plural(config->cluster.workers), gw_roster_servers(self),
                 config->cluster.servers, gw_plural(config->cluster.servers));
    } else if (self->phase == GW_PHASE_GATHERING) {
        name_others(self, has_declared, names);
        snprintf(text, room, "%s to declare its model and data", names);
    } else if (self->phase == GW_PHASE_STARTING) {
        name_others(self, is_ready, names);
        snprintf(text, room, "%s to have its weights", names);
    } else if (self->phase == GW_PHASE_REJOINING) {
        gw_rejoin_awaited(self, text, room);
    } else if (self->phase != GW_PHASE_RUNNING) {
        return 0;
    } else if (gw_names_wait(self)) {
        snprintf(text, room, "checkpoint.dir to take the list of members");
    } else if (gw_vacant_any(self)) {
        gw_vacant_awaited(self, text, room);
    } else if (gw_keeper_is_busy(self)) {
        gw_keeper_awaited(self, text, room);
    } else if (gw_decided_has_end(self)) {
        name_others(self, has_left, names);
        snprintf(text, room, "%s to end", names);
    } else if (gw_stop_is_asked(self, NULL)) {
        name_step(self, text, room);
    } else {
        return 0;
    }
    return 1;
}

static uint64_t progress(const struct gw_coordinator *self)
{
    uint64_t sum = (uint64_t)self->phase + (uint64_t)gw_decided_has_end(self) +
                   gw_start_progress(self);
    sum += gw_keeper_progress(self);
    if (gw_stop_is_asked(self, NULL))
        sum += self->watch->pace.clocks;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        sum += one->bye ? 2 : 1;
    return sum;
}

/* A line for the patient, and for the impatient the way to end it at once. */
static void
judge_stop(struct gw_coordinator *self, uint64_t now, const char *text)
{
    struct gw_waits *watch = self->watch;
    uint64_t deadline_us =
        (uint64_t)(self->config->cluster.step_deadline * 1e6);
    uint64_t limit_us = GIVE_UP_STEPS * watch->pace.longest_us;
    uint64_t waited_us = now - watch->moved_us;
    if (limit_us < GIVE_UP_US)
        limit_us = GIVE_UP_US;
    if (waited_us >= limit_us) {
        gw_stop_in_vain(self, (double)waited_us / 1e6, text);
    } else if (now - watch->stop_told_us >=
               (watch->stop_told ? deadline_us : SAY_US)) {
        watch->stop_told_us = now;
        watch->stop_told = 1;
        gw_coordinator_note(self,
                            "stopping: waiting for %s; another signal ends the "
                            "job at once",
                            text);
    }
}

/* Steps have their own limit, at the shards, and a rank that nobody has joined
   as has cluster.patience. */
static int stands(const struct gw_coordinator *self)
{
    if (gw_vacant_any(self))
        return !gw_vacant_is_open(self);
    return self->phase != GW_PHASE_RUNNING || gw_decided_has_end(self);
}

static void judge(struct gw_coordinator *self, uint64_t now, const char *text)
{
    const struct gw_config *config = self->config;
    struct gw_waits *watch = self->watch;
    double waited = (double)(now - watch->moved_us) / 1e6;
    double told = (double)(now - watch->told_us) / 1e6;
    if (waited < config->cluster.step_deadline ||
        told < config->cluster.step_deadline)
        return;
    watch->told_us = now;
    char why[GW_STUCK_BYTES];
    gw_stall_cause(self, why);
    gw_coordinator_note(self, "waiting for %.500s, for %.1f s%s", text, waited,
                        why);
    double limit = config->cluster.abort_after;
    if (stands(self) && limit > 0 && waited >= limit)
        gw_coordinator_end(self, GW_ETIMEOUT,
                           "no progress for %.1f s (cluster.abort_after): "
                           "waiting for %s",
                           waited, text);
}

/* From a stop on, steps are waited for as well. */
static void note_stop(struct gw_coordinator *self)
{
    struct gw_waits *watch = self->watch;
    uint64_t since_us;
    if (watch->sees_stop || !gw_stop_is_asked(self, &since_us))
        return;
    watch->sees_stop = 1;
    watch->moved_us = watch->stop_told_us = since_us;
}

static void give_up_overdue(struct gw_coordinator *self)
{
    struct gw_seat *who;
    while ((who = gw_suspect_overdue(self)))
        gw_coordinator_give_up(self, who, "silent");
}

static void on_watch(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    struct gw_waits *watch = self->watch;
    note_stop(self);
    uint64_t now = gw_loop_now(self->loop), sum = progress(self);
    char text[GW_ERROR_TEXT_BYTES - 64];
    int waits = awaited(self, text, sizeof text);
    gw_timer_start(self->loop, timer, WATCH_US);
    note_pace(self, now);
    gw_strangers_expire(self, now);
    gw_vacant_look(self);
    give_up_overdue(self);
    gw_gather_poll(self, now);
    /* steps are no wait: their time counts for none that comes after */
    gw_member_excuse(self->member, now, &watch->paused_us, &watch->moved_us);
    if (sum != watch->progress || !waits)
        watch->moved_us = watch->told_us = now;
    watch->progress = sum;
    gw_stall_tell_stuck(self);
    gw_decline_judge(self, now);
    if (self->phase >= GW_PHASE_ENDING)
        return;
    if (waits && gw_stop_is_asked(self, NULL))
        judge_stop(self, now, text);
    else if (waits)
        judge(self, now, text);
}

enum gw_status gw_waits_open(struct gw_coordinator *self,
                             struct gw_error *error)
{
    struct gw_waits *watch = calloc(1, sizeof *watch);
    self->watch = watch;
    if (!watch)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    watch->timer.fire = on_watch;
    watch->timer.owner = self;
    watch->moved_us = watch->told_us = gw_loop_now(self->loop);
    gw_timer_start(self->loop, &watch->timer, WATCH_US);
    return GW_OK;
}

void gw_waits_stop(struct gw_coordinator *self)
{
    gw_timer_stop(self->loop, &self->watch->timer);
}

void gw_waits_close(struct gw_coordinator *self)
{
    if (!self->watch)
        return;
    gw_waits_stop(self);
    free(self->watch);
    self->watch = NULL;
}
