#include "config.h"

#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "cli/log_file.h"
#include "transport/member/place.h"

/* To notice the end of the coordinator, which is silent for a second then; that
   a longer cluster.silence is not over is no reason to stay. */
#define OVER_MS 1600

#define INSECURE_TICKS 600 /* a minute of the watch's ticks */

uint64_t gw_process_unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t now_us(void *unused)
{
    (void)unused;
    return gw_process_unix_us();
}

/* A terminal that is stopped must not stop a loop, which others wait for. On
   one that goes on, a line takes the place of the live line, which comes back.
 */
static void write_to_person(int fd, const char *line, size_t bytes)
{
    static const char clear[] = "\r\033[K";
    struct pollfd taker = {.fd = fd, .events = POLLOUT};
    if (poll(&taker, 1, 0) == 0)
        return;
    const struct iovec part[2] = {
        {(void *)(uintptr_t)clear, isatty(fd) ? 4 : 0},
        {(void *)(uintptr_t)line, bytes}};
    /* a log that cannot be written has nowhere to say so */
    if (writev(fd, part, 2) < 0)
        return;
}

static void write_line(void *context, const char *line, size_t bytes)
{
    const struct gw_process *process = context;
    if (!process->has_file)
        write_to_person(process->log_fd, line, bytes);
    else if (write(process->log_fd, line, bytes) < 0)
        return; /* nor has a file */
}

void gw_process_warn(struct gw_process *process, const char *text)
{
    char line[GW_LOG_LINE_BYTES];
    gw_log_warn(&process->log, "%s", text);
    if (!process->has_file)
        return; /* it has been said there */
    snprintf(line, sizeof line - 1, "gradweir: %s", text);
    strcat(line, "\n");
    write_to_person(STDERR_FILENO, line, strlen(line));
}

/* ---- the watch ---- */

static void say_insecure(struct gw_process *process)
{
    gw_log_warn(&process->log,
                "cluster.insecure: links of this job leave this host without "
                "authentication or encryption");
}

void gw_process_leave(struct gw_process *process, const char *why)
{
    if (!atomic_load(&process->joined)) {
        gw_log_info(&process->log, "leaves before it has joined: %s", why);
        _exit(GW_EXIT_FAILED);
    }
    gw_watch_leave(process->watch, OVER_MS);
}

static void on_stop(void *owner, const char *why, int number)
{
    struct gw_process *process = owner;
    if (process->stop)
        process->stop(process->owner, why, number);
}

static int on_hurry(void *owner)
{
    struct gw_process *process = owner;
    return process->hurry ? process->hurry(process->owner) : 0;
}

static void on_orphaned(void *owner)
{
    struct gw_process *process = owner;
    if (process->orphaned)
        process->orphaned(process->owner);
    else
        gw_process_leave(process, "the launcher died");
}

static void on_line(void *owner, const char *line)
{
    struct gw_process *process = owner;
    if (process->line)
        process->line(process->owner, line);
    else if (strcmp(line, "over") == 0)
        gw_process_leave(process, "there is no coordinator any more");
}

static void on_tick(void *owner)
{
    struct gw_process *process = owner;
    if (process->tick)
        process->tick(process->owner);
    if (!atomic_load(&process->insecure) ||
        ++process->insecure_ticks < INSECURE_TICKS)
        return;
    process->insecure_ticks = 0;
    say_insecure(process);
}

static void on_exits(void *owner)
{
    struct gw_process *process = owner;
    if (process->exits)
        process->exits(process->owner);
}

static const struct gw_watch_events watch_events = {
    .stop = on_stop,
    .hurry = on_hurry,
    .orphaned = on_orphaned,
    .line = on_line,
    .tick = on_tick,
    .exits = on_exits,
};

