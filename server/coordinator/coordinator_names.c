/*
 * Another process has a shard, or stands by for it, or does not any more
 * (coordinator_copies.c, coordinator_places.c). All members hear of that by
 * views of later epochs, when the register has it: another coordinator cannot
 * know which of them have heard, and says the same once more.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"

static void tell_one(struct gw_coordinator *self, struct gw_seat *one)
{
    one->is_unnamed = 0;
    one->named = gw_coordinator_tell_everybody(self, one);
}

/* Non-zero where shard 0 was among them. */
static int tell_role(struct gw_coordinator *self, uint8_t role)
{
    int leads = 0;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        if (!one->is_unnamed || one->role != role)
            continue;
        tell_one(self, one);
        leads |= one->id == 0;
    }
    return leads;
}

/* Shard 0 is another process: what it was asked for is asked of it. */
static void ask_leader(struct gw_coordinator *self)
{
    gw_stop_rejoined(self);
    gw_keeper_tell_stored(self);
    gw_ctl_ask_again(self);
}

/* A standby that is lost makes room for another one. */
void gw_names_registered(struct gw_coordinator *self)
{
    if (self->phase != GW_PHASE_RUNNING)
        return;
    int leads = tell_role(self, GW_ROLE_SERVER);
    for (struct gw_seat *one = gw_roster_gone(self); one; one = one->next)
        if (one->is_unnamed)
            tell_one(self, one);
    tell_role(self, GW_ROLE_STANDBY);
    if (leads)
        ask_leader(self);
}

static int is_any_unnamed(const struct gw_seat *one)
{
    while (one && !one->is_unnamed)
        one = one->next;
    return one != NULL;
}

int gw_names_wait(const struct gw_coordinator *self)
{
    return is_any_unnamed(gw_roster_first(self)) ||
           is_any_unnamed(gw_roster_gone(self));
}
