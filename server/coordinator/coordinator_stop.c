/* How a job ends in order: all steps done, or asked to stop. */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

struct gw_stopping {
    int is_asked; /* to stop, and the job has not ended */
    uint64_t since_us;
    uint64_t finished; /* + 1: rank 0's last clock; 0: it goes on */
};

enum gw_status gw_stop_open(struct gw_coordinator *self, struct gw_error *error)
{
    self->stopping = calloc(1, sizeof *self->stopping);
    return self->stopping
               ? GW_OK
               : gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
}

void gw_stop_close(struct gw_coordinator *self)
{
    free(self->stopping);
    self->stopping = NULL;
}

int gw_stop_is_asked(const struct gw_coordinator *self, uint64_t *since_us_p)
{
    if (self->stopping->is_asked && since_us_p)
        *since_us_p = self->stopping->since_us;
    return self->stopping->is_asked;
}

/* ---- all steps done ---- */

/* The checkpoint that the job went on from had all of them already. */
static void
nothing_to_do(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    uint64_t at = gw_origin_state(self)->clock,
             steps = gw_declaration(self)->total_steps;
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
    switch (gw_decided_end_reason(self)) {
    case GW_END_STOPPED:
        snprintf(text, room, "stopped at step %" PRIu64,
                 gw_decided_end_clock(self));
        return GW_EINTERRUPTED;
    case GW_END_NONFINITE:
        snprintf(text, room,
                 "stopped at step %" PRIu64 ": the gradient was not finite%s; "
                 "lower %s%s",
                 gw_decided_end_clock(self),
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
                 gw_decided_end_clock(self));
        return GW_OK;
    default:
        if (gw_origin_state(self)->clock >= gw_declaration(self)->total_steps)
            nothing_to_do(self, text, room);
        else if (gw_decided_end_clock(self) < gw_declaration(self)->total_steps)
            snprintf(text, room, "finished at step %" PRIu64,
                     gw_decided_end_clock(self));
        else
            snprintf(text, room, "all %" PRIu64 " step%s done",
                     gw_decided_end_clock(self),
                     gw_plural(gw_decided_end_clock(self)));
        return GW_OK;
    }
}

/* All steps are done and saved, and the workers have said good-bye. */
void gw_coordinator_maybe_done(struct gw_coordinator *self)
{
    char text[256];
    uint64_t cut = 0;
    if (self->phase != GW_PHASE_RUNNING || !gw_decided_has_end(self) ||
        gw_keeper_is_busy(self) ||
        gw_roster_workers(self) < self->config->cluster.workers)
        return;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next)
        if (one->role == GW_ROLE_WORKER && !one->bye)
            return;
    enum gw_status status = how_it_ended(self, text, sizeof text);
    gw_decided_cut(self, &cut);
    if (!gw_keeper_has(self, cut))
        gw_coordinator_end_and_look(
            self, status == GW_ENONFINITE ? status : GW_EIO,
            "%s, but the last checkpoint could not be written", text);
    else
        gw_coordinator_end_and_look(
            self, status, "%s%s", text,
            gw_final_checkpoint(self, NULL) || status != GW_EINTERRUPTED
                ? ""
                : "; without checkpoint.dir it cannot go on");
}

void gw_coordinator_bye(struct gw_coordinator *self,
                        struct gw_seat *who,
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
    if (has_weights)
        gw_final_set_weights(self, bye->sha256);
    gw_coordinator_maybe_done(self);
}

/* ---- stops ---- */

static const char *what_stands(const struct gw_coordinator *self)
{
    return gw_final_checkpoint(self, NULL)
               ? ""
               : "; there is no checkpoint to go on from";
}

void gw_stop_in_vain(struct gw_coordinator *self,
                     double waited_s,
                     const char *wait)
{
    gw_coordinator_end_and_look(
        self, GW_EINTERRUPTED,
        "stopped at step %" PRIu64 ", no progress for %.0f s: waiting for %s%s",
        gw_coordinator_step(self), waited_s, wait, what_stands(self));
}

/* Nothing to be saved yet. */
static int stop_early(struct gw_coordinator *self)
{
    if (self->phase >= GW_PHASE_REJOINING)
        return 0;
    gw_coordinator_end(self, GW_EINTERRUPTED, "stopped before the first step");
    return 1;
}

static void tell_stop(struct gw_coordinator *self)
{
    const struct gw_message message = {.kind = GW_MESSAGE_STOP,
                                       .stop = {.text = "it is asked for"}};
    gw_coordinator_tell_leader(self, &message);
}

/* The watch sees to it that the step and its checkpoint come on. */
void gw_coordinator_stop(struct gw_coordinator *self, const char *why)
{
    struct gw_stopping *stopping = self->stopping;
    if (stop_early(self) || self->phase > GW_PHASE_RUNNING ||
        stopping->is_asked)
        return;
    stopping->is_asked = 1;
    stopping->since_us = gw_loop_now(self->loop);
    gw_log_info(self->log, "stopping: %s", why);
    if (self->phase == GW_PHASE_RUNNING)
        tell_stop(self);
}

void gw_stop_rejoined(struct gw_coordinator *self)
{
    if (self->stopping->is_asked)
        tell_stop(self);
    gw_stop_running(self);
}

/* ---- the program of rank 0 has no further step ---- */

static void pass_on(struct gw_coordinator *self)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_STOP,
        .stop = {.text = "", .finished = self->stopping->finished}};
    gw_coordinator_tell_leader(self, &message);
}

void gw_coordinator_finished(struct gw_coordinator *self,
                             struct gw_seat *who,
                             uint64_t clock)
{
    if (who->role != GW_ROLE_WORKER || who->id != 0 ||
        !gw_config_is_external(self->config) ||
        gw_steps_is_beyond(self, clock)) {
        gw_peer_reject(who->peer, 0, "an end that it cannot decide");
        return;
    }
    if (self->phase > GW_PHASE_RUNNING)
        return;
    self->stopping->finished = clock + 1; /* again: where it waits */
    gw_log_info(self->log, "worker 0 has finished at step %" PRIu64, clock);
    if (self->phase == GW_PHASE_RUNNING)
        pass_on(self);
}

void gw_stop_running(struct gw_coordinator *self)
{
    if (self->stopping->finished)
        pass_on(self);
}

void gw_coordinator_stop_now(struct gw_coordinator *self)
{
    if (!stop_early(self))
        gw_coordinator_end_and_look(
            self, GW_EINTERRUPTED, "stopped at step %" PRIu64 " at once%s",
            gw_coordinator_step(self), what_stands(self));
}
