/* The loop on libuv: real time, real threads, real files. */
#include "config.h"

#include "transport/link/loop_uv.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "transport/link/limits.h"

/* The clock has seen the work. */
static void worked(struct gw_loop *loop, uint64_t bytes)
{
    (void)loop, (void)bytes;
}

/* A real computation takes its own time. */
static void computed(struct gw_loop *loop, const struct gw_computed *part)
{
    (void)loop;
    (void)part;
}

/* A real caller checks by itself if its computation is still needed. */
static void interrupt(struct gw_loop *loop)
{
    (void)loop;
}

static uint64_t now_us(struct gw_loop *loop)
{
    (void)loop;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void on_timer(uv_timer_t *timer)
{
    struct gw_uv_loop *self = timer->data;
    self->timer_due_us = UINT64_MAX;
    self->polling.fired = 1;
    gw_loop_fire_timers(&self->base);
}

/* Sets the one uv timer; waking too early does no harm. */
static void timers_changed(struct gw_loop *loop)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    uint64_t due = gw_loop_next_due(loop);
    if (due >= self->timer_due_us)
        return;
    /* uv_now is the time of the wake-up, on the same clock, and must stay so */
    uint64_t due_ms = (due + 999) / 1000, woke_ms = uv_now(&self->uv);
    uint64_t delay_ms = due_ms > woke_ms ? due_ms - woke_ms : 0;
    self->timer_due_us = due;
    uv_timer_start(&self->timer, on_timer, delay_ms, 0);
}

/* Takes the first task out of the queue; NULL: there is none. */
static struct gw_task *take_task(struct gw_uv_loop *self)
{
    pthread_mutex_lock(&self->tasks_mutex);
    struct gw_task *task = self->tasks_first;
    if (task) {
        gw_tasks_remove(&self->tasks_first, &self->tasks_last, task);
        atomic_fetch_sub(&self->tasks_wait, 1);
        atomic_store(&task->queued, 0);
    }
    pthread_mutex_unlock(&self->tasks_mutex);
    return task;
}

/* Runs tasks one by one, so that a task may unpost others, and no more than
   there were: a task that posts itself waits for the next turn. */
static void on_wake(uv_async_t *wake)
{
    struct gw_uv_loop *self = wake->data;
    unsigned n = atomic_load(&self->tasks_wait);
    struct gw_task *task;
    while (n-- > 0 && (task = take_task(self))) {
        task->run(task);
        if (n > 0 && gw_loop_turn_is_over(&self->base))
            break;
    }
    if (atomic_load(&self->tasks_wait))
        uv_async_send(wake);
}

static void post(struct gw_loop *loop, struct gw_task *task)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    task->next = NULL;
    pthread_mutex_lock(&self->tasks_mutex);
    *self->tasks_last = task;
    self->tasks_last = &task->next;
    atomic_fetch_add(&self->tasks_wait, 1);
    pthread_mutex_unlock(&self->tasks_mutex);
    uv_async_send(&self->wake);
}

static void unpost(struct gw_loop *loop, struct gw_task *task)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    pthread_mutex_lock(&self->tasks_mutex);
    if (gw_tasks_remove(&self->tasks_first, &self->tasks_last, task))
        atomic_fetch_sub(&self->tasks_wait, 1);
    pthread_mutex_unlock(&self->tasks_mutex);
}

struct uv_work {
    uv_work_t request;
    struct gw_work *work;
    int cancelled;
    /* for work with a thread of its own */
    struct gw_uv_loop *loop;
    pthread_t thread;
    struct gw_task task;
};

static void work_run(uv_work_t *request)
{
    struct uv_work *job = request->data;
    job->work->run(job->work);
}

static void end_work(struct uv_work *job)
{
    struct gw_work *work = job->work;
    work->job = NULL;
    int cancelled = job->cancelled;
    free(job);
    if (!cancelled)
        work->done(work);
}

static void work_done(uv_work_t *request, int status)
{
    (void)status;
    end_work(request->data);
}

static void *alone_main(void *argument)
{
    struct uv_work *job = argument;
    job->work->run(job->work);
    gw_loop_post(&job->loop->base, &job->task);
    return NULL;
}

static void alone_done(struct gw_task *task)
{
    struct uv_work *job = task->owner;
    pthread_join(job->thread, NULL); /* it is about to end */
    job->loop->alone--;
    end_work(job);
}

