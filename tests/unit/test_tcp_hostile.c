/*
 * Junk on a listening tcp port: random bytes, other protocols, broken logins,
 * frames that lie, hundreds of connections that say nothing. A member that is
 * there stays there, one that comes gets in, and lines are few.
 */
#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/random.h"
#include "transport/member.h"

#define WAIT_US 10000000
#define IDLE    500

/* That wait for their login at one port, as PROTOCOL.md has it. */
#define LOGINS_MAX 64

struct site {
    struct gw_loop *loop;
    struct gw_member *host, *guest;
    struct gw_peer *guest_at_host;
    struct gw_log log;
    uint64_t lines, messages, frames, downs, lost, strange;
    char line[256];
};

static void on_line(void *context, const char *line, size_t bytes)
{
    struct site *site = context;
    site->lines++;
    snprintf(site->line, sizeof site->line, "%.*s", (int)bytes, line);
}

static uint64_t log_clock(void *clock)
{
    return gw_loop_now(clock);
}

static enum gw_status admit(void *owner,
                            struct gw_peer *peer,
                            const struct gw_hello *hello,
                            char *why,
                            size_t why_bytes)
{
    struct site *site = owner;
    (void)why, (void)why_bytes;
    if (hello->role == GW_ROLE_SERVER)
        site->guest_at_host = peer;
    return GW_OK;
}

static void link_up(void *owner, struct gw_peer *peer, unsigned link)
{
    (void)owner, (void)peer, (void)link;
}

static void
on_message(void *owner, struct gw_peer *peer, const struct gw_message *message)
{
    struct site *site = owner;
    (void)message;
    site->messages += peer == site->guest_at_host;
    site->strange += peer != site->guest_at_host;
}

static void on_frame(void *owner,
                     struct gw_peer *peer,
                     unsigned link,
                     const struct gw_frame *frame,
                     const void *payload)
{
    (void)peer, (void)link, (void)frame, (void)payload;
    ((struct site *)owner)->frames++;
}

static void link_down(void *owner,
                      struct gw_peer *peer,
                      unsigned link,
                      enum gw_status status,
                      const char *why)
{
    struct site *site = owner;
    (void)link, (void)status, (void)why;
    site->downs += peer == site->guest_at_host;
}

static void
lost(void *owner, struct gw_peer *peer, enum gw_status status, const char *why)
{
    struct site *site = owner;
    (void)status, (void)why;
    site->lost += peer != site->guest_at_host;
}

static const struct gw_member_handler handler = {.admit = admit,
                                                 .link_up = link_up,
                                                 .message = on_message,
                                                 .frame = on_frame,
                                                 .link_down = link_down,
                                                 .lost = lost,
                                                 .stuck =
                                                     gw_member_stuck_unheard};

static void join(struct site *site, struct gw_peer **peer_p)
{
    struct gw_error error;
    struct gw_member_options options = {
        .loop = site->loop,
        .transport = gw_transport_find("tcp", &error),
        .role = GW_ROLE_SERVER,
        .handler = &handler,
        .owner = site,
    };
    assert_int_equal(gw_member_open(&options, &site->guest, &error), GW_OK);
    assert_int_equal(gw_member_dial(site->guest, gw_member_address(site->host),
                                    GW_ROLE_COORDINATOR, 0, 1, NULL, peer_p,
                                    &error),
                     GW_OK);
}

static void site_open(struct site *site)
{
    struct gw_error error;
    *site = (struct site){.lines = 0};
    assert_int_equal(gw_loop_open_uv(&site->loop, &error), GW_OK);
    site->log = (struct gw_log){.level = GW_LOG_INFO,
                                .rank = -1,
                                .role = "test",
                                .now_us = log_clock,
                                .clock = site->loop,
                                .sink = on_line,
                                .context = site};
    site->loop->log = &site->log;
    struct gw_member_options options = {
        .loop = site->loop,
        .transport = gw_transport_find("tcp", &error),
        .transport_config = {.login_us = 300000},
        .role = GW_ROLE_COORDINATOR,
        .job = 7,
        .handler = &handler,
        .owner = site,
    };
    assert_int_equal(gw_member_open(&options, &site->host, &error), GW_OK);
    assert_int_equal(gw_member_listen(site->host, "127.0.0.1:0", &error),
                     GW_OK);
}

