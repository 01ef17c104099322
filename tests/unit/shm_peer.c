#include "config.h"

#include "tests/unit/shm_peer.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

void shm_peer_connect(struct shm_peer *peer, const char *address)
{
    struct sockaddr_un at;
    socklen_t bytes;
    struct gw_error error;
    *peer = (struct shm_peer){.window_fd = -1};
    assert_int_equal(gw_shm_place(address, &at, &bytes, &error), GW_OK);
    peer->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(peer->fd >= 0);
    assert_int_equal(connect(peer->fd, (const struct sockaddr *)&at, bytes), 0);
}

void shm_peer_close(struct shm_peer *peer)
{
    if (peer->area)
        munmap(peer->area, sizeof *peer->area);
    if (peer->window)
        munmap(peer->window, VICTIM_ROOM);
    if (peer->window_fd >= 0)
        close(peer->window_fd);
    close(peer->fd);
}

void shm_peer_say(
    struct shm_peer *peer, const void *bytes, size_t n, int fd, int second)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.bytes = {0}};
    int fds[2] = {fd, second};
    size_t with = sizeof(int) * (size_t)((fd >= 0) + (second >= 0));
    struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (with > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(with);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(with);
        memcpy(CMSG_DATA(head), fds, with);
    }
    ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent; /* who is closed already is not to be told */
}

void shm_peer_hello(uint8_t hello[GW_SHM_HELLO_BYTES])
{
    gw_put_u32(hello, GW_SHM_HELLO);
    gw_put_u32(hello + 4, GW_SHM_VERSION);
    victim_hello(42, hello + 8);
}

void shm_peer_begin_login(struct shm_peer *peer, const char *address)
{
    uint8_t hello[GW_SHM_HELLO_BYTES];
    shm_peer_connect(peer, address);
    int fd = gw_memory_file("test", sizeof *peer->area);
    assert_true(fd >= 0);
    peer->area = mmap(NULL, sizeof *peer->area, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);
    assert_ptr_not_equal(peer->area, MAP_FAILED);
    shm_peer_hello(hello);
    shm_peer_say(peer, hello, sizeof hello, fd, -1);
    close(fd);
}

void shm_peer_end_login(struct shm_peer *peer)
{
    uint8_t bytes[GW_SHM_REPLY_BYTES];
    struct gw_reply reply;
    assert_int_equal(recv(peer->fd, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(gw_get_u32(bytes), GW_SHM_REPLY);
    assert_int_equal(gw_reply_decode(bytes + 4, &reply), GW_OK);
    peer->session = reply.session;
}

void shm_peer_publish(struct shm_peer *peer,
                      uint32_t type,
                      uint32_t at,
                      uint32_t bytes,
                      const uint8_t *header)
{
    struct gw_shm_queue *queue = &peer->area->queue[0];
    struct gw_shm_entry *entry =
        &queue->entry[peer->published % GW_SHM_ENTRIES];
    entry->type = type;
    entry->at = at;
    entry->bytes = bytes;
    if (header)
        memcpy(entry->header, header, GW_FRAME_BYTES);
    atomic_store(&queue->published, ++peer->published);
    if (atomic_exchange(&queue->asleep, 0)) {
        uint8_t word[GW_SHM_WORD_BYTES];
        gw_put_u32(word, GW_SHM_WAKE);
        shm_peer_say(peer, word, sizeof word, -1, -1);
    }
}

int shm_peer_granted(struct shm_peer *peer, uint32_t *window_p)
{
    uint8_t bytes[GW_SHM_GRANT_BYTES];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recvmsg(peer->fd, &message, MSG_DONTWAIT) != sizeof bytes)
        return 0;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (gw_get_u32(bytes) != GW_SHM_GRANT || !head)
        return 0;
    memcpy(&peer->window_fd, CMSG_DATA(head), sizeof peer->window_fd);
    peer->window = mmap(NULL, VICTIM_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED,
                        peer->window_fd, 0);
    *window_p = gw_get_u32(bytes + 4);
    return peer->window != MAP_FAILED;
}

int shm_descriptors(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory))
        n++;
    closedir(directory);
    return n;
}
