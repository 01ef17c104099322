/*
 * A client fails once, by its first error. Messages to its peers, and reports
 * to the coordinator about the other peers.
 */
#include "config.h"

#include "worker/client/client_session.h"

#include <stdarg.h>

void gw_client_fail(struct gw_client *client,
                    enum gw_status status,
                    const char *format,
                    ...)
{
    va_list args;
    if (gw_client_is_over(client))
        return;
    va_start(args, format);
    /* to a step "again" would mean that it is called elsewhere, for ever */
    client->error.status = status == GW_EAGAIN ? GW_ETIMEOUT : status;
    gw_text_print(client->error.text, sizeof client->error.text, format, args);
    va_end(args);
    atomic_store(&client->failed, 1);
}

void gw_client_tell(struct gw_client *client,
                    struct gw_peer *peer,
                    const struct gw_message *message)
{
    enum gw_status status = gw_peer_tell(peer, message);
    if (status != GW_OK && status != GW_ECLOSED)
        gw_client_fail(client, status, "cannot tell %s of a %s: %s", peer->name,
                       gw_message_name(message->kind), gw_status_text(status));
}

const struct gw_error *gw_client_error(const struct gw_client *client)
{
    return &client->error;
}

void gw_client_fail_with(struct gw_client *client, const struct gw_error *error)
{
    gw_loop_enter(client->loop); /* the loop's thread may fail it as well */
    gw_client_fail(client, error->status, "%s", error->text);
    gw_loop_leave(client->loop);
}

int gw_client_is_over(const struct gw_client *client)
{
    return atomic_load(&client->failed) != 0;
}

/* ---- messages ---- */

void gw_client_tell_fault(struct gw_client *client,
                          const struct gw_peer *peer,
                          const char *why)
{
    struct gw_message message = {
        .kind = GW_MESSAGE_FAULT,
        .fault = {.role = peer->role, .id = peer->id, .text = why}};
    if (peer != client->coordinator && !gw_client_is_over(client) &&
        gw_away_is_here(&client->away))
        gw_peer_tell(client->coordinator, &message);
}

/* A cause that stops others is to be seen where they are missed. */
void gw_client_stuck(struct gw_client *client,
                     const struct gw_peer *peer,
                     const char *text)
{
    struct gw_message message = {.kind = GW_MESSAGE_STALL,
                                 .stall = {.text = text, .stuck = 1}};
    if (gw_client_is_over(client))
        return;
    if (text[0])
        gw_log_info(client->log, "%s", text);
    if (peer != client->coordinator && gw_away_is_here(&client->away))
        gw_peer_tell(client->coordinator, &message);
}
