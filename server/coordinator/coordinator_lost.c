/* Members that are lost, that break the protocol, or that cannot go on. */
#include "config.h"

#include "server/coordinator/coordinator_end.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

/* A silence that follows a fault within this time is put down to it. */
#define FAULT_US 30000000

/* Exit codes above it are those of signals. */
#define SIGNAL_CODE 128

/* Faults of one member that end the job. */
#define FAULTS_MAX 16

/* A connection was closed for a fault lately: so the member is silent. */
static int has_new_fault(const struct gw_coordinator *self,
                         const struct gw_seat *who)
{
    return who->fault_us > 0 &&
           gw_loop_now(self->loop) - who->fault_us < FAULT_US;
}

void gw_coordinator_faulted(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const char *where,
                            const char *what)
{
    snprintf(who->fault, sizeof who->fault, "%s%s%s", what,
             where[0] ? ", says " : "", where);
    gw_text_clean(who->fault);
    who->fault_us = gw_loop_now(self->loop);
    if (where[0] && self->phase < GW_PHASE_ENDING)
        gw_log_limited(self->log, &self->limit, GW_LOG_WARN,
                       "%s breaks the protocol: %s", who->peer->name,
                       who->fault);
    /* it comes back each time, and will not do better */
    if (++who->faults >= FAULTS_MAX)
        gw_coordinator_end(self, GW_EPROTO,
                           "%s keeps breaking the protocol: %s",
                           who->peer->name, who->fault);
}

/* A worker that has said good-bye is not needed any more; a server may have
   standbys, and another worker may be replaced; else the job ends, and the line
   goes on with the checkpoint to go on from. */