static void site_close(struct site *site)
{
    gw_member_close(site->guest);
    gw_member_close(site->host);
    gw_loop_close(site->loop);
}

static void on_limit(struct gw_timer *timer)
{
    *(int *)timer->owner = 1;
}

/* Turns the loop until *number has reached `least`, or for so long. */
static int turn_until(struct site *site,
                      const uint64_t *number,
                      uint64_t least,
                      uint64_t limit_us)
{
    int late = 0;
    struct gw_timer limit = {.fire = on_limit, .owner = &late};
    gw_timer_start(site->loop, &limit, limit_us);
    while (!late && *number < least)
        gw_loop_turn(site->loop);
    gw_timer_stop(site->loop, &limit);
    return *number >= least;
}

/* A socket that is connected to the host; the loop has not seen it yet. */
static int knock(const struct site *site)
{
    const char *address = gw_member_address(site->host);
    const char *colon = strrchr(address, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(colon - address), address);
    assert_int_equal(getaddrinfo(name, colon + 1, &hints, &found), 0);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, found->ai_addr, found->ai_addrlen), 0);
    freeaddrinfo(found);
    return fd;
}

/* Whether the other side closes it, before it would for silence: the loop runs
   meanwhile. */
static int is_closed(struct site *site, int fd)
{
    static const uint64_t never = 0;
    uint8_t bytes[512];
    for (int i = 0; i < 50; i++) {
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return 1;
        turn_until(site, &never, 1, 10000);
    }
    return 0;
}

/* The guest can still be heard. */
static void guest_is_well(struct site *site, struct gw_peer *peer)
{
    struct gw_message message = {.kind = GW_MESSAGE_READY};
    uint64_t before = site->messages;
    assert_int_equal(gw_peer_tell(peer, &message), GW_OK);
    assert_true(turn_until(site, &site->messages, before + 1, WAIT_US));
    assert_int_equal(site->downs, 0);
}

static void make_hello(const struct site *site,
                       uint32_t generation,
                       uint8_t out[GW_HELLO_BYTES])
{
    struct gw_hello hello = {
        .role = GW_ROLE_WORKER,
        .links = 1,
        .generation = generation,
        .rank = 3,
        .job = gw_member_job(site->host),
        .incarnation = 99,
        .version = PACKAGE_VERSION,
    };
    gw_hello_encode(&hello, out);
}

/* What a stranger may send, by number; returns how many bytes. */
static size_t junk(const struct site *site, size_t which, uint8_t bytes[4096])
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: gradweir\r\n"
                               "User-Agent: curl/7.88.1 and some more so that "
                               "a hello would be full by now\r\n\r\n";
    static const uint8_t tls[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    struct gw_hello hello;
    memset(bytes, 0, 4096);
    make_hello(site, 1, bytes);
    switch (which) {
    case 0: /* random */
        for (uint32_t i = 0; i < 1024; i++) {
            uint32_t bits[4];
            gw_random4(1, GW_RANDOM_TEST, 0, i, bits);
            memcpy(bytes + 4 * (size_t)i, bits, 4);
        }
        return 4096;
    case 1:
        memcpy(bytes, http, sizeof http);
        return sizeof http;
    case 2:
        memset(bytes, 0, GW_HELLO_BYTES);
        memcpy(bytes, tls, sizeof tls);
        return 517;
    case 3: /* a bit of the checksum */
        bytes[GW_HELLO_BYTES - 1] ^= 1;
        return GW_HELLO_BYTES;
    case 4: /* another wire version */
        bytes[8]++;
        return GW_HELLO_BYTES;
    case 5: /* another job */
        assert_int_equal(gw_hello_decode(bytes, &hello), GW_OK);
        hello.job++;
        gw_hello_encode(&hello, bytes);
        return GW_HELLO_BYTES;
    case 6: /* a hello, and frames that are none */
        memset(bytes + GW_HELLO_BYTES, 0xff, 1024);
        return GW_HELLO_BYTES + 1024;
    case 7: /* half a hello */
        return GW_HELLO_BYTES / 2;
    default: /* nothing at all */
        return 0;
    }
}
#define JUNK 9

