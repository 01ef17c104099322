/* cli/child: a process begins without handlers, with the signals that it should
   wait for, and ends with the one that made it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli/child.h"

static void nobody_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void handler(int number)
{
    (void)number;
}

/* The exit code is the question that was answered with no. */
static void look_at_signals(void *owner)
{
    struct sigaction had;
    sigset_t blocked;
    (void)owner;
    sigaction(SIGTERM, NULL, &had);
    if (had.sa_handler != SIG_DFL)
        _exit(1);
    sigaction(SIGHUP, NULL, &had);
    if (had.sa_handler != SIG_IGN)
        _exit(2);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGUSR1) || sigismember(&blocked, SIGTERM))
        _exit(3);
    /* signals pending before the fork are not the child's */
    sigpending(&blocked);
    if (sigismember(&blocked, SIGUSR1))
        _exit(4);
}

static void handlers_are_not_inherited(void **state)
{
    const struct gw_child child = {.name = "a child"};
    struct gw_error error;
    pid_t pid;
    sigset_t one;
    (void)state;
    signal(SIGTERM, handler);
    signal(SIGHUP, SIG_IGN);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    assert_int_equal(gw_child_fork(&child, look_at_signals, NULL, &pid, &error),
                     GW_OK);
    int status = gw_child_wait(pid);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    nobody_is_left();
}

static void sleep_for_long(void *owner)
{
    (void)owner;
    sleep(60);
}

/* It holds the pipe's end until it dies. */
static void make_and_die(void *owner)
{
    const struct gw_child child = {.name = "one", .dies_by = SIGKILL};
    struct gw_error error;
    pid_t pid;
    (void)owner;
    _exit(gw_child_fork(&child, sleep_for_long, NULL, &pid, &error) != GW_OK);
}

static void dies_with_who_made_it(void **state)
{
    const struct gw_child child = {.name = "a child"};
    struct gw_error error;
    int ends[2];
    char byte;
    pid_t pid;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(gw_child_fork(&child, make_and_die, NULL, &pid, &error),
                     GW_OK);
    close(ends[1]);
    time_t began = time(NULL);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    assert_true(time(NULL) - began < 30);
    close(ends[0]);
    assert_int_equal(gw_child_wait(pid), 0);
    nobody_is_left();
}

/* ---- programs ---- */

/* The words of a program that is begun like that. */
static int run_program(const struct gw_child_program *like,
                       const char *const *arguments,
                       char *said,
                       size_t room)
{
    const struct gw_child child = {.name = "a program"};
    struct gw_child_program program = *like;
    struct gw_error error;
    int ends[2];
    pid_t pid;
    size_t got = 0;
    ssize_t n;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    program.file = arguments[0];
    program.arguments = arguments;
    program.fd[1] = ends[1];
    assert_int_equal(gw_child_start(&child, &program, &pid, &error), GW_OK);
    close(ends[1]);
    while ((n = read(ends[0], said + got, room - 1 - got)) > 0)
        got += (size_t)n;
    said[got] = '\0';
    close(ends[0]);
    return gw_child_wait(pid);
}

static uint64_t blocked_in(int of_job)
{
    const struct gw_child_program like = {.fd = {-1, -1, 2, -1, -1},
                                          .of_job = of_job};
    static const char *const cat[] = {"cat", "/proc/self/status", NULL};
    char said[4096];
    assert_int_equal(run_program(&like, cat, said, sizeof said), 0);
    const char *line = strstr(said, "SigBlk:");
    assert_non_null(line);
    return strtoull(line + 7, NULL, 16);
}

static void programs_of_a_job_begin_with_signals_held(void **state)
{
    sigset_t one;
    (void)state;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2); /* ours, and of no concern to others */
    sigprocmask(SIG_BLOCK, &one, NULL);
    assert_int_equal(blocked_in(0), 0);
    assert_int_equal(blocked_in(1), 1U << (SIGHUP - 1) | 1U << (SIGINT - 1) |
                                        1U << (SIGTERM - 1));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

