/* How much of a TCP stream is on its way, at sockets of this machine: two
   addresses of it stand for two hosts. */
#include "config.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/table/couple.h"
#include "transport/member/member_state.h"
#include "transport/tcp/tcp.h"

#ifndef SO_BUF_LOCK /* older headers than the kernel */
#define SO_BUF_LOCK 72
#endif

#define KIB       ((size_t)1 << 10)
#define LEAST     (416 * KIB)
#define MOMENT    5000 /* us that are looked at together */
#define AHEAD_S   0.002
#define BOUNDLESS 1e12       /* bytes per second */
#define HERE      0x7f000001 /* 127.0.0.1 */
#define THERE     0x7f000002
#define ATTEMPTS  1000

/* Both ends of a connection, and what its first end may send. */
struct stream {
    int fd, other;
    uint64_t now_us;
    struct gw_tcp_flight flight;
};

/* ---- sockets ---- */

static int option(int fd, int name)
{
    int is = 0;
    socklen_t bytes = sizeof is;
    assert_int_equal(getsockopt(fd, SOL_SOCKET, name, &is, &bytes), 0);
    return is;
}

static int is_bounded(const struct stream *stream)
{
    return option(stream->fd, SO_BUF_LOCK) & 1; /* SOCK_SNDBUF_LOCK */
}

static void assert_control(int fd, const char *name)
{
    char is[16] = "";
    socklen_t bytes = sizeof is - 1;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, is, &bytes),
                     0);
    assert_string_equal(is, name);
}

static struct sockaddr_in at(uint32_t host)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(host)};
}

/* A connection between two addresses, under a congestion control. */
static void connect_once(struct stream *stream, uint32_t from, const char *by)
{
    struct sockaddr_in here = at(from), there = at(HERE);
    socklen_t bytes = sizeof there;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    *stream = (struct stream){.fd = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(door, (struct sockaddr *)&there, bytes), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&there, &bytes), 0);
    assert_int_equal(bind(stream->fd, (struct sockaddr *)&here, bytes), 0);
    if (setsockopt(stream->fd, IPPROTO_TCP, TCP_CONGESTION, by,
                   (socklen_t)strlen(by)) != 0) {
        print_message("no %s here\n", by);
        skip();
    }
    assert_int_equal(connect(stream->fd, (struct sockaddr *)&there, bytes), 0);
    stream->other = accept(door, NULL, NULL);
    close(door);
}

static void disconnect(struct stream *stream)
{
    close(stream->fd);
    close(stream->other);
}

static void needs_buf_lock(int fd)
{
    int lock = 0;
    socklen_t bytes = sizeof lock;
    if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, &bytes) == 0)
        return;
    close(fd);
    print_message("no SO_BUF_LOCK here\n");
    skip();
}

/* The same, where the machine was not busy with something else meanwhile. */
static void begin(struct stream *stream, uint32_t from, const char *by)
{
    int attempts = 1;
    connect_once(stream, from, by);
    needs_buf_lock(stream->fd);
    gw_tcp_flight_begin(&stream->flight, stream->fd);
    for (; from != HERE && !stream->flight.near; attempts++) {
        assert_true(attempts < ATTEMPTS);
        disconnect(stream);
        connect_once(stream, from, by);
        gw_tcp_flight_begin(&stream->flight, stream->fd);
    }
    stream->now_us = MOMENT;
}

static void full(struct stream *stream)
{
    gw_tcp_flight_full(&stream->flight, stream->fd, stream->now_us);
}

/* What leaves a full socket until it is full again, in so many us. */
static void fill(struct stream *stream, size_t bytes, uint64_t us)
{
    if (stream->flight.since_us == 0)
        full(stream);
    gw_tcp_flight_wrote(&stream->flight, bytes);
    stream->now_us += us;
    full(stream);
}

/* What its line takes for so many times, in bytes per second. */
static void carry(struct stream *stream, int moments, double rate)
{
    for (int i = 0; i < moments; i++)
        fill(stream, (size_t)(1e-6 * MOMENT * rate), MOMENT);
}

/* A rate with which a part of what may be asked for is ahead. */
static double rate_of(const struct stream *stream, double part)
{
    return part * (double)stream->flight.most_bytes / AHEAD_S;
}

/* ---- tests ---- */

