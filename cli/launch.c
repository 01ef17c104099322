#include "config.h"

#include "cli/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "cli/child.h"
#include "cli/parent.h"
#include "cli/secret.h"
#include "cli/signals.h"
#include "transport/link/limits.h"
#include "transport/link/transport.h"
#include "transport/member/secret_fd.h"

#define TICK_MS 100

/* A terminal or timeout(1) may send one signal several times. */
#define SAME_WISH_TICKS 4

/* Time limits for all processes to end by themselves: after a signal, counted
   from the last line of the coordinator; after a second signal, for the
   coordinator to tidy up; after the coordinator's end; after "now". */
#define STOP_TICKS  95
#define HURRY_TICKS 35
#define LEAVE_TICKS 25
#define NOW_TICKS   5

#define ARGUMENTS_MAX (2 * GW_CLI_SETS_MAX + 16)
#define OWN_MAX       4 /* more than there are keys of a host's own */

struct launcher;

struct child {
    struct launcher *launcher;
    const char *role;
    unsigned index;
    int input; /* its standard input; -1: /dev/null */
    pid_t pid;
    uv_pipe_t pipe;
    int alive;
    int killed; /* by us */
};

struct launcher {
    const struct gw_launch_options *options;
    uv_loop_t uv;
    struct gw_signals signals;
    uv_signal_t ended; /* SIGCHLD */
    uv_timer_t timer;
    struct child *child; /* the coordinator, servers, workers */
    unsigned children, alive;
    char address[GW_ADDRESS_MAX]; /* the coordinator's, "" before it is known */
    uint64_t step;                /* the job's, as last reported */
    struct gw_secret secret;      /* the job's, known to all children */
    struct gw_parent_lines lines;
    char bytes[512];
    uint64_t kills;                        /* gw_child_kills at the begin */
    unsigned ticks_since_stop, ticks_left; /* 0: no limit */
    int stopped, hurried, now, over;
    enum gw_exit code;
};

static struct child *coordinator_of(struct launcher *launcher)
{
    return &launcher->child[0];
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%sgradweir: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
            text);
}

static void tell(struct child *child, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void tell(struct child *child, const char *format, ...)
{
    char line[GW_PARENT_LINE_MAX];
    va_list args;
    if (!child->alive)
        return;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof line - 1)
        return;
    line[n++] = '\n';
    uv_buf_t buffer = uv_buf_init(line, (unsigned)n);
    uv_try_write((uv_stream_t *)&child->pipe, &buffer, 1);
}

/* The shortest limit holds. */
static void limit(struct launcher *launcher, unsigned ticks)
{
    if (launcher->ticks_left == 0 || launcher->ticks_left > ticks)
        launcher->ticks_left = ticks;
}

static void leave_now(struct launcher *launcher, enum gw_exit code)
{
    if (launcher->now)
        return;
    launcher->now = 1;
    launcher->over = 1;
    launcher->code = code;
    limit(launcher, NOW_TICKS);
    for (unsigned i = 0; i < launcher->children; i++)
        tell(&launcher->child[i], "now");
}

/* ---- children ---- */

static void coordinator_ended(struct launcher *launcher, int status)
{
    const struct child *child = coordinator_of(launcher);
    char how[GW_CHILD_HOW_BYTES];
    limit(launcher, LEAVE_TICKS);
    for (unsigned i = 1; i < launcher->children; i++)
        tell(&launcher->child[i], "over");
    if (launcher->over)
        return;
    launcher->over = 1;
    launcher->code = GW_EXIT_FAILED;
    if (WIFEXITED(status) && WEXITSTATUS(status) <= GW_EXIT_INTERRUPTED)
        launcher->code = (enum gw_exit)WEXITSTATUS(status); /* with a line */
    else
        say("the coordinator (pid %d) died at step %" PRIu64 ": %s", child->pid,
            launcher->step, gw_child_how(status, launcher->kills, how));
}

