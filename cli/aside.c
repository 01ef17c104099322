#include "config.h"

#include "cli/aside.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Never returns. */
static void be_aside(gw_aside_cb *act, const void *owner, pid_t parent, int to)
{
    struct gw_error said = {.text = ""};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    said.status = act(owner, &said);
    const char *at = (const char *)&said, *end = at + sizeof said;
    while (at < end) {
        ssize_t wrote = write(to, at, (size_t)(end - at));
        if (wrote < 0 && errno != EINTR)
            break;
        at += wrote > 0 ? wrote : 0;
    }
    _exit(0);
}

/* What it says comes all at once, when it is done. */
static enum gw_status hear(int from, int seconds, struct gw_error *said)
{
    char *at = (char *)said, *end = at + sizeof *said;
    struct pollfd word = {.fd = from, .events = POLLIN};
    int ready;
    do
        ready = poll(&word, 1, 1000 * seconds);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return gw_fail(said, GW_ETIMEOUT, "no answer for %d s", seconds);
    while (at < end) {
        ssize_t got = read(from, at, (size_t)(end - at));
        if (got == 0 || (got < 0 && errno != EINTR))
            return gw_fail(said, GW_EABORTED, "a process of ours died");
        at += got > 0 ? got : 0;
    }
    return said->status;
}

enum gw_status gw_aside(gw_aside_cb *act,
                        const void *owner,
                        int seconds,
                        struct gw_error *said)
{
    int ends[2];
    pid_t self = getpid();
    if (pipe(ends) != 0)
        return gw_fail(said, GW_EABORTED, "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        be_aside(act, owner, self, ends[1]);
    }
    close(ends[1]);
    enum gw_status status =
        pid > 0 ? hear(ends[0], seconds, said)
                : gw_fail(said, GW_EABORTED, "cannot start a process: %s",
                          strerror(errno));
    close(ends[0]);
    if (pid < 0)
        return status;
    kill(pid, SIGKILL); /* it has said all, or is not waited for any more */
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return status;
}
