/*
 * Members that do not keep up with the decisions of steps. Most cannot be
 * behind, since no step goes on without them. A worker that is left out
 * (backup) can, for as long as it may be silent, at thousands of steps a
 * second: it is told once of all that it missed, since only the last of them
 * matters to it. The coordinator can be behind in any job, and is not told of
 * decisions on which it does not act.
 *
 *   decision --> has the member taken earlier ones? --> told
 *                     | no
 *                  one of a step: added to those that the member missed
 *                  another one: those that it missed, then that one
 */
#include "config.h"

#include "server/server_state.h"

/* Messages that a member has not taken: it is behind. */
#define BEHIND 64

static void tell_coordinator(struct gw_server *server,
                             struct gw_peer *peer,
                             const struct gw_decision *decision)
{
    int dispensable = gw_decision_is_of_each_step(decision);
    if (!gw_away_is_known(&server->home.away))
        return; /* it is told of all that stands, when it is */
    if (dispensable &&
        (decision->kind != GW_DECIDE_COUNT || gw_peer_untaken(peer) >= BEHIND))
        return;
    gw_tell_decision(server, peer, decision);
}

/* ---- workers ---- */

static void
add(struct gw_behind *behind, uint32_t rank, const struct gw_decision *decision)
{
    uint64_t *clock = &behind->late;
    behind->n++;
    behind->number = decision->number;
    if (decision->kind == GW_DECIDE_STEP && decision->values_n > 1)
        behind->loss_scale = decision->values[1];
    if (decision->kind != GW_DECIDE_COUNT)
        return;
    for (uint32_t i = 0; i < decision->ranks_n; i++)
        if (decision->ranks[i] == rank)
            clock = &behind->counts;
    *clock = decision->clock + 1;
}

static void catch_up(struct gw_server *server, struct gw_peer *peer)
{
    struct gw_behind *behind = &server->session[peer->id].behind;
    const uint64_t clocks[] = {behind->counts, behind->late};
    const double values[] = {0, behind->loss_scale};
    const struct gw_decision passed = {
        .kind = GW_DECIDE_PASSED,
        .number = behind->number,
        .stands_for = behind->n,
        .values = values,
        .values_n = behind->loss_scale > 0 ? 2 : 0,
        .clocks = clocks,
        .clocks_n = 2,
    };
    if (behind->n == 0)
        return;
    *behind = (struct gw_behind){.n = 0};
    gw_tell_decision(server, peer, &passed);
}

static void tell_worker(struct gw_server *server,
                        struct gw_peer *peer,
                        const struct gw_decision *decision)
{
    struct gw_behind *behind = &server->session[peer->id].behind;
    int is_behind = behind->n > 0 || gw_peer_untaken(peer) >= BEHIND;
    if (is_behind && gw_decision_is_of_each_step(decision)) {
        add(behind, peer->id, decision);
        return;
    }
    catch_up(server, peer);
    gw_tell_decision(server, peer, decision);
}

void gw_behind_taken(struct gw_peer *peer)
{
    struct gw_server *server = peer->owner;
    if (server->running && gw_peer_untaken(peer) < BEHIND / 2)
        catch_up(server, peer);
}

static void tell_recalled(void *owner, const struct gw_decision *decision)
{
    struct gw_peer *peer = owner;
    gw_tell_decision(peer->owner, peer, decision);
}

void gw_behind_begin(struct gw_server *server, struct gw_peer *peer)
{
    gw_leader_recall(server->leader, tell_recalled, peer);
}

/* ---- everybody ---- */

void gw_behind_tell(struct gw_server *server,
                    struct gw_peer *peer,
                    const struct gw_decision *decision)
{
    if (peer == server->coordinator)
        tell_coordinator(server, peer, decision);
    else if (peer->role == GW_ROLE_WORKER)
        tell_worker(server, peer, decision);
    else
        gw_tell_decision(server, peer, decision);
}
