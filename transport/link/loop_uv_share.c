/*
 * A loop that a computing caller and a communication thread drive in turn.
 *
 *   caller   --enter--> drives (turn, turn, ..) --leave--> computes ...
 *   thread   sleeps ...................... waits a moment, drives ......
 *
 * The moment keeps a caller that waits again and again from waking the thread
 * each time; while it computes for longer, the thread is there to send and
 * receive.
 */
#include "config.h"

#include "transport/link/loop_uv.h"

#include <assert.h>
#include <signal.h>
#include <time.h>

#include "transport/link/limits.h"

/* Long enough to cover the gap between two waits, short against a layer. */
#define CALLER_RETURNS_US 100

/* The thread checks on a caller that comes and goes at this interval, a few
   times; then it sleeps until the caller has left and signals it. */
#define CHECK_US 500
#define CHECKS   4

static void sleep_until(struct gw_uv_share *share, uint64_t until_us)
{
    struct timespec until = {
        .tv_sec = (time_t)(until_us / 1000000),
        .tv_nsec = (long)(until_us % 1000000) * 1000,
    };
    pthread_cond_timedwait(&share->take, &share->mutex, &until);
}

/*
 * Waits while the caller drives. If the caller comes and goes faster than the
 * thread could take over, leaving must not cost it a wake-up each time.
 */
static void let_drive(struct gw_uv_share *share, uint64_t now)
{
    if (share->entries != share->entries_seen)
        share->checks = 0;
    share->entries_seen = share->entries;
    if (share->checks++ < CHECKS) {
        sleep_until(share, now + CHECK_US);
        return;
    }
    share->thread_sleeps = 1;
    pthread_cond_wait(&share->take, &share->mutex);
    share->thread_sleeps = 0;
}

/* One step of the communication thread, under the mutex. */
static void thread_step(struct gw_uv_loop *self)
{
    struct gw_uv_share *share = &self->share;
    uint64_t now = gw_loop_now(&self->base);
    if (share->caller_wants || share->caller_drives) {
        let_drive(share, now);
    } else if (now < share->left_us + CALLER_RETURNS_US) {
        sleep_until(share, share->left_us + CALLER_RETURNS_US);
    } else {
        share->thread_drives = 1;
        pthread_mutex_unlock(&share->mutex);
        uv_run(&self->uv, UV_RUN_ONCE);
        gw_uv_turn_end(self, gw_loop_now(&self->base));
        pthread_mutex_lock(&share->mutex);
        share->thread_drives = 0;
        if (share->caller_wants)
            pthread_cond_signal(&share->free);
    }
}

static void *thread_main(void *argument)
{
    struct gw_uv_loop *self = argument;
    pthread_mutex_lock(&self->share.mutex);
    while (!self->share.closing)
        thread_step(self);
    pthread_mutex_unlock(&self->share.mutex);
    return NULL;
}

enum gw_status gw_uv_share(struct gw_loop *loop, struct gw_error *error)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    struct gw_uv_share *share = &self->share;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&share->take, &monotonic);
    pthread_cond_init(&share->free, NULL);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&share->mutex, NULL);

    /* signals go to the thread that computes, never to this one */
    sigset_t all, before;
    char why[GW_LIMITS_WHY_BYTES];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&share->thread, NULL, thread_main, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        pthread_cond_destroy(&share->take);
        pthread_cond_destroy(&share->free);
        pthread_mutex_destroy(&share->mutex);
        return gw_fail(error, GW_ENOMEM,
                       "cannot start a communication thread: %s",
                       gw_limits_why_no_process(failed, why));
    }
    share->started = 1;
    return GW_OK;
}

void gw_uv_unshare(struct gw_loop *loop)
{
    struct gw_uv_share *share = &gw_uv_loop_of(loop)->share;
    if (!share->started)
        return;
    gw_uv_enter(loop);
    pthread_mutex_lock(&share->mutex);
    share->closing = 1;
    share->caller_drives = 0;
    pthread_cond_signal(&share->take);
    pthread_mutex_unlock(&share->mutex);
    pthread_join(share->thread, NULL);
    share->started = 0;
    share->closing = 0;
    pthread_cond_destroy(&share->take);
    pthread_cond_destroy(&share->free);
    pthread_mutex_destroy(&share->mutex);
}

int gw_uv_thread(struct gw_loop *loop, pthread_t *thread_p)
{
    const struct gw_uv_share *share = &gw_uv_loop_of(loop)->share;
    if (share->started)
        *thread_p = share->thread;
    return share->started;
}

void gw_uv_enter(struct gw_loop *loop)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    struct gw_uv_share *share = &self->share;
    pthread_mutex_lock(&share->mutex);
    assert(!share->caller_drives);
    share->caller_wants = 1;
    if (share->thread_drives)
        uv_async_send(&self->wake);
    while (share->thread_drives)
        pthread_cond_wait(&share->free, &share->mutex);
    share->caller_wants = 0;
    share->caller_drives = 1;
    share->entries++;
    pthread_mutex_unlock(&share->mutex);
}

void gw_uv_turn(struct gw_loop *loop, int (*done)(void *owner), void *owner)
{
    (void)done,
        (void)
            owner; /* the caller polls cheaply, so any event may end the turn */
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    if (gw_uv_poll_quickly(self))
        return;
    uv_run(&self->uv, UV_RUN_ONCE);
    gw_uv_turn_end(self, gw_loop_now(loop));
}

void gw_uv_leave(struct gw_loop *loop)
{
    struct gw_uv_loop *self = gw_uv_loop_of(loop);
    struct gw_uv_share *share = &self->share;
    uint64_t now = gw_loop_now(loop);
    gw_uv_turn_end(self, now); /* a call of the caller's may have begun one */
    pthread_mutex_lock(&share->mutex);
    share->caller_drives = 0;
    share->left_us = now;
    if (share->thread_sleeps)
        pthread_cond_signal(&share->take);
    pthread_mutex_unlock(&share->mutex);
}
