/* Processes of a bench: starting, orders, ending. */
#include "config.h"

#include "cli/bench/bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/child.h"
#include "transport/link/limits.h"

/* Far longer than any order takes; then something hangs. */
#define PATIENCE_MS 300000

enum gw_status gw_bench_address(const struct gw_bench_case *what,
                                char address[GW_ADDRESS_MAX],
                                struct gw_error *error)
{
    char host[GW_ADDRESS_MAX];
    enum gw_status status = what->route->transport->meet(host, error);
    if (status == GW_OK)
        snprintf(address, GW_ADDRESS_MAX, "%.*s:0", GW_ADDRESS_MAX - 3, host);
    return status;
}

/* A child's inheritance. */
struct start {
    const struct gw_bench_group *group;
    struct gw_bench_child child;
    int theirs; /* the parent's end */
    void (*run)(struct gw_bench_child *child);
};

static void be_child(void *owner)
{
    struct start *start = owner;
    close(start->theirs);
    for (size_t i = 0; i < start->group->n; i++)
        close(start->group->process[i].fd);
    start->run(&start->child);
}

enum gw_status gw_bench_start(struct gw_bench_group *group,
                              const char *name,
                              const struct gw_bench_child *child,
                              void (*run)(struct gw_bench_child *child),
                              struct gw_error *error)
{
    const struct gw_child process = {.name = name, .dies_by = SIGKILL};
    struct start start = {.group = group, .child = *child, .run = run};
    char why[GW_LIMITS_WHY_BYTES];
    int fds[2];
    pid_t pid;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return gw_fail(error, GW_EIO, "bench: cannot start the %s: %s", name,
                       gw_limits_why_no_file(errno, why));
    start.theirs = fds[0];
    start.child.fd = fds[1];
    enum gw_status status =
        gw_child_fork(&process, be_child, &start, &pid, error);
    close(fds[1]);
    if (status != GW_OK) {
        close(fds[0]);
        return gw_fail_in(error, "bench");
    }
    struct gw_bench_process *made = &group->process[group->n++];
    made->pid = pid;
    made->fd = fds[0];
    snprintf(made->name, sizeof made->name, "%s", name);
    return GW_OK;
}

/* Waits until a process sends a word or is gone. `quiet`: the first silent
   one. */
static enum gw_status wait_for_word(struct pollfd *wait,
                                    size_t n,
                                    const struct gw_bench_process *quiet,
                                    struct gw_error *error)
{
    int ready = poll(wait, n, PATIENCE_MS);
    if (ready < 0)
        return gw_fail(error, GW_EIO, "bench: cannot wait for the %s: %s",
                       quiet->name, strerror(errno));
    if (ready == 0)
        return gw_fail(error, GW_ETIMEOUT,
                       "bench: the %s has not answered for %d s", quiet->name,
                       PATIENCE_MS / 1000);
    return GW_OK;
}

static enum gw_status take_word(struct gw_bench_process *process,
                                struct gw_bench_message *message,
                                struct gw_error *error)
{
    ssize_t got = recv(process->fd, message, sizeof *message, 0);
    if (got != (ssize_t)sizeof *message)
        return gw_fail(error, GW_EDEAD, "bench: the %s is gone", process->name);
    if (message->word == GW_BENCH_FAILED)
        return gw_fail(error, message->status, "bench: %s: %s", process->name,
                       message->text);
    return GW_OK;
}

enum gw_status gw_bench_hear(struct gw_bench_process *process,
                             struct gw_bench_message *message,
                             struct gw_error *error)
{
    struct pollfd wait = {.fd = process->fd, .events = POLLIN};
    enum gw_status status = wait_for_word(&wait, 1, process, error);
    return status == GW_OK ? take_word(process, message, error) : status;
}

