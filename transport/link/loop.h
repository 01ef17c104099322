/*
 * The loop: time, timers, posted tasks, work on other threads with a
 * completion, files and random numbers. Two implementations behind one table:
 * libuv with real time (loop_uv.c) and the simulator's virtual time
 * (sim_loop.c). Server, coordinator and client ask the world for nothing else
 * besides their peers, so the same object code runs in both.
 *
 * Thread: a loop is driven by one thread at a time, and all its callbacks run
 * there. Only gw_loop_post, gw_loop_now and the caller's side (below) may be
 * used from another.
 */
#ifndef GW_TRANSPORT_LOOP_H
#define GW_TRANSPORT_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "transport/link/disk.h"
#include "transport/link/heap.h"

struct gw_loop;
struct gw_log;
struct gw_metrics;

/* A timer, owned by its declarer; zero it and set `fire`. */
struct gw_timer {
    void (*fire)(struct gw_timer *timer);
    void *owner;
    /* the loop's */
    struct gw_heap_node node;
    uint64_t due_us, order;
    int active;
};

/* A call to be made on the loop's thread. Owned by the poster until it runs. */
struct gw_task {
    void (*run)(struct gw_task *task);
    void *owner;
    /* the loop's */
    struct gw_task *next;
    atomic_int queued;
};

/* Work for another thread; owned by the caller until `done`. */
struct gw_work {
    void (*run)(struct gw_work *work);  /* elsewhere; touches its own data */
    void (*done)(struct gw_work *work); /* on the loop's thread */
    void *owner;
    uint64_t model_us; /* time that the simulator charges for it */
    int alone; /* run on a thread of its own: the pool has few, which may wait
                  for disks */
    /* the loop's */
    void *job;
};

/* One part of a computation: the interval from `from` to `to` of `of` units. */
struct gw_computed {
    uint64_t samples; /* in the whole computation; 0: it is no part of a step */
    uint64_t from, to, of;
};

struct gw_loop_ops {
    const char *name;
    uint64_t (*now_us)(struct gw_loop *loop);
    /* Begin of the current turn; see gw_loop_turn_is_over. */
    uint64_t (*turn_began_us)(struct gw_loop *loop);
    void (*worked)(struct gw_loop *loop, uint64_t bytes);
    /* Tells the loop that its earliest timer may have changed. */
    void (*timers_changed)(struct gw_loop *loop);
    void (*post)(struct gw_loop *loop, struct gw_task *task);
    void (*unpost)(struct gw_loop *loop, struct gw_task *task);
    void (*work)(struct gw_loop *loop, struct gw_work *work);
    void (*cancel)(struct gw_loop *loop, struct gw_work *work);
    void (*random)(struct gw_loop *loop, void *bytes, size_t n);
    void (*run)(struct gw_loop *loop);
    void (*stop)(struct gw_loop *loop);
    enum gw_status (*share)(struct gw_loop *loop, struct gw_error *error);
    void (*unshare)(struct gw_loop *loop);
    int (*thread)(struct gw_loop *loop, pthread_t *thread_p);
    void (*enter)(struct gw_loop *loop);
    /* if `done` is given, events before it holds need not end the turn */
    void (*turn)(struct gw_loop *loop, int (*done)(void *owner), void *owner);
    void (*leave)(struct gw_loop *loop);
    void (*computed)(struct gw_loop *loop, const struct gw_computed *part);
    void (*interrupt)(struct gw_loop *loop);
    void (*close)(struct gw_loop *loop);
};

/* A sender of heartbeats during long turns. Owned by the caller. */
struct gw_pulse {
    /* Runs within any callback of the loop: may send, but call no handler. */
    void (*beat)(struct gw_pulse *pulse, uint64_t now_us);
    /* the loop's */
    struct gw_pulse *next;
};

/* The begin of every implementation's struct. */
struct gw_loop {
    const struct gw_loop_ops *ops;
    struct gw_heap timers;
    uint64_t timer_order;
    struct gw_pulse *pulses;
    struct gw_disk *disk;
    struct gw_log *log; /* may be NULL */
    /* counters for everything on the loop; may be NULL */
    struct gw_metrics *metrics;
};

/* A loop on libuv and real time. GW_ENOMEM, GW_EIO. Free with gw_loop_close. */
enum gw_status gw_loop_open_uv(struct gw_loop **loop_p, struct gw_error *error);

/* Everything that used the loop must be closed; frees it. */
void gw_loop_close(struct gw_loop *loop);

/* Monotonic microseconds; the origin means nothing. Thread: any. */
uint64_t gw_loop_now(struct gw_loop *loop);

/* (Re)starts a timer: `fire` once, `delay_us` from now. */
void gw_timer_start(struct gw_loop *loop,
                    struct gw_timer *timer,
                    uint64_t delay_us);

