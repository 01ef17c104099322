/* The coordinator of a running job: here, away, or another one in its place. */
#include "config.h"

#include <inttypes.h>

#include "worker/client/client_session.h"

void gw_client_home_link_up(struct gw_client *client)
{
    struct gw_away *away = &client->away;
    if (!gw_away_link_up(away, client->coordinator->incarnation,
                         gw_loop_now(client->loop))) {
        if (gw_away_is_known(away))
            gw_client_files_link_up(client);
        return;
    }
    int is_known = gw_away_is_known(away);
    if (!is_known)
        gw_client_files_hold(client);
    gw_client_session_join(client);
    if (!is_known)
        gw_client_declare_again(client);
}

void gw_client_home_link_down(struct gw_client *client, enum gw_status status)
{
    gw_away_link_down(&client->away, status == GW_ETIMEOUT ||
                                         gw_member_was_paused(client->member));
}

/* ---- away ---- */

/* A process that was paused cannot tell which side was missed. */
static void fail(struct gw_client *client)
{
    const struct gw_peer *peer = client->coordinator;
    char paused[GW_PAUSED_BYTES], way[GW_AWAY_WAY_BYTES];
    gw_member_paused_words(client->member, paused);
    gw_away_way_on(
        gw_client_outlives(client) ? client->job->config.checkpoint.dir : "",
        way);
    gw_client_fail(
        client, GW_EDEAD,
        "%sthe coordinator (%s) %s at step %" PRIu64 ": silent for %.1f s%s",
        paused, peer->address, paused[0] ? "is heard no more" : "died",
        gw_member_clock(client->member), (double)gw_peer_silent_us(peer) / 1e6,
        way);
}

void gw_client_home_lost(struct gw_client *client)
{
    const struct gw_peer *coordinator = client->coordinator;
    if (!gw_client_has_started(client) ||
        !gw_away_may_return(&client->away, gw_client_outlives(client)) ||
        client->job->config.cluster.patience <= 0) {
        fail(client);
        return;
    }
    gw_away_silent(&client->away, coordinator->heard_us);
    gw_log_warn(client->log,
                "the coordinator (%s) is away, silent for %.1f s: the job goes "
                "on without it",
                coordinator->address,
                (double)gw_peer_silent_us(coordinator) / 1e6);
}

void gw_client_home_judge(struct gw_client *client)
{
    if (client->job &&
        gw_away_is_over(&client->away, gw_loop_now(client->loop),
                        gw_member_clock(client->member),
                        (uint64_t)(client->job->config.cluster.patience * 1e6)))
        fail(client);
}

/* ---- another one ---- */

static void back(struct gw_client *client)
{
    gw_away_back(&client->away);
    gw_log_info(client->log, "the coordinator is back, at %s",
                client->coordinator->address);
    gw_client_files_renew(client);
    gw_client_save_renew(client);
    gw_client_session_renew(client);
}

/* A later view that names nobody: another coordinator has all members. */
void gw_client_home_got_view(void *actor,
                             struct gw_peer *peer,
                             const struct gw_message *message)
{
    struct gw_client *client = actor;
    const struct gw_view *view = &message->view;
    if (!gw_client_has_started(client) || gw_away_is_known(&client->away) ||
        view->members_total > 0 ||
        view->epoch <= gw_member_epoch(client->member)) {
        gw_client_got_view(actor, peer, message);
        return;
    }
    gw_member_set_epoch(client->member, view->epoch);
    back(client);
}
