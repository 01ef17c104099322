/* proto/log: the line to the byte, dates, cutting, limits, threads. */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "proto/log.h"

#define SECOND 1000000u

/* What the sink got and what the clock says. */
struct world {
    uint64_t now_us;
    unsigned lines;
    size_t bytes;
    char text[1 << 16];
};

static uint64_t clock_now(void *clock)
{
    return ((struct world *)clock)->now_us;
}

static void keep(void *context, const char *line, size_t bytes)
{
    struct world *world = context;
    assert_int_equal(line[bytes - 1], '\n');
    assert_true(bytes <= GW_LOG_LINE_BYTES);
    assert_true(world->bytes + bytes < sizeof world->text);
    memcpy(world->text + world->bytes, line, bytes);
    world->bytes += bytes;
    world->text[world->bytes] = '\0';
    world->lines++;
}

static struct world world;
static struct gw_log lines; /* into `world` */

static int begin(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.now_us = 1795178096123456u; /* date -u -d '2026-11-20 12:34:56' +%s */
    struct gw_log fresh = {.level = GW_LOG_INFO,
                           .rank = 3,
                           .role = "worker",
                           .name = "b7:4711",
                           .now_us = clock_now,
                           .clock = &world,
                           .sink = keep,
                           .context = &world};
    memcpy(&lines, &fresh, sizeof lines);
    return 0;
}

static void the_line_to_the_byte(void **state)
{
    (void)state;
    gw_log_info(&lines, "text %d", 5);
    assert_string_equal(world.text,
                        "2026-11-20T12:34:56.123Z worker 3 info text 5\n");
    lines.rank = -1;
    world.bytes = 0;
    gw_log_error(&lines, "text");
    assert_string_equal(world.text,
                        "2026-11-20T12:34:56.123Z worker b7:4711 error text\n");
    lines.name = NULL;
    world.bytes = 0;
    gw_log_warn(&lines, "text");
    assert_string_equal(world.text,
                        "2026-11-20T12:34:56.123Z worker warn text\n");
}

static void levels(void **state)
{
    (void)state;
    static const char *const words[] = {"error", "warn", "info", "debug",
                                        "trace"};
    for (int level = GW_LOG_ERROR; level <= GW_LOG_TRACE; level++) {
        enum gw_log_level found;
        assert_int_equal(gw_log_level_find(words[level], &found), 1);
        assert_int_equal(found, level);
        lines.level = level;
        world.lines = 0;
        gw_log_error(&lines, "x");
        gw_log_warn(&lines, "x");
        gw_log_info(&lines, "x");
        gw_log_debug(&lines, "x");
        gw_log_trace(&lines, "x");
        assert_int_equal(world.lines, level + 1);
    }
    enum gw_log_level found;
    assert_int_equal(gw_log_level_find("loud", &found), 0);
    gw_log_error(NULL, "nobody hears %d", 1);
}

/* The C library's calendar is the truth, over all of its leap years. */
static void dates(void **state)
{
    (void)state;
    for (uint64_t day = 0; day < 2932896; day++) { /* to 9999-12-31 */
        if (day > 60000 && day % 97 != 0)
            continue;
        time_t seconds = (time_t)(day * 86400 + day % 86400);
        struct tm tm;
        char expected[64];
        world.now_us = (uint64_t)seconds * SECOND;
        world.bytes = 0;
        assert_non_null(gmtime_r(&seconds, &tm));
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.000Z worker 3 ",
                 &tm);
        gw_log_error(&lines, "x");
        assert_memory_equal(world.text, expected, strlen(expected));
    }
    world.bytes = 0;
    world.now_us = UINT64_MAX;
    gw_log_error(&lines, "x");
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char text[2 * GW_LOG_LINE_BYTES];
    const size_t head = strlen("2026-11-20T12:34:56.123Z worker 3 info ");
    for (size_t bytes = GW_LOG_LINE_BYTES - head - 5; bytes < sizeof text;
         bytes++) {
        memset(text, 'x', bytes);
        text[bytes] = '\0';
        world.bytes = 0;
        gw_log_info(&lines, "%s", text);
        if (head + bytes + 2 <= GW_LOG_LINE_BYTES) {
            assert_int_equal(world.bytes, head + bytes + 1);
            assert_int_equal(world.text[world.bytes - 2], 'x');
        } else {
            assert_int_equal(world.bytes, GW_LOG_LINE_BYTES - 1);
            assert_memory_equal(world.text + world.bytes - 5, "x...\n", 5);
        }
    }
}

