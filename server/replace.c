/*
 * Workers in the place of others that have died: a view of a later epoch names
 * them, and this shard tells the coordinator where it stands. The pushes of the
 * one before that are held, and not reduced, are taken back: the new one sends
 * the same again. It begins at the least version of all chunks of the job, and
 * wants weights of exactly that one (gw_shard_exact). A view that names nobody
 * is of another coordinator.
 */
#include "config.h"

#include "server/replace.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/server_state.h"

/* A worker in the place of another; shards stay. */
static int may_change(const struct gw_server *server,
                      const struct gw_view_member *member)
{
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

static void tell_standing(struct gw_server *server)
{
    const struct gw_shard *shard = server->shard;
    char policy[GW_WORD_BYTES] = "";
    struct gw_message message = {
        .kind = GW_MESSAGE_STANDING,
        .standing = {.epoch = gw_member_epoch(server->member),
                     .ready = 1,
                     .chunks = shard->chunks,
                     .policy = policy}};
    struct gw_standing *standing = &message.standing;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        uint64_t version = shard->chunk[i].version;
        if (i == 0 || version < standing->least)
            standing->least = version;
        if (version > standing->most)
            standing->most = version;
        standing->ready &= shard->chunk[i].ready;
    }
    if (server->leader) {
        standing->state = *gw_leader_state(server->leader);
        standing->decision = gw_leader_number(server->leader);
        gw_policy_word_print(&server->regime.word, policy);
        gw_switch_fill_standing(server, standing);
    }
    gw_server_tell(server, server->coordinator, &message);
}

void gw_replace_view(struct gw_server *server, const struct gw_view *view)
{
    int fits =
        server->running && view->epoch > gw_member_epoch(server->member) &&
        view->members_first == 0 && view->members_n == view->members_total;
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
        replace(server, &view->members[i]);
    gw_stall_moved(server, gw_loop_now(server->loop)); /* nobody was late */
    tell_standing(server);
}
