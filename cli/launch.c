#include "config.h"

#include "cli/launch_state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/child.h"
#include "cli/secret.h"

/* A terminal or timeout(1) may send one signal several times. */
#define SAME_WISH_TICKS 4

/* ---- children ---- */

static void child_ended(struct gw_launched *child, int status)
{
    struct gw_launcher *launcher = child->launcher;
    gw_launch_hear_last(child);
    child->alive = 0;
    launcher->alive--;
    gw_launch_close_pipe(child);
    if (!child->is_due)
        child->ops->ended(child, status);
    if (launcher->alive == 0 && !gw_launch_coordinator(launcher)->is_due)
        uv_stop(&launcher->uv);
}

/* Its processes go while its number is still its own. */
static void look_at(struct gw_launched *child)
{
    siginfo_t info = {.si_pid = 0};
    int status;
    if (!child->alive ||
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) !=
            0 ||
        info.si_pid == 0)
        return;
    child->ops->kill(child);
    if (waitpid(child->pid, &status, WNOHANG) > 0)
        child_ended(child, status);
}

/* One SIGCHLD may stand for several children. */
static void on_ended(uv_signal_t *signal, int number)
{
    struct gw_launcher *launcher = signal->data;
    (void)number;
    for (unsigned i = 0; i < launcher->children; i++)
        look_at(&launcher->child[i]);
}

/* ---- signals and time ---- */

/* Programs that go on after the job get the signal itself. A coordinator that
   is to come is told when it is there. */
static void stop(struct gw_launcher *launcher, int number)
{
    struct gw_launched *coordinator = gw_launch_coordinator(launcher);
    launcher->stopped = 1;
    launcher->stop_number = number;
    gw_launch_limit(launcher, GW_LAUNCH_STOP_TICKS);
    if (launcher->is_away)
        return;
    gw_launch_tell(coordinator, "stop %s", strsignal(number));
    if (!coordinator->alive)
        gw_launch_signal_programs(launcher, number);
}

static void hurry(struct gw_launcher *launcher)
{
    launcher->hurried = 1;
    launcher->ticks_since_stop = 0;
    gw_launch_limit(launcher, GW_LAUNCH_HURRY_TICKS);
    gw_launch_tell(gw_launch_coordinator(launcher), "hurry");
    gw_launch_signal_programs(launcher, SIGKILL);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct gw_launcher *launcher = signal->data;
    if (!launcher->stopped)
        stop(launcher, number);
    else if (launcher->ticks_since_stop < SAME_WISH_TICKS)
        return;
    else if (!launcher->hurried && !launcher->is_away)
        hurry(launcher);
    else
        gw_launch_leave_now(launcher, GW_EXIT_INTERRUPTED);
}

/* Programs are no jobs of the terminal: Ctrl-Z and fg reach them from here. */
static void on_pause(uv_signal_t *signal, int number)
{
    gw_launch_signal_programs(signal->data, number);
    raise(SIGSTOP);
}

static void on_go_on(uv_signal_t *signal, int number)
{
    gw_launch_signal_programs(signal->data, number);
}

/* Returns how many are killed. Programs may still be loading their libraries
   when a job ends before its first step: that is no news. */
static unsigned kill_late(struct gw_launcher *launcher,
                          const struct gw_launch_ops *kind)
{
    unsigned killed = 0;
    int is_news = !launcher->now && (!kind || launcher->step > 0);
    for (unsigned i = 0; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        if (!child->alive || (kind && child->ops != kind) ||
            child->ops->may_stay(child))
            continue;
        if (is_news)
            gw_launch_say("%s %u (pid %d) did not leave in time and is killed",
                          child->role, child->index, child->pid);
        child->killed = 1;
        child->ops->kill(child);
        killed++;
    }
    return killed;
}

static void on_limit(struct gw_launcher *launcher)
{
    unsigned killed = kill_late(launcher, NULL);
    if (!launcher->over)
        launcher->code =
            launcher->stopped ? GW_EXIT_INTERRUPTED : GW_EXIT_FAILED;
    launcher->over = 1;
    launcher->ticks_left = killed > 0 ? GW_LAUNCH_NOW_TICKS : 0;
}

static void on_tick(uv_timer_t *timer)
{
    struct gw_launcher *launcher = timer->data;
    launcher->ticks_since_stop += launcher->stopped != 0;
    if (launcher->ticks_left > 0 && --launcher->ticks_left == 0)
        on_limit(launcher);
    if (launcher->grace_left > 0 && --launcher->grace_left == 0)
        kill_late(launcher, &gw_launch_program_ops);
}