static void room_is_what_a_line_carries_in_two_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(gw_tcp_flight_room(0), LEAST);
    assert_int_equal(gw_tcp_flight_room(125e6), LEAST + 250000);
}

static void streams_within_a_host_are_the_kernels(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, HERE, "reno");
    int before = option(stream.fd, SO_SNDBUF);
    carry(&stream, 10, 1e6);
    assert_int_equal(option(stream.fd, SO_SNDBUF), before);
    assert_false(is_bounded(&stream));
    disconnect(&stream);
}

static void streams_that_were_not_timed_are_the_kernels(void **state)
{
    (void)state;
    struct stream stream = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    needs_buf_lock(stream.fd);
    int before = option(stream.fd, SO_SNDBUF);
    gw_tcp_flight_begin(&stream.flight, stream.fd);
    carry(&stream, 10, 1e6);
    assert_int_equal(option(stream.fd, SO_SNDBUF), before);
    assert_false(is_bounded(&stream));
    close(stream.fd);
}

static void near_streams_are_bounded_by_their_rate(void **state)
{
    (void)state;
    struct stream stream;
    const double rate = 1e9;
    const size_t ahead = (size_t)(AHEAD_S * rate);
    begin(&stream, THERE, "reno");
    assert_true(is_bounded(&stream));
    assert_in_range(option(stream.fd, SO_SNDBUF), 1, LEAST);
    carry(&stream, 1, rate);
    if (stream.flight.most_bytes < LEAST + ahead) {
        disconnect(&stream);
        print_message("net.core.wmem_max is too little\n");
        skip();
    }
    assert_int_equal(option(stream.fd, SO_SNDBUF), LEAST + ahead);
    carry(&stream, 1, rate / 2); /* a slow moment counts little */
    assert_in_range(option(stream.fd, SO_SNDBUF), LEAST + ahead / 100 * 98,
                    LEAST + ahead / 100 * 99);
    carry(&stream, 300, rate / 2);
    assert_in_range(option(stream.fd, SO_SNDBUF), LEAST + ahead / 2,
                    LEAST + ahead / 100 * 51);
    disconnect(&stream);
}

static void a_rate_is_of_what_left_a_full_socket(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "reno");
    fill(&stream, 1000 * KIB, MOMENT / 2); /* not long enough by itself */
    assert_true(stream.flight.bytes_per_s == 0);
    fill(&stream, 1000 * KIB, MOMENT / 2);
    double rate = stream.flight.bytes_per_s;
    assert_in_range((size_t)rate, 409599999, 409600000);
    fill(&stream, 1, 1000000); /* a pause */
    assert_true(stream.flight.bytes_per_s == rate);
    disconnect(&stream);
}

static void what_comes_in_pieces_has_a_rate(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "reno");
    for (int i = 0; i < 2; i++) {
        assert_true(stream.flight.bytes_per_s == 0);
        gw_tcp_flight_wrote(&stream.flight, 1000000 * KIB); /* fills it */
        full(&stream);
        fill(&stream, 1500 * KIB, MOMENT / 2);
        gw_tcp_flight_wrote(&stream.flight, 10 * KIB);
        gw_tcp_flight_done(&stream.flight);
        stream.now_us += 50000;
    }
    assert_in_range((size_t)stream.flight.bytes_per_s, 614399999, 614400000);
    disconnect(&stream);
}

static void what_a_larger_socket_takes_has_not_left_it(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "reno");
    carry(&stream, 1, 1e6);
    size_t had = stream.flight.bound_bytes;
    carry(&stream, 1, 1e8);
    assert_int_equal(stream.flight.since_us == 0,
                     stream.flight.bound_bytes > had);
    carry(&stream, 1, 1e8);
    assert_true(stream.flight.since_us != 0);
    disconnect(&stream);
}

/* Shows what may be asked for. */
static void ask_for_all(struct stream *stream)
{
    while (stream->flight.most_bytes == INT_MAX)
        carry(stream, 1, BOUNDLESS);
}

static void the_fastest_are_left_to_the_kernel(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "reno");
    ask_for_all(&stream);
    assert_int_equal(option(stream.fd, SO_SNDBUF), stream.flight.most_bytes);
    stream.flight.kernel_bytes = 2 * stream.flight.most_bytes;
    carry(&stream, 1, BOUNDLESS);
    assert_false(is_bounded(&stream));
    carry(&stream, 1000, rate_of(&stream, 0.8));
    assert_false(is_bounded(&stream));
    carry(&stream, 300, rate_of(&stream, 0.7));
    assert_true(is_bounded(&stream));
    carry(&stream, 1, rate_of(&stream, 0.95));
    assert_true(is_bounded(&stream));
    carry(&stream, 1, rate_of(&stream, 1.05));
    assert_false(is_bounded(&stream));
    disconnect(&stream);
}

