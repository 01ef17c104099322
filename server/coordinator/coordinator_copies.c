/*
 * Copies of shards (cluster.copies = 2): each has a standby in another server
 * process, on another host where there is one.
 *
 *   copying --> caught up --> it takes the place of its server
 *
 * The primary says that its standby has caught up; from then on it gives out
 * nothing that the standby has not. So the death of a server process is no more
 * than a view of a later epoch: its shards are at their standbys, and shards
 * whose standby it had go on without one, until another process takes its place
 * among the servers (coordinator_places.c).
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/coordinator/coordinator_end.h"
#include "server/coordinator/coordinator_keep.h"
#include "server/coordinator/coordinator_run.h"

/* ---- places ---- */

/* Seats of one role, by server and thread: [n], the caller's. NULL: there is no
   memory. */
static struct gw_seat **
list_of(const struct gw_coordinator *self, uint8_t role, uint32_t n)
{
    struct gw_seat **list = calloc((size_t)n + 1, sizeof *list);
    uint32_t found = 0;
    for (struct gw_seat *one = gw_roster_first(self); list && one;
         one = one->next) {
        uint32_t at = found;
        if (one->role != role || found == n)
            continue;
        for (; at > 0 && (list[at - 1]->server > one->server ||
                          (list[at - 1]->server == one->server &&
                           list[at - 1]->thread > one->thread));
             at--)
            list[at] = list[at - 1];
        list[at] = one;
        found++;
    }
    return list;
}

/* Shards whose standby is on another host, where each has the one `turn`
   further; -1: one would be in its own process. */
static int64_t judge(struct gw_seat *const *shard,
                     struct gw_seat *const *standby,
                     uint32_t n,
                     uint32_t turn)
{
    int64_t apart = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct gw_seat *other = standby[(i + turn) % n];
        if (other->process == shard[i]->process)
            return -1;
        apart += other->machine != shard[i]->machine;
    }
    return apart;
}

static void note_hosts(struct gw_coordinator *self, uint32_t n, int64_t apart)
{
    uint32_t together = n - (uint32_t)apart;
    if (together > 0)
        gw_coordinator_note(self,
                            "%u of %u shards have both copies on one host: "
                            "the job outlives a server, and not that host",
                            together, n);
}

static void give_standbys(struct gw_coordinator *self,
                          struct gw_seat *const *shard,
                          struct gw_seat *const *standby,
                          uint32_t n)
{
    int64_t most = -1;
    uint32_t best = 0;
    for (uint32_t turn = 1; turn < n && most < n; turn++) {
        int64_t apart = judge(shard, standby, n, turn);
        if (apart > most) {
            most = apart;
            best = turn;
        }
    }
    if (most < 0) {
        gw_coordinator_end(self, GW_EUSAGE,
                           "cluster.copies: a server has more threads than all "
                           "others have room for; give all the same "
                           "server.threads");
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        standby[(i + best) % n]->id = shard[i]->id;
    note_hosts(self, n, most);
}

void gw_copies_place(struct gw_coordinator *self)
{
    uint32_t n = gw_roster_shards(self);
    if (self->config->cluster.copies == 1)
        return;
    struct gw_seat **shard = list_of(self, GW_ROLE_SERVER, n);
    struct gw_seat **standby = list_of(self, GW_ROLE_STANDBY, n);
    gw_copies_count(self);
    if (shard && standby)
        give_standbys(self, shard, standby, n);
    else
        gw_coordinator_end(self, GW_ENOMEM, "no memory for %u shards", n);
    free(shard);
    free(standby);
}

/* ---- caught up, or lost from sight ---- */

void gw_copies_count(const struct gw_coordinator *self)
{
    if (self->config->cluster.copies > 1 && self->options.metrics)
        gw_metrics_set(self->options.metrics, GW_METRIC_SHARDS_DEGRADED,
                       gw_roster_shards(self) - gw_copies_caught_up(self));
}

/* One that leaves may be gone, and is no second copy. */
uint32_t gw_copies_caught_up(const struct gw_coordinator *self)
{
    uint32_t n = 0;
    for (const struct gw_seat *one = gw_roster_first(self); one;
         one = one->next) {
        const struct gw_seat *primary =
            one->role == GW_ROLE_STANDBY && one->is_counted
                ? gw_roster_find(self, GW_ROLE_SERVER, one->id)
                : NULL;
        n += primary && !gw_seat_leaves(primary) && !gw_seat_leaves(one);
    }
    return n;
}

size_t
gw_copies_print(const struct gw_coordinator *self, char *text, size_t room)
{
    uint32_t shards = gw_roster_shards(self);
    uint32_t two = gw_copies_caught_up(self);
    if (self->config->cluster.copies == 1 || shards == 0)
        return 0;
    int n = snprintf(text, room, "%u of %u shards have two copies%s\n", two,
                     shards, two < shards ? ": degraded" : "");
    return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

/* Both are heard here, and one must go. The standby can. */
static void lost_from_sight(struct gw_coordinator *self,
                            const struct gw_seat *who,
                            const struct gw_seat *standby)
{
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text, "%s is not heard by %s, whose copy it has",
             standby->peer->name, who->peer->name);
    if (!gw_copies_lose(self, standby, text))
        gw_coordinator_note(self, "%s", text);
}

void gw_copies_got_caught(struct gw_coordinator *self,
                          struct gw_seat *who,
                          const struct gw_caught *caught)
{
    struct gw_seat *standby = gw_roster_find(self, GW_ROLE_STANDBY, who->id);
    if (!standby || standby->incarnation != caught->incarnation ||
        who->role != GW_ROLE_SERVER)
        return; /* it has been lost since */
    if (caught->lost) {
        lost_from_sight(self, who, standby);
    } else if (!standby->caught) {
        standby->caught = 1;
        gw_register_write(self);
    }
}

int gw_copies_registered(struct gw_coordinator *self)
{
    int is_news = 0;
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next) {
        is_news |= one->caught && !one->is_counted;
        one->is_counted = one->caught;
    }
    gw_copies_count(self);
    return is_news && gw_copies_caught_up(self) == gw_roster_shards(self);
}

