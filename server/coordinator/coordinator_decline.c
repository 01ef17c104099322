/*
 * Members that come to say that they cannot: somebody may start another one in
 * their place, but for that nobody waits long. Where there is no secret of the
 * job anybody can say so, and be as little believed as one who joins: the job
 * ends only where all who are missing have said it.
 */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <stdio.h>
#include <stdlib.h>

/* Lines for people, which strangers can provoke. */
#define NOTES_PER_SECOND 8

struct gw_decline {
    uint8_t role;
    uint64_t machine;
};

static size_t places(const struct gw_coordinator *self)
{
    return self->config->cluster.workers + self->config->cluster.servers;
}

/* It has been told that this was heard, and has nothing else to say. */
static void close_told(struct gw_peer *peer)
{
    if (gw_peer_flushed(peer))
        gw_peer_close(peer);
}

int gw_decline_is_of(const struct gw_peer *peer)
{
    return peer->taken == close_told;
}

/* Without memory, or where more came than are missing, it is not counted. */
static void count(struct gw_declined *declined,
                  size_t room,
                  const struct gw_peer *peer,
                  const struct gw_join *join)
{
    if (!declined->list)
        declined->list = calloc(room, sizeof *declined->list);
    if (declined->list && declined->n < room)
        declined->list[declined->n++] =
            (struct gw_decline){.role = peer->role, .machine = join->machine};
}

/* In the log where there are too many: that says how many it leaves out. */
static void tell(struct gw_coordinator *self, uint64_t now)
{
    struct gw_declined *declined = &self->declined;
    declined->limit.per_second = NOTES_PER_SECOND;
    if (gw_log_limit_take(&declined->limit, now))
        gw_coordinator_note(self, "%s", declined->text);
    else
        gw_log_limited(self->log, &self->limit, GW_LOG_WARN, "%s",
                       declined->text);
}

void gw_decline(struct gw_coordinator *self,
                struct gw_peer *peer,
                const struct gw_join *join)
{
    struct gw_declined *declined = &self->declined;
    char rank[16] = "";
    if (peer->role == GW_ROLE_WORKER && join->rank != GW_RANK_NONE)
        snprintf(rank, sizeof rank, " %u", join->rank);
    declined->at_us = gw_loop_now(self->loop);
    declined->machine = join->machine;
    declined->pid = join->pid;
    snprintf(declined->text, sizeof declined->text,
             "%s%s (%.40s, pid %u) cannot join: %.300s",
             gw_role_name(peer->role), rank, join->host, join->pid,
             join->cannot);
    gw_text_clean(declined->text);
    count(declined, places(self), peer, join);
    tell(self, declined->at_us);
    struct gw_message end = {
        .kind = GW_MESSAGE_END,
        .end = {.status = GW_EREFUSED, .text = declined->text}};
    peer->taken = close_told;
    gw_peer_tell(peer, &end);
}

void gw_decline_replaced(struct gw_coordinator *self,
                         const struct gw_roster *who)
{
    struct gw_declined *declined = &self->declined;
    size_t i = 0;
    while (i < declined->n && (declined->list[i].role != who->role ||
                               declined->list[i].machine != who->machine))
        i++;
    /* threads of a server are one that joins */
    if (i < declined->n && who->thread == 0)
        declined->list[i] = declined->list[--declined->n];
    declined->at_us = declined->n > 0 ? gw_loop_now(self->loop) : 0;
}

/* Whether those who are missing have all said that they cannot come. */
static int have_all_declined(const struct gw_coordinator *self)
{
    const struct gw_declined *declined = &self->declined;
    uint64_t workers = self->workers, servers = self->servers;
    for (size_t i = 0; i < declined->n; i++) {
        workers += declined->list[i].role == GW_ROLE_WORKER;
        servers += declined->list[i].role == GW_ROLE_SERVER;
    }
    return workers >= self->config->cluster.workers &&
           servers >= self->config->cluster.servers;
}

void gw_decline_judge(struct gw_coordinator *self, uint64_t now)
{
    const struct gw_declined *declined = &self->declined;
    double limit_us = self->config->cluster.step_deadline * 1e6;
    if (self->phase != GW_PHASE_GATHERING || self->shards > 0 ||
        !declined->at_us || (double)(now - declined->at_us) < limit_us)
        return;
    /* one that has proved the secret is a member */
    if (self->options.secret || have_all_declined(self))
        gw_coordinator_end(self, GW_EREFUSED, "%s", declined->text);
}

void gw_decline_close(struct gw_coordinator *self)
{
    free(self->declined.list);
}