enum gw_status gw_process_open(struct gw_process *process,
                               struct gw_error *error)
{
    gw_host_name(process->host);
    process->machine = gw_host_machine();
    process->pid = (uint32_t)getpid();
    process->log_fd = STDERR_FILENO;
    process->log_terminal = isatty(STDERR_FILENO);
    process->log.level = process->parent_fd >= 0 ? GW_LOG_WARN : GW_LOG_INFO;
    process->log.rank = -1;
    process->log.role = process->role;
    process->log.now_us = now_us;
    process->log.sink = write_line;
    process->log.context = process;
    signal(SIGPIPE, SIG_IGN);
    if (process->parent_fd >= 0) {
        fcntl(process->parent_fd, F_SETFD, FD_CLOEXEC);
        /* who sleeps must wake up to notice that the launcher is gone */
        prctl(PR_SET_PDEATHSIG, SIGCONT);
    }
    const struct gw_watch_options options = {
        .name = process->role,
        .parent_fd = process->parent_fd,
        .log = &process->log,
        .events = &watch_events,
        .owner = process,
    };
    return gw_watch_open(&options, &process->watch, error);
}

void gw_process_close(struct gw_process *process)
{
    gw_watch_close(process->watch);
    process->watch = NULL;
    if (process->has_file)
        close(process->log_fd);
    process->has_file = 0;
    process->log_fd = STDERR_FILENO;
}

/* ---- logs ---- */

/* A member that a launcher started: the coordinator beside it speaks for all.
 */
static int is_one_of_many(const struct gw_process *process)
{
    return process->parent_fd >= 0 && strcmp(process->role, "coordinator") != 0;
}

static enum gw_status open_file(struct gw_process *process,
                                const struct gw_config *config,
                                struct gw_error *error)
{
    char doubt[GW_LOG_LINE_BYTES / 2];
    const struct gw_log_file file = {.dir = config->log.dir,
                                     .access = config->log.access,
                                     .role = process->role,
                                     .host = process->host,
                                     .pid = process->pid};
    int fd;
    enum gw_status status =
        gw_log_file_open(&file, &fd, doubt, sizeof doubt, error);
    if (status != GW_OK)
        return status;
    if (is_one_of_many(process)) {
        /* what libraries print before they abort belongs there too */
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
    }
    process->log_fd = fd;
    process->log_terminal = 0;
    process->has_file = 1;
    if (doubt[0] && !is_one_of_many(process))
        gw_process_warn(process, doubt);
    return GW_OK;
}

enum gw_status gw_process_logs(struct gw_process *process,
                               const struct gw_config *config,
                               struct gw_error *error)
{
    enum gw_log_level level = GW_LOG_INFO;
    gw_log_level_find(config->log.level, &level);
    if (config->log.dir[0]) {
        enum gw_status status = open_file(process, config, error);
        if (status != GW_OK)
            return status;
    } else if (process->parent_fd >= 0 && level == GW_LOG_INFO) {
        level = GW_LOG_WARN;
    }
    atomic_store(&process->log.level, (int)level);
    return GW_OK;
}

enum gw_status gw_process_guard(struct gw_process *process,
                                const struct gw_config *config,
                                const char *address,
                                struct gw_error *error)
{
    enum gw_status status = gw_place_guard(config, address, error);
    if (status != GW_OK || gw_place_is_loopback(address))
        return status;
    if (!atomic_exchange(&process->insecure, 1))
        say_insecure(process);
    return GW_OK;
}

enum gw_exit gw_process_end(struct gw_process *process,
                            const struct gw_error *error)
{
    if (error->status == GW_OK)
        gw_log_info(&process->log, "%s", error->text);
    else if (process->has_file)
        gw_log_error(&process->log, "%s", error->text);
    if (error->status == GW_OK)
        return GW_EXIT_DONE;
    if (process->parent_fd >= 0 && process->told)
        return gw_cli_exit(error->status);
    if (process->log_terminal)
        fputs("\r\033[K", stderr);
    return gw_cli_fail(error);
}

enum gw_exit gw_process_run(struct gw_process *process,
                            enum gw_status (*run)(void *owner,
                                                  struct gw_error *error))
{
    struct gw_error error = {.status = GW_OK, .text = ""};
    error.status = gw_process_open(process, &error);
    if (error.status == GW_OK)
        error.status = run(process->owner, &error);
    enum gw_exit code = gw_process_end(process, &error);
    gw_process_close(process);
    return code;
}
