/*
 * Throws at a listening port of a job what strangers throw: noise, other
 * protocols, logins and frames that are broken or lie, and connections that say
 * nothing. A part of junk.sh.
 *
 * Usage: junk PORT IDLE, on 127.0.0.1. Says by a line what became of each
 * kind, and exits with 1 if one was not answered as it should be. Then IDLE
 * connections stay until standard input ends.
 */
#include "config.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/login.h"
#include "proto/random.h"
#include "proto/wire.h"

#define PATIENCE_MS 4000
#define BYTES       4096

/* What the other side must do. */
enum answer {
    SILENCE, /* close without a byte */
    REFUSAL, /* say why not, and close */
    EITHER,  /* that, or let us in and close for what follows */
};

struct thrower {
    struct sockaddr_in to;
    uint64_t job; /* of the other side, once it has told */
    uint64_t incarnation;
    int failed;
};

static int knock(const struct thrower *thrower)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const void *to = &thrower->to;
    if (fd < 0 || connect(fd, to, sizeof thrower->to) != 0) {
        perror("# junk: cannot connect");
        exit(1);
    }
    return fd;
}

/* Until `room` is full or the other side closes; -1 for want of patience. */
static ssize_t take(int fd, uint8_t *bytes, size_t room)
{
    size_t got = 0;
    while (got < room) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, PATIENCE_MS) <= 0)
            return -1;
        ssize_t n = recv(fd, bytes + got, room - got, 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

static void
judge(struct thrower *thrower, const char *what, int right, const char *became)
{
    printf("# %s: %s%s\n", what, became, right ? "" : ", WHICH IS WRONG");
    thrower->failed |= !right;
}

/* Sends, and waits for the answer and the end. `after` follows a login that is
   accepted; its session goes to where frames have it. */
static void throw(struct thrower * thrower,
                  const char *what,
                  const void *bytes,
                  size_t n,
                  enum answer expected,
                  uint8_t *after,
                  size_t after_bytes)
{
    uint8_t answer[GW_REPLY_BYTES + 1];
    struct gw_reply reply = {.status = GW_EPROTO};
    int fd = knock(thrower);
    send(fd, bytes, n, MSG_NOSIGNAL);
    if (n < GW_HELLO_BYTES)
        shutdown(fd, SHUT_WR);
    ssize_t got = take(fd, answer, GW_REPLY_BYTES);
    if (got == GW_REPLY_BYTES && gw_reply_decode(answer, &reply) == GW_OK)
        thrower->job = reply.job;
    if (reply.status == GW_OK && after) {
        gw_put_u32(after + 8, reply.session + (after_bytes == 0));
        gw_put_u32(after + 60, gw_crc32c(0, after, 60));
        send(fd, after, after_bytes, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
    }
    uint8_t more[256];
    ssize_t rest = got;
    while (rest > 0)
        rest = take(fd, more, sizeof more);
    close(fd);
    if (rest < 0)
        judge(thrower, what, 0, "the connection is kept");
    else if (got == 0)
        judge(thrower, what, expected == SILENCE, "closed");
    else if (got < GW_REPLY_BYTES || reply.status == GW_EPROTO)
        judge(thrower, what, 0, "answered, but with no reply");
    else if (reply.status != GW_OK)
        judge(thrower, what, expected != SILENCE, reply.reason);
    else
        judge(thrower, what, expected == EITHER, "let in, and closed");
}

static void throw_noise(struct thrower *thrower)
{
    static const char http[] =
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: one that "
        "tries "
        "every port\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";
    const uint8_t tls[517] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    uint8_t bytes[BYTES];
    for (uint32_t i = 0; i < BYTES / 16; i++) {
        uint32_t bits[4];
        gw_random4(7, GW_RANDOM_TEST, 0, i, bits);
        memcpy(bytes + 16 * (size_t)i, bits, 16);
    }
    throw(thrower, "random bytes", bytes, sizeof bytes, SILENCE, NULL, 0);
    throw(thrower, "HTTP", http, sizeof http - 1, SILENCE, NULL, 0);
    throw(thrower, "a line of HTTP", http, 23, SILENCE, NULL, 0);
    throw(thrower, "TLS hello", tls, sizeof tls, SILENCE, NULL, 0);
    throw(thrower, "nothing", bytes, 0, SILENCE, NULL, 0);
}

/* A login that is right; `incarnation` is new each time. */
static void make_login(struct thrower *thrower, struct gw_hello *hello)
{
    *hello = (struct gw_hello){.role = GW_ROLE_WORKER,
                               .links = 1,
                               .generation = 1,
                               .rank = 0,
                               .job = thrower->job,
                               .incarnation = ++thrower->incarnation,
                               .version = PACKAGE_VERSION};
}

static void throw_logins(struct thrower *thrower)
{
    struct gw_hello hello;
    uint8_t bytes[GW_HELLO_BYTES];
    make_login(thrower, &hello);
    gw_hello_encode(&hello, bytes);
    throw(thrower, "half a login", bytes, sizeof bytes / 2, SILENCE, NULL, 0);
    bytes[GW_HELLO_BYTES - 1] ^= 1;
    throw(thrower, "wrong checksum", bytes, sizeof bytes, SILENCE, NULL, 0);
    gw_hello_encode(&hello, bytes);
    bytes[8]++;
    throw(thrower, "wrong version", bytes, sizeof bytes, REFUSAL, NULL, 0);
    hello.job = 1;
    gw_hello_encode(&hello, bytes);
    throw(thrower, "wrong job", bytes, sizeof bytes, REFUSAL, NULL, 0);
    hello.job = thrower->job;
    hello.expects = 1;
    gw_hello_encode(&hello, bytes);
    throw(thrower, "wrong process", bytes, sizeof bytes, REFUSAL, NULL, 0);
}

/* A login as it should be; behind it `bytes` of a frame. */
static void throw_frame(struct thrower *thrower,
                        const char *what,
                        uint8_t kind,
                        uint32_t length,
                        size_t bytes)
{
    struct gw_hello hello;
    uint8_t login[GW_HELLO_BYTES], frame[BYTES] = {0};
    struct gw_frame header = {
        .kind = kind, .length = length, .clock = 1, .chunk = GW_CHUNK_NONE};
    if (gw_frame_is_put(kind))
        header.window = 8;
    make_login(thrower, &hello);
    gw_hello_encode(&hello, login);
    gw_frame_encode(&header, frame);
    throw(thrower, what, login, sizeof login, EITHER, frame, bytes);
}

static void throw_frames(struct thrower *thrower)
{
    throw_frame(thrower, "a login and no more", GW_FRAME_HEARTBEAT, 0, 0);
    throw_frame(thrower, "half a frame", GW_FRAME_HEARTBEAT, 0, 32);
    throw_frame(thrower, "noise for a message", GW_FRAME_CONTROL, 1000, 1064);
    throw_frame(thrower, "half a message", GW_FRAME_CONTROL, 1000, 500);
    throw_frame(thrower, "a message too long", GW_FRAME_CONTROL,
                GW_MESSAGE_BYTES_MAX + 1, BYTES);
    throw_frame(thrower, "a gradient", GW_FRAME_PUSH, 1024, 1024 + 64);
    throw_frame(thrower, "a gradient too long", GW_FRAME_PUSH,
                GW_PAYLOAD_BYTES_MAX + 1, BYTES);
    throw_frame(thrower, "weights", GW_FRAME_WEIGHTS, 64, 128);
    throw_frame(thrower, "a want", GW_FRAME_WANT, GW_WANT_BYTES, 104);
    throw_frame(thrower, "no kind at all", 200, 0, GW_FRAME_BYTES);
}

int main(int argc, char **argv)
{
    struct thrower thrower = {.to = {.sin_family = AF_INET},
                              .incarnation = 1000};
    struct rlimit files;
    char byte;
    if (argc != 3)
        return 2;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    thrower.to.sin_port = htons((uint16_t)atoi(argv[1]));
    thrower.to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    throw_noise(&thrower);
    throw_logins(&thrower);
    throw_frames(&thrower);
    for (int idle = atoi(argv[2]); idle > 0; idle--)
        (void)knock(&thrower);
    puts("idle");
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    return thrower.failed;
}
