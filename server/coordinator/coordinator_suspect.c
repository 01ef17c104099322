/*
 * Members that are silent, and may be alive: paused, or cut off. Their
 * connection did not break, so nothing says that the process is gone. The job
 * waits for one that it cannot go on without, cluster.patience long, and goes
 * on as before when it is heard; it would lose its steps since the last
 * checkpoint by giving the member up.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

static uint64_t patience_us(const struct gw_coordinator *self)
{
    return (uint64_t)(self->config->cluster.patience * 1e6);
}

int gw_suspect_begin(struct gw_coordinator *self, struct gw_seat *who)
{
    double silent = (double)gw_peer_silent_us(who->peer) / 1e6;
    if (self->phase != GW_PHASE_RUNNING || who->broke || who->bye ||
        gw_vacant_may_replace(self, who) ||
        patience_us(self) <= gw_peer_silent_us(who->peer))
        return 0;
    who->suspect = 1;
    gw_coordinator_note(self,
                        "%s is silent for %.1f s at step %" PRIu64
                        "; waiting %.10g s for it",
                        who->peer->name, silent, gw_steps_known(self),
                        self->config->cluster.patience);
    return 1;
}

/* 0: it is to be given up. */
static int is_borne(struct gw_coordinator *self, struct gw_seat *who)
{
    if (who->peer->silent || !gw_peer_is_up(who->peer, 0))
        return !who->broke && gw_peer_silent_us(who->peer) < patience_us(self);
    who->suspect = 0;
    gw_coordinator_note(self, "%s is heard again", who->peer->name);
    return 1;
}

struct gw_seat *gw_suspect_overdue(struct gw_coordinator *self)
{
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        if (!one->suspect || self->phase != GW_PHASE_RUNNING ||
            is_borne(self, one))
            continue;
        one->suspect = 0;
        return one;
    }
    return NULL;
}