static void nobody_forges_lines(void **state)
{
    (void)state;
    gw_log_info(&lines, "peer says \"%s\"", "a\nb\r\x1b[2J\x7f\t\xc3\xa9");
    assert_string_equal(world.text,
                        "2026-11-20T12:34:56.123Z worker 3 info peer says "
                        "\"a?b??[2J??\xc3\xa9\"\n");
}

static void limits(void **state)
{
    (void)state;
    struct gw_log_limit limit = {.per_second = 3};
    for (int i = 0; i < 10; i++)
        gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk %d", i);
    assert_int_equal(world.lines, 3);
    assert_int_equal(limit.suppressed, 7);

    world.now_us += SECOND / 3;
    world.bytes = 0;
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk");
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "more junk");
    assert_string_equal(world.text,
                        "2026-11-20T12:34:56.456Z worker 3 warn suppressed 7 "
                        "similar lines\n2026-11-20T12:34:56.456Z worker 3 warn "
                        "junk\n");

    world.now_us += 100ull * SECOND; /* saves up one second's worth, no more */
    world.lines = 0;
    for (int i = 0; i < 10; i++)
        gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk %d", i);
    assert_int_equal(world.lines, 1 + 3);
    world.now_us -= 50ull * SECOND; /* a clock that was set back */
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk");
    assert_int_equal(world.lines, 1 + 3);
    world.now_us += SECOND / 2;
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk");
    assert_int_equal(world.lines, 1 + 3 + 2);
}

static void lines_below_the_level_are_not_counted(void **state)
{
    (void)state;
    struct gw_log_limit limit = {.per_second = 1};
    gw_log_limited(&lines, &limit, GW_LOG_DEBUG, "not written, not counted");
    gw_log_limited(NULL, &limit, GW_LOG_WARN, "neither");
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "a");
    assert_int_equal(world.lines, 1);
    assert_int_equal(limit.suppressed, 0);
    gw_log_limited(&lines, &limit, GW_LOG_WARN, "b");
    assert_int_equal(world.lines, 1);
    assert_int_equal(limit.suppressed, 1);
}

/* A second of a flood: the rate holds over time, not only at once. */
static void limits_hold_their_rate(void **state)
{
    (void)state;
    struct gw_log_limit limit = {.per_second = 50};
    unsigned junk = 0;
    for (int ms = 0; ms < 10000; ms++) {
        world.now_us += 1000;
        world.bytes = 0;
        gw_log_limited(&lines, &limit, GW_LOG_WARN, "junk");
        junk += strstr(world.text, "junk\n") != NULL;
        world.text[0] = '\0';
    }
    assert_in_range(junk, 545, 551); /* 50 at once, then 50 a second */
}

struct writer {
    int fd;
    struct gw_log log;
};

static void write_fd(void *context, const char *line, size_t bytes)
{
    struct writer *writer = context;
    assert_int_equal(write(writer->fd, line, bytes), (ssize_t)bytes);
}

#define WRITERS 4
#define WRITTEN 300

static void *write_many(void *argument)
{
    struct writer *writer = argument;
    for (int i = 0; i < WRITTEN; i++)
        gw_log_info(&writer->log, "%0*d", 20 + i % 40, i);
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    (void)state;
    int ends[2];
    static struct writer writer;
    pthread_t threads[WRITERS];
    FILE *from;
    assert_int_equal(pipe(ends), 0);
    writer.fd = ends[1];
    memcpy(&writer.log, &lines, sizeof lines);
    writer.log.sink = write_fd;
    writer.log.context = &writer;
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &writer),
                         0);

    char line[GW_LOG_LINE_BYTES];
    from = fdopen(ends[0], "r");
    assert_non_null(from);
    for (int i = 0; i < WRITERS * WRITTEN; i++) {
        int digits = 0, number = -1;
        assert_non_null(fgets(line, sizeof line, from));
        assert_int_equal(sscanf(line,
                                "2026-11-20T12:34:56.123Z worker 3 info "
                                "%n%d",
                                &digits, &number),
                         1);
        assert_int_equal(strlen(line + digits), 20 + number % 40 + 1);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    fclose(from);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_line_to_the_byte, begin),
        cmocka_unit_test_setup(levels, begin),
        cmocka_unit_test_setup(dates, begin),
        cmocka_unit_test_setup(long_lines_are_cut, begin),
        cmocka_unit_test_setup(nobody_forges_lines, begin),
        cmocka_unit_test_setup(limits, begin),
        cmocka_unit_test_setup(lines_below_the_level_are_not_counted, begin),
        cmocka_unit_test_setup(limits_hold_their_rate, begin),
        cmocka_unit_test_setup(threads_do_not_mix_lines, begin),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
