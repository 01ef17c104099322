/*
 * gradweir program: between a launcher and one program of the user's. Both are
 * in one process group, which nothing outlives: the group ends with the
 * program, with this process, and with the launcher. Only launchers start it,
 * so it is in no list of commands.
 */
#include "config.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/lines.h"
#include "cli/log_file.h"
#include "cli/options.h"
#include "cli/parent.h"
#include "transport/link/limits.h"

#define QUESTION_MS 100 /* a line that does not go on may be a question */

enum {
    OUT,
    ERR,
    LAUNCHER,
    CHILD,
    SOURCES
};

struct program {
    uint32_t rank;
    int is_one_of_many; /* its lines say the rank */
    int is_asking;      /* a person at a terminal can answer */
    int access;         /* enum gw_access */
    const char *log_dir;
    char prefix[16];
    pid_t pid;
    int ended;  /* a descriptor: readable when a child ends */
    int status; /* as of waitpid */
    int is_over;
    struct gw_lines lines[2];
    struct gw_parent_lines heard;
};

/* ---- the end of the group ---- */

static void end_group(void)
{
    kill(0, SIGKILL);
}

/* The launcher may be gone: also while this process waits in a write, and when
   it was stopped. */
static void on_continue(int number)
{
    int kept = errno;
    struct pollfd launcher = {.fd = GW_PARENT_FD};
    (void)number;
    if (poll(&launcher, 1, 0) > 0 && (launcher.revents & (POLLHUP | POLLERR)))
        end_group();
    errno = kept;
}

/* No signal to the group ends this process but SIGKILL: it has to tell how the
   program ended. */
static enum gw_status watch(struct program *program, struct gw_error *error)
{
    const struct sigaction look = {.sa_handler = on_continue};
    char why[GW_LIMITS_WHY_BYTES];
    sigset_t all, one;
    sigfillset(&all);
    sigdelset(&all, SIGCONT);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGPIPE, SIG_DFL); /* as the program should have it */
    sigaction(SIGCONT, &look, NULL);
    fcntl(GW_PARENT_FD, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGCONT);
    raise(SIGCONT); /* the launcher may have died before */
    sigemptyset(&one);
    sigaddset(&one, SIGCHLD);
    program->ended = signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK);
    if (program->ended >= 0)
        return GW_OK;
    return gw_fail(error, GW_EIO, "cannot watch the program: %s",
                   gw_limits_why_no_file(errno, why));
}

/* ---- its output ---- */

static enum gw_status
open_log(const struct program *program, int *fd_p, struct gw_error *error)
{
    char name[32], doubt[GW_ERROR_TEXT_BYTES];
    const struct gw_log_file file = {.dir = program->log_dir,
                                     .access = (enum gw_access)program->access,
                                     .name = name};
    snprintf(name, sizeof name, "worker-%u.log", program->rank);
    *fd_p = -1;
    return program->log_dir
               ? gw_log_file_open(&file, fd_p, doubt, sizeof doubt, error)
               : GW_OK;
}

static enum gw_status
open_lines(struct program *program, int ends[2], struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    int log, pipes[2];
    enum gw_status status = open_log(program, &log, error);
    if (program->is_one_of_many)
        snprintf(program->prefix, sizeof program->prefix, "[%u] ",
                 program->rank);
    for (int i = 0; i < 2 && status == GW_OK; i++) {
        struct gw_lines *lines = &program->lines[i];
        if (pipe2(pipes, O_CLOEXEC) != 0)
            return gw_fail(error, GW_EIO, "no pipe for its output: %s",
                           gw_limits_why_no_file(errno, why));
        ends[i] = pipes[1];
        lines->from = pipes[0];
        lines->to = i == OUT ? STDOUT_FILENO : STDERR_FILENO;
        lines->log = log;
        lines->prefix = program->prefix;
    }
    return status;
}

/* ---- from the program's begin to its end ---- */

static enum gw_status start_program(struct program *program,
                                    const char *const *arguments,
                                    struct gw_error *error)
{
    const struct gw_child child = {.name = arguments[0], .dies_by = SIGKILL};
    int ends[2];
    enum gw_status status = open_lines(program, ends, error);
    if (status != GW_OK)
        return status;
    const struct gw_child_program started = {
        .file = arguments[0],
        .arguments = arguments,
        .fd = {STDIN_FILENO, ends[OUT], ends[ERR], -1, -1},
    };
    status = gw_child_start(&child, &started, &program->pid, error);
    close(ends[OUT]);
    close(ends[ERR]);
    return status;
}

