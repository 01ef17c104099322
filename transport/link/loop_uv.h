/*
 * Inside the loop on libuv: shared by loop_uv.c, loop_uv_poll.c,
 * loop_uv_share.c, loop_uv_turn.c and the transports on it. Other rooms never
 * see this header.
 */
#ifndef GW_TRANSPORT_LOOP_UV_H
#define GW_TRANSPORT_LOOP_UV_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "transport/link/loop.h"

/*
 * The driver of a shared loop. The communication thread and the caller take
 * turns under `mutex`; a caller that has just left often comes back within
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
    uint64_t entries, entries_seen; /* number of the caller's entries, and as
                                       last seen by the thread */
    int checks; /* by the thread, of a caller that drives all the time */
};

/*
 * A transport that the loop polls because no descriptor announces its messages.
 * All on the loop's thread.
 */
struct gw_poller {
    /* Handles messages that have come, and sends replies that are due; returns
       how many have come. `now_us`: of gw_loop_now, which takes as long as a
       poll. Never called from within a callback of the transport's. */
    int (*poll)(struct gw_poller *poller, uint64_t now_us);
    /* Makes messages from now on wake the loop. */
    void (*arm)(struct gw_poller *poller);
    int waits; /* messages may come: the poller keeps it up to date */
    int busy;  /* it is to be polled all the time, without sleep */
    struct gw_poller *next;
};

/* The pollers of a loop, and how long they are polled before it sleeps. */
struct gw_uv_polling {
    uv_prepare_t before;
    uv_check_t after;
    uv_idle_t spin; /* active: the loop does not sleep */
    struct gw_poller *first;
    uint64_t seen_us;   /* time of the last message */
    uint64_t spin_us;   /* how long to poll for the next message */
    uint64_t armed_us;  /* 0: not armed */
    uint64_t turned_us; /* time when a caller last ran libuv */
    int fired; /* timers have fired in this turn: code that waited for one runs
                  before sleep */
};

/* The current turn. */
struct gw_uv_turn {
    uv_prepare_t before;
    uv_check_t after;
    uint64_t began_us;  /* or time of the wake-up */
    uint64_t before_us; /* of work before the poll, */
    uint64_t spent_us;  /* and the part of it that lies before began_us */
    int lasts;
    int polls;  /* it has begun, and is before or in its poll */
    int polled; /* the time of the wake-up is known */
};

struct gw_uv_loop {
    struct gw_loop base;
    uv_loop_t uv;
    struct gw_uv_turn turn;
    uv_timer_t timer;
    uint64_t timer_due_us; /* time that the uv timer is set for */
    uv_async_t wake;
    pthread_mutex_t tasks_mutex;
    struct gw_task *tasks_first, **tasks_last;
    atomic_uint tasks_wait; /* how many */
    unsigned alone; /* works on threads of their own that are not done */
    struct gw_disk disk;
    struct gw_uv_share share;
    struct gw_uv_polling polling;
};

extern const struct gw_loop_ops gw_uv_ops;

/* The libuv loop that contains it; asserts that it is one. */
static inline struct gw_uv_loop *gw_uv_loop_of(struct gw_loop *loop)
{
    assert(loop->ops == &gw_uv_ops);
    return GW_CONTAINER(loop, struct gw_uv_loop, base);
}

/* A poller is polled from the addition until its removal. */
void gw_uv_poller_add(struct gw_loop *loop, struct gw_poller *poller);
void gw_uv_poller_remove(struct gw_loop *loop, struct gw_poller *poller);

/* The loop polls again before it sleeps. */
void gw_uv_poll_soon(struct gw_loop *loop);

/* For a caller that waits: non-zero if a message had come. */
int gw_uv_poll_quickly(struct gw_uv_loop *self);

void gw_uv_polling_open(struct gw_uv_loop *self);
void gw_uv_polling_close(struct gw_uv_loop *self);

/* loop_uv_turn.c: the end records the length of the turn in the counters. A
   call outside of a turn begins one. */
void gw_uv_turn_begin(struct gw_uv_loop *self, uint64_t now_us);
/* Called by each handler that libuv runs before it polls, in no reliable order:
   the first call begins the turn. */
void gw_uv_turn_before_poll(struct gw_uv_loop *self);
/* Called by each of those handlers after its work, with the time; by no other
   code. */
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
