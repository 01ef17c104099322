/* The loop in virtual time: timers, tasks, work; and how processes are made. */
#include "config.h"

#include "transport/sim/sim_world.h"

#include <assert.h>
#include <stdlib.h>

static uint64_t now_us(struct gw_loop *loop)
{
    return gw_sim_process_time(gw_sim_process_of(loop));
}

/* Calls from outside, between events, are one turn while time stands. */
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

/* Runs the tasks that were there, until the turn is over. */
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

/* Work runs at once; its completion comes after its modelled time. */
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

/* For a dead process only time passes: its waits end at their deadlines. */
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
    gw_sim_caller_wait(process, done, owner);
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

const struct gw_loop_ops gw_sim_loop_ops = {
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
    .computed = gw_sim_caller_computed,
    .interrupt = gw_sim_caller_interrupt,
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
    process->base.ops = &gw_sim_loop_ops;
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
