#include "config.h"

#include "transport/link/connection.h"

#include <stdio.h>

#define LOGINS_MAX 64
#define LOGIN_US   5000000

void gw_connections_open(struct gw_connections *connections,
                         struct gw_transport *transport,
                         const struct gw_connection_ops *ops,
                         const struct gw_transport_config *config)
{
    *connections = (struct gw_connections){.transport = transport,
                                           .ops = ops,
                                           .logins_max = LOGINS_MAX,
                                           .login_us = LOGIN_US};
    if (config && config->logins_max)
        connections->logins_max = config->logins_max;
    if (config && config->login_us)
        connections->login_us = config->login_us;
}

void gw_connections_close(struct gw_connections *connections)
{
    while (connections->newest)
        gw_connection_drop(connections->newest);
}

/* ---- from its begin to the login ---- */

static void on_deadline(struct gw_timer *timer)
{
    struct gw_connection *connection = timer->owner;
    if (connection->state == GW_CONNECTION_CONNECTING &&
        connection->of->ops->goes_on(connection->link))
        return;
    gw_connection_fail(connection, GW_ETIMEOUT,
                       connection->listener ? "no login in time"
                       : connection->state == GW_CONNECTION_GREETING
                           ? "no answer to the login"
                           : "no connection in time");
}

static void start_deadline(struct gw_connection *connection)
{
    connection->timer.fire = on_deadline;
    gw_timer_start(connection->of->transport->loop, &connection->timer,
                   connection->of->login_us);
}

void gw_connection_begin(struct gw_connection *connection,
                         struct gw_connections *of,
                         struct gw_link *link)
{
    link->ops = of->transport->ops;
    link->transport = of->transport;
    link->heard_us = link->sent_us = gw_loop_now(of->transport->loop);
    *connection = (struct gw_connection){.of = of,
                                         .link = link,
                                         .timer.owner = connection,
                                         .next = of->newest,
                                         .back = &of->newest};
    if (connection->next)
        connection->next->back = &connection->next;
    of->newest = connection;
}

void gw_connection_dial(struct gw_connection *connection,
                        const char *address,
                        const struct gw_link_handler *handler,
                        void *owner,
                        struct gw_windows *windows)
{
    struct gw_link *link = connection->link;
    link->handler = handler;
    link->owner = owner;
    link->windows = windows;
    snprintf(link->remote, sizeof link->remote, "%s", address);
    connection->owned = 1;
    start_deadline(connection);
}

static void make_room(struct gw_connections *connections)
{
    struct gw_connection *oldest = NULL;
    if (connections->strangers < connections->logins_max)
        return;
    for (struct gw_connection *one = connections->newest; one; one = one->next)
        if (one->listener && one->state == GW_CONNECTION_GREETING)
            oldest = one;
    if (oldest)
        gw_connection_fail(oldest, GW_EAGAIN, "too many that do not log in");
}

void gw_connection_accept(struct gw_connection *connection,
                          struct gw_listener *listener)
{
    make_room(connection->of);
    connection->listener = listener;
    connection->state = GW_CONNECTION_GREETING;
    connection->of->strangers++;
    start_deadline(connection);
}

void gw_connection_connect(struct gw_connection *connection)
{
    connection->state = GW_CONNECTION_CONNECTING;
    start_deadline(connection);
}

int gw_connection_got_reply(struct gw_connection *connection,
                            const uint8_t reply_bytes[GW_REPLY_BYTES],
                            struct gw_reply *reply)
{
    char why[GW_ERROR_TEXT_BYTES];
    enum gw_status status = gw_reply_judge(reply_bytes, reply, why, sizeof why);
    if (status == GW_OK)
        connection->link->session = reply->session;
    else
        gw_connection_fail(connection, status, why);
    return status == GW_OK;
}

void gw_connection_go_up(struct gw_connection *connection,
                         const struct gw_reply *reply)
{
    struct gw_loop *loop = connection->of->transport->loop;
    gw_timer_stop(loop, &connection->timer);
    if (connection->listener)
        connection->of->strangers--;
    connection->state = GW_CONNECTION_UP;
    connection->owned = 1;
    connection->link->up = 1;
    connection->link->heard_us = gw_loop_now(loop);
    connection->link->handler->up(connection->link, reply);
}

/* ---- its end ---- */

static void end(struct gw_connection *connection)
{
    if (connection->listener && connection->state == GW_CONNECTION_GREETING)
        connection->of->strangers--;
    connection->state = GW_CONNECTION_CLOSED;
    connection->link->up = 0;
    gw_timer_stop(connection->of->transport->loop, &connection->timer);
    *connection->back = connection->next;
    if (connection->next)
        connection->next->back = connection->back;
    connection->of->ops->detach(connection->link);
}

void gw_connection_fail(struct gw_connection *connection,
                        enum gw_status status,
                        const char *why)
{
    struct gw_link *link = connection->link;
    if (connection->state == GW_CONNECTION_CLOSED)
        return;
    end(connection);
    /* a stranger that never logged in has no owner */
    if (connection->owned)
        link->handler->down(link, status, why);
    else if (!connection->refused)
        gw_transport_refused(link->transport, link->remote, why);
    connection->of->ops->release(link);
}

void gw_connection_drop(struct gw_connection *connection)
{
    if (connection->state == GW_CONNECTION_CLOSED)
        return;
    end(connection);
    connection->of->ops->release(connection->link);
}
