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
    child->alive = 0;
    launcher->alive--;
    uv_close((uv_handle_t *)&child->pipe, NULL);
    child->ops->ended(child, status);
    if (launcher->alive == 0)
        uv_stop(&launcher->uv);
}

/* One SIGCHLD may stand for several children. */
static void on_ended(uv_signal_t *signal, int number)
{
    struct gw_launcher *launcher = signal->data;
    int status;
    (void)number;
    for (unsigned i = 0; i < launcher->children; i++)
        if (launcher->child[i].alive &&
            waitpid(launcher->child[i].pid, &status, WNOHANG) > 0)
            child_ended(&launcher->child[i], status);
}

/* ---- signals and time ---- */

static void on_signal(uv_signal_t *signal, int number)
{
    struct gw_launcher *launcher = signal->data;
    if (!launcher->stopped) {
        launcher->stopped = 1;
        gw_launch_limit(launcher, GW_LAUNCH_STOP_TICKS);
        gw_launch_tell(gw_launch_coordinator(launcher), "stop %s",
                       strsignal(number));
    } else if (launcher->ticks_since_stop < SAME_WISH_TICKS) {
        return;
    } else if (!launcher->hurried) {
        launcher->hurried = 1;
        launcher->ticks_since_stop = 0;
        gw_launch_limit(launcher, GW_LAUNCH_HURRY_TICKS);
        gw_launch_tell(gw_launch_coordinator(launcher), "hurry");
    } else {
        gw_launch_leave_now(launcher, GW_EXIT_INTERRUPTED);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct gw_launcher *launcher = timer->data;
    launcher->ticks_since_stop += launcher->stopped != 0;
    if (launcher->ticks_left == 0 || --launcher->ticks_left > 0)
        return;
    for (unsigned i = 0; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        if (!child->alive)
            continue;
        if (!launcher->now)
            gw_launch_say("%s %u (pid %d) did not leave in time and is killed",
                          child->role, child->index, child->pid);
        child->killed = 1;
        kill(child->pid, SIGKILL);
    }
    if (!launcher->over)
        launcher->code =
            launcher->stopped ? GW_EXIT_INTERRUPTED : GW_EXIT_FAILED;
    launcher->over = 1;
    launcher->ticks_left = GW_LAUNCH_NOW_TICKS;
}

/* ---- the whole ---- */

static void name_children(struct gw_launcher *launcher)
{
    const struct gw_launch_options *options = launcher->options;
    for (unsigned i = 0; i < launcher->children; i++) {
        struct gw_launched *child = &launcher->child[i];
        child->launcher = launcher;
        child->input = -1;
        child->ops = &gw_launch_member_ops;
        child->role = i <= options->servers ? "server" : "worker";
        child->index = i <= options->servers ? i - 1 : i - 1 - options->servers;
    }
    struct gw_launched *coordinator = gw_launch_coordinator(launcher);
    coordinator->ops = &gw_launch_coordinator_ops;
    coordinator->role = "coordinator";
    coordinator->index = 0;
}

static void watch(struct gw_launcher *launcher)
{
    uv_signal_init(&launcher->uv, &launcher->ended);
    launcher->ended.data = launcher;
    uv_signal_start(&launcher->ended, on_ended, SIGCHLD);
    gw_signals_watch(&launcher->signals, &launcher->uv, on_signal, launcher);
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

enum gw_exit gw_launch(const struct gw_launch_options *options)
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
    gw_signals_end_process();
    free(launcher.child);
    gw_secret_forget(&launcher.secret);
    return launcher.code;
}
