/*
 * Inside the loop on libuv: what loop_uv.c, loop_uv_share.c and the tcp
 * transport share. Other rooms never see this header.
 */
#ifndef GW_TRANSPORT_LOOP_UV_H
#define GW_TRANSPORT_LOOP_UV_H

#include <pthread.h>
#include <uv.h>

#include "transport/loop.h"

/*
 * Who drives a shared loop. The communication thread and the caller take turns
 * under `mutex`; a caller that has just left often comes back within
 * microseconds, so the communication thread waits a moment before it takes the
 * loop, and a caller that waits in a tight cycle never pays for a wake-up.
 */
struct gw_uv_share {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t free; /* the loop has no driver */
    pthread_cond_t take; /* the communication thread may have to drive */
    int started, closing;
    int caller_wants, caller_drives, thread_drives;
    int thread_sleeps;              /* for good, until signalled */
    uint64_t left_us;               /* when the caller left */
    uint64_t entries, entries_seen; /* how often the caller came */
    int looks; /* of the thread at a caller that drives all the time */
};

struct gw_uv_loop {
    struct gw_loop base;
    uv_loop_t uv;
    uv_timer_t timer;
    uint64_t timer_due_us; /* what the uv timer is set for */
    uv_async_t wake;
    pthread_mutex_t tasks_mutex;
    struct gw_task *tasks_first, **tasks_last;
    struct gw_disk disk;
    struct gw_uv_share share;
};

/* The libuv loop below; asserts that it is one. */
struct gw_uv_loop *gw_uv_loop_of(struct gw_loop *loop);

enum gw_status gw_uv_share(struct gw_loop *loop, struct gw_error *error);
void gw_uv_unshare(struct gw_loop *loop);
void gw_uv_enter(struct gw_loop *loop);
void gw_uv_turn(struct gw_loop *loop, int (*done)(void *owner), void *owner);
void gw_uv_leave(struct gw_loop *loop);

#endif
