/* The coordinator of a running job: here, away, or another one in its place. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/member/away.h"
#include "worker/client/client_session.h"

struct gw_client_home {
    struct gw_away away;
};

enum gw_status gw_client_home_open(struct gw_client *client)
{
    client->home = calloc(1, sizeof *client->home);
    return client->home ? GW_OK : GW_ENOMEM;
}

void gw_client_home_close(struct gw_client *client)
{
    free(client->home);
}

int gw_client_home_is_here(const struct gw_client *client)
{
    return client->home->away.state == GW_COORDINATOR_HERE;
}

int gw_client_home_is_known(const struct gw_client *client)
{
    return client->home->away.state != GW_COORDINATOR_NEW;
}

void gw_client_home_link_up(struct gw_client *client)
{
    struct gw_away *away = &client->home->away;
    if (!gw_away_link_up(away, client->coordinator->incarnation,
                         gw_loop_now(client->loop))) {
        if (gw_client_home_is_known(client))
            gw_client_files_link_up(client);
        return;
    }
    int is_known = gw_client_home_is_known(client);
    if (!is_known)
        gw_client_files_hold(client);
    gw_client_session_join(client);
    if (!is_known)
        gw_client_declare_again(client);
}

void gw_client_home_link_down(struct gw_client *client, enum gw_status status)
{
    char paused[GW_PAUSED_BYTES];
    gw_member_paused_words(client->member, paused);
    gw_away_link_down(&client->home->away,
                      status == GW_ETIMEOUT || paused[0] != '\0');
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
    int may_be_back = gw_client_outlives(client) || !client->home->away.broke;
    if (!gw_client_has_started(client) || !may_be_back ||
        client->job->config.cluster.patience <= 0) {
        fail(client);
        return;
    }
    gw_away_silent(&client->home->away, coordinator->heard_us);
    gw_log_warn(client->log,
                "the coordinator (%s) is away, silent for %.1f s: the job goes "
                "on without it",
                coordinator->address,
                (double)gw_peer_silent_us(coordinator) / 1e6);
}

void gw_client_home_judge(struct gw_client *client)
{
    if (client->job &&
        gw_away_is_over(&client->home->away, gw_loop_now(client->loop),
                        gw_member_clock(client->member),
                        (uint64_t)(client->job->config.cluster.patience * 1e6)))
        fail(client);
}

/* ---- another one ---- */

void gw_client_home_back(struct gw_client *client)
{
    gw_away_back(&client->home->away);
    gw_log_info(client->log, "the coordinator is back, at %s",
                client->coordinator->address);
    gw_client_files_renew(client);
    gw_client_save_renew(client);
    gw_client_session_renew(client);
}
