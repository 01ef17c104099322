#include "config.h"

#include "cli/launch_state.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/secret.h"
#include "proto/access.h"
#include "worker/trainer/environment.h"

#define VARIABLES_MAX  12
#define VARIABLE_BYTES (GW_ADDRESS_MAX + 32)
#define OWN_ARGUMENTS  10
#define SIGNAL_CODE    128 /* exit code of a shell for signal 0 */

/* ---- its begin ---- */

struct variables {
    size_t n;
    char text[VARIABLES_MAX][VARIABLE_BYTES];
    const char *list[VARIABLES_MAX + 1];
};

static void set(struct variables *all, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void set(struct variables *all, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(all->text[all->n], VARIABLE_BYTES, format, args);
    va_end(args);
    all->list[all->n] = all->text[all->n];
    all->n++;
}

/* Those of torchrun, and ours. Python, which would keep what it prints to a
   pipe, is told to print it. */
static void set_all(struct variables *all, const struct gw_launched *child)
{
    const struct gw_launcher *launcher = child->launcher;
    const struct gw_launch_program *program = launcher->options->program;
    set(all, "RANK=%u", child->index);
    set(all, "LOCAL_RANK=%u", child->index);
    set(all, "WORLD_SIZE=%u", launcher->options->workers);
    set(all, "LOCAL_WORLD_SIZE=%u", launcher->options->workers);
    set(all, "MASTER_ADDR=127.0.0.1");
    set(all, "MASTER_PORT=%u", program->port);
    set(all, GW_ENVIRONMENT_COORDINATOR "=%s", launcher->address);
    set(all, GW_ENVIRONMENT_SECRET_FD "=%d", GW_SECRET_FD);
    set(all, "GRADWEIR_RUN=1");
    if (program->threads > 0)
        set(all, "OMP_NUM_THREADS=%u", program->threads);
    if (!gw_environment_get("PYTHONUNBUFFERED"))
        set(all, "PYTHONUNBUFFERED=1");
}

static size_t count(const char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    return n;
}

static size_t put_options(const struct gw_launched *child,
                          char rank[16],
                          const char **argument)
{
    const struct gw_launch_options *options = child->launcher->options;
    size_t n = 0;
    snprintf(rank, 16, "%u", child->index);
    argument[n++] = "gradweir";
    argument[n++] = "program";
    argument[n++] = "--rank";
    argument[n++] = rank;
    if (options->workers > 1)
        argument[n++] = "--many";
    if (options->workers == 1 && isatty(STDIN_FILENO))
        argument[n++] = "--asks";
    if (options->config->log.access == GW_ACCESS_UMASK)
        argument[n++] = "--log-umask";
    if (options->config->log.dir[0]) {
        argument[n++] = "--log-dir";
        argument[n++] = options->config->log.dir;
    }
    argument[n++] = "--";
    return n;
}

/* Several programs cannot share one input. */
static int open_input(struct gw_launched *child)
{
    struct gw_error error;
    if (child->launcher->options->workers > 1)
        return 0;
    child->input = STDIN_FILENO;
    if (!isatty(STDIN_FILENO) ||
        gw_typed_open(&child->launcher->typed, &child->input, &error) == GW_OK)
        return 0;
    gw_launch_say("%s", error.text);
    return -1;
}

static void close_input(struct gw_launched *child)
{
    if (child->launcher->typed.pid > 0)
        close(child->input);
}

/* Objects take standard output. */
static int start_program(struct gw_launched *child)
{
    const struct gw_launch_options *options = child->launcher->options;
    const char *const *command = options->program->command;
    struct variables variables = {.n = 0};
    char rank[16];
    size_t words = count(command);
    const char **argument = calloc(OWN_ARGUMENTS + 1 + words, sizeof *argument);
    if (!argument) {
        gw_launch_say("no memory for the arguments of %s", command[0]);
        return -1;
    }
    set_all(&variables, child);
    memcpy(argument + put_options(child, rank, argument), command,
           words * sizeof *command);
    const int to_error = options->json && strcmp(options->json, "-") == 0;
    const struct gw_launch_process process = {
        .arguments = argument,
        .environment = variables.list,
        .own_group = 1,
        .output = to_error ? STDERR_FILENO : STDOUT_FILENO,
    };
    int failed = open_input(child) || gw_launch_start(child, &process);
    close_input(child);
    free(argument);
    return failed ? -1 : 0;
}

/* ---- its end ---- */

static void on_line(struct gw_launched *child, const char *line)
{
    const char *ended = gw_parent_word(line, "ended");
    const char *refused = gw_parent_word(line, "refused");
    char *last;
    if (ended) {
        child->status = (int)strtol(ended, &last, 10);
        child->has_status = 1;
        snprintf(child->last, sizeof child->last, "%s",
                 *last == ' ' ? last + 1 : "");
    } else if (refused && !child->launcher->now) {
        gw_launch_say("worker %u: %s", child->index, refused);
        gw_launch_leave_now(child->launcher, GW_EXIT_FAILED);
    }
}

static void say_how(const struct gw_launched *child,
                    int status,
                    char how[GW_LAUNCH_HOW_BYTES])
{
    char ended[GW_CHILD_HOW_BYTES];
    gw_child_how(status, child->launcher->kills, ended);
    snprintf(how, GW_LAUNCH_HOW_BYTES, "%s%s%s", ended,
             child->last[0] ? ": " : "", child->last);
}

/* Signals that end a whole job reach its programs, too, if they are sent to
   every process. */
static int has_stopped(const struct gw_launcher *launcher, int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return launcher->stopped &&
           (number == SIGINT || number == SIGTERM || number == SIGHUP);
}

static void
keep_failure(const struct gw_launched *child, int code, const char *how)
{
    struct gw_launcher *launcher = child->launcher;
    launcher->failed = code;
    launcher->failed_index = child->index;
    snprintf(launcher->failed_how, sizeof launcher->failed_how, "%s", how);
}

/* The coordinator, while it lives, judges the end for the job. */
static void program_ended(struct gw_launched *child, int status)
{
    struct gw_launcher *launcher = child->launcher;
    struct gw_launched *coordinator = gw_launch_coordinator(launcher);
    char how[GW_LAUNCH_HOW_BYTES];
    if (child->has_status)
        status = child->status;
    if (launcher->now || child->killed)
        return;
    int code = WIFSIGNALED(status) ? SIGNAL_CODE + WTERMSIG(status)
                                   : WEXITSTATUS(status);
    say_how(child, status, how);
    if (code && !launcher->failed)
        keep_failure(child, code, how);
    if (coordinator->alive && has_stopped(launcher, status))
        gw_launch_tell(coordinator, "left");
    else if (coordinator->alive || launcher->is_away)
        gw_launch_tell_end(child, "ended %u %d %s", child->index, code, how);
}

static void kill_group(const struct gw_launched *child)
{
    kill(-child->pid, SIGKILL);
}

static int may_stay(const struct gw_launched *child)
{
    const struct gw_launcher *launcher = child->launcher;
    int is_complete = launcher->code == GW_EXIT_DONE && !launcher->stopped;
    return launcher->over && !launcher->now &&
           (is_complete || launcher->grace_left > 0);
}

void gw_launch_signal_programs(struct gw_launcher *launcher, int number)
{
    for (unsigned i = 0; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        if (!child->alive || child->ops != &gw_launch_program_ops)
            continue;
        child->killed |= number == SIGKILL;
        kill(-child->pid, number);
    }
}

const struct gw_launch_ops gw_launch_program_ops = {
    .start = start_program,
    .line = on_line,
    .ended = program_ended,
    .kill = kill_group,
    .lost = gw_launch_member_lost,
    .may_stay = may_stay,
};
