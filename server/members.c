/* The members of the job, as the coordinator names them when all have
   joined. */
#include "config.h"

#include "server/server_state.h"

#include <stdio.h>
#include <stdlib.h>

static void got_member(struct gw_server *server,
                       const struct gw_view_member *member)
{
    int is_self = member->role == GW_ROLE_SERVER &&
                  member->incarnation == gw_member_incarnation(server->member);
    gw_colocation_add(&server->members.colocation, server->options.machine,
                      is_self, member);
    if (member->role == GW_ROLE_WORKER && member->id < server->ranks) {
        struct gw_session *session = &server->session[member->id];
        session->incarnation = member->incarnation;
        session->has_secret = member->has_secret;
        session->secret = member->secret;
        snprintf(session->host, sizeof session->host, "%s", member->host);
    } else if (member->role == GW_ROLE_SERVER) {
        server->shards++;
        if (member->id < server->members.total)
            server->members.shard_name[member->id] = (struct gw_shard_name){
                member->incarnation, member->has_secret, member->secret};
        if (is_self)
            server->number = member->id;
        if (member->id == 0) {
            server->members.leader_incarnation = member->incarnation;
            snprintf(server->members.leader_address,
                     sizeof server->members.leader_address, "%s",
                     member->address);
        }
    }
}

static void tell_colocated(struct gw_server *server)
{
    struct gw_colocated colocated;
    if (!server->options.colocated)
        return;
    gw_colocation_seen_by(&server->members.colocation, GW_ROLE_SERVER,
                          server->number, &colocated);
    server->options.colocated(server->options.owner, &colocated);
}

static enum gw_status begin(struct gw_server *server, uint32_t members)
{
    struct gw_shard_name *name =
        calloc((size_t)members + 1, sizeof *server->members.shard_name);
    if (!name ||
        gw_colocation_open(&server->members.colocation, members) != GW_OK) {
        free(name);
        return GW_ENOMEM;
    }
    server->members.total = members;
    server->members.shard_name = name;
    return GW_OK;
}

/* Every rank and every number below the count of shards is named, once: there
   are no more members than these. */
static int is_whole(const struct gw_server *server)
{
    for (uint32_t shard = 0; shard < server->shards; shard++)
        if (!server->members.shard_name[shard].incarnation)
            return 0;
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (!server->session[rank].incarnation)
            return 0;
    return server->members.total == server->ranks + server->shards;
}

static void complete(struct gw_server *server)
{
    if (server->number >= server->shards || !is_whole(server)) {
        gw_server_finish(server, GW_EPROTO,
                         "the view does not name us, or not every member");
        return;
    }
    server->members.whole = 1;
    gw_member_set_rank(server->member, server->number);
    if (server->log)
        atomic_store(&server->log->rank, (int)server->number);
    tell_colocated(server);
}

void gw_members_view(struct gw_server *server, const struct gw_view *view)
{
    if (!server->has_config || server->members.whole ||
        view->members_first != server->members.seen ||
        view->members_total > gw_config_members_max(&server->config) ||
        (server->members.shard_name &&
         view->members_total != server->members.total)) {
        gw_server_finish(server, GW_EPROTO,
                         "a view came out of order, or names more members than "
                         "the job has");
        return;
    }
    if (!server->members.shard_name &&
        begin(server, view->members_total) != GW_OK) {
        gw_server_finish(server, GW_ENOMEM,
                         "no memory for a view of %u members",
                         view->members_total);
        return;
    }
    for (uint32_t i = 0; i < view->members_n; i++)
        got_member(server, &view->members[i]);
    server->members.seen += view->members_n;
    gw_member_set_epoch(server->member, view->epoch);
    if (server->members.seen == view->members_total)
        complete(server);
}

int gw_members_are_whole(const struct gw_server *server)
{
    return server->members.whole;
}

int gw_members_shard(const struct gw_server *server,
                     uint32_t shard,
                     uint64_t incarnation,
                     const struct gw_secret **secret_p)
{
    const struct gw_shard_name *name = &server->members.shard_name[shard];
    if (name->incarnation != incarnation || !name->has_secret)
        return 0;
    *secret_p = &name->secret;
    return 1;
}

enum gw_status gw_members_dial_leader(struct gw_server *server,
                                      struct gw_error *error)
{
    return gw_member_dial(server->member, server->members.leader_address,
                          GW_ROLE_SERVER, server->members.leader_incarnation, 1,
                          server, &server->leader_peer, error);
}

void gw_members_close(struct gw_server *server)
{
    free(server->members.shard_name);
    gw_colocation_close(&server->members.colocation);
}

/* ---- links ---- */

void gw_members_shard_comes(struct gw_server *server)
{
    server->members.shards_present++;
}

/* Shard 0 answers nobody before everybody can hear its decisions. */
int gw_members_check_present(struct gw_server *server)
{
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (!server->session[rank].peer)
            return 0;
    if (server->leader && server->members.shards_present + 1 < server->shards)
        return 0;
    server->members.present = 1;
    return 1;
}

int gw_members_are_present(const struct gw_server *server)
{
    return server->members.present;
}
