/* The loop in virtual time, and the fiber of a caller that shares it. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/metrics.h"

static const struct gw_loop_ops sim_loop_ops;

struct gw_sim_caller {
    struct gw_sim_fiber *fiber;
    void (*finished)(void *argument);
    void *argument;
    int waits; /* in a turn of the loop, for what happens to the process */
    int (*done)(void *owner); /* or for this only, if it is not NULL */
    void *done_owner;
    int runs;
    int computes;             /* until `wake` */
    struct gw_sim_event wake; /* the end of a part of a computation */
    uint64_t whole_us;        /* of a computation, */
    uint64_t passed_us;       /* and of its parts so far */
};

struct gw_sim_process *gw_sim_process_of(const struct gw_loop *loop)
{
    assert(loop->ops == &sim_loop_ops);
    return GW_CONTAINER(loop, struct gw_sim_process, base);
}

static uint64_t now_us(struct gw_loop *loop)
{
    const struct gw_sim_process *process = gw_sim_process_of(loop);
    uint64_t now = gw_sim_time(process->host);
    return process->after_us > now ? process->after_us : now;
}

/* Calls from outside, between what happens, are one turn while time stands. */
static uint64_t turn_began_us(struct gw_loop *loop)
{
    const struct gw_sim_process *process = gw_sim_process_of(loop);
    return process->in_turn ? process->turn_us : gw_sim_time(process->host);
}

static void worked(struct gw_loop *loop, uint64_t bytes)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    double rate = process->work_bytes_per_us;
    if (rate > 0 && !process->dead)
        process->after_us = now_us(loop) + (uint64_t)((double)bytes / rate);
}

void gw_sim_work_model(struct gw_loop *loop, double bytes_per_us)
{
    gw_sim_process_of(loop)->work_bytes_per_us = bytes_per_us;
}

void gw_sim_turn_begin(struct gw_sim_process *process)
{
    process->turn_us = now_us(&process->base);
    process->in_turn = 1;
}

/* A message that comes while it is at work waits, as it does while it stands
   still. */
void gw_sim_turn_end(struct gw_sim_process *process)
{
    uint64_t world_us = gw_sim_time(process->host);
    struct gw_metrics *metrics = process->base.metrics;
    process->in_turn = 0;
    if (process->dead || process->after_us <= world_us)
        return;
    if (metrics)
        gw_metrics_raise(metrics, GW_METRIC_LONGEST_TURN_US,
                         process->after_us - process->turn_us);
    if (!process->paused)
        gw_sim_pause(&process->base, process->after_us - world_us);
}

static void on_timer(struct gw_sim_event *event)
{
    gw_loop_fire_timers(&event->process->base);
}

static void timers_changed(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    gw_sim_cancel(process->host, &process->timer);
    uint64_t due = gw_loop_next_due(loop);
    if (due != UINT64_MAX && !process->dead)
        gw_sim_schedule(process->host, &process->timer, due);
}

/* As many as there were, until the turn is over. */
static void on_tasks(struct gw_sim_event *event)
{
    struct gw_sim_process *process = event->process;
    size_t n = 0;
    for (struct gw_task *task = process->tasks_first; task; task = task->next)
        n++;
    process->runs_tasks = 1;
    while (n-- > 0 && process->tasks_first) {
        struct gw_task *task = process->tasks_first;
        gw_tasks_remove(&process->tasks_first, &process->tasks_last, task);
        atomic_store(&task->queued, 0);
        task->run(task);
        if (gw_loop_turn_is_over(&process->base))
            break;
    }
    process->runs_tasks = 0;
    if (process->tasks_first && !process->tasks.scheduled && !process->dead)
        gw_sim_schedule(process->host, &process->tasks,
                        gw_sim_time(process->host));
}

static void post(struct gw_loop *loop, struct gw_task *task)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    int idle = !process->tasks_first || process->runs_tasks;
    task->next = NULL;
    *process->tasks_last = task;
    process->tasks_last = &task->next;
    if (idle && !process->tasks.scheduled && !process->dead)
        gw_sim_schedule(process->host, &process->tasks,
                        gw_sim_time(process->host));
}

static void unpost(struct gw_loop *loop, struct gw_task *task)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    gw_tasks_remove(&process->tasks_first, &process->tasks_last, task);
    if (!process->tasks_first)
        gw_sim_cancel(process->host, &process->tasks);
}

struct sim_work {
    struct gw_sim_event event;
    struct gw_work *work;
};

static void work_done(struct gw_sim_event *event)
{
    struct sim_work *job = event->owner;
    struct gw_work *work = job->work;
    work->job = NULL;
    free(job);
    work->done(work);
}