static void junk_is_closed_and_the_guest_stays(void **state)
{
    struct site site;
    struct gw_peer *peer;
    uint8_t bytes[4096];
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    for (size_t which = 0; which < JUNK; which++) {
        int fd = knock(&site);
        size_t n = junk(&site, which, bytes);
        assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
        if (!is_closed(&site, fd))
            fail_msg("junk %zu is not closed", which);
        close(fd);
        guest_is_well(&site, peer);
    }
    assert_true(site.lines > 0 && site.lines <= JUNK);
    site_close(&site);
}

/* Reads the reply and returns the session; the loop runs meanwhile. */
static uint32_t log_in(struct site *site, int fd, uint32_t generation)
{
    static const uint64_t never = 0;
    uint8_t bytes[GW_REPLY_BYTES];
    struct gw_reply reply;
    size_t got = 0;
    make_hello(site, generation, bytes);
    assert_int_equal(send(fd, bytes, GW_HELLO_BYTES, MSG_NOSIGNAL),
                     GW_HELLO_BYTES);
    for (int i = 0; i < 1000 && got < sizeof bytes; i++) {
        turn_until(site, &never, 1, 1000);
        ssize_t n = recv(fd, bytes + got, sizeof bytes - got, MSG_DONTWAIT);
        got += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(gw_reply_decode(bytes, &reply), GW_OK);
    assert_int_equal(reply.status, GW_OK);
    return reply.session;
}

/* A frame of one who is logged in, wrong in one way. */
static void bad_frame(size_t which, uint32_t session, uint8_t *out)
{
    struct gw_frame frame = {
        .kind = GW_FRAME_HEARTBEAT, .session = session, .chunk = GW_CHUNK_NONE};
    switch (which) {
    case 0:
        frame.session++;
        break;
    case 1: /* a put without a window of ours */
        frame.kind = GW_FRAME_PUSH;
        frame.window = 8;
        frame.length = 64;
        break;
    case 2: /* a message that is too long */
        frame.kind = GW_FRAME_CONTROL;
        frame.length = GW_MESSAGE_BYTES_MAX + 1;
        break;
    case 3: /* acknowledges what was never sent */
        frame.offset = 1000;
        break;
    case 4: /* a message out of order, with nothing in it */
        frame.kind = GW_FRAME_CONTROL;
        frame.clock = 5;
        break;
    default:
        break;
    }
    gw_frame_encode(&frame, out);
    if (which == 5)
        out[20] ^= 1; /* behind the checksum's back */
    if (which == 6)
        out[5] = 200; /* an unknown kind */
}
#define BAD_FRAMES 7

static void bad_frames_cost_the_connection_only(void **state)
{
    struct site site;
    struct gw_peer *peer;
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    for (size_t which = 0; which < BAD_FRAMES; which++) {
        uint8_t bytes[GW_FRAME_BYTES];
        int fd = knock(&site);
        bad_frame(which, log_in(&site, fd, 1), bytes);
        assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL),
                         sizeof bytes);
        if (!is_closed(&site, fd))
            fail_msg("bad frame %zu is taken", which);
        close(fd);
        guest_is_well(&site, peer);
        /* the host forgets the stranger, or its generation would be old */
        for (struct gw_peer *one = gw_member_peers(site.host); one;
             one = gw_peer_next(one))
            if (one->role == GW_ROLE_WORKER) {
                gw_peer_close(one);
                break;
            }
    }
    site_close(&site);
}

/* What could not be read was not received: it counts when it comes again. */
static void a_message_in_pieces_comes_again(void **state)
{
    static struct gw_control_arena arena;
    struct site site;
    struct gw_peer *peer;
    uint8_t good[512], bytes[GW_FRAME_BYTES + sizeof good];
    size_t n;
    const struct gw_message message = {.kind = GW_MESSAGE_READY,
                                       .ready = {.version = 300}};
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    assert_int_equal(gw_message_encode(&message, &arena, good, sizeof good, &n),
                     GW_OK);
    for (uint32_t round = 1; round <= 2; round++) {
        int fd = knock(&site);
        if (round == 1)
            good[0] ^= 0xff;
        struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                                 .session = log_in(&site, fd, round),
                                 .clock = 1,
                                 .length = (uint32_t)n,
                                 .chunk = GW_CHUNK_NONE,
                                 .payload_crc = gw_crc32c(0, good, n)};
        gw_frame_encode(&frame, bytes);
        memcpy(bytes + GW_FRAME_BYTES, good, n);
        good[0] ^= round == 1 ? 0xff : 0;
        assert_int_equal(send(fd, bytes, GW_FRAME_BYTES + n, MSG_NOSIGNAL),
                         GW_FRAME_BYTES + n);
        if (round == 1)
            assert_true(is_closed(&site, fd));
        else
            assert_true(turn_until(&site, &site.strange, 1, WAIT_US));
        close(fd);
    }
    site_close(&site);
}

