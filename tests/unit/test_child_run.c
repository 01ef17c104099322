/* cli/child_run: the result of a function that runs in a child process. */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/child_run.h"

static enum gw_status speak(const void *owner, struct gw_error *said)
{
    const int *number = owner;
    if (*number == 0)
        return GW_OK;
    return gw_fail(said, GW_ENOMEM, "number %d", *number);
}

static enum gw_status die(const void *owner, struct gw_error *said)
{
    (void)owner, (void)said;
    abort();
}

static enum gw_status hang(const void *owner, struct gw_error *said)
{
    (void)owner, (void)said;
    while (pause() != 0)
        continue;
    return GW_OK;
}

static void nobody_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void what_it_says_is_said_here(void **state)
{
    struct gw_error said = {.text = ""};
    int number = 0;
    (void)state;
    assert_int_equal(gw_child_run(speak, &number, 30, &said), GW_OK);
    assert_string_equal(said.text, "");
    number = 7;
    assert_int_equal(gw_child_run(speak, &number, 30, &said), GW_ENOMEM);
    assert_int_equal(said.status, GW_ENOMEM);
    assert_string_equal(said.text, "number 7");
    nobody_is_left();
}

static void who_dies_is_told(void **state)
{
    struct gw_error said = {.text = ""};
    (void)state;
    assert_int_equal(gw_child_run(die, NULL, 30, &said), GW_EABORTED);
    assert_non_null(strstr(said.text, "a process of ours died: killed by "
                                      "signal 6 (Aborted)"));
    nobody_is_left();
}

static void handler(int number)
{
    (void)number;
}

static enum gw_status look_at_handler(const void *owner, struct gw_error *said)
{
    struct sigaction had;
    (void)owner;
    sigaction(SIGTERM, NULL, &had);
    return had.sa_handler == SIG_DFL ? GW_OK
                                     : gw_fail(said, GW_EINVAL, "it is there");
}

/* One of a loop's takes a lock that the loop's process shares with it. */
static void no_handler_comes_along(void **state)
{
    struct gw_error said = {.text = ""};
    (void)state;
    signal(SIGTERM, handler);
    assert_int_equal(gw_child_run(look_at_handler, NULL, 30, &said), GW_OK);
    signal(SIGTERM, SIG_DFL);
    nobody_is_left();
}

/* As a driver may, for ever. */
static void who_hangs_is_not_waited_for(void **state)
{
    struct gw_error said = {.text = ""};
    time_t begin = time(NULL);
    (void)state;
    assert_int_equal(gw_child_run(hang, NULL, 1, &said), GW_ETIMEOUT);
    assert_string_equal(said.text, "no answer for 1 s");
    assert_true(time(NULL) - begin < 20);
    nobody_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_is_said_here),
        cmocka_unit_test(who_dies_is_told),
        cmocka_unit_test(no_handler_comes_along),
        cmocka_unit_test(who_hangs_is_not_waited_for),
    };
    return cmocka_run_group_tests_name("child_run", tests, NULL, NULL);
}
