/*
 * Messages that arrive over a link's socket, with their descriptors: each is
 * one message of the socket, so that a descriptor belongs to it.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* Messages handled before other links have their turn. */
#define TURN 16

/* Alignment leaves room for a second descriptor next to the first. */
#define DESCRIPTORS_MAX ((CMSG_SPACE(sizeof(int)) - CMSG_LEN(0)) / sizeof(int))

/*
 * The descriptor of a message, -1: there is none, -2: there were several, which
 * are closed; the kernel has closed those without room.
 */
static int descriptor_of(struct msghdr *message)
{
    int fd[DESCRIPTORS_MAX];
    struct cmsghdr *with = CMSG_FIRSTHDR(message);
    if (!with || with->cmsg_level != SOL_SOCKET ||
        with->cmsg_type != SCM_RIGHTS)
        return -1;
    size_t n = (with->cmsg_len - CMSG_LEN(0)) / sizeof *fd;
    memcpy(fd, CMSG_DATA(with), n * sizeof *fd);
    for (size_t i = 0; n > 1 && i < n; i++)
        close(fd[i]);
    return n == 1 ? fd[0] : n > 1 ? -2 : -1;
}

/* A descriptor of a message was lost: the peer sent more than one, or this
   process could not have another. */
static void lost_descriptor(struct gw_shm_link *link)
{
    char why[GW_LIMITS_WHY_BYTES + 64], words[GW_LIMITS_WHY_BYTES];
    int spare = fcntl(link->fd, F_DUPFD_CLOEXEC, 0), number = errno;
    if (spare >= 0) {
        close(spare);
        gw_shm_fail(link, GW_EPROTO, "a message of another length");
        return;
    }
    snprintf(why, sizeof why, "no descriptor for memory that it shares: %s",
             gw_limits_why_no_file(number, words));
    gw_shm_fail(link, GW_EIO, why);
}

static void
dispatch(struct gw_shm_link *link, const uint8_t *bytes, size_t n, int fd)
{
    uint32_t word = n >= GW_SHM_WORD_BYTES ? gw_get_u32(bytes) : 0;
    int greeting = link->connection.state == GW_CONNECTION_GREETING;
    if (greeting && link->connection.listener && word == GW_SHM_HELLO)
        gw_shm_got_hello(link, bytes, n, fd);
    else if (greeting && !link->connection.listener && word == GW_SHM_REPLY)
        gw_shm_got_reply(link, bytes, n);
    else if (link->base.up && word == GW_SHM_GRANT)
        gw_shm_got_grant(link, bytes, n, fd);
    else if (link->base.up && word == GW_SHM_EXPORT)
        gw_shm_got_export(link, bytes, n, fd);
    else if (word != GW_SHM_WAKE || n != GW_SHM_WORD_BYTES || fd >= 0 ||
             greeting)
        gw_shm_fail(link, GW_EPROTO,
                    greeting ? "not a login" : "a message of no known type");
}

/* Returns non-zero if there may be more. */
static int receive_one(struct gw_shm_link *link)
{
    uint8_t bytes[GW_SHM_WORDS_BYTES];
    union gw_shm_control control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        /* it ended with something unread: its last messages come after that */
        return errno == EINTR || errno == ECONNRESET;
    if (got == 0) {
        link->ended = 1;
        return 0;
    }
    /* counts for the peer as well, because nothing else may come for long */
    link->base.heard_us = gw_loop_now(link->shm->base.loop);
    int fd = descriptor_of(&message);
    if (fd == -1 && message.msg_flags & MSG_CTRUNC)
        lost_descriptor(link);
    else if (fd == -2 || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        gw_shm_fail(link, GW_EPROTO, "a message of another length");
    else
        dispatch(link, bytes, (size_t)got, fd);
    if (fd >= 0)
        close(fd);
    return link->connection.state == GW_CONNECTION_GREETING || link->base.up;
}

void gw_shm_socket_receive(struct gw_shm_link *link)
{
    for (int i = 0; i < TURN && receive_one(link); i++)
        continue;
    if (!link->ended)
        return;
    if (link->connection.state == GW_CONNECTION_GREETING)
        gw_shm_fail(link, GW_ECLOSED,
                    link->connection.listener
                        ? "closed before the login"
                        : "closed without an answer to the login");
    else
        gw_shm_do_not_sleep(link->shm); /* the next poll reads the rest */
}