/* In any order: a process may wait for another one that is gone. */
static enum gw_status hear_all(struct gw_bench_process *process,
                               size_t n,
                               uint64_t *errors_p,
                               struct gw_error *error)
{
    struct pollfd wait[2 * GW_BENCH_MEMBERS_MAX + 1];
    for (size_t i = 0; i < n; i++)
        wait[i] = (struct pollfd){.fd = process[i].fd, .events = POLLIN};
    for (size_t quiet = 0; quiet < n;) {
        enum gw_status status = wait_for_word(wait, n, &process[quiet], error);
        for (size_t i = 0; i < n && status == GW_OK; i++) {
            struct gw_bench_message answer;
            if (wait[i].fd < 0 || !wait[i].revents)
                continue;
            status = take_word(&process[i], &answer, error);
            if (status == GW_OK)
                *errors_p += answer.errors;
            wait[i].fd = -1; /* skipped by poll */
        }
        if (status != GW_OK)
            return status;
        while (quiet < n && wait[quiet].fd < 0)
            quiet++;
    }
    return GW_OK;
}

enum gw_status gw_bench_order(struct gw_bench_group *group,
                              size_t first,
                              size_t n,
                              enum gw_bench_path path,
                              enum gw_bench_op op,
                              uint64_t *errors_p,
                              struct gw_error *error)
{
    struct gw_bench_message message = {
        .word = GW_BENCH_ORDER, .path = path, .op = op};
    for (size_t i = first; i < first + n; i++)
        if (send(group->process[i].fd, &message, sizeof message, MSG_NOSIGNAL) <
            0)
            return gw_fail(error, GW_EDEAD, "bench: the %s is gone",
                           group->process[i].name);
    return hear_all(group->process + first, n, errors_p, error);
}

enum gw_status gw_bench_order_all(struct gw_bench_group *group,
                                  uint64_t *errors_p,
                                  struct gw_error *error)
{
    return gw_bench_order(group, 0, group->n, (enum gw_bench_path)0,
                          (enum gw_bench_op)0, errors_p, error);
}

/* Non-zero if the process still exists. */
static int await(pid_t pid, int options)
{
    int status = 0;
    pid_t got;
    do
        got = waitpid(pid, &status, options);
    while (got < 0 && errno == EINTR);
    return got == pid && WIFSTOPPED(status);
}

void gw_bench_end(struct gw_bench_group *group)
{
    /* stop all before any is killed, or the others would report its death */
    for (size_t i = 0; i < group->n; i++)
        kill(group->process[i].pid, SIGSTOP);
    for (size_t i = 0; i < group->n; i++)
        if (!await(group->process[i].pid, WUNTRACED))
            group->process[i].pid = 0; /* it had ended */
    for (size_t i = 0; i < group->n; i++) {
        if (group->process[i].pid) {
            kill(group->process[i].pid, SIGKILL);
            await(group->process[i].pid, 0);
        }
        close(group->process[i].fd);
    }
    group->n = 0;
}

void gw_bench_say(const struct gw_bench_child *child,
                  enum gw_bench_word word,
                  const char *text,
                  uint64_t errors)
{
    struct gw_bench_message message = {.word = word, .errors = errors};
    snprintf(message.text, sizeof message.text, "%s", text);
    if (send(child->fd, &message, sizeof message, MSG_NOSIGNAL) < 0)
        _exit(1); /* the parent is gone */
}

void gw_bench_say_failed(const struct gw_bench_child *child,
                         const struct gw_error *error)
{
    struct gw_bench_message message = {.word = GW_BENCH_FAILED,
                                       .status = error->status};
    snprintf(message.text, sizeof message.text, "%s", error->text);
    if (send(child->fd, &message, sizeof message, MSG_NOSIGNAL) < 0)
        _exit(1);
}

int gw_bench_listen(const struct gw_bench_child *child,
                    struct gw_bench_message *order)
{
    ssize_t got;
    do
        got = recv(child->fd, order, sizeof *order, 0);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof *order;
}

double *gw_bench_times(const struct gw_bench_child *child)
{
    return child->what->us + (size_t)child->index * GW_BENCH_ITERS_MAX;
}

double gw_bench_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}