/* Non-zero if somebody killed the child or sent it a signal to end. */
static int was_ended(const struct child *child, int number)
{
    return child->killed || number == SIGINT || number == SIGTERM;
}

/* Tells the coordinator, while it lives, which judges the loss for the job. A
   child that a signal ended stops the job: before it joined it could ask nobody
   to stop, and its second signal need not be a second one by our clock. */
static void member_ended(const struct child *child, int status)
{
    struct launcher *launcher = child->launcher;
    struct child *coordinator = coordinator_of(launcher);
    char how[GW_CHILD_HOW_BYTES];
    gw_child_how(status, launcher->kills, how);
    if (coordinator->alive && WIFEXITED(status) &&
        WEXITSTATUS(status) == GW_EXIT_INTERRUPTED) {
        tell(coordinator, "stop a %s got a signal", child->role);
        tell(coordinator, "left");
    } else if (coordinator->alive && launcher->hurried) {
        return; /* it is being stopped */
    } else if (coordinator->alive) {
        tell(coordinator, "gone %d %s", child->pid, how);
    } else if (WIFSIGNALED(status) && !was_ended(child, WTERMSIG(status))) {
        say("%s %u (pid %d) died after the job's end: %s", child->role,
            child->index, child->pid, how);
        if (launcher->code == GW_EXIT_DONE)
            launcher->code = GW_EXIT_FAILED;
    }
}

static void child_ended(struct child *child, int status)
{
    struct launcher *launcher = child->launcher;
    child->alive = 0;
    launcher->alive--;
    uv_close((uv_handle_t *)&child->pipe, NULL);
    if (child == coordinator_of(launcher))
        coordinator_ended(launcher, status);
    else
        member_ended(child, status);
    if (launcher->alive == 0)
        uv_stop(&launcher->uv);
}

/* One SIGCHLD may stand for several children. */
static void on_ended(uv_signal_t *signal, int number)
{
    struct launcher *launcher = signal->data;
    int status;
    (void)number;
    for (unsigned i = 0; i < launcher->children; i++)
        if (launcher->child[i].alive &&
            waitpid(launcher->child[i].pid, &status, WNOHANG) > 0)
            child_ended(&launcher->child[i], status);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct child *child = handle->data;
    (void)suggested;
    *buffer =
        uv_buf_init(child->launcher->bytes, sizeof child->launcher->bytes);
}

static void on_line(void *owner, const char *line);

static void on_pipe(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct child *child = stream->data;
    if (n < 0)
        uv_read_stop(stream); /* its exit follows */
    else
        gw_parent_take(&child->launcher->lines, buffer->base, (size_t)n,
                       on_line, child->launcher);
}

/* Opens our end of a child's link as a handle. */
static enum gw_status
take_pipe(struct child *child, int end, struct gw_error *error)
{
    struct launcher *launcher = child->launcher;
    uv_pipe_init(&launcher->uv, &child->pipe, 0);
    child->pipe.data = child;
    int failed = uv_pipe_open(&child->pipe, end);
    if (failed) {
        close(end);
        uv_close((uv_handle_t *)&child->pipe, NULL);
        return gw_fail(error, GW_EIO, "cannot start a %s: %s", child->role,
                       uv_strerror(failed));
    }
    uv_read_start((uv_stream_t *)&child->pipe, give_buffer, on_pipe);
    return GW_OK;
}

/* Starts this program in another role, with its end of a link and a file with
   the secret. */
static enum gw_status start_on(struct child *child,
                               const char *const *arguments,
                               int end,
                               struct gw_error *error)
{
    char name[32];
    int secret;
    snprintf(name, sizeof name, "a %s", child->role);
    if (gw_secret_lend(&child->launcher->secret, &secret, error) != GW_OK)
        return gw_fail_in(error, "cannot start %s", name);
    const struct gw_child made = {.name = name};
    const struct gw_child_program program = {
        .file = GW_CHILD_SELF,
        .arguments = arguments,
        .fd = {child->input, STDOUT_FILENO, STDERR_FILENO, end, secret},
        .of_job = 1,
    };
    enum gw_status status = gw_child_start(&made, &program, &child->pid, error);
    close(secret);
    return status;
}

