/*
 * Members in the place of others that have died: a view of a later epoch names
 * them. Servers are for promote.c. Of a worker this shard tells the coordinator
 * where it stands. The pushes of the one before that are held, and not reduced,
 * are taken back: the new one sends the same again. It begins at the least
 * version of all chunks of the job, and wants weights of exactly that one
 * (gw_shard_exact). A view that names nobody is of another coordinator.
 */
#include "config.h"

#include "server/replace.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/promote.h"
#include "server/server_state.h"

/* Another worker of a rank, or another server of a shard. */
static int may_change(const struct gw_server *server,
                      const struct gw_view_member *member)
{
    if (gw_role_has_shard(member->role))
        return member->id < server->shards && server->config.cluster.copies > 1;
    return member->role == GW_ROLE_WORKER && member->id < server->ranks &&
           member->has_secret && member->incarnation != 0 &&
           !gw_config_is_external(&server->config);
}

/* Its pushes that are held come again, from the new one. */
static void replace(struct gw_server *server,
                    const struct gw_view_member *member)
{
    struct gw_session *session = &server->session[member->id];
    struct gw_peer *old = session->peer;
    for (unsigned link = 0; old && link < old->links; link++)
        gw_session_link_down(server, old, link);
    session->peer = NULL;
    if (old)
        gw_peer_close(old);
    session->incarnation = member->incarnation;
    session->has_secret = member->has_secret;
    session->secret = member->secret;
    session->behind = (struct gw_behind){.n = 0};
    session->begins_late = 1;
    snprintf(session->host, sizeof session->host, "%s", member->host);
}

void gw_replace_view(struct gw_server *server, const struct gw_view *view)
{
    int fits = (server->running || server->stands_by) &&
               view->epoch > gw_member_epoch(server->member) &&
               view->members_first == 0 &&
               view->members_n == view->members_total;
    for (uint32_t i = 0; i < view->members_n && fits; i++)
        fits = may_change(server, &view->members[i]);
    if (!fits) {
        gw_server_finish(server, GW_EPROTO,
                         "a view of epoch %" PRIu64 " came after that of "
                         "epoch %" PRIu64 ", or makes no sense",
                         view->epoch, gw_member_epoch(server->member));
        return;
    }
    gw_member_set_epoch(server->member, view->epoch);
    for (uint32_t i = 0; i < view->members_n; i++)
        if (gw_role_has_shard(view->members[i].role))
            gw_promote_named(server, &view->members[i]);
        else
            replace(server, &view->members[i]);
    gw_stall_moved(server, gw_loop_now(server->loop)); /* nobody was late */
    if (!server->stands_by && !gw_server_is_over(server))
        gw_standing_tell(server, server->coordinator);
}