/* A large payload on a thin line: its bytes are heard before it is whole. */
static void a_slow_frame_is_no_silence(void **state)
{
    static const uint64_t never = 0;
    struct site site;
    struct gw_peer *peer;
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    uint8_t bytes[GW_FRAME_BYTES], payload[16] = {0};
    int fd = knock(&site);
    struct gw_frame frame = {.kind = GW_FRAME_CONTROL,
                             .session = log_in(&site, fd, 1),
                             .clock = 1,
                             .length = GW_MESSAGE_BYTES_MAX,
                             .chunk = GW_CHUNK_NONE};
    gw_frame_encode(&frame, bytes);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    for (size_t at = 0; at < sizeof payload; at++) {
        turn_until(&site, &never, 1, 100000);
        assert_int_equal(send(fd, payload + at, 1, MSG_NOSIGNAL), 1);
    }
    assert_int_equal(site.lost, 0);
    assert_true(turn_until(&site, &site.lost, 1, WAIT_US));
    close(fd);
    site_close(&site);
}

static int is_open_yet(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void idle_connections_keep_nobody_out(void **state)
{
    static const uint64_t never = 0;
    size_t waiting = 0;
    struct site site;
    struct gw_peer *peer, *late;
    struct rlimit files;
    int fd[IDLE];
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    struct gw_member *first = site.guest;
    for (size_t i = 0; i < IDLE; i++) {
        fd[i] = knock(&site);
        if (i % 50 == 0)
            turn_until(&site, &never, 1, 1000);
    }
    /* long before it is too late for them, so many wait as may */
    turn_until(&site, &never, 1, 200000);
    for (size_t i = 0; i < IDLE; i++)
        waiting += (size_t)is_open_yet(fd[i]);
    assert_in_range(waiting, 1, LOGINS_MAX);
    guest_is_well(&site, peer);
    join(&site, &late);
    guest_is_well(&site, late);
    for (size_t i = 0; i < IDLE; i++) {
        if (!is_closed(&site, fd[i]))
            fail_msg("idle connection %zu is kept", i);
        close(fd[i]);
    }
    assert_true(site.lines > 0 && site.lines < 20);
    gw_member_close(first);
    site_close(&site);
}

static uint64_t cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Who cannot be accepted waits; the loop does not go round and round for it. */
static void no_descriptor_left_is_no_reason_to_spin(void **state)
{
    static const uint64_t never = 0;
    struct site site;
    struct gw_peer *peer;
    struct rlimit files, few;
    (void)state;
    site_open(&site);
    join(&site, &peer);
    guest_is_well(&site, peer);
    int fd = knock(&site);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = (rlim_t)fd; /* the lowest that is free is above */
    setrlimit(RLIMIT_NOFILE, &few);
    uint64_t before = cpu_us();
    turn_until(&site, &never, 1, 500000);
    uint64_t spent = cpu_us() - before;
    setrlimit(RLIMIT_NOFILE, &files);
    if (spent > 100000)
        fail_msg("%u us of CPU in half a second", (unsigned)spent);
    assert_non_null(
        strstr(site.line, "cannot accept who connects to 127.0.0.1:"));
    assert_non_null(strstr(site.line, "open files here"));
    assert_true(site.lines < 4);
    guest_is_well(&site, peer);
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
    shutdown(fd, SHUT_WR);
    assert_true(is_closed(&site, fd));
    close(fd);
    site_close(&site);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(junk_is_closed_and_the_guest_stays),
        cmocka_unit_test(bad_frames_cost_the_connection_only),
        cmocka_unit_test(a_message_in_pieces_comes_again),
        cmocka_unit_test(a_slow_frame_is_no_silence),
        cmocka_unit_test(idle_connections_keep_nobody_out),
        cmocka_unit_test(no_descriptor_left_is_no_reason_to_spin),
    };
    return cmocka_run_group_tests_name("tcp hostile", tests, NULL, NULL);
}
