#include "config.h"

#include "cli/relay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/parent.h"

/* Ticks of the watch for which the loop may hang after a stop: the loop ends
   the job, and the watch must end a hung loop. */
#define AWAY_TICKS 90

/* The launcher's report of a member's ended process, or of a program. */
struct gw_relay_gone {
    struct gw_task task;
    struct gw_relay *relay;
    uint32_t number; /* pid, or rank */
    int code;        /* of a program */
    char how[GW_PARENT_LINE_MAX];
    struct gw_relay_gone *next;
};

/* ---- the watch's thread ---- */

static void post(struct gw_relay *relay, struct gw_task *task)
{
    pthread_mutex_lock(&relay->mutex);
    if (relay->stage == GW_RELAY_OPEN)
        gw_loop_post(relay->loop, task);
    pthread_mutex_unlock(&relay->mutex);
}

/* Removes the socket, as gw_coordinator_close does. */
static void on_exits(void *owner)
{
    struct gw_relay *relay = owner;
    if (atomic_load(&relay->has_local))
        unlink(relay->local);
}

static void on_stop(void *owner, const char *why, int number)
{
    struct gw_relay *relay = owner;
    (void)number;
    pthread_mutex_lock(&relay->mutex);
    snprintf(relay->why, sizeof relay->why, "%s", why);
    int is_opening = relay->stage == GW_RELAY_OPENING;
    if (is_opening && !relay->has_job) {
        on_exits(relay);
        _exit(GW_EXIT_INTERRUPTED); /* nobody has joined */
    }
    atomic_store(&relay->is_stopping, 1);
    pthread_mutex_unlock(&relay->mutex);
    if (!is_opening)
        post(relay, &relay->stop_task);
}

static void on_tick(void *owner)
{
    struct gw_relay *relay = owner;
    unsigned ticks = atomic_fetch_add(&relay->away_ticks, 1);
    if (atomic_load(&relay->is_stopping) && ticks >= AWAY_TICKS)
        gw_watch_limit(relay->process->watch, 1, GW_EXIT_INTERRUPTED);
}

/* Stops the coordinator, since members on other hosts would wait for its
   silence. */
static int on_hurry(void *owner)
{
    struct gw_relay *relay = owner;
    pthread_mutex_lock(&relay->mutex);
    int is_opening = relay->stage == GW_RELAY_OPENING;
    pthread_mutex_unlock(&relay->mutex);
    post(relay, &relay->hurry_task);
    return !is_opening;
}

static void on_orphaned(void *owner)
{
    struct gw_relay *relay = owner;
    pthread_mutex_lock(&relay->mutex);
    if (relay->stage == GW_RELAY_OPENING) {
        gw_log_error(&relay->process->log, "the launcher died%s",
                     relay->has_job ? "" : " at step 0");
        on_exits(relay);
        _exit(GW_EXIT_FAILED); /* members notice it by themselves */
    }
    pthread_mutex_unlock(&relay->mutex);
    post(relay, &relay->orphan_task);
}

static void gone_run(struct gw_task *task)
{
    struct gw_relay_gone *gone = task->owner;
    struct gw_relay *relay = gone->relay;
    if (gw_coordinator_gone(relay->coordinator, gone->number, gone->how))
        gw_parent_tell(relay->process->parent_fd, "restart %" PRIu32,
                       gone->number);
}

static void ended_run(struct gw_task *task)
{
    struct gw_relay_gone *gone = task->owner;
    gw_coordinator_program_ended(gone->relay->coordinator, gone->number,
                                 gone->code, gone->how);
}

static void none_run(struct gw_task *task)
{
    struct gw_relay_gone *gone = task->owner;
    gw_coordinator_not_replaced(gone->relay->coordinator, gone->number);
}

/* Without memory the member's silence will tell. */
static void add_gone(struct gw_relay *relay,
                     void (*run)(struct gw_task *task),
                     const struct gw_relay_gone *what,
                     const char *how)
{
    struct gw_relay_gone *gone = calloc(1, sizeof *gone);
    if (!gone)
        return;
    *gone = *what;
    gone->task.run = run;
    gone->task.owner = gone;
    gone->relay = relay;
    snprintf(gone->how, sizeof gone->how, "%s",
             *how == ' ' ? how + 1 : "it is gone");
    gone->next = relay->gone;
    relay->gone = gone;
    post(relay, &gone->task);
}

