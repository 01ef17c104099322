/*
 * How a job ends: all steps done, asked to stop, or a member lost. Whatever the
 * reason, every member is told one line, says good-bye, and leaves; then the
 * final report is given.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A silence that follows a fault within this time is put down to it. */
#define FAULT_US 30000000

/* The fault of one member, until the job ends by it. */
#define FAULTS_MAX 16

/* For members to leave after END. */
#define LEAVE_US 1000000

static int everyone_left(const struct gw_coordinator *self)
{
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (gw_peer_is_up(one->peer, 0))
            return 0;
    return 1;
}

static void collect(struct gw_coordinator *self)
{
    struct gw_final_report *final = &self->final;
    for (const struct gw_roster *one = self->roster; one; one = one->next) {
        int worker = one->role == GW_ROLE_WORKER;
        uint64_t *rss = worker ? &final->rss_worker : &final->rss_server;
        struct gw_metrics_snapshot *sum =
            worker ? &final->workers : &final->servers;
        if (one->rss_bytes > *rss)
            *rss = one->rss_bytes;
        gw_metrics_join(&one->counters, sum);
    }
}

static void finish(struct gw_coordinator *self)
{
    if (self->phase == GW_PHASE_OVER)
        return;
    self->phase = GW_PHASE_OVER;
    gw_timer_stop(self->loop, &self->end_timer);
    gw_timer_stop(self->loop, &self->watch);
    collect(self);
    self->final.text = self->final_text;
    self->final.step = self->step;
    self->options.events->finished(self->options.owner, &self->final);
}

static void on_end_timer(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    if (!self->look.is_going_on) /* else END follows */
        finish(self);
}

/* Members hear it, and leave. */
static void send_end(struct gw_coordinator *self)
{
    struct gw_message message = {.kind = GW_MESSAGE_END,
                                 .end = {.status = self->final.status,
                                         .clock = self->step,
                                         .text = self->final_text}};
    for (struct gw_roster *one = self->roster; one; one = one->next)
        gw_peer_tell(one->peer, &message);
    gw_timer_start(self->loop, &self->end_timer,
                   everyone_left(self) ? 0 : LEAVE_US);
}

/* From here on nothing changes how the job ended. Returns 0 where that was
   said already. */
static int begin_end(struct gw_coordinator *self,
                     enum gw_status status,
                     const char *format,
                     va_list args)
{
    if (self->phase >= GW_PHASE_ENDING)
        return 0;
    self->phase = GW_PHASE_ENDING;
    gw_text_print(self->final_text, sizeof self->final_text, format, args);
    gw_text_clean(self->final_text); /* it may quote a member */
    self->final.status = status;
    self->end_timer.fire = on_end_timer;
    self->end_timer.owner = self;
    gw_ahead_recheck(self); /* no more decisions are waited for */
    return 1;
}

void gw_coordinator_end(struct gw_coordinator *self,
                        enum gw_status status,
                        const char *format,
                        ...)
{
    va_list args;
    va_start(args, format);
    if (begin_end(self, status, format, args))
        send_end(self);
    va_end(args);
}

/* ---- with where the job can go on from ---- */

/* A job whose checkpoints are gone has not ended well: what it was to leave is
   not there, or it cannot be resumed. */
static void looked(struct gw_coordinator *self)
{
    struct gw_final_report *final = &self->final;
    const struct gw_look *look = &self->look;
    size_t used = strlen(self->final_text);
    gw_look_print(self, self->final_text + used,
                  sizeof self->final_text - used);
    if (look->has_seen && !look->is_there &&
        (final->status == GW_OK || final->status == GW_EINTERRUPTED))
        final->status = GW_EIO;
    if (look->has_seen && !look->is_there)
        final->has_checkpoint = 0;
    /* one that is not known to be safe on the disk is not counted */
    if (look->is_there && look->clock < final->checkpoint)
        final->checkpoint = look->clock;
    send_end(self);
}

/* The same where checkpoints were made, and a word on whether they are there
   and what --resume goes on from. */
