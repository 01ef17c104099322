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

/* "NAME: heard 0.1 s ago, frames_in 52, .."; silent_us UINT64_MAX: oneself. */
static size_t print_member(char *text,
                           size_t room,
                           const char *name,
                           uint64_t silent_us,
                           const struct gw_metrics_snapshot *counters)
{
    char heard[48] = "", counted[1024];
    gw_metrics_print(counters, counted, sizeof counted);
    if (silent_us != UINT64_MAX)
        snprintf(heard, sizeof heard, "heard %.1f s ago%s",
                 (double)silent_us / 1e6, counted[0] ? ", " : "");
    int n = snprintf(text, room, "%s: %s%s\n", name, heard,
                     heard[0] || counted[0] ? counted : "nothing counted yet");
    return n > 0 ? (size_t)n : 0;
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
    struct gw_metrics_snapshot own = {0};
    size_t used = print_state(self, text, room);
    uint64_t from = 0;
    if (self->options.metrics)
        gw_metrics_collect(self->options.metrics, &own);
    if (used < room)
        used += print_member(text + used, room - used, "coordinator",
                             UINT64_MAX, &own);
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
        used += print_member(text + used, room - used, next->peer->name,
                             gw_peer_silent_us(next->peer), &next->counters);
        if (gw_regimes_is_per_push(self) && next->role == GW_ROLE_WORKER &&
            used < room)
            used += print_staleness(text + used, room - used,
                                    gw_gather_staleness(self, next->id));
    }
    return room - 1;
}
