/*
 * Looks at checkpoint.dir when the job ends, for the line with which it ends:
 * files that were written may be gone, and --resume needs them. On another
 * thread, and not for long: members wait for that line.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/checkpoint/begin.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

/* For a disk that does not answer. */
#define LOOK_US 800000

/* The time of a look in the simulator. */
#define LOOK_MODEL_US 300

struct gw_look {
    struct gw_coordinator *self;
    struct gw_work work;
    struct gw_timer timer;
    int is_going_on;
    int has_seen; /* else there was no answer in time */
    int is_there; /* a checkpoint is: */
    uint64_t clock;
};

static void run_look(struct gw_work *work);
static void looked(struct gw_work *work);
static void on_timer(struct gw_timer *timer);

enum gw_status gw_look_open(struct gw_coordinator *self, struct gw_error *error)
{
    struct gw_look *look = calloc(1, sizeof *look);
    self->look = look;
    if (!look)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    *look = (struct gw_look){
        .self = self,
        .work = {.run = run_look,
                 .done = looked,
                 .owner = look,
                 .model_us = LOOK_MODEL_US},
        .timer = {.fire = on_timer, .owner = look},
    };
    return GW_OK;
}

void gw_look_close(struct gw_coordinator *self)
{
    struct gw_look *look = self->look;
    if (!look)
        return;
    gw_timer_stop(self->loop, &look->timer);
    gw_loop_cancel(self->loop, &look->work);
    free(look);
    self->look = NULL;
}

/* By its path, as the next job will. */
static void run_look(struct gw_work *work)
{
    struct gw_look *look = work->owner;
    struct gw_coordinator *self = look->self;
    look->is_there = gw_begin_newest(
        self->loop->disk, self->config->checkpoint.dir, &look->clock);
}

/* The words that follow how the job ended. */
static void print(const struct gw_look *look, char *text, size_t room)
{
    const struct gw_coordinator *self = look->self;
    const char *dir = self->config->checkpoint.dir;
    uint64_t cut = 0;
    int has_cut = gw_decided_cut(self, &cut);
    int is_good = gw_final_status(self) == GW_OK;
    if (is_good && (look->is_there || !look->has_seen))
        snprintf(text, room, "%s", "");
    else if (!look->has_seen)
        snprintf(text, room,
                 "; %.200s does not answer, so --resume may have nothing to go "
                 "on from",
                 dir);
    else if (!look->is_there)
        snprintf(text, room, "; no checkpoint is left in %.200s", dir);
    else if (gw_keeper_may_finish(self))
        snprintf(text, room, "; --resume goes on from the last checkpoint");
    else if (gw_decided_has_end(self) && has_cut && look->clock == cut &&
             gw_keeper_has(self, cut))
        snprintf(text, room, "; --resume goes on from there");
    else
        snprintf(text, room, "; --resume goes on from step %" PRIu64,
                 look->clock);
}

/* A job has not ended well if its checkpoints are gone: the one that it was to
   leave is not there, or it cannot go on. After a death it can if one is there.
 */
static void judge(const struct gw_look *look)
{
    struct gw_coordinator *self = look->self;
    enum gw_status status = gw_final_status(self);
    int is_lost = look->has_seen && !look->is_there;
    if (is_lost &&
        (status == GW_OK || status == GW_EINTERRUPTED || status == GW_EDEAD))
        gw_final_set_status(self, GW_EIO);
    if (is_lost)
        gw_final_found_none(self);
    if (look->is_there)
        gw_final_found_checkpoint(self, look->clock);
    if (look->is_there && status == GW_EDEAD)
        gw_final_set_status(self, GW_ERESUMABLE);
}

static void tell(struct gw_look *look)
{
    struct gw_coordinator *self = look->self;
    char text[GW_ERROR_TEXT_BYTES];
    look->is_going_on = 0;
    gw_timer_stop(self->loop, &look->timer);
    print(look, text, sizeof text);
    gw_final_add_text(self, text);
    judge(look);
    gw_ending_send(self);
}

static void looked(struct gw_work *work)
{
    struct gw_look *look = work->owner;
    if (!look->is_going_on)
        return; /* too late */
    look->has_seen = 1;
    tell(look);
}

static void on_timer(struct gw_timer *timer)
{
    tell(timer->owner);
}

void gw_coordinator_end_and_look(struct gw_coordinator *self,
                                 enum gw_status status,
                                 const char *format,
                                 ...)
{
    struct gw_look *look = self->look;
    va_list args;
    va_start(args, format);
    int begun = gw_ending_begin(self, status, format, args);
    va_end(args);
    if (begun && gw_final_checkpoint(self, NULL)) {
        look->is_going_on = 1;
        gw_timer_start(self->loop, &look->timer, LOOK_US);
        gw_loop_work(self->loop, &look->work);
    } else if (begun) {
        gw_ending_send(self);
    }
}
