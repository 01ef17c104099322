/*
 * After a death one server has the shards of two, and the one that comes in its
 * place only copies: shards move, one at a time, until no server has two more
 * than another that stands by for one of them.
 *
 *   has the shard --> told to leave --> says good-bye: its standby leads
 *                                                |
 *            stands by for the shard <-- joins again, as another member
 *
 * What the others see is the death of a thread, but in order.
 */
#include "config.h"

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

#include <stdio.h>

/* A move is worth it from here on: one less is as uneven, the other way round.
 */
#define SHARDS_MORE 2

/* Beyond those that it began with. */
static int64_t excess(const struct gw_coordinator *self,
                      const struct gw_seat *who)
{
    return (int64_t)gw_roster_shards_of(self, who->server) -
           (int64_t)(who->threads / self->config->cluster.copies);
}

static int64_t judge(const struct gw_coordinator *self,
                     const struct gw_seat *who)
{
    const struct gw_seat *standby =
        who->role == GW_ROLE_SERVER ? gw_copies_standby(self, who) : NULL;
    return standby ? excess(self, who) - excess(self, standby) : 0;
}

/* Where a move makes the most of a difference, and of these the last: shard 0
   leads. NULL: nowhere. */
static struct gw_seat *find(const struct gw_coordinator *self)
{
    struct gw_seat *found = NULL;
    int64_t most = SHARDS_MORE;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        int64_t more = judge(self, one);
        if (more < most || (more == most && found && one->id < found->id))
            continue;
        most = more;
        found = one;
    }
    return found;
}

/* Somebody leaves, or is about to. */
static int is_any_leaving(const struct gw_coordinator *self)
{
    const struct gw_seat *one = gw_roster_first(self);
    while (one && !one->asks_to_leave)
        one = one->next;
    return one || gw_roster_leaving(self);
}

static void begin(struct gw_coordinator *self, struct gw_seat *who)
{
    const struct gw_seat *standby = gw_copies_standby(self, who);
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "shard %u moves to %s, which has fewer",
             who->id, standby->peer->name);
    gw_coordinator_note(self, "%s", text);
    const struct gw_message message = {
        .kind = GW_MESSAGE_END, .end = {.status = GW_EAGAIN, .text = text}};
    who->moves = 1;
    gw_copies_count(self);
    gw_coordinator_tell(self, who->peer, &message);
}

int gw_moves_look(struct gw_coordinator *self)
{
    if (self->config->cluster.copies == 1 || self->phase != GW_PHASE_RUNNING ||
        gw_decided_has_end(self) || gw_stop_is_asked(self, NULL) ||
        gw_copies_caught_up(self) < gw_roster_shards(self) ||
        is_any_leaving(self))
        return 0;
    struct gw_seat *who = find(self);
    if (who)
        begin(self, who);
    return who != NULL;
}

/* The standby may have died since. */
void gw_moves_left(struct gw_coordinator *self, struct gw_seat *who)
{
    if (self->phase != GW_PHASE_RUNNING)
        return;
    if (!gw_copies_standby(self, who)) {
        gw_coordinator_end_and_look(
            self, GW_EDEAD, "the server died to which shard %u moved", who->id);
        return;
    }
    gw_copies_lose_thread(self, who);
    gw_places_open_thread(self, who);
}

/* It has not begun, and has given up hope, since nothing was heard from here.
 */
static int is_left(const struct gw_seat *who)
{
    return who->again && !who->ready;
}

void gw_moves_joined(struct gw_coordinator *self, const struct gw_join *join)
{
    struct gw_seat *who = gw_roster_first(self);
    while (who && (who->process != join->process ||
                   who->thread != join->thread || !gw_seat_has_shard(who)))
        who = who->next;
    if (who && who->moves) {
        gw_moves_left(self, who);
    } else if (who && is_left(who)) {
        gw_copies_lose_thread(self, who);
        gw_places_open_thread(self, who);
    }
}