static void on_line(void *owner, const char *line)
{
    (void)owner;
    if (strcmp(line, "now") == 0)
        end_group();
}

static void hear(struct program *program)
{
    char bytes[GW_PARENT_LINE_MAX];
    ssize_t n = read(GW_PARENT_FD, bytes, sizeof bytes);
    if (n == 0)
        end_group(); /* the launcher is gone */
    if (n > 0)
        gw_parent_take(&program->heard, bytes, (size_t)n, on_line, program);
}

static void look_at_child(struct program *program)
{
    struct signalfd_siginfo info;
    while (read(program->ended, &info, sizeof info) > 0)
        continue;
    program->is_over =
        waitpid(program->pid, &program->status, WNOHANG) == program->pid;
}

static int has_question(const struct program *program)
{
    return program->is_asking && (gw_lines_has_part(&program->lines[OUT]) ||
                                  gw_lines_has_part(&program->lines[ERR]));
}

static void turn(struct program *program)
{
    struct pollfd source[SOURCES] = {
        [OUT] = {.fd = program->lines[OUT].from, .events = POLLIN},
        [ERR] = {.fd = program->lines[ERR].from, .events = POLLIN},
        [LAUNCHER] = {.fd = GW_PARENT_FD, .events = POLLIN},
        [CHILD] = {.fd = program->ended, .events = POLLIN},
    };
    int ready = poll(source, SOURCES, has_question(program) ? QUESTION_MS : -1);
    for (int i = 0; i < 2 && ready == 0; i++)
        gw_lines_show_part(&program->lines[i]);
    if (ready <= 0)
        return;
    if (source[LAUNCHER].revents)
        hear(program);
    for (int i = 0; i < 2; i++)
        if (source[i].revents)
            gw_lines_read(&program->lines[i]);
    if (source[CHILD].revents)
        look_at_child(program);
}

static void attend(struct program *program)
{
    while (!program->is_over)
        turn(program);
    for (int i = 0; i < 2; i++)
        gw_lines_finish(&program->lines[i]);
    gw_parent_tell(GW_PARENT_FD, "ended %d %s", program->status,
                   program->lines[ERR].last);
    end_group();
}

/* ---- the command line ---- */

static const struct gw_option options[] = {
    {.name = "rank",
     .argument = "N",
     .take = gw_option_count,
     .at = offsetof(struct program, rank),
     .high = UINT32_MAX},
    {.name = "many",
     .take = gw_option_flag,
     .at = offsetof(struct program, is_one_of_many)},
    {.name = "asks",
     .take = gw_option_flag,
     .at = offsetof(struct program, is_asking)},
    {.name = "log-dir",
     .argument = "DIR",
     .take = gw_option_text,
     .at = offsetof(struct program, log_dir)},
    {.name = "log-umask",
     .take = gw_option_flag,
     .at = offsetof(struct program, access)},
    {.name = NULL},
};

static enum gw_exit start(struct program *program, const char *const *arguments)
{
    struct gw_error error;
    enum gw_status status = watch(program, &error);
    if (status == GW_OK)
        status = start_program(program, arguments, &error);
    if (status == GW_OK)
        attend(program);
    gw_parent_tell(GW_PARENT_FD, "refused %s", error.text);
    return GW_EXIT_FAILED;
}

static enum gw_exit run(int argc, char **argv)
{
    enum gw_exit code;
    struct program *program = calloc(1, sizeof *program);
    if (!program)
        return gw_cli_usage("program: no memory");
    int operands =
        gw_options_read(&gw_command_program, argc, argv, program, &code);
    if (operands == 0 || fcntl(GW_PARENT_FD, F_GETFD) < 0)
        code = gw_cli_usage("program: is started by gradweir run");
    else if (operands > 0)
        code = start(program, (const char *const *)argv + optind);
    free(program);
    return code;
}

const struct gw_command gw_command_program = {
    .name = "program",
    .usage = "-- COMMAND [ARGUMENT...]",
    .about = "Started by gradweir run, one for each program.",
    .options = options,
    .run = run,
};
