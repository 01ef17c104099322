/* The watch's thread: a small libuv loop of its own. */
#include "config.h"

#include "cli/watch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "cli/cli.h"
#include "cli/parent.h"
#include "cli/signals.h"
#include "transport/link/limits.h"

#define TICK_MS 100

/* A terminal, timeout(1) or a launcher may send one signal several times. */
#define SAME_WISH_TICKS 4

/* Time to end after a second signal. */
#define HURRY_MS 3000

/* Time to end after the launcher's end. */
#define ORPHAN_MS 2500

struct gw_watch {
    struct gw_watch_options options;
    uv_loop_t uv;
    struct gw_signals signals;
    uv_pipe_t parent;
    uv_timer_t timer;
    uv_async_t quit;
    pthread_t thread;
    atomic_int stopped;
    atomic_int limit_ms; /* 0: none; counted in ticks, so that a pause of the
                            whole process does not use it up */
    atomic_int limit_code;
    atomic_int quiet;          /* exits at the limit without a line */
    unsigned ticks_since_stop; /* or since a second signal */
    int hurried;
    struct gw_parent_lines lines;
    char bytes[512];
};

static void leave(struct gw_watch *watch, int code)
{
    watch->options.events->exits(watch->options.owner);
    _exit(code);
}

static void request_stop(struct gw_watch *watch, const char *why, int number)
{
    if (atomic_exchange(&watch->stopped, 1))
        return;
    watch->options.events->stop(watch->options.owner, why, number);
}

/* Once more asked to. */
static void request_hurry(struct gw_watch *watch)
{
    gw_log_warn(watch->options.log, "another signal: exits at once");
    if (watch->hurried || !watch->options.events->hurry(watch->options.owner))
        leave(watch, GW_EXIT_INTERRUPTED);
    watch->hurried = 1;
    watch->ticks_since_stop = 0;
    gw_watch_limit(watch, HURRY_MS, GW_EXIT_INTERRUPTED);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct gw_watch *watch = signal->data;
    if (!atomic_load(&watch->stopped))
        request_stop(watch, strsignal(number), number);
    else if (watch->ticks_since_stop >= SAME_WISH_TICKS)
        request_hurry(watch);
}

static void on_tick(uv_timer_t *timer)
{
    struct gw_watch *watch = timer->data;
    watch->ticks_since_stop += atomic_load(&watch->stopped) != 0;
    watch->options.events->tick(watch->options.owner);
    int left = atomic_load(&watch->limit_ms);
    if (left == 0)
        return;
    if (left > TICK_MS) {
        atomic_fetch_sub(&watch->limit_ms, TICK_MS);
        return;
    }
    if (!atomic_load(&watch->quiet))
        gw_log_error(watch->options.log,
                     "the %s did not end in time, exits at once",
                     watch->options.name);
    leave(watch, atomic_load(&watch->limit_code));
}

static void on_line(void *owner, const char *line)
{
    struct gw_watch *watch = owner;
    const char *why = gw_parent_word(line, "stop");
    if (strcmp(line, "now") == 0)
        leave(watch, GW_EXIT_INTERRUPTED);
    if (why)
        request_stop(watch, why, 0);
    else if (strcmp(line, "hurry") != 0)
        watch->options.events->line(watch->options.owner, line);
    else if (!watch->hurried) /* the launcher filters repeated signals with its
                                 own clock */
        request_hurry(watch);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct gw_watch *watch = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(watch->bytes, sizeof watch->bytes);
}

static void on_parent(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct gw_watch *watch = stream->data;
    if (n >= 0) {
        gw_parent_take(&watch->lines, buffer->base, (size_t)n, on_line, watch);
        return;
    }
    uv_read_stop(stream);
    gw_watch_limit(watch, ORPHAN_MS, GW_EXIT_FAILED);
    watch->options.events->orphaned(watch->options.owner);
}

static void on_quit(uv_async_t *quit)
{
    uv_stop(quit->loop);
}

static void *watch_main(void *argument)
{
    struct gw_watch *watch = argument;
    uv_run(&watch->uv, UV_RUN_DEFAULT);
    return NULL;
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void close_handles(struct gw_watch *watch)
{
    gw_signals_hold();
    uv_walk(&watch->uv, close_handle, NULL);
    uv_run(&watch->uv, UV_RUN_DEFAULT);
    uv_loop_close(&watch->uv);
    gw_signals_end_process();
}

static int watch_parent(struct gw_watch *watch)
{
    uv_pipe_init(&watch->uv, &watch->parent, 0);
    watch->parent.data = watch;
    if (watch->options.parent_fd < 0)
        return 0;
    int failed = uv_pipe_open(&watch->parent, watch->options.parent_fd);
    if (!failed)
        failed = uv_read_start((uv_stream_t *)&watch->parent, give_buffer,
                               on_parent);
    return failed;
}

enum gw_status gw_watch_open(const struct gw_watch_options *options,
                             struct gw_watch **watch_p,
                             struct gw_error *error)
{
    struct gw_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return gw_fail(error, GW_ENOMEM, "no memory to watch for signals");
    watch->options = *options;
    char why[GW_LIMITS_WHY_BYTES] = "";
    int failed = uv_loop_init(&watch->uv);
    if (failed)
        goto free_watch;
    uv_timer_init(&watch->uv, &watch->timer);
    watch->timer.data = watch;
    failed = uv_async_init(&watch->uv, &watch->quit, on_quit);
    if (failed)
        goto close_loop;
    gw_signals_watch(&watch->signals, &watch->uv, on_signal, watch);
    failed = watch_parent(watch);
    if (failed)
        goto close_loop;
    uv_timer_start(&watch->timer, on_tick, TICK_MS, TICK_MS);
    failed = -pthread_create(&watch->thread, NULL, watch_main, watch);
    if (failed) {
        gw_limits_why_no_process(-failed, why);
        goto close_loop;
    }
    *watch_p = watch;
    return GW_OK;

close_loop:
    close_handles(watch);
free_watch:
    free(watch);
    return gw_fail(error, GW_EIO, "cannot watch for signals: %s",
                   why[0] ? why : gw_limits_why_no_file(-failed, why));
}

void gw_watch_close(struct gw_watch *watch)
{
    if (!watch)
        return;
    uv_async_send(&watch->quit);
    pthread_join(watch->thread, NULL);
    close_handles(watch);
    free(watch);
}

void gw_watch_limit(struct gw_watch *watch, unsigned ms, int code)
{
    int left = atomic_load(&watch->limit_ms);
    do {
        if (left != 0 && left <= (int)ms)
            return;
        if (left == 0)
            atomic_store(&watch->limit_code, code);
    } while (!atomic_compare_exchange_weak(&watch->limit_ms, &left, (int)ms));
}

void gw_watch_leave(struct gw_watch *watch, unsigned ms)
{
    atomic_store(&watch->quiet, 1);
    gw_watch_limit(watch, ms, GW_EXIT_FAILED);
}

void gw_watch_relax(struct gw_watch *watch)
{
    if (!atomic_load(&watch->stopped))
        atomic_store(&watch->limit_ms, 0);
}