static void __attribute__((format(printf, 3, 4)))
died(struct gw_coordinator *self, struct gw_seat *who, const char *format, ...)
{
    char text[GW_ERROR_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    gw_text_print(text, sizeof text, format, args);
    va_end(args);
    if (self->phase == GW_PHASE_REJOINING)
        gw_rejoin_lost(self, who, text);
    else if (who->role == GW_ROLE_WORKER && who->bye)
        gw_log_info(self->log, "%s, behind its last step", text);
    else if (!gw_copies_lose(self, who, text) &&
             !gw_vacant_make(self, who, text))
        gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
}

/* A server of which there are copies is to go, and not the job. */
static int
bears(struct gw_coordinator *self, struct gw_seat *who, const char *text)
{
    int is_early = self->phase == GW_PHASE_REJOINING &&
                   gw_seat_has_shard(who) && self->config->cluster.copies > 1;
    if (is_early)
        gw_rejoin_lost(self, who, text);
    return is_early || gw_copies_lose(self, who, text);
}

static void
broke(struct gw_coordinator *self, struct gw_seat *who, uint64_t step)
{
    char text[GW_ERROR_TEXT_BYTES];
    snprintf(text, sizeof text,
             "%s was lost at step %" PRIu64 ": it broke the protocol: %s",
             who->peer->name, step, who->fault);
    if (!bears(self, who, text))
        gw_coordinator_end_and_look(self, GW_EDEAD, "%s", text);
}

void gw_coordinator_lost(struct gw_coordinator *self,
                         struct gw_peer *peer,
                         enum gw_status status,
                         const char *why)
{
    struct gw_seat *who = gw_roster_of(self, peer);
    if (self->phase >= GW_PHASE_ENDING || !who)
        return;
    if (status != GW_ETIMEOUT || has_new_fault(self, who) ||
        gw_copies_can_lose(self, who) || !gw_suspect_begin(self, who))
        gw_coordinator_give_up(self, who, why);
}

void gw_coordinator_give_up(struct gw_coordinator *self,
                            struct gw_seat *who,
                            const char *why)
{
    const struct gw_peer *peer = who->peer;
    char paused[GW_PAUSED_BYTES];
    gw_steps_set(self, gw_coordinator_step(self));
    uint64_t step = gw_steps_known(self);
    double silent = (double)gw_peer_silent_us(peer) / 1e6;
    /* if they took this process for dead, they have left */
    gw_member_paused_words(self->member, paused);
    if (has_new_fault(self, who))
        broke(self, who, step);
    else
        died(self, who, "%s%s %s at step %" PRIu64 ": %s for %.1f s", paused,
             peer->name, paused[0] ? "is heard no more" : "died", step, why,
             silent);
}

/* A process asks for the part of one whose connection broke. */
static void print_asked(struct gw_coordinator *self,
                        const struct gw_seat *who,
                        const char *part,
                        char text[GW_ERROR_TEXT_BYTES])
{
    gw_steps_set(self, gw_coordinator_step(self));
    snprintf(text, GW_ERROR_TEXT_BYTES,
             "%s died at step %" PRIu64 ": it has no connection, and another "
             "process asks for its %s",
             who->peer->name, gw_steps_known(self), part);
}

void gw_coordinator_asked_for(struct gw_coordinator *self, uint32_t rank)
{
    struct gw_seat *who = gw_roster_find(self, GW_ROLE_WORKER, rank);
    char text[GW_ERROR_TEXT_BYTES];
    if (!who || gw_peer_is_up(who->peer, 0))
        return;
    print_asked(self, who, "rank", text);
    gw_vacant_make(self, who, text);
}

void gw_coordinator_asked_to_serve(struct gw_coordinator *self,
                                   uint32_t threads)
{
    const struct gw_seat *who = gw_roster_first(self);
    char text[GW_ERROR_TEXT_BYTES];
    while (who && (!gw_seat_has_shard(who) || who->threads != threads ||
                   gw_peer_is_up(who->peer, 0)))
        who = who->next;
    if (!who)
        return;
    print_asked(self, who, "place", text);
    gw_copies_lose(self, who, text);
}

/* It is at fault, or its host; the copies of its shards may not be. Others end
   the job wherever they are met. */
static int is_its_own(enum gw_status status)
{
    return gw_status_is_death(status) || status == GW_ENOMEM ||
           status == GW_EIO || status == GW_EPROTO;
}

void gw_coordinator_failed(struct gw_coordinator *self,
                           const struct gw_peer *peer,
                           const struct gw_end *end)
{
    struct gw_seat *who = gw_roster_of(self, peer);
    char paused[GW_PAUSED_BYTES] = "";
    struct gw_error said;
    if (gw_status_is_death(end->status)) /* perhaps it missed this process */
        gw_member_paused_words(self->member, paused);
    gw_fail(&said, end->status, "%s%s: %s", paused, peer->name,
            gw_reason(end->text));
    if (!is_its_own(end->status) || !bears(self, who, said.text))
        gw_coordinator_end(self, end->status, "%s", said.text);
}

static struct gw_seat *
find_process(struct gw_seat *one, uint64_t machine, uint32_t pid)
{
    while (one && (one->pid != pid || one->machine != machine))
        one = one->next;
    return one;
}

/* It had not joined. */
static void
end_without(struct gw_coordinator *self, uint32_t pid, const char *how)
{
    const char *declined =
        gw_decline_of_process(self, self->options.machine, pid);
    if (declined)
        gw_coordinator_end(self, GW_EREFUSED, "%s", declined);
    else
        gw_coordinator_end_and_look(self, GW_EDEAD,
                                    "a process (pid %u) died at step %" PRIu64
                                    ", before it had joined: %s",
                                    pid, gw_steps_known(self), how);
}

int gw_coordinator_gone(struct gw_coordinator *self,
                        uint32_t pid,
                        const char *how)
{
    uint64_t machine = self->options.machine;
    struct gw_seat *one = find_process(gw_roster_first(self), machine, pid);
    if (self->phase >= GW_PHASE_ENDING)
        return 0;
    gw_steps_set(self, gw_coordinator_step(self));
    if (one) {
        died(self, one, "%s died at step %" PRIu64 ": %s", one->peer->name,
             gw_steps_known(self), how);
        return 0;
    }
    if (find_process(gw_roster_gone(self), machine, pid) ||
        gw_rejoin_gone(self, pid) || self->phase == GW_PHASE_REJOINING)
        return 0; /* which is known, or had not joined the job */
    if (gw_vacant_any(self) || gw_places_are_open(self))
        return 1;
    end_without(self, pid, how);
    return 0;
}

/* A program that a launcher started need not be the process that joined. One
   that a signal ended has died; one that ended by itself would do so again. */
void gw_coordinator_program_ended(struct gw_coordinator *self,
                                  uint32_t rank,
                                  int code,
                                  const char *how)
{
    enum gw_status status = code > SIGNAL_CODE ? GW_EDEAD : GW_EABORTED;
    if (self->phase >= GW_PHASE_ENDING)
        return;
    gw_steps_set(self, gw_coordinator_step(self));
    const struct gw_seat *who = gw_roster_find(self, GW_ROLE_WORKER, rank);
    const char *declined = gw_decline_of_rank(self, rank);
    if (who)
        gw_coordinator_end_and_look(self, status,
                                    "%s ended at step %" PRIu64
                                    ", before the job was complete: %s",
                                    who->peer->name, gw_steps_known(self), how);
    else if (self->phase == GW_PHASE_REJOINING)
        gw_coordinator_end_and_look(self, status,
                                    "worker %u ended while the job had no "
                                    "coordinator: %s",
                                    rank, how);
    else if (declined)
        gw_coordinator_end(self, GW_EREFUSED, "%s", declined);
    else if (code)
        gw_coordinator_end_and_look(self, status,
                                    "worker %u ended before it had joined the "
                                    "job: %s",
                                    rank, how);
    else
        gw_coordinator_end_and_look(
            self, status,
            "worker %u ended without joining the job: it must open gradweir, "
            "which finds the job by itself (%s)",
            rank, how);
}

void gw_coordinator_not_replaced(struct gw_coordinator *self, uint32_t rank)
{
    gw_vacant_give_up(self, rank, "no other one is started, vacant");
}

void gw_coordinator_orphaned(struct gw_coordinator *self)
{
    gw_coordinator_end_and_look(self, GW_EDEAD,
                                "the launcher died at step %" PRIu64,
                                gw_coordinator_step(self));
}
