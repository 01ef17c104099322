#include "config.h"

#include "cli/launch_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/secret.h"
#include "transport/link/limits.h"
#include "transport/member/secret_fd.h"

void gw_launch_say(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%sgradweir: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
            text);
}

void gw_launch_tell(struct gw_launched *child, const char *format, ...)
{
    char line[GW_PARENT_LINE_MAX];
    va_list args;
    if (!child->alive)
        return;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    unsigned bytes =
        (size_t)n < sizeof line - 1 ? (unsigned)n : sizeof line - 2;
    line[bytes++] = '\n';
    uv_buf_t buffer = uv_buf_init(line, bytes);
    uv_try_write((uv_stream_t *)&child->pipe, &buffer, 1);
}

void gw_launch_limit(struct gw_launcher *launcher, unsigned ticks)
{
    if (launcher->ticks_left == 0 || launcher->ticks_left > ticks)
        launcher->ticks_left = ticks;
}

void gw_launch_leave_now(struct gw_launcher *launcher, enum gw_exit code)
{
    if (launcher->now)
        return;
    launcher->now = 1;
    launcher->over = 1;
    launcher->code = code;
    gw_launch_limit(launcher, GW_LAUNCH_NOW_TICKS);
    for (unsigned i = 0; i < launcher->children; i++)
        gw_launch_tell(&launcher->child[i], "now");
}

/* ---- the link ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct gw_launched *child = handle->data;
    (void)suggested;
    *buffer =
        uv_buf_init(child->launcher->bytes, sizeof child->launcher->bytes);
}

static void on_line(void *owner, const char *line)
{
    struct gw_launched *child = owner;
    child->ops->line(child, line);
}

static void on_pipe(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct gw_launched *child = stream->data;
    if (n < 0)
        uv_read_stop(stream); /* its exit follows */
    else
        gw_parent_take(&child->lines, buffer->base, (size_t)n, on_line, child);
}

void gw_launch_hear_last(struct gw_launched *child)
{
    char bytes[GW_PARENT_LINE_MAX];
    uv_os_fd_t fd;
    ssize_t n;
    if (uv_fileno((const uv_handle_t *)&child->pipe, &fd) != 0)
        return;
    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        gw_parent_take(&child->lines, bytes, (size_t)n, on_line, child);
}

static void on_closed(uv_handle_t *handle)
{
    struct gw_launched *child = handle->data;
    const struct gw_launcher *launcher = child->launcher;
    child->closing = 0;
    if (!child->is_due)
        return;
    gw_launch_start_again(child);
    if (launcher->alive == 0 && !launcher->child->is_due)
        uv_stop(handle->loop);
}

void gw_launch_close_pipe(struct gw_launched *child)
{
    child->closing = 1;
    uv_close((uv_handle_t *)&child->pipe, on_closed);
}

/* Opens our end of a child's link as a handle. */
static enum gw_status
take_pipe(struct gw_launched *child, int end, struct gw_error *error)
{
    struct gw_launcher *launcher = child->launcher;
    uv_pipe_init(&launcher->uv, &child->pipe, 0);
    child->pipe.data = child;
    int failed = uv_pipe_open(&child->pipe, end);
    if (failed) {
        close(end);
        gw_launch_close_pipe(child);
        return gw_fail(error, GW_EIO, "cannot start a %s: %s", child->role,
                       uv_strerror(failed));
    }
    uv_read_start((uv_stream_t *)&child->pipe, give_buffer, on_pipe);
    return GW_OK;
}

/* ---- the process ---- */

/* Starts this program in another role, with its end of a link and a file with
   the secret. */
static enum gw_status start_on(struct gw_launched *child,
                               const struct gw_launch_process *process,
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
        .arguments = process->arguments,
        .environment = process->environment,
        .own_group = process->own_group,
        .fd = {child->input, process->output, STDERR_FILENO, end, secret},
        .of_job = 1,
    };
    enum gw_status status = gw_child_start(&made, &program, &child->pid, error);
    close(secret);
    return status;
}

void gw_launch_start_again(struct gw_launched *child)
{
    struct gw_launcher *launcher = child->launcher;
    child->is_due = child->alive || child->closing;
    if (child->is_due || launcher->over)
        return;
    child->killed = 0;
    child->lines = (struct gw_parent_lines){.used = 0};
    if (child->ops->start(child) != 0)
        child->ops->lost(child);
}

int gw_launch_start(struct gw_launched *child,
                    const struct gw_launch_process *process)
{
    struct gw_launcher *launcher = child->launcher;
    struct gw_error error;
    char why[GW_LIMITS_WHY_BYTES];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        gw_launch_say("cannot start a %s: %s", child->role,
                      gw_limits_why_no_file(errno, why));
        return -1;
    }
    enum gw_status status = take_pipe(child, ends[0], &error);
    if (status == GW_OK)
        status = start_on(child, process, ends[1], &error);
    close(ends[1]);
    if (status != GW_OK) {
        gw_launch_say("%s", error.text);
        return -1;
    }
    child->alive = 1;
    launcher->alive++;
    return 0;
}
