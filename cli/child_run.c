#include "config.h"

#include "cli/child_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/child.h"
#include "transport/link/limits.h"

struct run {
    gw_child_run_cb *act;
    const void *owner;
    int from, to; /* the ends of a pipe */
};

static void run_child(void *owner)
{
    const struct run *run = owner;
    struct gw_error said = {.text = ""};
    close(run->from);
    said.status = run->act(run->owner, &said);
    const char *at = (const char *)&said, *end = at + sizeof said;
    while (at < end) {
        ssize_t wrote = write(run->to, at, (size_t)(end - at));
        if (wrote < 0 && errno != EINTR)
            break;
        at += wrote > 0 ? wrote : 0;
    }
}

/* Receives the child's result, which is sent at once at its end. 1: received;
   0: it died; -1: timeout. */
static int hear(int from, int seconds, struct gw_error *said)
{
    char *at = (char *)said, *end = at + sizeof *said;
    struct pollfd word = {.fd = from, .events = POLLIN};
    int ready;
    do
        ready = poll(&word, 1, 1000 * seconds);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return -1;
    while (at < end) {
        ssize_t got = read(from, at, (size_t)(end - at));
        if (got == 0 || (got < 0 && errno != EINTR))
            return 0;
        at += got > 0 ? got : 0;
    }
    return 1;
}

/* Waits for the child's result and for its end. */
static enum gw_status
wait_for(pid_t pid, int from, int seconds, struct gw_error *said)
{
    char how[GW_CHILD_HOW_BYTES];
    uint64_t kills = gw_child_kills();
    int heard = hear(from, seconds, said);
    if (heard != 0)
        kill(pid, SIGKILL); /* its result is here, or it is too late */
    int ended = gw_child_wait(pid);
    if (heard < 0)
        return gw_fail(said, GW_ETIMEOUT, "no answer for %d s", seconds);
    if (heard == 0)
        return gw_fail(said, GW_EABORTED, "a process of ours died: %s",
                       gw_child_how(ended, kills, how));
    return said->status;
}

enum gw_status gw_child_run(gw_child_run_cb *act,
                            const void *owner,
                            int seconds,
                            struct gw_error *said)
{
    const struct gw_child child = {.name = "a process", .dies_by = SIGKILL};
    char why[GW_LIMITS_WHY_BYTES];
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(said, GW_EABORTED, "no pipe: %s",
                       gw_limits_why_no_file(errno, why));
    struct run run = {
        .act = act, .owner = owner, .from = ends[0], .to = ends[1]};
    enum gw_status status = gw_child_fork(&child, run_child, &run, &pid, said);
    close(ends[1]);
    if (status == GW_OK)
        status = wait_for(pid, ends[0], seconds, said);
    close(ends[0]);
    return status;
}
