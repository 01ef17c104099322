/*
 * Words for the leader of the decisions, of this shard and of others: votes,
 * arrivals, ranks that stand still, scores. A shard that is not the leader
 * passes its own on to shard 0.
 */
#include "config.h"

#include "server/server_state.h"

#include <inttypes.h>

/* Non-zero where shard 0 leads, and is another one: it is told. */
static int pass_on(struct gw_server *server, struct gw_message message)
{
    if (server->leader)
        return 0;
    gw_server_tell(server, server->leader_peer, &message);
    return 1;
}

void gw_vote_step(struct gw_server *server,
                  struct gw_peer *peer,
                  const struct gw_vote *vote)
{
    if (pass_on(server,
                (struct gw_message){.kind = GW_MESSAGE_VOTE, .vote = *vote}))
        return;
    struct gw_error error;
    uint32_t shard = peer ? peer->id : server->number;
    if (gw_leader_vote(server->leader, shard, vote, &error) != GW_OK)
        gw_server_finish(server, GW_EPROTO, "%s", error.text);
}

void gw_vote_score(struct gw_server *server,
                   struct gw_peer *peer,
                   const struct gw_score *score)
{
    char why[GW_PEER_FAULT_MAX];
    if (!gw_measure_score(server, peer->id, score, why, sizeof why)) {
        gw_peer_reject(peer, 0, why);
        return;
    }
    if (!server->leader || peer->role != GW_ROLE_WORKER ||
        gw_leader_score(server->leader, peer->id, score) != GW_OK)
        gw_server_finish(server, GW_EPROTO,
                         "%s sent a score of step %" PRIu64
                         " that nobody waits for",
                         peer->name, score->clock);
}

void gw_vote_arrived(struct gw_server *server,
                     struct gw_peer *peer,
                     const struct gw_arrived *arrived)
{
    if (pass_on(server, (struct gw_message){.kind = GW_MESSAGE_ARRIVED,
                                            .arrived = *arrived}))
        return;
    uint32_t shard = peer ? peer->id : server->number;
    if (gw_leader_arrived(server->leader, shard, arrived) != GW_OK)
        gw_server_finish(server, GW_EPROTO,
                         "shard %u says that pushes of step %" PRIu64
                         " have arrived, which cannot be yet",
                         shard, arrived->clock);
}

void gw_vote_quiesced(struct gw_server *server,
                      struct gw_peer *peer,
                      const struct gw_quiesced *quiesced)
{
    if (pass_on(server, (struct gw_message){.kind = GW_MESSAGE_QUIESCED,
                                            .quiesced = *quiesced}))
        return;
    uint32_t shard = peer ? peer->id : server->number;
    if (gw_leader_quiesced(server->leader, shard, quiesced) != GW_OK)
        gw_server_finish(server, GW_EPROTO,
                         "shard %u names ranks that this job has not got",
                         shard);
}