/* ---- the whole ---- */

static void name_children(struct gw_launcher *launcher)
{
    const struct gw_launch_options *options = launcher->options;
    for (unsigned i = 0; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        child->launcher = launcher;
        child->input = -1;
        int is_worker = i > options->servers;
        child->ops = is_worker && options->program ? &gw_launch_program_ops
                                                   : &gw_launch_member_ops;
        child->role = is_worker ? "worker" : "server";
        child->index = i <= options->servers ? i - 1 : i - 1 - options->servers;
    }
    struct gw_launched *coordinator = gw_launch_coordinator(launcher);
    coordinator->ops = &gw_launch_coordinator_ops;
    coordinator->role = "coordinator";
    coordinator->index = 0;
}

static void watch_pauses(struct gw_launcher *launcher)
{
    uv_signal_init(&launcher->uv, &launcher->pause);
    uv_signal_init(&launcher->uv, &launcher->go_on);
    launcher->pause.data = launcher->go_on.data = launcher;
    uv_signal_start(&launcher->pause, on_pause, SIGTSTP);
    uv_signal_start(&launcher->go_on, on_go_on, SIGCONT);
}

static void watch(struct gw_launcher *launcher)
{
    uv_signal_init(&launcher->uv, &launcher->ended);
    launcher->ended.data = launcher;
    uv_signal_start(&launcher->ended, on_ended, SIGCHLD);
    gw_signals_watch(&launcher->signals, &launcher->uv, on_signal, launcher);
    if (launcher->options->program)
        watch_pauses(launcher);
    signal(SIGPIPE, SIG_IGN);
    uv_timer_init(&launcher->uv, &launcher->timer);
    launcher->timer.data = launcher;
    uv_timer_start(&launcher->timer, on_tick, GW_LAUNCH_TICK_MS,
                   GW_LAUNCH_TICK_MS);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* A program's own exit code says more than that the job has failed. */
static enum gw_exit judge(const struct gw_launcher *launcher)
{
    int is_complete = launcher->code == GW_EXIT_DONE;
    if (!launcher->failed || (launcher->stopped && !is_complete))
        return launcher->code;
    if (launcher->stopped)
        return GW_EXIT_INTERRUPTED;
    if (is_complete) /* of which the coordinator says nothing */
        gw_launch_say("worker %u failed, but the job is complete: %s",
                      launcher->failed_index, launcher->failed_how);
    return (enum gw_exit)launcher->failed;
}

/* Starts all processes, and waits until none is left. */
static enum gw_exit launch_once(const struct gw_launch_options *options,
                                struct gw_launched_end *end)
{
    struct gw_launcher launcher = {
        .options = options, .kills = gw_child_kills(), .code = GW_EXIT_FAILED};
    struct gw_error error;
    if (gw_secret_draw(&launcher.secret, &error) != GW_OK)
        return gw_cli_fail(&error);
    launcher.children = 1 + options->servers + options->workers;
    launcher.child = calloc(launcher.children, sizeof *launcher.child);
    if (!launcher.child || uv_loop_init(&launcher.uv) != 0) {
        free(launcher.child);
        gw_launch_say("no memory for %u processes", launcher.children);
        return GW_EXIT_FAILED;
    }
    name_children(&launcher);
    watch(&launcher);
    if (gw_launch_coordinator_ops.start(gw_launch_coordinator(&launcher)) == 0)
        uv_run(&launcher.uv, UV_RUN_DEFAULT);
    gw_signals_hold();
    uv_walk(&launcher.uv, close_handle, NULL);
    uv_run(&launcher.uv, UV_RUN_DEFAULT);
    uv_loop_close(&launcher.uv);
    gw_typed_close(&launcher.typed);
    free(launcher.child);
    gw_secret_forget(&launcher.secret);
    *end = launcher.end;
    end->is_lost = end->is_lost && !launcher.stopped;
    return judge(&launcher);
}

/* Signals are held between two times. */
enum gw_exit gw_launch(const struct gw_launch_options *options)
{
    struct gw_launch_options now = *options;
    struct gw_launch_again again = {.n = 0};
    struct gw_launched_end end;
    do {
        end = (struct gw_launched_end){.is_lost = 0};
        enum gw_exit code = launch_once(&now, &end);
        end.code = code;
    } while (gw_launch_again(&again, &now, &end));
    gw_signals_end_process();
    return end.code;
}
