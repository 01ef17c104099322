/* The members and their counters as text, for `gradweir status`. */
#include "config.h"

#include "server/coordinator/coordinator_state.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/coordinator/coordinator_members.h"
#include "server/coordinator/coordinator_run.h"

static const char *phase_name(enum gw_phase phase)
{
    static const char *const names[] = {"gathering", "starting", "rejoining",
                                        "running",   "ending",   "over"};
    return names[phase];
}

static size_t
print_state(const struct gw_coordinator *self, char *text, size_t room)
{
    const struct gw_config *config = self->config;
    char policy[GW_WORD_BYTES];
    int n, last;
    gw_policy_word_print(
        gw_regimes_word(self, gw_coordinator_step(self), &last), policy);
    if (self->phase == GW_PHASE_GATHERING)
        n = snprintf(text, room,
                     "job %016" PRIx64 ": gathering, %u of %" PRIu64
                     " worker%s and %u of %" PRIu64 " server%s are here\n",
                     gw_member_job(self->member), gw_roster_workers(self),
                     config->cluster.workers,
                     gw_plural(config->cluster.workers),
                     gw_roster_servers(self), config->cluster.servers,
                     gw_plural(config->cluster.servers));
    else
        n = snprintf(text, room,
                     "job %016" PRIx64 ": %s, step %" PRIu64 " of %" PRIu64
                     ", policy %s\n",
                     gw_member_job(self->member), phase_name(self->phase),
                     gw_coordinator_step(self),
                     gw_declaration(self)->total_steps, policy);
    return n > 0 ? (size_t)n : 0;
}

/* "NAME: shard 2, heard 0.1 s ago, frames_in 52, .." */
static size_t print_member(char *text,
                           size_t room,
                           const char *name,
                           const char *what,
                           const struct gw_metrics_snapshot *counters)
{
    char counted[1024];
    gw_metrics_print(counters, counted, sizeof counted);
    int n = snprintf(text, room, "%s: %s%s%s\n", name, what,
                     counted[0] ? ", " : "", counted);
    return n > 0 ? (size_t)n : 0;
}

#define PART_BYTES 64

/* The part that a server's thread has; "" of a worker. */
static void print_part(const struct gw_seat *one, char part[PART_BYTES])
{
    part[0] = '\0';
    if (one->role == GW_ROLE_WORKER)
        return;
    if (one->id == GW_RANK_NONE)
        snprintf(part, PART_BYTES, "no shard yet, ");
    else if (one->role == GW_ROLE_SERVER)
        snprintf(part, PART_BYTES, "shard %u, ", one->id);
    else
        snprintf(part, PART_BYTES, "copy of shard %u%s, ", one->id,
                 one->caught ? "" : ", not whole yet");
}

static size_t print_seat(char *text, size_t room, const struct gw_seat *one)
{
    char part[PART_BYTES], what[2 * PART_BYTES];
    print_part(one, part);
    snprintf(what, sizeof what, "%sheard %.1f s ago", part,
             (double)gw_peer_silent_us(one->peer) / 1e6);
    return print_member(text, room, one->peer->name, what, &one->counters);
}

/* The epoch is that of the last view, of who is who. */
static size_t
print_self(const struct gw_coordinator *self, char *text, size_t room)
{
    struct gw_metrics_snapshot own = {0};
    char what[PART_BYTES];
    if (self->options.metrics)
        gw_metrics_collect(self->options.metrics, &own);
    snprintf(what, sizeof what, "epoch %" PRIu64,
             gw_member_epoch(self->member));
    return print_member(text, room, "coordinator", what, &own);
}

/* A line of its own, below the worker's. */
static size_t
print_staleness(char *text, size_t room, const struct gw_staleness *of)
{
    char line[1024];
    if (gw_staleness_print(of, line, sizeof line) == 0)
        return 0;
    int n = snprintf(text, room, "  %s\n", line);
    return n > 0 ? (size_t)n : 0;
}

/* Servers by number, then workers by rank. */
static uint64_t place_of(const struct gw_seat *one)
{
    if (gw_seat_has_shard(one))
        return (uint64_t)one->server << 16 | one->thread;
    return (uint64_t)1 << 48 | one->id;
}

size_t gw_coordinator_status(const struct gw_coordinator *self,
                             char *text,
                             size_t room)
{
    size_t used = print_state(self, text, room);
    uint64_t from = 0;
    if (used < room)
        used += print_self(self, text + used, room - used);
    if (used < room)
        used += gw_vacant_print(self, text + used, room - used);
    if (used < room)
        used += gw_copies_print(self, text + used, room - used);
    while (used < room) {
        const struct gw_seat *next = NULL;
        for (const struct gw_seat *one = gw_roster_first(self); one;
             one = one->next)
            if (place_of(one) >= from &&
                (!next || place_of(one) < place_of(next)))
                next = one;
        if (!next)
            return used;
        from = place_of(next) + 1;
        used += print_seat(text + used, room - used, next);
        if (gw_regimes_is_per_push(self) && next->role == GW_ROLE_WORKER &&
            used < room)
            used += print_staleness(text + used, room - used,
                                    gw_gather_staleness(self, next->id));
    }
    return room - 1;
}