static void a_kernel_that_gives_less_is_no_help(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "reno");
    assert_true(stream.flight.kernel_bytes > 0);
    ask_for_all(&stream);
    stream.flight.kernel_bytes = stream.flight.most_bytes;
    carry(&stream, 1, BOUNDLESS);
    assert_true(is_bounded(&stream));
    assert_int_equal(option(stream.fd, SO_SNDBUF), stream.flight.most_bytes);
    disconnect(&stream);
}

static void bbr_is_put_aside_while_there_is_a_bound(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "bbr");
    assert_control(stream.fd, "reno");
    ask_for_all(&stream);
    assert_control(stream.fd, "reno");
    stream.flight.kernel_bytes = 2 * stream.flight.most_bytes;
    carry(&stream, 1, BOUNDLESS);
    assert_control(stream.fd, "bbr");
    carry(&stream, 1000, 1e6);
    assert_control(stream.fd, "reno");
    disconnect(&stream);
}

static struct gw_tcp_link *link_of(const struct gw_peer *peer)
{
    return gw_tcp_link_of(peer->link[0].link);
}

static int b_is_blocked(void *owner)
{
    const struct couple *couple = owner;
    return link_of(couple->b.peer)->out.blocked;
}

static int a_is_told(void *owner)
{
    const struct couple *couple = owner;
    return couple->a.messages == couple->wanted &&
           !link_of(couple->b.peer)->out.blocked;
}

/* Up, between two addresses. */
static struct couple *two_hosts(void)
{
    struct gw_error error;
    struct couple *couple = couple_new("tcp");
    gw_member_close(couple->a.member);
    side_open(couple, &couple->a, 0, GW_ROLE_COORDINATOR);
    assert_int_equal(gw_member_listen(couple->a.member, "127.0.0.2:0", &error),
                     GW_OK);
    dial(couple, 0, 1);
    world_run(&couple->world, all_up, couple);
    needs_buf_lock(link_of(couple->a.peer)->fd);
    return couple;
}

static void links_watch_their_streams(void **state)
{
    (void)state;
    struct couple *couple = two_hosts();
    const struct gw_tcp_link *a = link_of(couple->a.peer);
    struct gw_tcp_link *b = link_of(couple->b.peer);
    struct gw_message message = {.kind = GW_MESSAGE_STORED};
    int little = 16 << 10;
    assert_true(a->flight.most_bytes > 0);
    assert_true(b->flight.most_bytes > 0);
    /* holds less than what is told, and is not given more */
    b->flight.most_bytes = 1;
    b->flight.kernel_bytes = 0;
    setsockopt(b->fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    setsockopt(a->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    while (gw_peer_tell(couple->b.peer, &message) == GW_OK)
        message.stored.clock = ++couple->wanted;
    world_run(&couple->world, b_is_blocked, couple);
    assert_true(b->flight.since_us > 0);
    world_run(&couple->world, a_is_told, couple);
    assert_int_equal(couple->b.downs, 0);
    assert_true(b->flight.written > 0);
    assert_int_equal(b->flight.since_us, 0);
    couple_free(couple);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_what_a_line_carries_in_two_milliseconds),
        cmocka_unit_test(streams_within_a_host_are_the_kernels),
        cmocka_unit_test(streams_that_were_not_timed_are_the_kernels),
        cmocka_unit_test(near_streams_are_bounded_by_their_rate),
        cmocka_unit_test(a_rate_is_of_what_left_a_full_socket),
        cmocka_unit_test(what_comes_in_pieces_has_a_rate),
        cmocka_unit_test(what_a_larger_socket_takes_has_not_left_it),
        cmocka_unit_test(the_fastest_are_left_to_the_kernel),
        cmocka_unit_test(a_kernel_that_gives_less_is_no_help),
        cmocka_unit_test(bbr_is_put_aside_while_there_is_a_bound),
        cmocka_unit_test(links_watch_their_streams),
    };
    return cmocka_run_group_tests_name("tcp flight", tests, NULL, NULL);
}
