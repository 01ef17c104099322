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

/* ---- the victim ---- */

static void on_up(struct gw_link *link, const struct gw_reply *reply)
{
    struct shm_victim *victim = link->owner;
    (void)reply;
    victim->link = link;
    victim->ups++;
}

static uint8_t *window_of(const struct shm_victim *victim)
{
    return (uint8_t *)victim->memory.base + SHM_WINDOW;
}

static void on_frame(struct gw_link *link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    struct shm_victim *victim = link->owner;
    const uint8_t *at = payload, *begin = window_of(victim);
    victim->frames++;
    if (frame->window != GW_WINDOW_NONE &&
        (at < begin || at + frame->length > begin + SHM_WINDOW))
        victim->bad_frames++;
}

static void
on_down(struct gw_link *link, enum gw_status status, const char *why)
{
    struct shm_victim *victim = link->owner;
    victim->link = NULL;
    victim->downs++;
    victim->status = status;
    snprintf(victim->why, sizeof victim->why, "%s", why);
}

static const struct gw_link_handler handler = {
    .up = on_up, .frame = on_frame, .down = on_down};

static enum gw_status judge(struct gw_acceptor *acceptor,
                            struct gw_link *link,
                            const struct gw_hello *hello,
                            struct gw_reply *reply)
{
    struct shm_victim *victim = acceptor->owner;
    (void)hello, (void)reply;
    link->handler = &handler;
    link->owner = victim;
    link->windows = &victim->windows;
    return GW_OK;
}

static void on_line(void *context, const char *line, size_t bytes)
{
    struct shm_victim *victim = context;
    snprintf(victim->line, sizeof victim->line, "%.*s", (int)bytes, line);
    victim->refused += strstr(victim->line, "refused") != NULL;
}

static uint64_t log_clock(void *clock)
{
    return gw_loop_now(clock);
}

void shm_victim_open(struct shm_victim *victim)
{
    struct gw_error error;
    *victim = (struct shm_victim){.acceptor = {.judge = judge, .owner = victim},
                                  .handler = &handler};
    world_open(&victim->world, "shm");
    victim->log = (struct gw_log){.level = GW_LOG_WARN,
                                  .rank = -1,
                                  .role = "test",
                                  .now_us = log_clock,
                                  .clock = victim->world.loop[0],
                                  .sink = on_line,
                                  .context = victim};
    victim->world.loop[0]->log = &victim->log;
    assert_int_equal(
        gw_memory_open(GW_MEMORY_SHARED, SHM_ROOM, &victim->memory), GW_OK);
    assert_int_equal(victim->memory.kind, GW_MEMORY_SHARED);
    memset(victim->memory.base, SHM_FILLED, SHM_ROOM);
    victim->world.ops->lend(victim->world.transport[0], &victim->memory);
    assert_int_equal(gw_window_open(&victim->windows, GW_FRAME_PUSH,
                                    window_of(victim), SHM_WINDOW,
                                    &victim->window),
                     GW_OK);
    assert_int_equal(victim->world.ops->listen(victim->world.transport[0],
                                               world_any_port(&victim->world),
                                               &victim->acceptor,
                                               &victim->listener, &error),
                     GW_OK);
}

void shm_victim_close(struct shm_victim *victim)
{
    const uint8_t *bytes = victim->memory.base;
    for (size_t i = 0; i < SHM_ROOM; i++)
        if (i < SHM_WINDOW || i >= 2 * SHM_WINDOW)
            assert_int_equal(bytes[i], SHM_FILLED);
    assert_int_equal(victim->bad_frames, 0);
    world_close(&victim->world);
    gw_memory_close(&victim->memory);
}

struct wanted {
    const int *counter;
    int is;
};

static int is_there(void *owner)
{
    const struct wanted *wanted = owner;
    return *wanted->counter >= wanted->is;
}

void shm_victim_await(struct shm_victim *victim, const int *counter, int is)
{
    struct wanted wanted = {counter, is};
    world_run(&victim->world, is_there, &wanted);
    assert_int_equal(*counter, is);
}

/* ---- the peer ---- */

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
        munmap(peer->window, SHM_ROOM);
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
    const struct gw_hello honest = {.role = GW_ROLE_WORKER,
                                    .links = 1,
                                    .generation = 1,
                                    .incarnation = 42,
                                    .version = "test"};
    gw_put_u32(hello, GW_SHM_HELLO);
    gw_put_u32(hello + 4, GW_SHM_VERSION);
    gw_hello_encode(&honest, hello + 8);
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

void shm_peer_header(const struct shm_peer *peer,
                     uint32_t window,
                     uint64_t offset,
                     uint32_t length,
                     uint8_t header[GW_FRAME_BYTES])
{
    const struct gw_frame frame = {.kind = GW_FRAME_PUSH,
                                   .flags = GW_FLAG_NO_CRC,
                                   .session = peer->session,
                                   .window = window,
                                   .offset = offset,
                                   .length = length,
                                   .dtype = GW_DTYPE_F32};
    gw_frame_encode(&frame, header);
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
    peer->window = mmap(NULL, SHM_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED,
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
