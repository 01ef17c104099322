/*
 * The member's handler: messages go by the table to the parts, frames to the
 * weights or the files; links come, break and die. On the loop's thread.
 */
#include "config.h"

#include <stdio.h>

#include "worker/client/client_declare.h"
#include "worker/client/client_session.h"

/* ---- messages ---- */

static const struct gw_message_handler handlers[] = {
    {GW_FROM_COORDINATOR, GW_MESSAGE_WELCOME, gw_client_got_welcome},
    {GW_FROM_COORDINATOR, GW_MESSAGE_VIEW, gw_client_home_got_view},
    {GW_FROM_COORDINATOR, GW_MESSAGE_DECLARE, gw_client_got_keys},
    {GW_FROM_COORDINATOR, GW_MESSAGE_START, gw_client_got_start},
    {GW_FROM_COORDINATOR, GW_MESSAGE_POLL, gw_client_got_poll},
    {GW_FROM_COORDINATOR, GW_MESSAGE_STATUS, gw_client_got_status},
    {GW_FROM_COORDINATOR, GW_MESSAGE_END, gw_client_got_end},
    {GW_FROM_COORDINATOR, GW_MESSAGE_FILE_REPLY, gw_client_got_file_reply},
    {GW_FROM_SHARD, GW_MESSAGE_WINDOW, gw_client_got_window},
    {GW_FROM_LEADER, GW_MESSAGE_DECISION, gw_client_got_decision},
};
#define HANDLERS (sizeof handlers / sizeof *handlers)

static unsigned sender_of(const struct gw_client *client,
                          const struct gw_peer *peer)
{
    if (peer == client->coordinator)
        return GW_FROM_COORDINATOR;
    if (peer->role != GW_ROLE_SERVER)
        return GW_FROM_STRANGER;
    int leads =
        gw_client_shards(client) > 0 && peer == gw_client_shard_peer(client, 0);
    return leads ? GW_FROM_SHARD | GW_FROM_LEADER : GW_FROM_SHARD;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct gw_client *client = owner;
    gw_metrics_add(client->metrics, GW_METRIC_CONTROL_MESSAGES, 1);
    if (!gw_message_dispatch(handlers, HANDLERS, sender_of(client, peer),
                             client, peer, message))
        gw_peer_reject(peer, 0, GW_MESSAGE_UNEXPECTED);
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct gw_client *client = owner;
    (void)payload; /* in its window already */
    if (peer != client->coordinator)
        gw_client_frame(client, peer, link, frame);
    else if (!gw_client_files_frame(client, frame))
        gw_peer_reject(peer, link, "frame that nobody waits for");
}

/* ---- links ---- */

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    (void)owner;
    (void)peer;
    (void)hello;
    snprintf(why, why_bytes, "a worker takes no connections");
    return GW_EREFUSED;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    struct gw_client *client = owner;
    if (peer == client->coordinator)
        gw_client_home_link_up(client);
    else
        gw_client_link_up(client, peer, link);
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct gw_client *client = owner;
    gw_metrics_add(client->metrics, GW_METRIC_RECONNECTS, 1);
    if (peer == client->coordinator)
        gw_client_home_link_down(client, status);
    if (status == GW_EPROTO)
        gw_client_tell_fault(client, peer, why);
    else if (client->job && !gw_client_is_over(client))
        gw_log_limited(client->log, &client->limit, GW_LOG_INFO,
                       "connection %u to %s broke: %s (%s)", link, peer->name,
                       why, gw_status_text(status));
}

/* Another process listens at the address of a server: a view will say which
   one has its shard. */
static int awaits_another(const struct gw_client *client, enum gw_status status)
{
    return status == GW_EREFUSED && client->job &&
           client->job->config.cluster.copies > 1;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct gw_client *client = owner;
    if (peer == client->coordinator && status == GW_ETIMEOUT)
        gw_client_home_lost(client);
    else if (peer == client->coordinator)
        gw_client_fail(client, status, "cannot join %s: %s", peer->address,
                       why);
    else if (status == GW_ETIMEOUT)
        gw_log_info(client->log, "%s: silent for %.1f s", peer->name,
                    (double)gw_peer_silent_us(peer) / 1e6);
    else if (awaits_another(client, status))
        gw_log_info(client->log, "%s: %s", peer->name, why);
    else
        gw_client_fail(client, status, "%s: %s", peer->name, why);
}

static void starves(void *owner, const char *why)
{
    gw_client_fail(owner, GW_ENOMEM, "%s, for %d s: no link can be opened", why,
                   GW_MEMBER_STARVES_US / 1000000);
}

static void stuck(void *owner, struct gw_peer *peer, const char *text)
{
    gw_client_stuck(owner, peer, text);
}

const struct gw_member_handler gw_client_handler = {
    .admit = admit,
    .link_up = link_up,
    .message = on_message,
    .frame = on_frame,
    .link_down = link_down,
    .lost = lost,
    .starves = starves,
    .stuck = stuck,
};
