/*
 * Messages over a link's socket: the login, descriptors of windows' memory, and
 * wake-ups. A send never waits. If the socket does not take a message the link
 * breaks, except for a wake-up: the full socket holds enough of them already.
 *
 * Wake-ups are messages and not an eventfd, which would be 2 us faster, because
 * both sides own an eventfd: a peer that fills it and makes it blocking could
 * block the writer.
 */
#include "config.h"

#include "transport/shm/shm.h"

#include <errno.h>
#include <string.h>

int gw_shm_socket_send(struct gw_shm_link *link,
                       const uint8_t *bytes,
                       size_t n,
                       int fd)
{
    union gw_shm_control control = {.bytes = {0}};
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

void gw_shm_socket_failed(struct gw_shm_link *link)
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
    gw_shm_socket_send(link, word, sizeof word, -1);
}

/* Each side announces its sleep in the queue that it receives. */
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
