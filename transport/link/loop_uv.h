/*
 * Inside the loop on libuv: what loop_uv.c, loop_uv_share.c, loop_uv_poll.c,
 * loop_uv_turn.c and the transports on it share. Other rooms never see this
 * header.
 */
#ifndef GW_TRANSPORT_LOOP_UV_H
#define GW_TRANSPORT_LOOP_UV_H

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "transport/link/loop.h"

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
    atomic_int caller_wants;
    int caller_drives, thread_drives;
    int thread_sleeps;              /* for good, until signalled */
    uint64_t left_us;               /* when the caller left */
    uint64_t entries, entries_seen; /* how often the caller came */
    int checks; /* of the thread at a caller that drives all the time */
};

/*
 * A transport that has to look by itself for what has come. All on the loop's
 * thread.
 */
struct gw_poller {
    /* Handles what has come, and sends what is to be sent for it; how much has
       come. `now_us`: gw_loop_now, which takes as long as to look. Never called
       from within a callback of the transport's. */
    int (*poll)(struct gw_poller *poller, uint64_t now_us);
    /* Sees to it that what comes from now on wakes the loop. */
    void (*arm)(struct gw_poller *poller);
    int waits; /* something may come: the poller keeps it up to date */
    int busy;  /* it is to be looked at all the time */
    struct gw_poller *next;
};

/* Where the loop looks, and how long before it sleeps. */
struct gw_uv_polling {
    uv_prepare_t before;
    uv_check_t after;
    uv_idle_t spin; /* active: the loop does not sleep */
    struct gw_poller *first;
    uint64_t seen_us;   /* when something had come */
    uint64_t spin_us;   /* how long to look for the next */
    uint64_t armed_us;  /* 0: it is not */
    uint64_t turned_us; /* when a caller last let libuv look */
    int fired; /* timers have, in this turn: who waited for one is not to sleep
                  with it */
};

/* The turn that goes on. */
struct gw_uv_turn {
    uv_prepare_t before;
    uv_check_t after;
    uint64_t began_us;  /* or woke */
    uint64_t before_us; /* that were worked before the poll, */
    uint64_t spent_us;  /* and are not since began_us any more */
    int lasts;
    int polls;  /* it has begun, and is before or in its poll */
    int polled; /* when it woke is known */
};

struct gw_uv_loop {
    struct gw_loop base;
    uv_loop_t uv;
    struct gw_uv_turn turn;
    uv_timer_t timer;
    uint64_t timer_due_us; /* what the uv timer is set for */
    uv_async_t wake;
    pthread_mutex_t tasks_mutex;
    struct gw_task *tasks_first, **tasks_last;
    atomic_uint tasks_wait; /* so many */
    unsigned alone; /* works with threads of their own that are not done */
    struct gw_disk disk;
    struct gw_uv_share share;
    struct gw_uv_polling polling;
};

/* The libuv loop below; asserts that it is one. */
struct gw_uv_loop *gw_uv_loop_of(struct gw_loop *loop);

/* From now on, and until the end, it is looked at. */
void gw_uv_poller_add(struct gw_loop *loop, struct gw_poller *poller);
void gw_uv_poller_remove(struct gw_loop *loop, struct gw_poller *poller);

/* The loop does not sleep before it has looked again. */
void gw_uv_poll_soon(struct gw_loop *loop);

/* For a caller that waits: non-zero if something had come. */
int gw_uv_poll_quickly(struct gw_uv_loop *self);

void gw_uv_polling_open(struct gw_uv_loop *self);
void gw_uv_polling_close(struct gw_uv_loop *self);

/* loop_uv_turn.c: the end notes how long it has lasted, for the counters. Who
   asks when no turn goes on begins one. */
void gw_uv_turn_begin(struct gw_uv_loop *self, uint64_t now_us);
/* By each handler that libuv calls before it polls, which it does in no order
   to rely on: the first one begins the turn. */
void gw_uv_turn_before_poll(struct gw_uv_loop *self);
/* By each of them that has taken its time, until now; by nobody else. */
void gw_uv_turn_worked(struct gw_uv_loop *self, uint64_t now_us);
void gw_uv_turn_end(struct gw_uv_loop *self, uint64_t now_us);
uint64_t gw_uv_turn_began_us(struct gw_loop *loop);
void gw_uv_turn_open(struct gw_uv_loop *self);
void gw_uv_turn_close(struct gw_uv_loop *self);

enum gw_status gw_uv_share(struct gw_loop *loop, struct gw_error *error);
void gw_uv_unshare(struct gw_loop *loop);
int gw_uv_thread(struct gw_loop *loop, pthread_t *thread_p);
void gw_uv_enter(struct gw_loop *loop);
void gw_uv_turn(struct gw_loop *loop, int (*done)(void *owner), void *owner);
void gw_uv_leave(struct gw_loop *loop);

#endif