/* 0, or -1 after an error line. */
static int start_child(struct child *child, const char *const *arguments)
{
    struct launcher *launcher = child->launcher;
    struct gw_error error;
    char why[GW_LIMITS_WHY_BYTES];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        say("cannot start a %s: %s", child->role,
            gw_limits_why_no_file(errno, why));
        return -1;
    }
    enum gw_status status = take_pipe(child, ends[0], &error);
    if (status == GW_OK)
        status = start_on(child, arguments, ends[1], &error);
    close(ends[1]);
    if (status != GW_OK) {
        say("%s", error.text);
        return -1;
    }
    child->alive = 1;
    launcher->alive++;
    return 0;
}

/* The job's text as an unnamed file to read; -1 after an error line. */
static int lend_text(const char *text)
{
    char why[GW_LIMITS_WHY_BYTES];
    size_t bytes = strlen(text);
    int fd = memfd_create("job", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes &&
        lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    say("the coordinator cannot be given the job: %s",
        gw_limits_why_no_file(errno, why));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int start_coordinator(struct launcher *launcher)
{
    const struct gw_launch_options *options = launcher->options;
    const struct gw_cli_job *job = options->job;
    const char *argument[ARGUMENTS_MAX] = {
        "gradweir",    "coordinator", job->file,  "--lent",
        "--parent-fd", "3",           "--secret", "4"};
    size_t n = 8;
    for (size_t i = 0; i < job->sets; i++) {
        argument[n++] = "--set";
        argument[n++] = job->set[i];
    }
    if (options->resume)
        argument[n++] = "--resume";
    if (options->json) {
        argument[n++] = "--json";
        argument[n++] = options->json;
    }
    int text = lend_text(options->text);
    if (text < 0)
        return -1;
    coordinator_of(launcher)->input = text;
    int failed = start_child(coordinator_of(launcher), argument);
    close(text);
    return failed;
}

/* Passes this host's own keys on to members: a coordinator does not tell
   them. */
static void give_own(const struct gw_config *config,
                     char set[OWN_MAX][2 * GW_STRING_MAX],
                     const char **argument)
{
    size_t keys, n = 0;
    const struct gw_config_key *key = gw_config_keys(&keys);
    for (size_t i = 0; i < keys; i++) {
        const char *value = (const char *)config + key[i].offset;
        if (!key[i].own || !value[0] || n == OWN_MAX)
            continue;
        snprintf(set[n], sizeof *set, "%s=%s", key[i].name, value);
        argument[2 * n] = "--set";
        argument[2 * n + 1] = set[n];
        n++;
    }
}

static int start_member(struct child *child)
{
    char index[16], set[OWN_MAX][2 * GW_STRING_MAX];
    const char *argument[12 + 2 * OWN_MAX] = {
        "gradweir",    child->role, "--join",   child->launcher->address,
        "--parent-fd", "3",         "--secret", "4"};
    size_t n = 8;
    snprintf(index, sizeof index, "%u", child->index);
    if (strcmp(child->role, "worker") == 0) {
        argument[n++] = "--rank";
        argument[n++] = index;
    }
    give_own(child->launcher->options->config, set, argument + n);
    return start_child(child, argument);
}

static void on_line(void *owner, const char *line)
{
    struct launcher *launcher = owner;
    const char *address = gw_parent_word(line, "at");
    const char *step = gw_parent_word(line, "step");
    if (step)
        launcher->step = strtoull(step, NULL, 10);
    if (step && launcher->stopped && !launcher->hurried && !launcher->over)
        launcher->ticks_left = STOP_TICKS; /* it ends the job */
    if (!address || launcher->address[0] || launcher->over)
        return;
    snprintf(launcher->address, sizeof launcher->address, "%s", address);
    for (unsigned i = 1; i < launcher->children && !launcher->now; i++)
        if (start_member(&launcher->child[i]) != 0)
            leave_now(launcher, GW_EXIT_FAILED);
}

/* ---- signals and time ---- */

static void on_signal(uv_signal_t *signal, int number)
{
    struct launcher *launcher = signal->data;
    if (!launcher->stopped) {
        launcher->stopped = 1;
        limit(launcher, STOP_TICKS);
        tell(coordinator_of(launcher), "stop %s", strsignal(number));
    } else if (launcher->ticks_since_stop < SAME_WISH_TICKS) {
        return;
    } else if (!launcher->hurried) {
        launcher->hurried = 1;
        launcher->ticks_since_stop = 0;
        limit(launcher, HURRY_TICKS);
        tell(coordinator_of(launcher), "hurry");
    } else {
        leave_now(launcher, GW_EXIT_INTERRUPTED);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct launcher *launcher = timer->data;
    launcher->ticks_since_stop += launcher->stopped != 0;
    if (launcher->ticks_left == 0 || --launcher->ticks_left > 0)
        return;
    for (unsigned i = 0; i < launcher->children; i++) {
        struct child *child = &launcher->child[i];
        if (!child->alive)
            continue;
        if (!launcher->now)
            say("%s %u (pid %d) did not leave in time and is killed",
                child->role, child->index, child->pid);
        child->killed = 1;
        kill(child->pid, SIGKILL);
    }
    if (!launcher->over)
        launcher->code =
            launcher->stopped ? GW_EXIT_INTERRUPTED : GW_EXIT_FAILED;
    launcher->over = 1;
    launcher->ticks_left = NOW_TICKS;
}

/* ---- the whole ---- */

static void name_children(struct launcher *launcher)
{
    const struct gw_launch_options *options = launcher->options;
    for (unsigned i = 0; i < launcher->children; i++) {
        struct child *child = &launcher->child[i];
        child->launcher = launcher;
        child->input = -1;
        child->role = i <= options->servers ? "server" : "worker";
        child->index = i <= options->servers ? i - 1 : i - 1 - options->servers;
    }
    coordinator_of(launcher)->role = "coordinator";
    coordinator_of(launcher)->index = 0;
}

static void watch(struct launcher *launcher)
{
    uv_signal_init(&launcher->uv, &launcher->ended);
    launcher->ended.data = launcher;
    uv_signal_start(&launcher->ended, on_ended, SIGCHLD);
    gw_signals_watch(&launcher->signals, &launcher->uv, on_signal, launcher);
    signal(SIGPIPE, SIG_IGN);
    uv_timer_init(&launcher->uv, &launcher->timer);
    launcher->timer.data = launcher;
    uv_timer_start(&launcher->timer, on_tick, TICK_MS, TICK_MS);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

enum gw_exit gw_launch(const struct gw_launch_options *options)
{
    struct launcher launcher = {
        .options = options, .kills = gw_child_kills(), .code = GW_EXIT_FAILED};
    struct gw_error error;
    if (gw_secret_draw(&launcher.secret, &error) != GW_OK)
        return gw_cli_fail(&error);
    launcher.children = 1 + options->servers + options->workers;
    launcher.child = calloc(launcher.children, sizeof *launcher.child);
    if (!launcher.child || uv_loop_init(&launcher.uv) != 0) {
        free(launcher.child);
        say("no memory for %u processes", launcher.children);
        return GW_EXIT_FAILED;
    }
    name_children(&launcher);
    watch(&launcher);
    if (start_coordinator(&launcher) == 0)
        uv_run(&launcher.uv, UV_RUN_DEFAULT);
    gw_signals_hold();
    uv_walk(&launcher.uv, close_handle, NULL);
    uv_run(&launcher.uv, UV_RUN_DEFAULT);
    uv_loop_close(&launcher.uv);
    gw_signals_end_process();
    free(launcher.child);
    gw_secret_forget(&launcher.secret);
    return launcher.code;
}
