/*
 * Faults of a decision of shard 0, from where this shard stands. Shard 0 is a
 * member like others: a decision out of turn ends this shard with a line,
 * before anything is done that cannot be taken back. Decisions of steps and
 * quorums are checked where they are followed (commit_whole.c,
 * commit_quorum.c).
 */
#include "config.h"

#include "server/commit.h"

static const char *fault_of_cut(const struct gw_server *server,
                                const struct gw_decision *decision)
{
    struct gw_cut cut;
    if (gw_cut_read(decision, &cut) != GW_OK)
        return "the state in a cut makes no sense";
    return gw_commit_of(server)->cut_fault(server, cut.version);
}

/* The regime of shard 0 may quiesce already, and that of this shard not yet. */
static int may_quiesce(const struct gw_server *server)
{
    return gw_commit_find(gw_switch_last(server))->quiesces &&
           !gw_quiesce_goes_on(server);
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
        return gw_server_is_ending(server) ? "a second end" : NULL;
    case GW_DECIDE_QUIESCE:
        return may_quiesce(server) ? NULL : "a quiesce where none can be";
    case GW_DECIDE_RESUME:
        return !gw_quiesce_goes_on(server) ? "a resume of what was not quiesced"
                                           : NULL;
    case GW_DECIDE_SWITCH:
        return gw_commit_of(server)->switch_fault(server, decision->clock);
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
