#include "config.h"

#include "transport/link/life.h"

#include <stdio.h>

#define LOGINS_MAX 64
#define LOGIN_US   5000000

void gw_lives_open(struct gw_lives *lives,
                   struct gw_transport *transport,
                   const struct gw_life_ops *ops,
                   const struct gw_transport_config *config)
{
    *lives = (struct gw_lives){.transport = transport,
                               .ops = ops,
                               .logins_max = LOGINS_MAX,
                               .login_us = LOGIN_US};
    if (config && config->logins_max)
        lives->logins_max = config->logins_max;
    if (config && config->login_us)
        lives->login_us = config->login_us;
}

void gw_lives_close(struct gw_lives *lives)
{
    while (lives->newest)
        gw_life_drop(lives->newest);
}

void gw_lives_make_room(struct gw_lives *lives)
{
    struct gw_life *oldest = NULL;
    if (lives->strangers < lives->logins_max)
        return;
    for (struct gw_life *one = lives->newest; one; one = one->next)
        if (one->listener && one->state == GW_LIFE_GREETING)
            oldest = one;
    if (oldest)
        gw_life_fail(oldest, GW_EAGAIN, "too many that do not log in");
}

/* ---- from its begin to the login ---- */

static void on_deadline(struct gw_timer *timer)
{
    struct gw_life *life = timer->owner;
    if (life->state == GW_LIFE_CONNECTING && life->of->ops->goes_on(life->link))
        return;
    gw_life_fail(life, GW_ETIMEOUT,
                 life->listener                    ? "no login in time"
                 : life->state == GW_LIFE_GREETING ? "no answer to the login"
                                                   : "no connection in time");
}

static void start_deadline(struct gw_life *life)
{
    life->timer.fire = on_deadline;
    gw_timer_start(life->of->transport->loop, &life->timer, life->of->login_us);
}

void gw_life_begin(struct gw_life *life,
                   struct gw_lives *of,
                   struct gw_link *link)
{
    link->ops = of->transport->ops;
    link->transport = of->transport;
    link->heard_us = link->sent_us = gw_loop_now(of->transport->loop);
    *life = (struct gw_life){.of = of,
                             .link = link,
                             .timer.owner = life,
                             .next = of->newest,
                             .back = &of->newest};
    if (life->next)
        life->next->back = &life->next;
    of->newest = life;
}

void gw_life_dial(struct gw_life *life,
                  const char *address,
                  const struct gw_link_handler *handler,
                  void *owner,
                  struct gw_windows *windows)
{
    struct gw_link *link = life->link;
    link->handler = handler;
    link->owner = owner;
    link->windows = windows;
    snprintf(link->remote, sizeof link->remote, "%s", address);
    life->owned = 1;
    start_deadline(life);
}

void gw_life_accept(struct gw_life *life, struct gw_listener *listener)
{
    life->listener = listener;
    life->state = GW_LIFE_GREETING;
    life->of->strangers++;
    start_deadline(life);
}

void gw_life_connect(struct gw_life *life)
{
    life->state = GW_LIFE_CONNECTING;
    start_deadline(life);
}

int gw_life_got_reply(struct gw_life *life,
                      const uint8_t reply_bytes[GW_REPLY_BYTES],
                      struct gw_reply *reply)
{
    char why[GW_ERROR_TEXT_BYTES];
    enum gw_status status = gw_reply_judge(reply_bytes, reply, why, sizeof why);
    if (status == GW_OK)
        life->link->session = reply->session;
    else
        gw_life_fail(life, status, why);
    return status == GW_OK;
}

void gw_life_go_up(struct gw_life *life, const struct gw_reply *reply)
{
    struct gw_loop *loop = life->of->transport->loop;
    gw_timer_stop(loop, &life->timer);
    if (life->listener)
        life->of->strangers--;
    life->state = GW_LIFE_UP;
    life->owned = 1;
    life->link->up = 1;
    life->link->heard_us = gw_loop_now(loop);
    life->link->handler->up(life->link, reply);
}

/* ---- its end ---- */

static void end(struct gw_life *life)
{
    if (life->listener && life->state == GW_LIFE_GREETING)
        life->of->strangers--;
    life->state = GW_LIFE_CLOSED;
    life->link->up = 0;
    gw_timer_stop(life->of->transport->loop, &life->timer);
    *life->back = life->next;
    if (life->next)
        life->next->back = life->back;
    life->of->ops->detach(life->link);
}

void gw_life_fail(struct gw_life *life, enum gw_status status, const char *why)
{
    struct gw_link *link = life->link;
    if (life->state == GW_LIFE_CLOSED)
        return;
    end(life);
    /* a stranger that never logged in has no owner to be told */
    if (life->owned)
        link->handler->down(link, status, why);
    else if (!life->refused)
        gw_transport_refused(link->transport, link->remote, why);
    life->of->ops->release(link);
}

void gw_life_drop(struct gw_life *life)
{
    if (life->state == GW_LIFE_CLOSED)
        return;
    end(life);
    life->of->ops->release(life->link);
}
