#include "config.h"

#include "cli/launch_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/child.h"

/* The others go on meanwhile, and dial the address that it had. */
static int may_go_on(struct gw_launcher *launcher, int status)
{
    return WIFSIGNALED(status) && launcher->is_outlived && !launcher->over &&
           !launcher->now && !launcher->hurried && launcher->alive > 0 &&
           gw_launch_count_again(&gw_launch_coordinator(launcher)->again,
                                 launcher->options->config);
}

int gw_launch_coordinator_again(struct gw_launched *coordinator, int status)
{
    struct gw_launcher *launcher = coordinator->launcher;
    char how[GW_CHILD_HOW_BYTES];
    if (!may_go_on(launcher, status))
        return 0;
    gw_launch_say("the coordinator (pid %d) died at step %" PRIu64
                  ": %s; another one takes its place",
                  coordinator->pid, launcher->step,
                  gw_child_how(status, launcher->kills, how));
    launcher->is_away = 1;
    gw_launch_start_again(coordinator);
    return 1;
}

void gw_launch_coordinator_back(struct gw_launched *coordinator)
{
    struct gw_launcher *launcher = coordinator->launcher;
    launcher->is_away = 0;
    for (unsigned i = 1; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        if (!child->alive && child->end[0])
            gw_launch_tell(coordinator, "%s", child->end);
    }
    if (launcher->stopped)
        gw_launch_tell(coordinator, "stop %s",
                       strsignal(launcher->stop_number));
}

void gw_launch_coordinator_lost(struct gw_launched *coordinator)
{
    struct gw_launcher *launcher = coordinator->launcher;
    launcher->end.is_lost = launcher->end.is_untold = 1;
    gw_launch_leave_now(launcher, GW_EXIT_FAILED);
}

/* The coordinator may be dead already, and this be its last unread line. */
void gw_launch_tell_end(struct gw_launched *child, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(child->end, sizeof child->end, format, args);
    va_end(args);
    gw_launch_tell(gw_launch_coordinator(child->launcher), "%s", child->end);
}