/* Each descriptor gets its number, also when another one had that number. */
static void descriptors_are_where_they_should_be(void **state)
{
    static const char *const shell[] = {
        "sh", "-c", "readlink /proc/self/fd/0 /proc/self/fd/2; cat <&3; pwd",
        NULL};
    struct gw_child_program like = {.directory = "/"};
    char said[256];
    int ends[2];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "deep", 4), 4);
    close(ends[1]);
    int third = dup2(ends[0], 0); /* the future 3 is 0 */
    like.fd[0] = like.fd[2] = -1;
    like.fd[3] = third;
    like.fd[4] = -1;
    assert_int_equal(run_program(&like, shell, said, sizeof said), 0);
    assert_string_equal(said, "/dev/null\n/dev/null\ndeep/\n");
    close(ends[0]);
    nobody_is_left();
}

/* Variables of the program take the place of this process's. */
static void a_program_has_variables_of_its_own(void **state)
{
    static const char *const shell[] = {
        "sh", "-c", "echo $GW_OWN,$GW_OTHER,$GW_KEPT", NULL};
    static const char *const own[] = {"GW_OWN=1", "GW_OTHER=a b", NULL};
    const struct gw_child_program like = {.fd = {-1, -1, 2, -1, -1},
                                          .environment = own};
    char said[64];
    (void)state;
    setenv("GW_OTHER", "before", 1);
    setenv("GW_KEPT", "kept", 1);
    assert_int_equal(run_program(&like, shell, said, sizeof said), 0);
    assert_string_equal(said, "1,a b,kept\n");
    assert_string_equal(getenv("GW_OTHER"), "before");
    nobody_is_left();
}

static void who_is_not_there_is_told(void **state)
{
    const struct gw_child child = {.name = "nobody"};
    const char *const arguments[] = {"no-such-program", NULL};
    struct gw_child_program program = {.file = arguments[0],
                                       .arguments = arguments,
                                       .fd = {-1, -1, -1, -1, -1}};
    struct gw_error error;
    pid_t pid;
    (void)state;
    assert_int_equal(gw_child_start(&child, &program, &pid, &error), GW_ENOENT);
    assert_string_equal(error.text,
                        "cannot start nobody: No such file or directory");
    program.file = "/";
    assert_int_equal(gw_child_start(&child, &program, &pid, &error), GW_EIO);
    nobody_is_left();
}

/* ---- ends ---- */

static void says_how_it_ended(void **state)
{
    char how[GW_CHILD_HOW_BYTES];
    uint64_t kills = gw_child_kills();
    (void)state;
    assert_string_equal(gw_child_how(3 << 8, kills, how), "exit code 3");
    assert_string_equal(gw_child_how(SIGTERM, kills, how),
                        "killed by signal 15 (Terminated)");
    assert_string_equal(gw_child_how(SIGKILL, UINT64_MAX, how),
                        "killed by signal 9 (Killed)");
    if (kills > 0)
        assert_string_equal(gw_child_how(SIGKILL, kills - 1, how),
                            "killed by signal 9 (Killed): the kernel did that "
                            "for want of memory");
    assert_non_null(strstr(gw_child_how(SIGBUS, kills, how), "memory that"));
    assert_non_null(strstr(gw_child_how(SIGABRT, kills, how), "last lines"));
    assert_non_null(strstr(gw_child_how(SIGSEGV, kills, how), "a fault in"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_are_not_inherited),
        cmocka_unit_test(dies_with_who_made_it),
        cmocka_unit_test(programs_of_a_job_begin_with_signals_held),
        cmocka_unit_test(descriptors_are_where_they_should_be),
        cmocka_unit_test(a_program_has_variables_of_its_own),
        cmocka_unit_test(who_is_not_there_is_told),
        cmocka_unit_test(says_how_it_ended),
    };
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
