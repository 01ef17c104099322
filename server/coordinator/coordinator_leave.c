/* A member's seat is empty from now on. */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

void gw_seat_leave(struct gw_coordinator *self, struct gw_seat *who)
{
    gw_ahead_forget(self, who);
    gw_roster_remove(self, who);
    gw_files_forget(who);
}

void gw_seat_close(struct gw_coordinator *self, struct gw_seat *who)
{
    struct gw_peer *peer = who->peer;
    gw_seat_leave(self, who);
    who->peer = NULL;
    gw_peer_close(peer);
}
