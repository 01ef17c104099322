/* Who is in the job: what the coordinator tells a server when all have joined.
 */
#include "config.h"

#include "server/server_state.h"

#include <stdio.h>
#include <stdlib.h>

static void got_member(struct gw_server *server,
                       const struct gw_view_member *member)
{
    int is_self = member->role == GW_ROLE_SERVER &&
                  member->incarnation == gw_member_incarnation(server->member);
    gw_met_add(&server->met, server->options.machine, is_self, member);
    if (member->role == GW_ROLE_WORKER && member->id < server->ranks) {
        struct gw_session *session = &server->session[member->id];
        session->incarnation = member->incarnation;
        session->has_secret = member->has_secret;
        session->secret = member->secret;
        snprintf(session->host, sizeof session->host, "%s", member->host);
    } else if (member->role == GW_ROLE_SERVER) {
        server->shards++;
        if (member->id < server->members_total)
            server->shard_name[member->id] = (struct gw_shard_name){
                member->incarnation, member->has_secret, member->secret};
        if (is_self)
            server->number = member->id;
        if (member->id == 0) {
            server->leader_incarnation = member->incarnation;
            snprintf(server->leader_address, sizeof server->leader_address,
                     "%s", member->address);
        }
    }
}

static void tell_mates(struct gw_server *server)
{
    struct gw_mates mates;
    if (!server->options.met)
        return;
    gw_met_mates(&server->met, GW_ROLE_SERVER, server->number, &mates);
    server->options.met(server->options.owner, &mates);
}

static enum gw_status begin(struct gw_server *server, uint32_t members)
{
    struct gw_shard_name *name =
        calloc((size_t)members + 1, sizeof *server->shard_name);
    if (!name || gw_met_open(&server->met, members) != GW_OK) {
        free(name);
        return GW_ENOMEM;
    }
    server->members_total = members;
    server->shard_name = name;
    return GW_OK;
}

/* Every rank and every number below the count of shards is named, once: there
   are no more members than these. */
static int is_whole(const struct gw_server *server)
{
    for (uint32_t shard = 0; shard < server->shards; shard++)
        if (!server->shard_name[shard].incarnation)
            return 0;
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (!server->session[rank].incarnation)
            return 0;
    return server->members_total == server->ranks + server->shards;
}

static void complete(struct gw_server *server)
{
    if (server->number >= server->shards || !is_whole(server)) {
        gw_server_finish(server, GW_EPROTO,
                         "the view does not name us, or not every member");
        return;
    }
    server->has_view = 1;
    gw_member_set_rank(server->member, server->number);
    if (server->log)
        atomic_store(&server->log->rank, (int)server->number);
    tell_mates(server);
}

void gw_server_view(struct gw_server *server, const struct gw_view *view)
{
    if (!server->has_config || server->has_view ||
        view->members_first != server->members_seen ||
        view->members_total > gw_config_members_max(&server->config) ||
        (server->shard_name && view->members_total != server->members_total)) {
        gw_server_finish(server, GW_EPROTO,
                         "a view came out of order, or names more members than "
                         "the job has");
        return;
    }
    if (!server->shard_name && begin(server, view->members_total) != GW_OK) {
        gw_server_finish(server, GW_ENOMEM,
                         "no memory for a view of %u members",
                         view->members_total);
        return;
    }
    for (uint32_t i = 0; i < view->members_n; i++)
        got_member(server, &view->members[i]);
    server->members_seen += view->members_n;
    gw_member_set_epoch(server->member, view->epoch);
    if (server->members_seen == view->members_total)
        complete(server);
}