static void end_and_look(struct gw_coordinator *self,
                         enum gw_status status,
                         const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

static void end_and_look(struct gw_coordinator *self,
                         enum gw_status status,
                         const char *format,
                         ...)
{
    va_list args;
    va_start(args, format);
    int begun = begin_end(self, status, format, args);
    va_end(args);
    if (begun && self->final.has_checkpoint)
        gw_look_begin(self, looked);
    else if (begun)
        send_end(self);
}

/* ---- all steps done, or stopped ---- */

/* The checkpoint that the job went on from had all of them already. */
static void
nothing_to_do(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    uint64_t at = self->state.clock, steps = self->declare.total_steps;
    if (config->train.steps)
        snprintf(text, room,
                 "nothing to do: the checkpoint is at step %" PRIu64
                 " already, and train.steps is %" PRIu64
                 "; raise train.steps to go on",
                 at, steps);
    else
        snprintf(text, room,
                 "nothing to do: the checkpoint is at step %" PRIu64
                 " already, and train.epochs is %" PRIu64 ", %" PRIu64
                 " step%s; raise train.epochs to go on",
                 at, config->train.epochs, steps, gw_plural(steps));
}

static int is_scaled_by_number(const struct gw_config *config)
{
    return strcmp(config->train.loss_scale, "none") != 0 &&
           strcmp(config->train.loss_scale, "dynamic") != 0;
}

/* "all 10 steps done" and the like, and the status that goes with it. */
static enum gw_status
how_it_ended(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->options.config;
    switch (self->end_reason) {
    case GW_END_STOPPED:
        snprintf(text, room, "stopped at step %" PRIu64, self->end_clock);
        return GW_EINTERRUPTED;
    case GW_END_NONFINITE:
        snprintf(text, room,
                 "stopped at step %" PRIu64 ": the gradient was not finite%s; "
                 "lower %s%s",
                 self->end_clock,
                 config->train.nonfinite == GW_NONFINITE_SKIP
                     ? " in several steps in a row"
                     : "",
                 is_scaled_by_number(config)
                     ? "train.loss_scale (\"dynamic\" finds one that fits) or "
                       "optimizer.lr"
                     : "optimizer.lr",
                 strcmp(config->train.precision, "fp16") == 0
                     ? ", or take train.precision = \"bf16\""
                     : "");
        return GW_ENONFINITE;
    case GW_END_EARLY:
        snprintf(text, room, "stopped early at step %" PRIu64 ": no progress",
                 self->end_clock);
        return GW_OK;
    default:
        if (self->state.clock >= self->declare.total_steps)
            nothing_to_do(self, text, room);
        else
            snprintf(text, room, "all %" PRIu64 " step%s done", self->end_clock,
                     gw_plural(self->end_clock));
        return GW_OK;
    }
}

/* All steps are done and saved, and the workers have said good-bye. */
void gw_coordinator_maybe_done(struct gw_coordinator *self)
{
    char text[256];
    if (self->phase != GW_PHASE_RUNNING || !self->end_decided ||
        gw_keeper_is_busy(self))
        return;
    for (const struct gw_roster *one = self->roster; one; one = one->next)
        if (one->role == GW_ROLE_WORKER && !one->bye)
            return;
    enum gw_status status = how_it_ended(self, text, sizeof text);
    if (!gw_keeper_has(self, self->cut_clock))
        end_and_look(self, status == GW_ENONFINITE ? status : GW_EIO,
                     "%s, but the last checkpoint could not be written", text);
    else
        end_and_look(self, status, "%s%s", text,
                     self->final.has_checkpoint || status != GW_EINTERRUPTED
                         ? ""
                         : "; without checkpoint.dir it cannot go on");
}

void gw_coordinator_bye(struct gw_coordinator *self,
                        struct gw_roster *who,
                        const struct gw_bye *bye)
{
    int has_weights = who->role == GW_ROLE_WORKER && who->id == 0;
    if (has_weights && !bye->has_sha256) {
        gw_peer_reject(who->peer, 0,
                       "good-bye of rank 0 without the SHA-256 of its weights");
        return;
    }
    who->bye = 1;
    who->rss_bytes = bye->rss_bytes;
    for (uint32_t i = 0; i < bye->counters_n && i < GW_METRICS; i++)
        who->counters.value[i] = bye->counters[i];
    if (has_weights) {
        self->final.has_weights = 1;
        memcpy(self->final.weights_sha256, bye->sha256, GW_DIGEST_BYTES);
    }
    gw_coordinator_maybe_done(self);
}

/* ---- deaths ---- */

/* A connection was closed for it lately: that is why it is not heard. */
static int has_new_fault(const struct gw_coordinator *self,
                         const struct gw_roster *who)
{
    return who->fault_us > 0 &&
           gw_loop_now(self->loop) - who->fault_us < FAULT_US;
}

void gw_coordinator_faulted(struct gw_coordinator *self,
                            struct gw_roster *who,
                            const char *where,
                            const char *what)
{
    snprintf(who->fault, sizeof who->fault, "%s%s%s", what,
             where[0] ? ", says " : "", where);
    gw_text_clean(who->fault);
    who->fault_us = gw_loop_now(self->loop);
    if (where[0] && self->phase < GW_PHASE_ENDING)
        gw_log_limited(self->log, &self->limit, GW_LOG_WARN,
                       "%s breaks the protocol: %s", who->peer->name,
                       who->fault);
    /* it comes back each time, and will not do better */
    if (++who->faults >= FAULTS_MAX)
        gw_coordinator_end(self, GW_EPROTO,
                           "%s keeps breaking the protocol: %s",
                           who->peer->name, who->fault);
}

void gw_coordinator_lost(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         enum gw_status status,
                         const char *why)
{
    struct gw_roster *who = gw_roster_of(self, peer);
    char paused[GW_PAUSED_BYTES];
    if (self->phase >= GW_PHASE_ENDING || !who)
        return;
    self->step = gw_coordinator_step(self);
    double silent = (double)gw_peer_silent_us(peer) / 1e6;
    (void)status;
    /* if they took this process for dead, they have left */
    gw_member_paused_words(self->member, paused);
    if (has_new_fault(self, who))
        end_and_look(self, GW_EDEAD,
                     "%s was lost at step %" PRIu64
                     ": it broke the protocol: %s",
                     peer->name, self->step, who->fault);
    else
        end_and_look(self, GW_EDEAD,
                     "%s%s %s at step %" PRIu64 ": %s for %.1f s", paused,
                     peer->name, paused[0] ? "is heard no more" : "died",
                     self->step, why, silent);
}

void gw_coordinator_failed(struct gw_coordinator *self,
                           const struct gw_peer *peer,
                           const struct gw_end *end)
{
    char paused[GW_PAUSED_BYTES] = "";
    if (end->status == GW_EDEAD) /* perhaps it missed this process */
        gw_member_paused_words(self->member, paused);
    gw_coordinator_end(self, end->status, "%s%s: %s", paused, peer->name,
                       gw_reason(end->text));
}

void gw_coordinator_gone(struct gw_coordinator *self,
                         uint32_t pid,
                         const char *how)
{
    if (self->phase >= GW_PHASE_ENDING)
        return;
    self->step = gw_coordinator_step(self);
    for (struct gw_roster *one = self->roster; one; one = one->next) {
        if (one->pid != pid || one->machine != self->options.machine)
            continue;
        end_and_look(self, GW_EDEAD, "%s died at step %" PRIu64 ": %s",
                     one->peer->name, self->step, how);
        return;
    }
    const struct gw_declined *declined = &self->declined;
    if (declined->at_us && declined->pid == pid &&
        declined->machine == self->options.machine) {
        gw_coordinator_end(self, GW_EREFUSED, "%s", declined->text);
        return;
    }
    end_and_look(self, GW_EDEAD,
                 "a process (pid %u) died at step %" PRIu64
                 ", before it had joined: %s",
                 pid, self->step, how);
}

void gw_coordinator_orphaned(struct gw_coordinator *self)
{
    uint64_t step = gw_coordinator_step(self);
    end_and_look(self, GW_EDEAD, "the launcher died at step %" PRIu64, step);
}

/* ---- stopping ---- */

static const char *what_stands(const struct gw_coordinator *self)
{
    return self->final.has_checkpoint
               ? ""
               : "; there is no checkpoint to go on from";
}

void gw_coordinator_stop_in_vain(struct gw_coordinator *self,
                                 double waited_s,
                                 const char *what)
{
    end_and_look(self, GW_EINTERRUPTED,
                 "stopped at step %" PRIu64 ", no progress for %.0f s: waiting "
                 "for %s%s",
                 gw_coordinator_step(self), waited_s, what, what_stands(self));
}

/* Nothing to be saved yet. */
static int stop_early(struct gw_coordinator *self)
{
    if (self->phase >= GW_PHASE_RUNNING &&
        gw_roster_find(self, GW_ROLE_SERVER, 0))
        return 0;
    gw_coordinator_end(self, GW_EINTERRUPTED, "stopped before the first step");
    return 1;
}

void gw_coordinator_stop(struct gw_coordinator *self, const char *why)
{
    struct gw_message message = {.kind = GW_MESSAGE_STOP,
                                 .stop = {.text = why}};
    if (stop_early(self) || self->phase > GW_PHASE_RUNNING || self->is_stopping)
        return;
    self->is_stopping = 1; /* the watch sees to it that it comes on */
    gw_log_info(self->log, "stopping: %s", why);
    gw_coordinator_tell(self, gw_roster_find(self, GW_ROLE_SERVER, 0)->peer,
                        &message);
    gw_coordinator_watch_stop(self);
}

void gw_coordinator_stop_now(struct gw_coordinator *self)
{
    if (!stop_early(self))
        end_and_look(self, GW_EINTERRUPTED,
                     "stopped at step %" PRIu64 " at once%s",
                     gw_coordinator_step(self), what_stands(self));
}
