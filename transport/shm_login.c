/*
 * From an address to a link that is up.
 *
 *   opener    connect - hello, area > ........................ < reply - up
 *   acceptor           accept ....... < user, area, judge, reply > - up
 *
 * Whoever connects is this user or root, or is let go at once. Before login a
 * link holds a socket, a deadline, and a place among at most logins_max.
 */
#include "config.h"

#include "transport/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A listener that has many to accept is tried again. */
#define AGAIN_US 5000

static void on_deadline(struct gw_timer *timer)
{
    struct gw_shm_link *link = timer->owner;
    gw_shm_fail(link, GW_ETIMEOUT,
                link->listener                   ? "no login in time"
                : link->state == GW_SHM_GREETING ? "no answer to the login"
                                                 : "no connection in time");
}

static void start_deadline(struct gw_shm_link *link)
{
    link->timer.fire = on_deadline;
    gw_timer_start(link->shm->base.loop, &link->timer,
                   link->shm->config.login_us);
}

static void go_up(struct gw_shm_link *link, const struct gw_reply *reply)
{
    gw_timer_stop(link->shm->base.loop, &link->timer);
    if (link->listener)
        link->shm->greetings--;
    link->state = GW_SHM_UP;
    link->base.up = 1;
    link->base.heard_us = gw_loop_now(link->shm->base.loop);
    gw_shm_do_not_sleep(link->shm);
    link->base.handler->up(&link->base, reply);
}

/* ---- the opener ---- */

static void say_hello(struct gw_shm_link *link)
{
    int fd = gw_shm_area_make(link);
    if (fd < 0) {
        char why[128];
        snprintf(why, sizeof why, "no shared memory for a link: %s",
                 strerror(errno));
        gw_shm_fail(link, GW_EUNSUPPORTED, why);
        return;
    }
    int said = gw_shm_say(link, link->hello, sizeof link->hello, fd);
    close(fd);
    if (said)
        link->state = GW_SHM_GREETING;
    else
        gw_shm_fail(link, GW_ECLOSED, "closed before the login");
}

/* A socket that is connected, or -1 with *number_p (an errno, or 0) and why. */
static int
connect_socket(const char *address, int *number_p, struct gw_error *error)
{
    struct sockaddr_un at;
    socklen_t bytes;
    *number_p = 0;
    if (gw_shm_place(address, &at, &bytes, error) != GW_OK)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, bytes) != 0) {
        *number_p = errno;
        gw_fail(error, GW_EUNREACHABLE, "%s",
                *number_p == ECONNREFUSED ? "nobody listens there any more"
                                          : strerror(*number_p));
    } else if (!gw_shm_may(fd)) {
        gw_fail(error, GW_EUNREACHABLE, "another user listens there");
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

static void connect_to(struct gw_shm_link *link)
{
    struct gw_error error;
    int number, fd = connect_socket(link->address, &number, &error);
    if (fd >= 0 && gw_shm_adopt(link, fd) == GW_OK) {
        say_hello(link);
    } else if (fd >= 0) {
        close(fd);
        gw_shm_fail(link, GW_EIO, "cannot watch a socket");
    } else if (number == EAGAIN) {
        gw_timer_start(link->shm->base.loop, &link->again, AGAIN_US);
    } else {
        gw_shm_fail(link, error.status, error.text);
    }
}

static void on_again(struct gw_timer *timer)
{
    connect_to(timer->owner);
}

/* It takes no time, but is not told from within the dial. */
void gw_shm_dial(struct gw_shm_link *link)
{
    link->state = GW_SHM_CONNECTING;
    start_deadline(link);
    link->again.fire = on_again;
    link->again.owner = link;
    gw_timer_start(link->shm->base.loop, &link->again, 0);
}

void gw_shm_got_reply(struct gw_shm_link *link, const uint8_t *bytes, size_t n)
{
    struct gw_reply reply;
    char why[GW_ERROR_TEXT_BYTES];
    if (n != GW_SHM_REPLY_BYTES) {
        gw_shm_fail(link, GW_EPROTO, "what answered there is not gradweir");
        return;
    }
    enum gw_status status =
        gw_reply_judge(bytes + GW_SHM_WORD_BYTES, &reply, why, sizeof why);
    if (status != GW_OK) {
        gw_shm_fail(link, status, why);
        return;
    }
    link->base.session = reply.session;
    go_up(link, &reply);
}

/* ---- the acceptor ---- */

void gw_shm_got_hello(struct gw_shm_link *link,
                      const uint8_t *bytes,
                      size_t n,
                      int fd)
{
    struct gw_reply reply;
    uint8_t answer[GW_SHM_REPLY_BYTES];
    if (n != GW_SHM_HELLO_BYTES || gw_get_u32(bytes + 4) != GW_SHM_VERSION ||
        fd < 0 || !gw_shm_area_take(link, fd)) {
        gw_shm_fail(link, GW_EPROTO,
                    "not a login of gradweir, or another version");
        return;
    }
    enum gw_status status =
        gw_link_judge(&link->base, link->listener->acceptor, bytes + 8, &reply);
    if (status == GW_OK || reply.reason[0]) {
        gw_put_u32(answer, GW_SHM_REPLY);
        gw_reply_encode(&reply, answer + GW_SHM_WORD_BYTES);
        /* a socket that does not take it is broken: it is about to end */
        gw_shm_say(link, answer, sizeof answer, -1);
    }
    if (status == GW_OK)
        go_up(link, NULL);
    else
        gw_shm_drop(link);
}

/* links are in order of their making, the newest first */
static void make_room(struct gw_shm *shm)
{
    struct gw_shm_link *oldest = NULL;
    if (shm->greetings < shm->config.logins_max)
        return;
    for (struct gw_shm_link *link = shm->links; link; link = link->next)
        if (link->listener && link->state == GW_SHM_GREETING)
            oldest = link;
    if (oldest)
        gw_shm_fail(oldest, GW_EAGAIN, "too many that do not log in");
}

void gw_shm_accept(struct gw_listener *listener)
{
    struct gw_shm *shm = listener->shm;
    char remote[GW_ADDRESS_MAX];
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        /* out of descriptors the poll would come back at once, for ever */
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            gw_shm_rest(listener);
        return;
    }
    gw_shm_name_peer(fd, remote);
    if (!gw_shm_may(fd)) {
        gw_transport_refused(&shm->base, remote, "it is another user's");
        close(fd);
        return;
    }
    make_room(shm);
    struct gw_shm_link *link = gw_shm_link_new(shm);
    if (!link) {
        close(fd);
        return;
    }
    link->listener = listener;
    link->state = GW_SHM_GREETING;
    shm->greetings++;
    snprintf(link->base.remote, sizeof link->base.remote, "%s", remote);
    if (gw_shm_adopt(link, fd) != GW_OK) {
        close(fd);
        gw_shm_drop(link);
        return;
    }
    start_deadline(link);
}
