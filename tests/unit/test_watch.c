/* cli/watch: the launcher's words, and signals, which may be the same wish. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/watch.h"

#define WAIT_MS 10000

/* How often each was heard. */
struct heard {
    atomic_int stops, hurries, lines;
    atomic_int number; /* of the signal that was heard */
};

static void on_stop(void *owner, const char *why, int number)
{
    struct heard *heard = owner;
    (void)why;
    atomic_store(&heard->number, number);
    atomic_fetch_add(&heard->stops, 1);
}

static int on_hurry(void *owner)
{
    struct heard *heard = owner;
    atomic_fetch_add(&heard->hurries, 1);
    return 1;
}

static void on_line(void *owner, const char *line)
{
    struct heard *heard = owner;
    (void)line;
    atomic_fetch_add(&heard->lines, 1);
}

static void ignore(void *owner)
{
    (void)owner;
}

static const struct gw_watch_events events = {
    .stop = on_stop,
    .hurry = on_hurry,
    .orphaned = ignore,
    .line = on_line,
    .tick = ignore,
    .exits = ignore,
};

static struct gw_watch *watch_open(struct heard *heard, int parent_fd)
{
    struct gw_watch *watch;
    struct gw_error error;
    const struct gw_watch_options options = {.name = "test",
                                             .parent_fd = parent_fd,
                                             .log = NULL,
                                             .events = &events,
                                             .owner = heard};
    assert_int_equal(gw_watch_open(&options, &watch, &error), GW_OK);
    return watch;
}

static void await(const atomic_int *count, int n)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    for (int ms = 0; atomic_load(count) < n && ms < WAIT_MS; ms++)
        nanosleep(&nap, NULL);
    assert_int_equal(atomic_load(count), n);
}

static void say(int end, const char *words)
{
    assert_int_equal(write(end, words, strlen(words)), strlen(words));
}

/* It says so once, by its own count of time, however soon that is here. */
static void the_launcher_is_taken_at_its_word(void **state)
{
    struct heard heard = {.number = -1};
    int end[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
    struct gw_watch *watch = watch_open(&heard, end[0]);
    say(end[1], "stop Interrupt\nhurry\nhurry\nstep\n");
    await(&heard.lines, 1);
    assert_int_equal(atomic_load(&heard.stops), 1);
    assert_int_equal(atomic_load(&heard.hurries), 1);
    assert_int_equal(atomic_load(&heard.number), 0);
    gw_watch_close(watch);
    close(end[1]);
}

/* A terminal's signal comes to this process and by the launcher's word. */
static void a_signal_that_the_launcher_tells_too_is_one_wish(void **state)
{
    struct heard heard = {.number = -1};
    int end[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
    struct gw_watch *watch = watch_open(&heard, end[0]);
    kill(getpid(), SIGTERM);
    await(&heard.stops, 1);
    assert_int_equal(atomic_load(&heard.number), SIGTERM);
    say(end[1], "stop Terminated\nstep\n");
    await(&heard.lines, 1);
    assert_int_equal(atomic_load(&heard.stops), 1);
    assert_int_equal(atomic_load(&heard.hurries), 0);
    gw_watch_close(watch);
    close(end[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_launcher_is_taken_at_its_word),
        cmocka_unit_test(a_signal_that_the_launcher_tells_too_is_one_wish),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
