/* The members of the job, as the coordinator names them when all have
   joined. */
#include "config.h"

#include "server/server_state.h"

#include <stdio.h>
#include <stdlib.h>

/* Nobody tells it anything any more. */
static void close_peer(struct gw_server *server, uint64_t incarnation)
{
    struct gw_peer *next, *peer = gw_member_peers(server->member);
    for (; peer; peer = next) {
        next = gw_peer_next(peer);
        if (peer->role == GW_ROLE_SERVER && peer->incarnation == incarnation)
            gw_peer_close(peer);
    }
}

static void keep_name(struct gw_shard_name *name,
                      const struct gw_view_member *member)
{
    *name = (struct gw_shard_name){.incarnation = member->incarnation,
                                   .has_secret = member->has_secret,
                                   .secret = member->secret};
    snprintf(name->address, sizeof name->address, "%s", member->address);
}

int gw_members_are_named(const struct gw_server *server,
                         const struct gw_view_member *member)
{
    const struct gw_members *members = &server->members;
    const struct gw_shard_name *name = member->role == GW_ROLE_STANDBY
                                           ? members->standby
                                           : members->shard_name;
    return name[member->id].incarnation == member->incarnation;
}

void gw_members_rename(struct gw_server *server,
                       const struct gw_view_member *member)
{
    struct gw_members *members = &server->members;
    struct gw_shard_name *standby = &members->standby[member->id];
    struct gw_shard_name *shard = &members->shard_name[member->id];
    close_peer(server, member->role == GW_ROLE_STANDBY ? standby->incarnation
                                                       : shard->incarnation);
    if (member->role == GW_ROLE_STANDBY) {
        keep_name(standby, member);
        standby->is_late = 1;
        return;
    }
    int was_here = 0;
    if (standby->incarnation == member->incarnation) {
        was_here = standby->is_here;
        *standby = (struct gw_shard_name){.incarnation = 0};
    }
    keep_name(shard, member);
    shard->is_here = was_here;
}

static void got_shard(struct gw_server *server,
                      const struct gw_view_member *member,
                      int is_self)
{
    struct gw_members *members = &server->members;
    int stands_by = member->role == GW_ROLE_STANDBY;
    if (member->incarnation == 0 || member->id >= members->total)
        return; /* a standby that is lost, or is none yet */
    server->shards += !stands_by;
    keep_name(stands_by ? &members->standby[member->id]
                        : &members->shard_name[member->id],
              member);
    if (!is_self)
        return;
    server->number = member->id;
    server->stands_by = stands_by;
}

static void got_member(struct gw_server *server,
                       const struct gw_view_member *member)
{
    int has_shard = gw_role_has_shard(member->role);
    int is_self = has_shard &&
                  member->incarnation == gw_member_incarnation(server->member);
    gw_colocation_add(&server->members.colocation, server->options.machine,
                      is_self, member);
    if (member->role == GW_ROLE_WORKER && member->id < server->ranks) {
        struct gw_session *session = &server->session[member->id];
        session->incarnation = member->incarnation;
        session->has_secret = member->has_secret;
        session->secret = member->secret;
        snprintf(session->host, sizeof session->host, "%s", member->host);
    } else if (has_shard) {
        got_shard(server, member, is_self);
    }
}

static void tell_colocated(struct gw_server *server)
{
    struct gw_colocated colocated;
    if (!server->options.colocated)
        return;
    gw_colocation_seen_by(&server->members.colocation,
                          server->stands_by ? GW_ROLE_STANDBY : GW_ROLE_SERVER,
                          server->number, &colocated);
    server->options.colocated(server->options.owner, &colocated);
}

static enum gw_status begin(struct gw_server *server, uint32_t members)
{
    struct gw_members *own = &server->members;
    own->shard_name = calloc((size_t)members + 1, sizeof *own->shard_name);
    own->standby = calloc((size_t)members + 1, sizeof *own->standby);
    own->total = members;
    return own->shard_name && own->standby
               ? gw_colocation_open(&own->colocation, members)
               : GW_ENOMEM;
}

/* Every rank and every number below the count of shards is named, once: there
   are no more members than these and their standbys. */
static int is_whole(const struct gw_server *server)
{
    const struct gw_members *members = &server->members;
    uint64_t copies = server->config.cluster.copies;
    for (uint32_t shard = 0; shard < server->shards; shard++)
        if (!members->shard_name[shard].incarnation)
            return 0;
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (!server->session[rank].incarnation)
            return 0;
    return members->total == server->ranks + copies * server->shards;
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

/* Shard 0 is dialled by all others; a primary by its standby. */
struct gw_shard_name *gw_members_shard(const struct gw_server *server,
                                       uint32_t shard,
                                       uint64_t incarnation)
{
    const struct gw_members *members = &server->members;
    if (shard >= server->shards)
        return NULL;
    struct gw_shard_name *name = &members->shard_name[shard];
    if (name->incarnation != incarnation)
        name = &members->standby[shard];
    int dials_here = server->number == 0 || (shard == server->number &&
                                             name == &members->standby[shard]);
    return dials_here && name->incarnation == incarnation && name->has_secret
               ? name
               : NULL;
}

int gw_members_is_standby(const struct gw_server *server, uint64_t incarnation)
{
    const struct gw_members *members = &server->members;
    uint32_t shard = 0;
    while (shard < server->shards &&
           members->standby[shard].incarnation != incarnation)
        shard++;
    return shard < server->shards && incarnation != 0;
}

static enum gw_status dial(struct gw_server *server,
                           uint32_t shard,
                           struct gw_peer **peer_p,
                           struct gw_error *error)
{
    const struct gw_shard_name *name = &server->members.shard_name[shard];
    enum gw_status status =
        gw_member_dial(server->member, name->address, GW_ROLE_SERVER,
                       name->incarnation, 1, server, peer_p, error);
    if (status == GW_OK)
        (*peer_p)->id = shard;
    return status;
}

enum gw_status gw_members_dial_leader(struct gw_server *server,
                                      struct gw_error *error)
{
    return dial(server, 0, &server->leader_peer, error);
}

enum gw_status gw_members_dial_primary(struct gw_server *server,
                                       struct gw_peer **peer_p,
                                       struct gw_error *error)
{
    return dial(server, server->number, peer_p, error);
}

void gw_members_close(struct gw_server *server)
{
    free(server->members.shard_name);
    free(server->members.standby);
    gw_colocation_close(&server->members.colocation);
}

/* ---- links ---- */

static int is_missing(const struct gw_shard_name *name)
{
    return name->incarnation && !name->is_here;
}

int gw_members_misses(const struct gw_server *server,
                      uint32_t shard,
                      int standby)
{
    const struct gw_members *members = &server->members;
    return is_missing(standby ? &members->standby[shard]
                              : &members->shard_name[shard]);
}

/* Shard 0 answers nobody before everybody can hear its decisions. */
int gw_members_check_present(struct gw_server *server)
{
    struct gw_members *members = &server->members;
    /* a rank that is behind its last step may have left */
    for (uint32_t rank = 0; rank < server->ranks; rank++)
        if (!server->session[rank].peer && !gw_server_is_ending(server))
            return 0;
    for (uint32_t shard = 0; server->leader && shard < server->shards; shard++)
        if ((shard > 0 && gw_members_misses(server, shard, 0)) ||
            gw_members_misses(server, shard, 1))
            return 0;
    members->present = 1;
    return 1;
}

void gw_members_wait_again(struct gw_server *server)
{
    server->members.present = 0;
}

int gw_members_are_present(const struct gw_server *server)
{
    return server->members.present;
}
