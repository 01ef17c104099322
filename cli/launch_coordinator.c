#include "config.h"

#include "cli/launch_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/child.h"
#include "transport/link/limits.h"

#define ARGUMENTS_MAX (2 * GW_CLI_SETS_MAX + 20)

/* The job's text as an unnamed file to read; -1 after an error line. */
static int lend_text(const char *text)
{
    char why[GW_LIMITS_WHY_BYTES];
    size_t bytes = strlen(text);
    int fd = memfd_create("job", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes &&
        lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    gw_launch_say("the coordinator cannot be given the job: %s",
                  gw_limits_why_no_file(errno, why));
    if (fd >= 0)
        close(fd);
    return -1;
}

static int start_coordinator(struct gw_launched *child)
{
    const struct gw_launch_options *options = child->launcher->options;
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
    if (child->launcher->is_away) {
        argument[n++] = "--rejoin";
        argument[n++] = "--listen";
        argument[n++] = child->launcher->address;
    }
    int text = lend_text(options->text);
    if (text < 0)
        return -1;
    child->input = text;
    const struct gw_launch_process process = {.arguments = argument,
                                              .output = STDOUT_FILENO};
    int failed = gw_launch_start(child, &process);
    close(text);
    return failed;
}

/* A member that the coordinator takes for dead; it may be silent and alive. One
   that leaves ends by itself. */
static void
replace(struct gw_launched *coordinator, struct gw_launched *child, int leaves)
{
    const struct gw_launcher *launcher = coordinator->launcher;
    if (!gw_launch_count_again(&child->again, launcher->options->config)) {
        child->ops->lost(child);
        return;
    }
    if (child->alive && !leaves)
        child->ops->kill(child);
    gw_launch_start_again(child);
}

static void replace_rank(struct gw_launched *coordinator, const char *rank)
{
    struct gw_launcher *launcher = coordinator->launcher;
    unsigned long index = strtoul(rank, NULL, 10);
    if (index < launcher->options->workers)
        replace(coordinator,
                &launcher->child[1 + launcher->options->servers + index], 0);
}

/* A coordinator that took another's place need not know which server it lacks
   (0). */
static struct gw_launched *find_process(struct gw_launcher *launcher, pid_t pid)
{
    for (unsigned i = 1; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        int is_server = i <= launcher->options->servers;
        if (pid ? child->pid == pid
                : is_server && !child->alive && !child->is_due)
            return child;
    }
    return NULL;
}

static void replace_process(struct gw_launched *coordinator, const char *text)
{
    struct gw_launched *child =
        find_process(coordinator->launcher, (pid_t)strtol(text, NULL, 10));
    if (child)
        replace(coordinator, child, 0);
}

static void replace_leaver(struct gw_launched *coordinator, const char *text)
{
    struct gw_launched *child =
        find_process(coordinator->launcher, (pid_t)strtol(text, NULL, 10));
    if (child)
        replace(coordinator, child, 1);
}

/* Members start when it is known where they join. */
static void take_address(struct gw_launched *coordinator, const char *address)
{
    struct gw_launcher *launcher = coordinator->launcher;
    if (launcher->is_away)
        gw_launch_coordinator_back(coordinator);
    if (launcher->address[0] || launcher->over)
        return;
    snprintf(launcher->address, sizeof launcher->address, "%s", address);
    for (unsigned i = 1; i < launcher->children && !launcher->now; i++)
        if (launcher->child[i].ops->start(&launcher->child[i]) != 0)
            gw_launch_leave_now(launcher, GW_EXIT_FAILED);
}

static void take_step(struct gw_launched *coordinator, const char *step)
{
    struct gw_launcher *launcher = coordinator->launcher;
    uint64_t at = strtoull(step, NULL, 10);
    if (at > launcher->step) /* one that comes later knows less at first */
        launcher->step = at;
    if (launcher->stopped && !launcher->hurried && !launcher->over)
        launcher->ticks_left = GW_LAUNCH_STOP_TICKS; /* it ends the job */
}

static void take_saved(struct gw_launched *coordinator, const char *nothing)
{
    (void)nothing;
    coordinator->launcher->end.has_saved = 1;
}

static void take_lost(struct gw_launched *coordinator, const char *nothing)
{
    (void)nothing;
    coordinator->launcher->end.is_lost = 1;
}

static void take_outlives(struct gw_launched *coordinator, const char *nothing)
{
    (void)nothing;
    coordinator->launcher->is_outlived = 1;
}

static void take_ends(struct gw_launched *coordinator, const char *nothing)
{
    (void)nothing;
    coordinator->launcher->is_outlived = 0;
}

static const struct {
    const char *word;
    void (*take)(struct gw_launched *coordinator, const char *rest);
} words[] = {
    {"at", take_address},       {"step", take_step},
    {"again", replace_rank},    {"restart", replace_process},
    {"leaves", replace_leaver}, {"saved", take_saved},
    {"lost", take_lost},        {"outlives", take_outlives},
    {"ends", take_ends},
};

static void on_line(struct gw_launched *coordinator, const char *line)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *rest = gw_parent_word(line, words[i].word);
        if (rest || strcmp(line, words[i].word) == 0)
            words[i].take(coordinator, rest ? rest : "");
    }
}

/* Programs notice the end by themselves. */
static void limit_others(struct gw_launcher *launcher)
{
    gw_launch_limit(launcher, GW_LAUNCH_LEAVE_TICKS);
    if (launcher->options->program && launcher->code != GW_EXIT_DONE)
        launcher->grace_left = launcher->step > 0 ? GW_LAUNCH_GRACE_TICKS
                                                  : GW_LAUNCH_NO_STEP_TICKS;
}

static void coordinator_ended(struct gw_launched *child, int status)
{
    struct gw_launcher *launcher = child->launcher;
    char how[GW_CHILD_HOW_BYTES];
    if (gw_launch_coordinator_again(child, status))
        return;
    for (unsigned i = 1; i < launcher->children; i++)
        gw_launch_tell(&launcher->child[i], "over");
    if (launcher->over) {
        limit_others(launcher);
        return;
    }
    launcher->over = 1;
    launcher->code = GW_EXIT_FAILED;
    if (WIFEXITED(status) && WEXITSTATUS(status) <= GW_EXIT_INTERRUPTED) {
        launcher->code = (enum gw_exit)WEXITSTATUS(status); /* with a line */
        if (launcher->is_away)
            launcher->end.is_lost = launcher->end.is_untold = 1;
    } else {
        launcher->end.is_lost = launcher->end.is_untold = 1;
        gw_launch_say("the coordinator (pid %d) died at step %" PRIu64 ": %s",
                      child->pid, launcher->step,
                      gw_child_how(status, launcher->kills, how));
    }
    launcher->is_away = 0;
    limit_others(launcher);
}

const struct gw_launch_ops gw_launch_coordinator_ops = {
    .start = start_coordinator,
    .line = on_line,
    .ended = coordinator_ended,
    .kill = gw_launch_kill_process,
    .lost = gw_launch_coordinator_lost,
    .may_stay = gw_launch_may_not_stay,
};
