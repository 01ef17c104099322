/* How much of a TCP stream is on its way, at sockets of this machine: two
   addresses of it stand for two hosts. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/tcp_flight.h"

#ifndef SO_BUF_LOCK /* older headers than the kernel */
#define SO_BUF_LOCK 72
#endif

#define KIB      ((size_t)1 << 10)
#define LEAST    (416 * KIB)
#define MOMENT   20000 /* us that are looked at together */
#define NEAR_US  1000
#define HERE     0x7f000001 /* 127.0.0.1 */
#define THERE    0x7f000002
#define ATTEMPTS 1000

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

static int is_near(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    return info.tcpi_min_rtt <= NEAR_US;
}

/* The same, where the machine was not busy with something else meanwhile. */
static void begin(struct stream *stream, uint32_t from, const char *by)
{
    int attempts = 1;
    connect_once(stream, from, by);
    for (; attempts < ATTEMPTS && !is_near(stream->fd); attempts++) {
        disconnect(stream);
        connect_once(stream, from, by);
    }
    int lock = 0;
    socklen_t bytes = sizeof lock;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_BUF_LOCK, &lock, &bytes) != 0 ||
        attempts == ATTEMPTS) {
        disconnect(stream);
        print_message("no SO_BUF_LOCK, or never idle\n");
        skip();
    }
    gw_tcp_flight_begin(&stream->flight, stream->fd);
}

/* What its line takes for so many times, in bytes per second. */
static void carry(struct stream *stream, int moments, double rate)
{
    for (int i = 0; i < moments; i++) {
        stream->now_us += MOMENT;
        stream->flight.full = 1;
        gw_tcp_flight_wrote(&stream->flight, stream->fd,
                            (size_t)(1e-6 * MOMENT * rate), stream->now_us);
    }
}

/* A rate that needs so many quarters of what may be asked for. */
static double rate_of(const struct stream *stream, double quarters)
{
    double room = quarters / 4 * (double)stream->flight.may;
    return (room - (double)LEAST) / 0.002;
}

/* ---- tests ---- */

static void room_is_what_a_line_carries_in_two_milliseconds(void **state)
{
    (void)state;
    assert_int_equal(gw_tcp_flight_room(0, 50), LEAST);
    assert_int_equal(gw_tcp_flight_room(125e6, 50), LEAST + 250000);
    assert_int_equal(gw_tcp_flight_room(125e6, NEAR_US), LEAST + 250000);
    assert_int_equal(gw_tcp_flight_room(125e6, NEAR_US + 1), 0);
    assert_int_equal(gw_tcp_flight_room(125e6, UINT32_MAX), 0);
}

static void streams_within_a_host_are_the_kernels(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, HERE, "cubic");
    int before = option(stream.fd, SO_SNDBUF);
    carry(&stream, 10, 1e6);
    assert_int_equal(option(stream.fd, SO_SNDBUF), before);
    assert_false(is_bounded(&stream));
    assert_control(stream.fd, "cubic");
    disconnect(&stream);
}

static void near_streams_are_bounded_by_their_rate(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "cubic");
    assert_true(is_bounded(&stream));
    assert_int_equal(option(stream.fd, SO_SNDBUF), LEAST);
    double rate = rate_of(&stream, 3);
    if (rate < 0)
        rate = 0; /* net.core.wmem_max is no more than what all have */
    carry(&stream, 1, rate);
    assert_in_range(option(stream.fd, SO_SNDBUF),
                    (size_t)(0.002 * rate) + LEAST - 4,
                    (size_t)(0.002 * rate) + LEAST);
    carry(&stream, 1, rate / 2); /* for now */
    assert_in_range(option(stream.fd, SO_SNDBUF),
                    (size_t)(0.0018 * rate) + LEAST,
                    (size_t)(0.002 * rate) + LEAST);
    assert_control(stream.fd, "cubic");
    disconnect(&stream);
}

static void what_no_line_held_up_says_nothing(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "cubic");
    carry(&stream, 1, 1e6);
    double rate = stream.flight.rate;
    for (int i = 0; i < 10; i++)
        gw_tcp_flight_wrote(&stream.flight, stream.fd, 1000 * KIB,
                            stream.now_us += MOMENT);
    /* it was full, but long after it had begun */
    stream.flight.full = 1;
    gw_tcp_flight_wrote(&stream.flight, stream.fd, 1000 * KIB,
                        stream.now_us += 1000000);
    assert_true(stream.flight.rate == rate);
    carry(&stream, 1, 2e6);
    assert_true(stream.flight.rate > 1.99e6);
    disconnect(&stream);
}

static void the_fastest_are_left_to_the_kernel(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "cubic");
    carry(&stream, 1, rate_of(&stream, 5.5));
    assert_true(is_bounded(&stream));
    assert_int_equal(option(stream.fd, SO_SNDBUF), stream.flight.may);
    carry(&stream, 1, rate_of(&stream, 6.5));
    assert_false(is_bounded(&stream));
    carry(&stream, 100, rate_of(&stream, 5.5));
    assert_false(is_bounded(&stream));
    carry(&stream, 100, rate_of(&stream, 4.5));
    assert_true(is_bounded(&stream));
    disconnect(&stream);
}

static void bbr_is_put_aside_while_there_is_a_bound(void **state)
{
    (void)state;
    struct stream stream;
    begin(&stream, THERE, "bbr");
    assert_control(stream.fd, "reno");
    carry(&stream, 1, rate_of(&stream, 7));
    assert_control(stream.fd, "bbr");
    carry(&stream, 100, 1e6);
    assert_control(stream.fd, "reno");
    disconnect(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_is_what_a_line_carries_in_two_milliseconds),
        cmocka_unit_test(streams_within_a_host_are_the_kernels),
        cmocka_unit_test(near_streams_are_bounded_by_their_rate),
        cmocka_unit_test(what_no_line_held_up_says_nothing),
        cmocka_unit_test(the_fastest_are_left_to_the_kernel),
        cmocka_unit_test(bbr_is_put_aside_while_there_is_a_bound),
    };
    return cmocka_run_group_tests_name("tcp flight", tests, NULL, NULL);
}
