/*
 * A server that is asked to leave (SIGTERM, as schedulers do before they take a
 * host away), and of whose shards there are copies, leaves alone:
 *
 *   asks --> told to end --> all its threads say good-bye: it is lost, in order
 *
 *   asks    for a moment, since the whole job may have been asked to stop, or
 *           another server may be about to come; and for as long as one is
 *           getting copies
 *
 * Where no other server has its shards, or gets them, the job stops.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A signal to all processes of a job comes to its coordinator within it. */
#define MOMENT_US 500000
#define LOOK_US   100000

/* A launcher, or a supervisor, starts another process within it. */
#define EXPECTED_US 3000000

struct gw_departures {
    struct gw_timer timer;
};

enum may {
    NEVER,
    LATER,
    NOW
};

static void on_timer(struct gw_timer *timer);

enum gw_status gw_depart_open(struct gw_coordinator *self,
                              struct gw_error *error)
{
    self->departures = calloc(1, sizeof *self->departures);
    if (!self->departures)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->departures->timer =
        (struct gw_timer){.fire = on_timer, .owner = self};
    return GW_OK;
}

void gw_depart_close(struct gw_coordinator *self)
{
    if (self->departures)
        gw_timer_stop(self->loop, &self->departures->timer);
    free(self->departures);
    self->departures = NULL;
}

/* ---- may it? ---- */

/* Whether each of its shards has a copy in another process, which the register
   knows; or gets one. */
static enum may judge_copies(const struct gw_coordinator *self,
                             const struct gw_seat *who)
{
    enum may may = NOW;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
        if (one->role != GW_ROLE_SERVER || one->process != who->process)
            continue;
        const struct gw_seat *standby =
            gw_roster_find(self, GW_ROLE_STANDBY, one->id);
        if (!standby || standby->process == who->process)
            return NEVER;
        if (!standby->is_counted)
            may = LATER;
    }
    return may;
}

/* Another process may be about to come in the place of one that is lost. */
static int is_one_expected(const struct gw_coordinator *self,
                           const struct gw_seat *who)
{
    return gw_places_are_open(self) &&
           gw_loop_now(self->loop) - who->asked_us < EXPECTED_US;
}

static enum may may_depart(const struct gw_coordinator *self,
                           const struct gw_seat *who)
{
    if (gw_roster_leaving(self) || gw_places_are_filling(self))
        return LATER;
    enum may may = judge_copies(self, who);
    return may == NEVER && is_one_expected(self, who) ? LATER : may;
}

/* ---- it is asked, and told ---- */

int gw_depart_ask(struct gw_coordinator *self, struct gw_seat *who)
{
    if (self->config->cluster.copies == 1 || !gw_seat_has_shard(who) ||
        self->phase < GW_PHASE_REJOINING || self->phase > GW_PHASE_RUNNING)
        return 0;
    gw_log_info(self->log, "%s asks to leave", who->peer->name);
    who->asks_to_leave = 1;
    who->asked_us = gw_loop_now(self->loop);
    gw_timer_start(self->loop, &self->departures->timer, MOMENT_US);
    return 1;
}

static void depart(struct gw_coordinator *self, const struct gw_seat *who)
{
    const struct gw_message message = {
        .kind = GW_MESSAGE_END,
        .end = {.status = GW_OK, .text = "it leaves, and the job goes on"}};
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        if (!gw_seat_has_shard(one) || one->process != who->process)
            continue;
        one->departs = 1;
        gw_coordinator_tell(self, one->peer, &message);
    }
    gw_copies_count(self);
}

static void look_at(struct gw_coordinator *self, struct gw_seat *who)
{
    char text[GW_ERROR_TEXT_BYTES];
    enum may may = may_depart(self, who);
    who->asks_to_leave = may == LATER;
    if (may == LATER)
        gw_timer_start(self->loop, &self->departures->timer, LOOK_US);
    if (may == NOW)
        depart(self, who);
    if (may != NEVER)
        return;
    snprintf(text, sizeof text, "%s leaves, and nobody else has what it has",
             who->peer->name);
    gw_coordinator_stop(self, text);
}

static void on_timer(struct gw_timer *timer)
{
    struct gw_coordinator *self = timer->owner;
    if (self->phase == GW_PHASE_REJOINING) {
        gw_timer_start(self->loop, timer, LOOK_US);
        return;
    }
    if (self->phase != GW_PHASE_RUNNING || gw_stop_is_asked(self, NULL) ||
        gw_decided_has_end(self))
        return; /* all leave */
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        if (one->asks_to_leave)
            look_at(self, one);
}

/* ---- it leaves ---- */

static int have_all_left(const struct gw_coordinator *self, uint64_t process)
{
    const struct gw_seat *one = gw_roster_first(self);
    while (one &&
           (!gw_seat_has_shard(one) || one->process != process || one->bye))
        one = one->next;
    return one == NULL;
}

/* A server that has a copy may have died since. */
void gw_depart_left(struct gw_coordinator *self, struct gw_seat *who)
{
    char text[GW_ERROR_TEXT_BYTES];
    who->bye = 1;
    if (self->phase != GW_PHASE_RUNNING || !have_all_left(self, who->process))
        return;
    gw_steps_set(self, gw_coordinator_step(self));
    snprintf(text, sizeof text, "%s leaves at step %" PRIu64, who->peer->name,
             gw_steps_known(self));
    if (!gw_copies_lose(self, who, text))
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "%s, and another server that had a copy died",
            text);
}