/* Also on a timer that is not running. */
void gw_timer_stop(struct gw_loop *loop, struct gw_timer *timer);

/*
 * A turn is all that a loop does between two checks of its timers. During a
 * turn no deadline is seen and nothing is read, so a turn has GW_TURN_US, in
 * which one more piece of work may begin: a chunk's sum and update, a frame.
 * Code with many pieces (frames to read, chunks to handle) does one, asks, and
 * leaves the rest for another turn if this one is over: as a link that is still
 * readable, or as a posted task. Asking also sends heartbeats that are due.
 * Costs one read of the clock.
 */
#define GW_TURN_US 5000
int gw_loop_turn_is_over(struct gw_loop *loop);
/* The same with a time that was read just now: `now_us` is of gw_loop_now. */
int gw_loop_turn_is_over_at(struct gw_loop *loop, uint64_t now_us);

/* Sends heartbeats that are due, from within a long piece of work. */
void gw_loop_pulse(struct gw_loop *loop);

/* `beat` is called there until gw_loop_pulse_end. */
void gw_loop_pulse_begin(struct gw_loop *loop, struct gw_pulse *pulse);
void gw_loop_pulse_end(struct gw_loop *loop, struct gw_pulse *pulse);

/* A piece of work has gone through so many bytes of memory. A real clock has
   seen it; in simulation its time passes here (gw_sim_work_model). */
void gw_loop_worked(struct gw_loop *loop, uint64_t bytes);

/* Runs every timer that is due; for implementations. */
void gw_loop_fire_timers(struct gw_loop *loop);

/* Due time of the earliest timer, UINT64_MAX for none; for implementations. */
uint64_t gw_loop_next_due(const struct gw_loop *loop);

/*
 * Runs `task` on the loop's thread, tasks of one thread in order. A task that
 * is still queued is not queued twice. Thread: any.
 */
void gw_loop_post(struct gw_loop *loop, struct gw_task *task);

/*
 * After this `run` will not be called, so that the task may be freed; also for
 * a task that is not queued, and from within another task.
 */
void gw_loop_unpost(struct gw_loop *loop, struct gw_task *task);

/* Takes a task out of a queue; for implementations. 0: it is not there. */
int gw_tasks_remove(struct gw_task **first,
                    struct gw_task ***last_p,
                    struct gw_task *task);

/* Runs `work->run` on another thread, then `work->done` here. */
void gw_loop_work(struct gw_loop *loop, struct gw_work *work);

/*
 * After this `run` is not running and `done` will not be called; waits for a
 * `run` that has begun. Also for work that is not queued.
 */
void gw_loop_cancel(struct gw_loop *loop, struct gw_work *work);

/* Unpredictable bytes (in simulation: from the seed). */
void gw_loop_random(struct gw_loop *loop, void *bytes, size_t n);

/* Drives the loop on this thread until gw_loop_stop, called on the loop. */
void gw_loop_run(struct gw_loop *loop);
void gw_loop_stop(struct gw_loop *loop);

/*
 * The caller's side: a thread that computes and now and then must wait for the
 * loop. After gw_loop_share a communication thread drives the loop (in
 * simulation: the simulator does) whenever the caller is away. gw_loop_enter
 * takes the loop from it, so that a waiting caller reads its sockets itself and
 * no thread is woken in between; between enter and leave the caller is the
 * loop's thread. gw_loop_turn handles pending events, waiting for the next one
 * if there is none; gw_loop_await repeats this until done(owner), which has no
 * side effects outside of its owner and need not be asked if only a send has
 * left. gw_loop_leave gives the loop back. gw_loop_computed says, outside of
 * the two, that a part of a computation is done; the parts come in order, from
 * 0 on, and a computation may be abandoned before its end. In simulation the
 * time of a part passes here. gw_loop_thread returns the communication thread
 * of a shared loop; 0: it has none, as in simulation. gw_loop_interrupt says,
 * on the loop, that the caller's computation is not needed any more: in
 * simulation its time ends now; a real caller checks by itself.
 */
enum gw_status gw_loop_share(struct gw_loop *loop, struct gw_error *error);
void gw_loop_unshare(struct gw_loop *loop);
int gw_loop_thread(struct gw_loop *loop, pthread_t *thread_p);
void gw_loop_enter(struct gw_loop *loop);
void gw_loop_turn(struct gw_loop *loop);
void gw_loop_await(struct gw_loop *loop, int (*done)(void *owner), void *owner);
void gw_loop_leave(struct gw_loop *loop);
void gw_loop_computed(struct gw_loop *loop, const struct gw_computed *part);
void gw_loop_interrupt(struct gw_loop *loop);

#endif
