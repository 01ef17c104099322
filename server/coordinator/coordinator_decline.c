/*
 * Processes that log in to report that they cannot join. Somebody may start
 * others in their place, but the job does not wait long for that. Without a
 * secret of the job the reports cannot be trusted: the job ends only where all
 * missing members have reported it.
 */
#include "config.h"

#include "server/coordinator/coordinator_members.h"

#include <stdio.h>
#include <stdlib.h>

/* Lines for people, which strangers can provoke. */
#define NOTES_PER_SECOND 8

struct decline {
    uint8_t role;
    uint64_t machine;
};

struct gw_declines {
    uint64_t at_us;   /* the last report, or the last join in place of one; 0:
                         all of them are replaced */
    uint64_t machine; /* of the last one, */
    uint32_t pid;
    uint32_t rank;        /* that it asked for, GW_RANK_NONE: none */
    char text[400];       /* its name, and why */
    struct decline *list; /* not replaced yet */
    size_t n;
    struct gw_log_limit limit;
};

static size_t places(const struct gw_coordinator *self)
{
    return self->config->cluster.workers + self->config->cluster.servers;
}

/* It has the answer, and has nothing else to say. */
static void close_told(struct gw_peer *peer)
{
    if (gw_peer_flushed(peer))
        gw_peer_close(peer);
}

int gw_decline_is_of(const struct gw_peer *peer)
{
    return peer->taken == close_told;
}

/* Not counted without memory, or when more have reported than are missing. */
static void count(struct gw_declines *declines,
                  size_t room,
                  const struct gw_peer *peer,
                  const struct gw_join *join)
{
    if (!declines->list)
        declines->list = calloc(room, sizeof *declines->list);
    if (declines->list && declines->n < room)
        declines->list[declines->n++] =
            (struct decline){.role = peer->role, .machine = join->machine};
}

/* In the log where there are too many lines: the log says how many it leaves
   out. */
static void tell(struct gw_coordinator *self, uint64_t now)
{
    struct gw_declines *declines = self->declines;
    if (gw_log_limit_take(&declines->limit, now))
        gw_coordinator_note(self, "%s", declines->text);
    else
        gw_log_limited(self->log, &self->limit, GW_LOG_WARN, "%s",
                       declines->text);
}

void gw_decline(struct gw_coordinator *self,
                struct gw_peer *peer,
                const struct gw_join *join)
{
    struct gw_declines *declines = self->declines;
    char rank[16] = "";
    if (peer->role == GW_ROLE_WORKER && join->rank != GW_RANK_NONE)
        snprintf(rank, sizeof rank, " %u", join->rank);
    declines->at_us = gw_loop_now(self->loop);
    declines->machine = join->machine;
    declines->pid = join->pid;
    declines->rank = peer->role == GW_ROLE_WORKER ? join->rank : GW_RANK_NONE;
    snprintf(declines->text, sizeof declines->text,
             "%s%s (%.40s, pid %u) cannot join: %.300s",
             gw_role_name(peer->role), rank, join->host, join->pid,
             join->cannot);
    gw_text_clean(declines->text);
    count(declines, places(self), peer, join);
    tell(self, declines->at_us);
    struct gw_message end = {
        .kind = GW_MESSAGE_END,
        .end = {.status = GW_EREFUSED, .text = declines->text}};
    peer->taken = close_told;
    gw_peer_tell(peer, &end);
}

void gw_decline_replaced(struct gw_coordinator *self, const struct gw_seat *who)
{
    struct gw_declines *declines = self->declines;
    size_t i = 0;
    while (i < declines->n && (declines->list[i].role != who->role ||
                               declines->list[i].machine != who->machine))
        i++;
    /* threads of a server are one that joins */
    if (i < declines->n && who->thread == 0)
        declines->list[i] = declines->list[--declines->n];
    declines->at_us = declines->n > 0 ? gw_loop_now(self->loop) : 0;
}

/* All missing members have reported that they cannot join. */
static int have_all_declined(const struct gw_coordinator *self)
{
    const struct gw_declines *declines = self->declines;
    uint64_t workers = gw_roster_workers(self),
             servers = gw_roster_servers(self);
    for (size_t i = 0; i < declines->n; i++) {
        workers += declines->list[i].role == GW_ROLE_WORKER;
        servers += declines->list[i].role == GW_ROLE_SERVER;
    }
    return workers >= self->config->cluster.workers &&
           servers >= self->config->cluster.servers;
}

void gw_decline_judge(struct gw_coordinator *self, uint64_t now)
{
    const struct gw_declines *declines = self->declines;
    double limit_us = self->config->cluster.step_deadline * 1e6;
    if (self->phase != GW_PHASE_GATHERING || gw_roster_shards(self) > 0 ||
        !declines->at_us || (double)(now - declines->at_us) < limit_us)
        return;
    /* one that has proved the secret is a member */
    if (self->options.secret || have_all_declined(self))
        gw_coordinator_end(self, GW_EREFUSED, "%s", declines->text);
}

enum gw_status gw_decline_open(struct gw_coordinator *self,
                               struct gw_error *error)
{
    self->declines = calloc(1, sizeof *self->declines);
    if (!self->declines)
        return gw_fail(error, GW_ENOMEM, "no memory for a coordinator");
    self->declines->limit.per_second = NOTES_PER_SECOND;
    return GW_OK;
}

void gw_decline_close(struct gw_coordinator *self)
{
    if (!self->declines)
        return;
    free(self->declines->list);
    free(self->declines);
    self->declines = NULL;
}

const char *gw_decline_of_process(const struct gw_coordinator *self,
                                  uint64_t machine,
                                  uint32_t pid)
{
    const struct gw_declines *declines = self->declines;
    return declines->at_us && declines->pid == pid &&
                   declines->machine == machine
               ? declines->text
               : NULL;
}

const char *gw_decline_of_rank(const struct gw_coordinator *self, uint32_t rank)
{
    const struct gw_declines *declines = self->declines;
    return declines->at_us && declines->rank == rank ? declines->text : NULL;
}
