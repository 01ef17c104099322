/*
 * Ends the job, for any reason: every member is sent one line, says good-bye,
 * and leaves; then the final report is given. Called by all files of the
 * coordinator, so it calls none but leaves.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdlib.h>

/* For members to leave after END. */
#define LEAVE_US 1000000

struct gw_ending {
    struct gw_timer timer;
    int is_sent;
};

static void finish(struct gw_coordinator *self)
{
    if (self->phase == GW_PHASE_OVER)
        return;
    self->phase = GW_PHASE_OVER;
    gw_timer_stop(self->loop, &self->ending->timer);
    self->up->over(self);
    gw_final_give(self);
}

static void on_timer(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    if (self->ending->is_sent)
        finish(self);
}

enum gw_status gw_ending_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    struct gw_ending *ending = calloc(1, sizeof *ending);
    self->ending = ending;
    if (!ending)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    ending->timer.fire = on_timer;
    ending->timer.owner = self;
    return GW_OK;
}

void gw_ending_close(struct gw_coordinator *self)
{
    if (!self->ending)
        return;
    gw_timer_stop(self->loop, &self->ending->timer);
    free(self->ending);
    self->ending = NULL;
}

/* From here on nothing changes how the job ended. */
int gw_ending_begin(struct gw_coordinator *self,
                    enum gw_status status,
                    const char *format,
                    va_list args)
{
    if (self->phase >= GW_PHASE_ENDING)
        return 0;
    self->phase = GW_PHASE_ENDING;
    gw_final_set_text(self, status, format, args);
    self->up->ending(self);
    return 1;
}

void gw_ending_send(struct gw_coordinator *self)
{
    const struct gw_message message = gw_final_message(self);
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        gw_peer_tell(one->peer, &message);
    self->ending->is_sent = 1;
    gw_timer_start(self->loop, &self->ending->timer,
                   gw_roster_has_left(self) ? 0 : LEAVE_US);
}

void gw_coordinator_end(struct gw_coordinator *self,
                        enum gw_status status,
                        const char *format,
                        ...)
{
    va_list args;
    va_start(args, format);
    if (gw_ending_begin(self, status, format, args))
        gw_ending_send(self);
    va_end(args);
}

/* They leave one by one; the last one ends the wait. */
void gw_ending_link_down(struct gw_coordinator *self)
{
    if (gw_roster_has_left(self))
        gw_timer_start(self->loop, &self->ending->timer, 0);
}
