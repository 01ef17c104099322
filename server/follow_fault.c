/*
 * What is wrong with a decision of shard 0, from where this shard stands.
 * Shard 0 is a member like others: what it says out of turn ends this shard
 * with a line, before anything is done that cannot be taken back. Votes, and
 * who counts in a step, are looked at where they are followed (step.c,
 * quorum.c).
 */
#include "config.h"

#include "server/server_state.h"

/* Whether a chunk has come to the version, or beyond it. */
static int any_has_reached(const struct gw_server *server, uint64_t version)
{
    for (uint32_t i = 0; i < server->shard->chunks; i++)
        if (server->shard->chunk[i].version >= version)
            return 1;
    return 0;
}

static const char *fault_of_cut(const struct gw_server *server,
                                const struct gw_decision *decision)
{
    struct gw_cut cut;
    if (gw_cut_read(decision, &cut) != GW_OK)
        return "the state in a cut makes no sense";
    if (!server->regime.each && any_has_reached(server, cut.version + 1))
        return "a cut of a step that is over";
    return NULL;
}

/* From single pushes all must stand still, since what answers lie in is given
   back; else it is decided before any chunk is there. */
static const char *fault_of_switch(const struct gw_server *server,
                                   const struct gw_decision *decision)
{
    uint64_t last = server->next.decision ? server->next.clock : 0;
    if (server->regime.each && !gw_each_stands_still(server))
        return "a switch of policy while members do not stand still";
    if (!server->regime.each &&
        (server->after.decision || decision->clock <= last ||
         any_has_reached(server, decision->clock)))
        return "a switch of policy at a step where none can be";
    return NULL;
}

/* Shard 0 may be under single pushes already, and this shard not yet. */
static int is_to_be_each(const struct gw_server *server)
{
    const struct gw_switch *last = &server->next;
    if (server->after.decision)
        last = &server->after;
    return last->decision ? last->regime.each : server->regime.each;
}

const char *gw_follow_fault(const struct gw_server *server,
                            const struct gw_decision *decision)
{
    if (decision->clocks_n != 0 && decision->clocks_n != server->ranks)
        return "it has clocks of another number of workers";
    switch (decision->kind) {
    case GW_DECIDE_CUT:
        return fault_of_cut(server, decision);
    case GW_DECIDE_END:
        return server->end_clock != GW_NEVER_CLOCK ? "a second end" : NULL;
    case GW_DECIDE_DRAIN:
        return !is_to_be_each(server) || server->draining
                   ? "a drain where none can be"
                   : NULL;
    case GW_DECIDE_RESUME:
        return !server->draining ? "a resume of what was not drained" : NULL;
    case GW_DECIDE_SWITCH:
        return fault_of_switch(server, decision);
    case GW_DECIDE_STEP:
    case GW_DECIDE_TRUST:
    case GW_DECIDE_SCORE:
    case GW_DECIDE_COUNT:
    case GW_DECIDE_SPLIT:
        return NULL;
    default:
        return "it is of no known kind";
    }
}
