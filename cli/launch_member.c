#include "config.h"

#include "cli/launch_state.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"

#define OWN_MAX 4 /* more than there are keys of a host's own */

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

static int start_member(struct gw_launched *child)
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
    const struct gw_launch_process process = {.arguments = argument,
                                              .output = STDOUT_FILENO};
    return gw_launch_start(child, &process);
}

static void no_line(struct gw_launched *child, const char *line)
{
    (void)child, (void)line;
}

/* Non-zero if somebody killed the child or sent it a signal to end. */
static int was_ended(const struct gw_launched *child, int number)
{
    return child->killed || number == SIGINT || number == SIGTERM;
}

/* Tells the coordinator, while it lives, which judges the loss for the job. A
   child that a signal ended stops the job: before it joined it could ask nobody
   to stop, and its second signal need not be a second one by our clock. */
static void member_ended(struct gw_launched *child, int status)
{
    struct gw_launcher *launcher = child->launcher;
    struct gw_launched *coordinator = gw_launch_coordinator(launcher);
    char how[GW_CHILD_HOW_BYTES];
    gw_child_how(status, launcher->kills, how);
    int is_stop =
        WIFEXITED(status) && WEXITSTATUS(status) == GW_EXIT_INTERRUPTED;
    int has_coordinator = launcher->is_away || coordinator->alive;
    if (has_coordinator && is_stop) {
        gw_launch_tell_end(child, "stop a %s got a signal", child->role);
        gw_launch_tell(coordinator, "left");
    } else if (coordinator->alive && launcher->hurried) {
        return; /* it is being stopped */
    } else if (has_coordinator) {
        gw_launch_tell_end(child, "gone %d %s", child->pid, how);
    } else if (WIFSIGNALED(status) && !was_ended(child, WTERMSIG(status))) {
        gw_launch_say("%s %u (pid %d) died after the job's end: %s",
                      child->role, child->index, child->pid, how);
        if (launcher->code == GW_EXIT_DONE)
            launcher->code = GW_EXIT_FAILED;
    }
}

/* A server that is not replaced has a copy elsewhere. */
void gw_launch_member_lost(struct gw_launched *child)
{
    if (strcmp(child->role, "server") == 0)
        return;
    gw_launch_tell(gw_launch_coordinator(child->launcher), "none %u",
                   child->index);
}

void gw_launch_kill_process(const struct gw_launched *child)
{
    kill(child->pid, SIGKILL);
}

int gw_launch_may_not_stay(const struct gw_launched *child)
{
    (void)child;
    return 0;
}

const struct gw_launch_ops gw_launch_member_ops = {
    .start = start_member,
    .line = no_line,
    .ended = member_ended,
    .kill = gw_launch_kill_process,
    .lost = gw_launch_member_lost,
    .may_stay = gw_launch_may_not_stay,
};