static void work_dropped(struct gw_sim_event *event)
{
    struct sim_work *job = event->owner;
    job->work->job = NULL;
    free(job);
}

/* The work happens at once; its completion comes when it would have. */
static void queue_work(struct gw_loop *loop, struct gw_work *work)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    struct sim_work *job = calloc(1, sizeof *job);
    assert(job);
    job->event.process = process;
    job->event.run = work_done;
    job->event.drop = work_dropped;
    job->event.owner = job;
    job->work = work;
    work->job = job;
    work->run(work);
    uint64_t late_us = gw_sim_disk_late_us(loop->disk);
    gw_sim_schedule(process->host, &job->event,
                    gw_sim_time(process->host) + work->model_us + late_us);
}

static void cancel_work(struct gw_loop *loop, struct gw_work *work)
{
    struct sim_work *job = work->job;
    gw_sim_cancel(gw_sim_process_of(loop)->host, &job->event);
    work_dropped(&job->event);
}

static void random_bytes(struct gw_loop *loop, void *bytes, size_t n)
{
    struct gw_sim_host *host = gw_sim_process_of(loop)->host;
    uint8_t *at = bytes;
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)gw_sim_host_draw(host, 256);
}

/* ---- the caller's side ---- */

static void resume(struct gw_sim_process *process)
{
    struct gw_sim_caller *caller = process->caller;
    caller->runs = 1;
    int alive = gw_sim_fiber_resume(caller->fiber);
    caller->runs = 0;
    if (alive)
        return;
    process->caller = NULL;
    gw_sim_fiber_free(caller->fiber);
    void (*finished)(void *argument) = caller->finished;
    void *argument = caller->argument;
    free(caller);
    if (finished)
        finished(argument);
}

void gw_sim_look_again(struct gw_sim_process *process)
{
    const struct gw_sim_caller *caller = process->caller;
    if (caller && caller->waits &&
        (!caller->done || caller->done(caller->done_owner)))
        resume(process);
}

void gw_sim_look_sent(struct gw_sim_process *process)
{
    const struct gw_sim_caller *caller = process->caller;
    if (caller && caller->waits && !caller->done)
        resume(process);
}

static void on_wake(struct gw_sim_event *event)
{
    resume(event->process);
}

enum gw_status gw_sim_spawn(struct gw_loop *loop,
                            void (*main)(void *argument),
                            void (*finished)(void *argument),
                            void *argument,
                            struct gw_error *error)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->caller);
    struct gw_sim_caller *caller = calloc(1, sizeof *caller);
    if (!caller)
        return gw_fail(error, GW_ENOMEM, "no memory for a fiber");
    enum gw_status status =
        gw_sim_fiber_new(main, argument, &caller->fiber, error);
    if (status != GW_OK) {
        free(caller);
        return status;
    }
    caller->finished = finished;
    caller->argument = argument;
    caller->wake.process = process;
    caller->wake.run = on_wake;
    process->caller = caller;
    gw_sim_schedule(process->host, &caller->wake, gw_sim_time(process->host));
    return GW_OK;
}

void gw_sim_unwind(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(process->dead);
    if (process->caller) /* which may be computing */
        gw_sim_cancel(process->host, &process->caller->wake);
    while (process->caller)
        resume(process);
}

void gw_sim_compute_model(struct gw_loop *loop,
                          uint64_t (*compute_us)(void *owner, uint64_t samples),
                          void *owner)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    process->compute_us = compute_us;
    process->compute_owner = owner;
}

void gw_sim_compute_watch(struct gw_loop *loop,
                          void (*passed)(void *owner,
                                         uint64_t begin_us,
                                         uint64_t end_us))
{
    gw_sim_process_of(loop)->compute_passed = passed;
}

static enum gw_status share(struct gw_loop *loop, struct gw_error *error)
{
    if (!gw_sim_process_of(loop)->caller)
        return gw_fail(error, GW_EINVAL,
                       "a simulated loop is shared from within a fiber only");
    return GW_OK;
}

static void share_no_more(struct gw_loop *loop)
{
    (void)loop;
}

static int has_no_thread(struct gw_loop *loop, pthread_t *thread_p)
{
    (void)loop, (void)thread_p;
    return 0;
}

static void enter(struct gw_loop *loop)
{
    (void)loop;
}

/* How much of a computation has passed when the part is over: parts come to the
   whole, to the microsecond. */
static uint64_t end_of(const struct gw_sim_caller *caller,
                       const struct gw_computed *part)
{
    if (part->to >= part->of)
        return caller->whole_us;
    return (uint64_t)((double)caller->whole_us * (double)part->to /
                      (double)part->of);
}

