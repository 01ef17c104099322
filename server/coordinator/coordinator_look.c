/*
 * Where --resume would go on, for the line with which a job ends: looked at
 * when it ends, for what was written may be gone. On another thread, and not
 * for long: members wait for that line.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/checkpoint/store.h"

/* For a disk that does not answer. */
#define LOOK_US 800000

/* How long the simulator lets a look take. */
#define LOOK_MODEL_US 300

/* By its path, as the next job will. */
static void run_look(struct gw_work *work)
{
    struct gw_look *look = work->owner;
    struct gw_coordinator *self = look->self;
    struct gw_disk dir;
    if (gw_store_enter(self->loop->disk, self->config->checkpoint.dir,
                       GW_ACCESS_PRIVATE, &dir, NULL) == GW_OK)
        look->is_there = gw_store_newest_there(&dir, &look->clock);
    gw_store_leave(&dir);
}

static void tell(struct gw_look *look)
{
    look->is_going_on = 0;
    gw_timer_stop(look->self->loop, &look->timer);
    look->told(look->self);
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

void gw_look_begin(struct gw_coordinator *self,
                   void (*told)(struct gw_coordinator *self))
{
    struct gw_look *look = &self->look;
    *look = (struct gw_look){
        .self = self,
        .told = told,
        .is_going_on = 1,
        .work = {.run = run_look,
                 .done = looked,
                 .owner = look,
                 .model_us = LOOK_MODEL_US},
        .timer = {.fire = on_timer, .owner = look},
    };
    gw_timer_start(self->loop, &look->timer, LOOK_US);
    gw_loop_work(self->loop, &look->work);
}

void gw_look_close(struct gw_coordinator *self)
{
    if (!self->look.self)
        return;
    gw_timer_stop(self->loop, &self->look.timer);
    gw_loop_cancel(self->loop, &self->look.work);
}

void gw_look_print(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_look *look = &self->look;
    const char *dir = self->config->checkpoint.dir;
    int is_good = self->final.status == GW_OK;
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
    else if (self->end_decided && look->clock == self->cut_clock &&
             gw_keeper_has(self, self->cut_clock))
        snprintf(text, room, "; --resume goes on from there");
    else
        snprintf(text, room, "; --resume goes on from step %" PRIu64,
                 look->clock);
}
