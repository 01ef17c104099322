/*
 * Junk on a listening tcp port: random bytes, other protocols, broken logins,
 * hundreds of connections that say nothing. A member that is there stays there,
 * one that comes gets in, and lines are few.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/random.h"
#include "tests/unit/tcp_site.h"

#define IDLE 500

/* That wait for their login at one port, as PROTOCOL.md has it. */
#define LOGINS_MAX 64

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

static int is_open_yet(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void idle_connections_keep_nobody_out(void **state)
{
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
            turn_for(&site, 1000);
    }
    /* long before it is too late for them, so many wait as may */
    turn_for(&site, 200000);
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
    turn_for(&site, 500000);
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
        cmocka_unit_test(idle_connections_keep_nobody_out),
        cmocka_unit_test(no_descriptor_left_is_no_reason_to_spin),
    };
    return cmocka_run_group_tests_name("tcp hostile", tests, NULL, NULL);
}