/* "PID HOW" */
static void take_gone(struct gw_relay *relay, const char *what)
{
    char *how;
    const struct gw_relay_gone gone = {.number =
                                           (uint32_t)strtoul(what, &how, 10)};
    add_gone(relay, gone_run, &gone, how);
}

/* "RANK" */
static void take_none(struct gw_relay *relay, const char *what)
{
    const struct gw_relay_gone gone = {.number =
                                           (uint32_t)strtoul(what, NULL, 10)};
    add_gone(relay, none_run, &gone, "");
}

/* "RANK CODE HOW" */
static void take_ended(struct gw_relay *relay, const char *what)
{
    char *how;
    struct gw_relay_gone gone = {.number = (uint32_t)strtoul(what, &how, 10)};
    gone.code = (int)strtol(how, &how, 10);
    add_gone(relay, ended_run, &gone, how);
}

static void on_line(void *owner, const char *line)
{
    struct gw_relay *relay = owner;
    const char *gone = gw_parent_word(line, "gone");
    const char *ended = gw_parent_word(line, "ended");
    const char *none = gw_parent_word(line, "none");
    if (gone)
        take_gone(relay, gone);
    else if (none)
        take_none(relay, none);
    else if (ended)
        take_ended(relay, ended);
    else if (strcmp(line, "left") == 0)
        post(relay, &relay->hurry_task); /* no effect if all leave anyway */
}

/* ---- the loop's thread ---- */

static void stop_run(struct gw_task *task)
{
    struct gw_relay *relay = task->owner;
    char why[sizeof relay->why];
    pthread_mutex_lock(&relay->mutex);
    memcpy(why, relay->why, sizeof why);
    pthread_mutex_unlock(&relay->mutex);
    gw_coordinator_stop(relay->coordinator, why);
}

static void hurry_run(struct gw_task *task)
{
    struct gw_relay *relay = task->owner;
    gw_coordinator_stop_now(relay->coordinator);
}

static void orphan_run(struct gw_task *task)
{
    struct gw_relay *relay = task->owner;
    gw_coordinator_orphaned(relay->coordinator);
}

void gw_relay_seen(struct gw_relay *relay)
{
    atomic_store(&relay->away_ticks, 0);
}

/* ---- its life ---- */

/* Returns whether a stop came while it was opening. */
static int set_stage(struct gw_relay *relay, enum gw_relay_stage stage)
{
    pthread_mutex_lock(&relay->mutex);
    int is_asked =
        relay->stage == GW_RELAY_OPENING && atomic_load(&relay->is_stopping);
    relay->stage = stage;
    pthread_mutex_unlock(&relay->mutex);
    return is_asked;
}

void gw_relay_init(struct gw_relay *relay, struct gw_process *process)
{
    relay->process = process;
    relay->stop_task = (struct gw_task){.run = stop_run, .owner = relay};
    relay->hurry_task = (struct gw_task){.run = hurry_run, .owner = relay};
    relay->orphan_task = (struct gw_task){.run = orphan_run, .owner = relay};
    pthread_mutex_init(&relay->mutex, NULL);
    process->stop = on_stop;
    process->hurry = on_hurry;
    process->orphaned = on_orphaned;
    process->line = on_line;
    process->tick = on_tick;
    process->exits = on_exits;
    process->owner = relay;
}

void gw_relay_open(struct gw_relay *relay,
                   struct gw_loop *loop,
                   struct gw_coordinator *coordinator)
{
    relay->loop = loop;
    relay->coordinator = coordinator;
    if (set_stage(relay, GW_RELAY_OPEN))
        post(relay, &relay->stop_task);
}

void gw_relay_close(struct gw_relay *relay)
{
    set_stage(relay, GW_RELAY_OVER);
}

void gw_relay_free(struct gw_relay *relay)
{
    while (relay->gone) {
        struct gw_relay_gone *gone = relay->gone;
        relay->gone = gone->next;
        free(gone);
    }
    pthread_mutex_destroy(&relay->mutex);
}