static void computed(struct gw_loop *loop, const struct gw_computed *part)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    struct gw_sim_caller *caller = process->caller;
    if (process->dead || !process->compute_us)
        return;
    if (part->from == 0) {
        caller->whole_us =
            process->compute_us(process->compute_owner, part->samples);
        caller->passed_us = 0;
    }
    uint64_t end_us = end_of(caller, part),
             begin_us = gw_sim_time(process->host);
    if (end_us <= caller->passed_us)
        return;
    gw_sim_schedule(process->host, &caller->wake,
                    begin_us + end_us - caller->passed_us);
    caller->passed_us = end_us;
    caller->computes = 1;
    gw_sim_fiber_yield(caller->fiber);
    caller->computes = 0;
    if (process->compute_passed && !process->dead)
        process->compute_passed(process->compute_owner, begin_us,
                                gw_sim_time(process->host));
}

/* Parts that are still to come take no time. */
static void interrupt(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    struct gw_sim_caller *caller = process->caller;
    if (process->dead || !caller)
        return;
    caller->whole_us = 0;
    if (!caller->computes)
        return;
    gw_sim_cancel(process->host, &caller->wake);
    gw_sim_schedule(process->host, &caller->wake, gw_sim_time(process->host));
}

/* Nothing happens to the dead but time: their waits end by their deadlines. */
static void turn_dead(struct gw_sim_process *process)
{
    uint64_t due = gw_loop_next_due(&process->base);
    if (due != UINT64_MAX && due > process->after_us)
        process->after_us = due;
    gw_sim_fail_dials(process);
    gw_loop_fire_timers(&process->base);
}

static void turn(struct gw_loop *loop, int (*done)(void *owner), void *owner)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    if (process->dead) {
        turn_dead(process);
        return;
    }
    process->caller->done = done;
    process->caller->done_owner = owner;
    process->caller->waits = 1;
    gw_sim_fiber_yield(process->caller->fiber);
    process->caller->waits = 0;
}

static void leave(struct gw_loop *loop)
{
    (void)loop;
}

static void run(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    process->stopped = 0;
    while (!process->stopped && !process->dead)
        turn(loop, NULL, NULL);
}

static void stop(struct gw_loop *loop)
{
    gw_sim_process_of(loop)->stopped = 1;
}

/* ---- life and death ---- */

void gw_sim_process_release(struct gw_sim_process *process)
{
    if (--process->users == 0)
        free(process);
}

static void close_loop(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->caller && !process->host->sim->divided);
    *process->back = process->next;
    if (process->next)
        process->next->back = process->back;
    gw_sim_purge(process);
    gw_sim_process_release(process);
}

static const struct gw_loop_ops sim_loop_ops = {
    .name = "sim",
    .now_us = now_us,
    .turn_began_us = turn_began_us,
    .worked = worked,
    .timers_changed = timers_changed,
    .post = post,
    .unpost = unpost,
    .work = queue_work,
    .cancel = cancel_work,
    .random = random_bytes,
    .run = run,
    .stop = stop,
    .share = share,
    .unshare = share_no_more,
    .thread = has_no_thread,
    .enter = enter,
    .turn = turn,
    .leave = leave,
    .computed = computed,
    .interrupt = interrupt,
    .close = close_loop,
};

enum gw_status gw_sim_process(struct gw_sim *sim,
                              const char *host,
                              struct gw_loop **loop_p,
                              struct gw_error *error)
{
    assert(!sim->divided);
    struct gw_sim_process *process = calloc(1, sizeof *process);
    struct gw_disk *disk = gw_sim_disk_of(sim, host);
    struct gw_sim_host *at = gw_sim_host_of(sim, host);
    if (!process || !disk || !at) {
        free(process);
        return gw_fail(error, GW_ENOMEM, "no memory for a simulated process");
    }
    process->host = at;
    process->base.ops = &sim_loop_ops;
    process->base.disk = disk;
    process->users = 1;
    process->held_last = &process->held;
    process->tasks_last = &process->tasks_first;
    process->timer.process = process->tasks.process = process;
    process->timer.run = on_timer;
    process->tasks.run = on_tasks;
    process->next = sim->processes;
    if (process->next)
        process->next->back = &process->next;
    process->back = &sim->processes;
    sim->processes = process;
    *loop_p = &process->base;
    return GW_OK;
}

void gw_sim_kill(struct gw_loop *loop)
{
    struct gw_sim_process *process = gw_sim_process_of(loop);
    assert(!process->host->sim->divided);
    if (process->dead)
        return;
    process->dead = 1;
    gw_sim_cut_process(process);
    gw_sim_drop_held(process);
}

int gw_sim_is_dead(const struct gw_loop *loop)
{
    return gw_sim_process_of(loop)->dead;
}