static int is_any_again(const struct gw_coordinator *self)
{
    const struct gw_seat *one = gw_roster_first(self);
    while (one && (!gw_seat_has_shard(one) || !one->again))
        one = one->next;
    return one || gw_before(self);
}

void gw_copies_tell_all(struct gw_coordinator *self)
{
    uint32_t shards = gw_roster_shards(self);
    if (is_any_again(self))
        gw_coordinator_note(self, "all %u shard%s have two copies again",
                            shards, gw_plural(shards));
    else
        gw_log_info(self->log, "all %u shard%s have two copies", shards,
                    gw_plural(shards));
}

/* ---- a death ---- */

struct gw_seat *gw_copies_standby(const struct gw_coordinator *self,
                                  const struct gw_seat *who)
{
    struct gw_seat *standby = gw_roster_find(self, GW_ROLE_STANDBY, who->id);
    return standby && standby->caught && standby->process != who->process
               ? standby
               : NULL;
}

/* Each of its shards has a copy elsewhere. */
int gw_copies_can_lose(const struct gw_coordinator *self,
                       const struct gw_seat *who)
{
    const struct gw_seat *one = gw_roster_first(self);
    if (self->phase != GW_PHASE_RUNNING || !gw_seat_has_shard(who) ||
        self->config->cluster.copies == 1)
        return 0;
    for (; one; one = one->next)
        if (one->role == GW_ROLE_SERVER && one->process == who->process &&
            one->id != GW_RANK_NONE && !gw_copies_standby(self, one))
            return 0;
    return 1;
}

void gw_copies_lose_thread(struct gw_coordinator *self, struct gw_seat *who)
{
    struct gw_seat *standby =
        who->role == GW_ROLE_SERVER ? gw_copies_standby(self, who) : NULL;
    gw_seat_close(self, who);
    who->is_lost = 1;
    if (who->id == GW_RANK_NONE)
        return; /* nobody else knows it */
    if (standby)
        gw_seat_lead(standby);
    (standby ? standby : who)->is_unnamed = 1;
    gw_copies_count(self);
}

int gw_copies_lose(struct gw_coordinator *self,
                   const struct gw_seat *who,
                   const char *died)
{
    const struct gw_seat was = *who;
    uint32_t shards = gw_roster_shards_of(self, was.server);
    struct gw_seat *one;
    if (!gw_copies_can_lose(self, who))
        return 0;
    if (shards > 0)
        gw_coordinator_note(self,
                            "%s; its %s on at other servers, and nothing is "
                            "lost",
                            died, shards == 1 ? "shard goes" : "shards go");
    else
        gw_coordinator_note(self, "%s; it had copies only", died);
    while ((one = gw_roster_thread(self, was.server)))
        gw_copies_lose_thread(self, one);
    gw_places_lose(self, &was);
    return 1;
}