/* Starts a thread for the work, with all signals blocked. */
static int begin_alone(struct gw_uv_loop *self, struct uv_work *job)
{
    sigset_t all, before;
    job->loop = self;
    job->task = (struct gw_task){.run = alone_done, .owner = job};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&job->thread, NULL, alone_main, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    self->alone += !failed;
    return failed;
}

static int begin_work(struct gw_uv_loop *self, struct uv_work *job)
{
    if (job->work->alone)
        return begin_alone(self, job);
    return uv_queue_work(&self->uv, &job->request, work_run, work_done);
}

static void queue_work(struct gw_loop *loop, struct gw_work *work)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    struct uv_work *job = calloc(1, sizeof *job);
    if (job) {
        job->request.data = job;
        job->work = work;
        work->job = job;
        if (begin_work(self, job) == 0)
            return;
        work->job = NULL;
        free(job);
    }
    /* out of memory: it runs here and now */
    work->run(work);
    work->done(work);
}

static void cancel_work(struct gw_loop *loop, struct gw_work *work)
{
    struct uv_work *job = work->job;
    job->cancelled = 1;
    if (!work->alone)
        uv_cancel((uv_req_t *)&job->request);
    while (work->job)
        uv_run(&gw_uv_loop_of(loop)->uv, UV_RUN_ONCE);
}

static void random_bytes(struct gw_loop *loop, void *bytes, size_t n)
{
    (void)loop;
    int failed = uv_random(NULL, NULL, bytes, n, 0, NULL);
    assert(!failed);
}

static void run(struct gw_loop *loop)
{
    uv_run(&gw_uv_loop_of(loop)->uv, UV_RUN_DEFAULT);
}

static void stop(struct gw_loop *loop)
{
    uv_stop(&gw_uv_loop_of(loop)->uv);
}

static void close_loop(struct gw_loop *loop)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    while (self->alone > 0)
        uv_run(&self->uv, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&self->timer, NULL);
    uv_close((uv_handle_t *)&self->wake, NULL);
    gw_uv_polling_close(self);
    gw_uv_turn_close(self);
    uv_run(&self->uv, UV_RUN_DEFAULT);
    int busy = uv_loop_close(&self->uv);
    assert(!busy);
    pthread_mutex_destroy(&self->tasks_mutex);
    free(self);
}

const struct gw_loop_ops gw_uv_ops = {
    .name = "uv",
    .now_us = now_us,
    .turn_began_us = gw_uv_turn_began_us,
    .worked = worked,
    .timers_changed = timers_changed,
    .post = post,
    .unpost = unpost,
    .work = queue_work,
    .cancel = cancel_work,
    .random = random_bytes,
    .run = run,
    .stop = stop,
    .share = gw_uv_share,
    .unshare = gw_uv_unshare,
    .thread = gw_uv_thread,
    .enter = gw_uv_enter,
    .turn = gw_uv_turn,
    .leave = gw_uv_leave,
    .computed = computed,
    .interrupt = interrupt,
    .close = close_loop,
};

/* Opens libuv's loop, with its wake-up; 0 or an errno. */
static int open_uv(struct gw_uv_loop *self)
{
    int failed = uv_loop_init(&self->uv);
    if (failed)
        return -failed;
    failed = uv_async_init(&self->uv, &self->wake, on_wake);
    if (failed)
        uv_loop_close(&self->uv);
    return -failed;
}

enum gw_status gw_loop_open_uv(struct gw_loop **loop_p, struct gw_error *error)
{
    char why[GW_LIMITS_WHY_BYTES];
    enum gw_status status =
        gw_limits_try_threads("an event loop", gw_limits_pool_threads(), error);
    if (status != GW_OK)
        return status;
    struct gw_uv_loop *self = calloc(1, sizeof *self);
    if (!self)
        return gw_fail(error, GW_ENOMEM, "no memory for an event loop");
    int number = open_uv(self);
    if (number) {
        free(self);
        return gw_fail(error, GW_EIO, "cannot make an event loop: %s",
                       gw_limits_why_no_file(number, why));
    }
    uv_timer_init(&self->uv, &self->timer);
    gw_uv_turn_open(self);
    gw_uv_polling_open(self);
    self->wake.data = self;
    self->timer.data = self;
    self->timer_due_us = UINT64_MAX;
    pthread_mutex_init(&self->tasks_mutex, NULL);
    self->tasks_last = &self->tasks_first;
    self->base.ops = &gw_uv_ops;
    self->disk.ops = &gw_disk_posix_ops;
    self->base.disk = &self->disk;
    *loop_p = &self->base;
    return GW_OK;
}
