#include "config.h"

#include "cli/typed.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/signals.h"
#include "transport/link/limits.h"

#define TO 3 /* end of the pipe, and the only file but standard ones */

/* Links of the launcher must not stay open here. In the background a read stops
   this process, and fg lets it go on. */
static void pass_on(void *owner)
{
    const int *to = owner;
    char bytes[4096];
    gw_signals_hold(); /* Ctrl-C is the launcher's */
    dup2(*to, TO);
    close_range(TO + 1, ~0U, 0);
    for (;;) {
        ssize_t got = read(STDIN_FILENO, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || write(TO, bytes, (size_t)got) < 0)
            return;
    }
}

enum gw_status
gw_typed_open(struct gw_typed *typed, int *fd_p, struct gw_error *error)
{
    const struct gw_child child = {.name = "a reader of the terminal",
                                   .dies_by = SIGKILL};
    char why[GW_LIMITS_WHY_BYTES];
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gw_fail(error, GW_EIO, "no pipe for the terminal's lines: %s",
                       gw_limits_why_no_file(errno, why));
    enum gw_status status =
        gw_child_fork(&child, pass_on, &ends[1], &typed->pid, error);
    close(ends[1]);
    if (status == GW_OK)
        *fd_p = ends[0];
    else
        close(ends[0]);
    return status;
}

void gw_typed_close(struct gw_typed *typed)
{
    if (typed->pid <= 0)
        return;
    kill(typed->pid, SIGKILL);
    gw_child_wait(typed->pid);
    typed->pid = 0;
}
