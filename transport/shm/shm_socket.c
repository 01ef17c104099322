/*
 * What goes over a link's socket: the login, descriptors of windows' memory,
 * and a word to wake who sleeps. One message each, so that a descriptor belongs
 * to what it came with; nothing waits for the socket, and what it does not take
 * breaks the link, except a word to wake: there are enough of them before it.
 *
 * Words wake, and no eventfd, which would take 2 us less: what an eventfd is
 * belongs to both sides, and one that the peer fills and lets block would hold
 * whoever wakes it. A send here never waits.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/link/limits.h"

/* Messages, before others have their turn. */
#define TURN 16

/* The room for one has room for another, to be aligned. */
#define DESCRIPTORS_MAX ((CMSG_SPACE(sizeof(int)) - CMSG_LEN(0)) / sizeof(int))

union control {
    struct cmsghdr header; /* for its alignment */
    uint8_t bytes[CMSG_SPACE(sizeof(int))];
};

int gw_shm_say(struct gw_shm_link *link, const uint8_t *bytes, size_t n, int fd)
{
    union control control = {.bytes = {0}};
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *with = CMSG_FIRSTHDR(&message);
        with->cmsg_level = SOL_SOCKET;
        with->cmsg_type = SCM_RIGHTS;
        with->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(with), &fd, sizeof fd);
    }
    link->base.sent_us = gw_loop_now(link->shm->base.loop);
    return sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)n;
}

void gw_shm_unsaid(struct gw_shm_link *link)
{
    if (errno == EPIPE || errno == ECONNRESET) {
        link->ended = 1;
    } else {
        link->broken = 1;
        link->broken_why = "the peer takes no messages";
    }
    gw_shm_do_not_sleep(link->shm);
}

static void say_wake(struct gw_shm_link *link)
{
    uint8_t word[GW_SHM_WORD_BYTES];
    gw_put_u32(word, GW_SHM_WAKE);
    gw_shm_say(link, word, sizeof word, -1);
}

/* In the queue that it receives, a side says whether it sleeps. */
void gw_shm_wake(struct gw_shm_link *link)
{
    _Atomic uint32_t *asleep = &link->out.queue->asleep;
    if (atomic_load(asleep) && atomic_exchange(asleep, 0))
        say_wake(link);
}

int gw_shm_pulse(struct gw_link *base, struct gw_send *beat)
{
    (void)beat; /* the ring may be in the middle of a message */
    say_wake(gw_shm_link_of(base));
    return 0;
}

/*
 * The descriptor of a message, -1: there is none, -2: there were several, which
 * are closed; what there was no room for the kernel has closed.
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

/* A descriptor that came with a message was lost: the peer sent more than
   belongs to one, or there was no descriptor for it. */
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
    int greeting = link->life.state == GW_LIFE_GREETING;
    if (greeting && link->life.listener && word == GW_SHM_HELLO)
        gw_shm_got_hello(link, bytes, n, fd);
    else if (greeting && !link->life.listener && word == GW_SHM_REPLY)
        gw_shm_got_reply(link, bytes, n);
    else if (link->base.up && word == GW_SHM_GRANT)
        gw_shm_got_grant(link, bytes, n, fd);
    else if (link->base.up && word == GW_SHM_SHOW)
        gw_shm_got_show(link, bytes, n, fd);
    else if (word != GW_SHM_WAKE || n != GW_SHM_WORD_BYTES || fd >= 0 ||
             greeting)
        gw_shm_fail(link, GW_EPROTO,
                    greeting ? "not a login" : "a message of no known type");
}

/* Returns whether there may be more. */
static int hear_one(struct gw_shm_link *link)
{
    uint8_t bytes[GW_SHM_WORDS_BYTES];
    union control control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        /* it ended with something unread: what it has said comes after that */
        return errno == EINTR || errno == ECONNRESET;
    if (got == 0) {
        link->ended = 1;
        return 0;
    }
    /* for the peer it has been sent: nothing else may come for long */
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
    return link->life.state == GW_LIFE_GREETING || link->base.up;
}

void gw_shm_hear(struct gw_shm_link *link)
{
    for (int i = 0; i < TURN && hear_one(link); i++)
        continue;
    if (!link->ended)
        return;
    if (link->life.state == GW_LIFE_GREETING)
        gw_shm_fail(link, GW_ECLOSED,
                    link->life.listener
                        ? "closed before the login"
                        : "closed without an answer to the login");
    else
        gw_shm_do_not_sleep(link->shm); /* the next look reads the rest */
}
