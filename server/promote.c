/*
 * A server is lost, and the view names its standby as the server of the shard.
 * That has every version that anybody was given, so what workers hold without
 * an answer, and send again to whoever has the shard, is all that it can lack.
 */
#include "config.h"

#include "server/promote.h"

#include <inttypes.h>

#include "server/commit.h"

static uint64_t furthest(const struct gw_shard *shard)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < shard->chunks; i++)
        if (shard->chunk[i].version > most)
            most = shard->chunk[i].version;
    return most;
}

static void take_over(struct gw_server *server)
{
    uint64_t version = furthest(server->shard);
    gw_standby_end(server);
    server->stands_by = 0;
    if (server->number == 0)
        server->leader_peer = NULL; /* it was the one that is lost */
    gw_members_wait_again(server);
    gw_stall_moved(server, gw_loop_now(server->loop)); /* nobody was late */
    gw_log_info(server->log,
                "goes on with shard %u, at version %" PRIu64
                ", in the place of a server that is lost",
                server->number, version);
    gw_save_take_over(server); /* cuts of before, before others are decided */
    gw_follow_take_over(server, version);
    gw_whole_take_over(server);
}

/* Shard 0 is another process. */
static void dial_leader(struct gw_server *server)
{
    struct gw_peer *before = server->leader_peer;
    struct gw_error error;
    if (gw_members_dial_leader(server, &error) != GW_OK)
        gw_server_finish(server, error.status, "%s", error.text);
    else
        server->leader_peer->taken = gw_quorum_taken;
    if (!server->stands_by && !gw_server_is_over(server))
        gw_whole_vote_again(server);
    if (before)
        gw_peer_close(before);
}

/* It takes over what it stands by for, when it has begun, and nobody else
   does. */
static int makes_sense(const struct gw_server *server,
                       const struct gw_view_member *member,
                       int is_self)
{
    int is_own = member->id == server->number;
    if (member->role != GW_ROLE_SERVER || !(is_self || is_own))
        return 1;
    return is_self && is_own && (server->running || !server->stands_by);
}

void gw_promote_named(struct gw_server *server,
                      const struct gw_view_member *member)
{
    int is_self = member->incarnation == gw_member_incarnation(server->member);
    int is_own = member->id == server->number;
    if (gw_members_are_named(server, member))
        return; /* another coordinator cannot know */
    if (!makes_sense(server, member, is_self)) {
        gw_server_finish(server, GW_EPROTO,
                         "the view gives shard %u to another server than its "
                         "standby",
                         member->id);
        return;
    }
    gw_members_rename(server, member);
    if (member->role == GW_ROLE_STANDBY && is_own && !is_self)
        gw_copy_drop(server);
    else if (member->role == GW_ROLE_SERVER && is_self && server->stands_by)
        take_over(server);
    else if (member->role == GW_ROLE_SERVER && member->id == 0 && !is_self &&
             server->map)
        dial_leader(server);
    if (!gw_server_is_over(server) && !server->stands_by &&
        !gw_members_are_present(server))
        gw_session_present(server);
}
