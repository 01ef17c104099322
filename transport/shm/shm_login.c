/*
 * From an address to a link that is up.
 *
 *   opener    connect - hello, area > ........................ < reply - up
 *   acceptor           accept ....... < user, area, judge, reply > - up
 *
 * A connection of another user is closed at once. Before login a link holds a
 * socket, a deadline, and a place among at most logins_max.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* A listener whose queue is full is dialled again after this. */
#define AGAIN_US 5000

static void go_up(struct gw_shm_link *link, const struct gw_reply *reply)
{
    gw_shm_do_not_sleep(link->shm);
    gw_connection_go_up(&link->connection, reply);
}

/* ---- the opener ---- */

static void say_hello(struct gw_shm_link *link)
{
    int fd = gw_shm_area_make(link);
    if (fd < 0) {
        char why[GW_LIMITS_WHY_BYTES + 64], words[GW_LIMITS_WHY_BYTES];
        snprintf(why, sizeof why, "no shared memory for a link: %s",
                 gw_limits_why_no_file(errno, words));
        gw_shm_fail(link, GW_EUNSUPPORTED, why);
        return;
    }
    int said = gw_shm_socket_send(link, link->hello, sizeof link->hello, fd);
    close(fd);
    if (said)
        link->connection.state = GW_CONNECTION_GREETING;
    else
        gw_shm_fail(link, GW_ECLOSED, "closed before the login");
}

/* Returns a connected socket, or -1 with *number_p (an errno, or 0) and why. */
static int
connect_socket(const char *address, int *number_p, struct gw_error *error)
{
    struct sockaddr_un at;
    socklen_t bytes;
    char why[GW_LIMITS_WHY_BYTES];
    *number_p = 0;
    if (gw_shm_place(address, &at, &bytes, error) != GW_OK)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, bytes) != 0) {
        *number_p = errno;
        gw_fail(error, GW_EUNREACHABLE, "%s",
                *number_p == ECONNREFUSED
                    ? "nobody listens there any more"
                    : gw_limits_why_no_file(*number_p, why));
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
    int number, fd = connect_socket(link->base.remote, &number, &error);
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

/* Connecting takes no time, but must not fail from within the dial. */
void gw_shm_dial(struct gw_shm_link *link)
{
    link->again.fire = on_again;
    link->again.owner = link;
    gw_timer_start(link->shm->base.loop, &link->again, 0);
}

void gw_shm_got_reply(struct gw_shm_link *link, const uint8_t *bytes, size_t n)
{
    struct gw_reply reply;
    if (n != GW_SHM_REPLY_BYTES)
        gw_shm_fail(link, GW_EPROTO, "what answered there is not gradweir");
    else if (gw_connection_got_reply(&link->connection,
                                     bytes + GW_SHM_WORD_BYTES, &reply))
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
    int is_one = n == GW_SHM_HELLO_BYTES &&
                 gw_get_u32(bytes + 4) == GW_SHM_VERSION && fd >= 0;
    enum gw_status taken = is_one ? gw_shm_area_take(link, fd) : GW_EPROTO;
    if (taken == GW_ENOMEM)
        gw_listener_starves(link->connection.listener,
                            "no memory to map a link");
    if (taken != GW_OK) {
        gw_shm_fail(link, taken,
                    taken == GW_ENOMEM
                        ? "no memory to map its link"
                        : "not a login of gradweir, or another version");
        return;
    }
    enum gw_status status = gw_link_judge(
        &link->base, link->connection.listener->acceptor, bytes + 8, &reply);
    if (status == GW_OK || reply.reason[0]) {
        gw_put_u32(answer, GW_SHM_REPLY);
        gw_reply_encode(&reply, answer + GW_SHM_WORD_BYTES);
        /* a socket that does not take it is broken, and about to end */
        gw_shm_socket_send(link, answer, sizeof answer, -1);
    }
    if (status == GW_OK)
        go_up(link, NULL);
    else
        gw_connection_drop(&link->connection);
}

void gw_shm_accept(struct gw_socket_listener *listener, int fd)
{
    struct gw_shm *shm = gw_shm_of(listener->base.transport);
    char remote[GW_ADDRESS_MAX];
    gw_shm_name_peer(fd, remote);
    if (!gw_shm_may(fd)) {
        gw_transport_refused(&shm->base, remote, "it is another user's");
        close(fd);
        return;
    }
    struct gw_shm_link *link = gw_shm_link_new(shm);
    if (!link) {
        gw_listener_starves(&listener->base, "no memory for a link");
        close(fd);
        return;
    }
    gw_connection_accept(&link->connection, &listener->base);
    snprintf(link->base.remote, sizeof link->base.remote, "%s", remote);
    if (gw_shm_adopt(link, fd) != GW_OK) {
        close(fd);
        gw_connection_drop(&link->connection);
    }
}
