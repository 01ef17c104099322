/*
 * Inside the simulator, shared by:
 *
 *   sim.c           the world: making, running and freeing it
 *   sim_call.c      the world's time, and calls of the world itself
 *   sim_caller.c    the fiber of a process: waiting and computing
 *   sim_disk.c      disks that lose unsynced data
 *   sim_draw.c      random numbers
 *   sim_fiber.c     fibers; fiber_tell.h tells sanitizers about them
 *   sim_flight.c    frames out of and into an end of a link
 *   sim_host.c      hosts, and turns at their interfaces
 *   sim_incoming.c  frames on their way to an end
 *   sim_link.c      ends of links: making and breaking them; sim_link.h
 *   sim_login.c     dials, listeners and the transport's table
 *   sim_loop.c      the loop's table
 *   sim_mail.c      frames and notes between regions
 *   sim_process.c   events of a process: turns, pauses
 *   sim_queue.c     scheduled events in order
 *   sim_region.c    events of a region
 *   sim_window.c    running regions in several threads; sim.h is the door
 */
#ifndef GW_TRANSPORT_SIM_WORLD_H
#define GW_TRANSPORT_SIM_WORLD_H

#include <assert.h>

#include "transport/link/heap.h"
#include "transport/link/transport.h"
#include "transport/sim/sim.h"

/* Large worlds exceed the cache: data that is used together lies together, and
   is prefetched before its use. */
#define GW_CACHE_LINE 64

static inline void gw_sim_prefetch(const void *memory, size_t bytes)
{
    const char *at = memory;
    for (size_t line = 0; at && line < bytes; line += GW_CACHE_LINE)
        __builtin_prefetch(at + line, 1);
}

/* Length of a chain of dependent prefetches. */
#define GW_SIM_AHEAD 4

/* The order of events at one time: by the time at which they were scheduled,
   then by the host that scheduled them, then by that host's count. It does not
   depend on the division of hosts among threads. */
struct gw_sim_place {
    uint64_t made_us, number;
};

/* An event at a time, of a process or (NULL) of its region. */
struct gw_sim_event {
    struct gw_heap_node node; /* in the queue */
    uint64_t at_us;
    struct gw_sim_place place;
    struct gw_sim_process *process;
    void (*run)(struct gw_sim_event *event);
    void (*drop)(
        struct gw_sim_event *event); /* called if it will not run; NULL: it is
                                        part of something that stays */
    /* NULL, or called GW_SIM_AHEAD events before, with times down to 1 */
    void (*prefetch)(const struct gw_sim_event *event, int times);
    void *owner;
    struct gw_sim_event *next; /* next event held by a paused process */
    int scheduled;
    int near; /* in the queue's wheel */
};

#define GW_SIM_SLOTS      4096
#define GW_SIM_SLOT_WORDS (GW_SIM_SLOTS / 64)

struct gw_sim_slot {
    struct gw_heap_node *first, *last;
};

/* Scheduled events. */
struct gw_sim_queue {
    struct gw_sim_slot slot[GW_SIM_SLOTS]; /* one per microsecond */
    uint64_t filled[GW_SIM_SLOT_WORDS];    /* a bit for each slot */
    uint64_t unsorted[GW_SIM_SLOT_WORDS];
    struct gw_heap far;
};

struct gw_listener;
struct gw_sim_caller;
struct gw_sim_disk;
struct gw_sim_flight;
struct gw_sim_link;

/* A user of a port, with a frame now and then. */
struct gw_sim_turn {
    struct gw_sim_turn *next, **back; /* in the port's line */
    /* Takes the next frame: returns its bytes, and sets *from_us if the frame
       was there before now. */
    double (*begin)(struct gw_sim_turn *turn, double *from_us);
    /* As its port's event nears: prefetches its own memory, then the memory it
       points to. */
    void (*prefetch)(const struct gw_sim_turn *turn, int times);
    void (*done)(struct gw_sim_turn *turn); /* the frame has passed */
};

/* An interface in one direction: serves one frame, the others wait in line. */
struct gw_sim_port {
    struct gw_sim_host *host;
    struct gw_sim_turn *first, **last;
    struct gw_sim_turn *serves; /* NULL: none, or the user has left */
    int telling;                /* within `done` of the served user */
    double turn_bytes;          /* of the current turn so far */
    struct gw_sim_event event;  /* the frame has passed */
    double free_us;             /* time when it is free, or was */
};

enum gw_sim_direction {
    GW_SIM_OUT,
    GW_SIM_IN,
    GW_SIM_DIRECTIONS
};

struct gw_sim_host {
    struct gw_sim *sim;
    struct gw_sim_region *region;
    struct gw_sim_host *next; /* in its bucket */
    uint64_t number;          /* counted from 1 */
    uint64_t placed, draws;   /* so far */
    struct gw_sim_host_options options;
    struct gw_sim_port port[GW_SIM_DIRECTIONS];
    struct gw_listener *listeners;
    unsigned ports;
    char name[64];
};

/* A message between hosts that is no frame: a link comes up or ends. On arrival
   it belongs to no process; its `run` finds the process. Freed by its receiver.
   */
struct gw_sim_note {
    struct gw_sim_event event;
    struct gw_sim_note *next; /* in a mail */
    struct gw_sim_host *to;
};

/* Frames and notes of one window, from hosts of one region to another's. */
struct gw_sim_mail {
    struct gw_sim_letter {
        struct gw_sim_link *to;
        struct gw_sim_flight *flight;
    } * letter;
    size_t letters, room;
    struct gw_sim_note *notes, **notes_last;
    uint64_t first_us; /* time of the first arrival */
};

#define GW_SIM_REGIONS_MAX 64

/* Hosts whose events are handled one after the other, in one thread. Hosts of
   different regions affect each other by frames and notes alone. */
struct gw_sim_region {
    struct gw_sim *sim;
    uint64_t now_us;
    struct gw_sim_flight *spare; /* freed flights without bytes, for reuse */
    size_t spares;
    struct gw_sim_queue queue;
    struct gw_sim_mail out[GW_SIM_REGIONS_MAX]; /* of this window, by region */
    struct gw_sim_mail in[GW_SIM_REGIONS_MAX];  /* of the previous window */
};

#define GW_SIM_BUCKETS 1024

struct gw_sim {
    struct gw_sim_options options;
    uint64_t now_us;       /* while divided: the end of the last window */
    uint64_t lookahead_us; /* 0: to be computed */
    uint64_t end_us;       /* end of the window, while divided */
    uint64_t draws, calls;
    struct gw_heap world_calls;
    struct gw_sim_region *region; /* [regions] */
    size_t regions;
    int divided;  /* each region runs in a thread of its own, now */
    int has_slow; /* some process has a rate of its own */
    struct gw_sim_process *processes;
    struct gw_sim_host *bucket[GW_SIM_BUCKETS]; /* by the hash of the name */
    uint64_t hosts;
    struct gw_sim_disk *disks;
};

/* Freed with its loop and the last end of its links. */
struct gw_sim_process {
    struct gw_loop base;
    struct gw_sim_host *host;
    size_t users;                 /* the loop, and ends of links */
    struct gw_sim_caller *caller; /* the fiber, if there is one */
    size_t scheduled;             /* number of its scheduled events */
    int dead, paused, stopped;
    /* its own time, if that is ahead of the world's: of a dead process that is
       being unwound, or of one that is working */
    uint64_t after_us;
    uint64_t turn_us;         /* begin of its current turn, */
    int in_turn;              /* while there is one */
    double work_bytes_per_us; /* 0: work takes no time */
    struct gw_sim_process *next, **back;
    struct gw_sim_link *links; /* its ends */
    struct gw_sim_event *held, **held_last;
    struct gw_sim_event timer, tasks;
    struct gw_sim_event resume;
    struct gw_task *tasks_first, **tasks_last;
    int runs_tasks;
    uint64_t (*compute_us)(void *owner, uint64_t samples);
    void (*compute_passed)(void *owner, uint64_t begin_us, uint64_t end_us);
    void *compute_owner;
    double bytes_per_us; /* limit of its links, 0: the world's */
};

extern const struct gw_loop_ops gw_sim_loop_ops;

static inline struct gw_sim_process *
gw_sim_process_of(const struct gw_loop *loop)
{
    assert(loop->ops == &gw_sim_loop_ops);
    return GW_CONTAINER(loop, struct gw_sim_process, base);
}

/* sim_queue.c: no scheduled event is before now_us */
void gw_sim_queue_insert(struct gw_sim_queue *queue,
                         struct gw_sim_event *event,
                         uint64_t now_us);
void gw_sim_queue_remove(struct gw_sim_queue *queue,
                         struct gw_sim_event *event);
/* First by time, then by place; stays in the queue. NULL: there is none. */
struct gw_sim_event *gw_sim_queue_first(struct gw_sim_queue *queue,
                                        uint64_t now_us);
/* Prefetches for the events right after `event`. */
void gw_sim_queue_prefetch(const struct gw_sim_event *event);

/* The time of a host. */
static inline uint64_t gw_sim_time(const struct gw_sim_host *host)
{
    return host->region->now_us;
}

/* The process's own time, which runs ahead of its host's while it works. */
static inline uint64_t gw_sim_process_time(const struct gw_sim_process *process)
{
    uint64_t now = gw_sim_time(process->host);
    return process->after_us > now ? process->after_us : now;
}

/* sim_region.c: schedules an event of this host, or of something on it. */
void gw_sim_schedule(struct gw_sim_host *host,
                     struct gw_sim_event *event,
                     uint64_t at_us);
/* Also for an event that a paused process holds, or that is not scheduled. */
void gw_sim_cancel(struct gw_sim_host *host, struct gw_sim_event *event);

/* The same in two parts: an event that has got its place among the events of
   its time may be scheduled later, after earlier ones have happened. */
struct gw_sim_place gw_sim_place(struct gw_sim_host *host);
void gw_sim_schedule_placed(struct gw_sim_region *region,
                            struct gw_sim_event *event,
                            uint64_t at_us,
                            struct gw_sim_place place);

/* An event that will not happen: calls its `drop`, if it has one. */
void gw_sim_drop(struct gw_sim_event *event);

/* Holds an event until the paused process goes on; gw_sim_drop_held drops all
   held events. */
void gw_sim_hold(struct gw_sim_process *process, struct gw_sim_event *event);
void gw_sim_drop_held(struct gw_sim_process *process);
/* Drops every event of a process that is about to be freed. */
void gw_sim_purge(struct gw_sim_process *process);
/* Drops every event of a region, whose world is about to be freed, and returns
   how many; dropping may schedule events in other regions. */
size_t gw_sim_region_purge(struct gw_sim_region *region);

/* Takes the next event out of the queue and sets the time to its; NULL: there
   is none until until_us. */
struct gw_sim_event *gw_sim_region_next(struct gw_sim_region *region,
                                        uint64_t until_us);

/* sim_process.c: runs an event; or holds it, while its process is paused; or
   drops it, after the process has died. */
void gw_sim_deliver(struct gw_sim_event *event);
/* Delivers the next event of the region, if it is not after until_us: 1. */
int gw_sim_region_step(struct gw_sim_region *region, uint64_t until_us);
/* One user less; the last one frees it. */
void gw_sim_process_release(struct gw_sim_process *process);

/* sim_mail.c: delivers a frame to an end, or a note to its host, at the given
   time; between regions no earlier than the end of the window. */
void gw_sim_mail_flight(struct gw_sim_region *from,
                        struct gw_sim_link *to,
                        struct gw_sim_host *there,
                        struct gw_sim_flight *flight);
void gw_sim_mail_note(struct gw_sim_host *from,
                      struct gw_sim_note *note,
                      uint64_t at_us);
/* Moves the mail of the previous window into the region. */
void gw_sim_mail_take(struct gw_sim_region *region);
/* Turns the mail of this window into that of the previous one; returns the
   first arrival, or UINT64_MAX. While no region runs. */
uint64_t gw_sim_mail_pass(struct gw_sim *sim);
void gw_sim_mail_prepare(struct gw_sim_region *region);
void gw_sim_mail_free(struct gw_sim_region *region);

/* sim_window.c: gw_sim_run of a divided world */
int gw_sim_run_windows(struct gw_sim *sim,
                       int (*done)(void *owner),
                       void *owner,
                       uint64_t until_us);

/* sim_call.c: the time of the world's next call, or UINT64_MAX; makes it. */
uint64_t gw_sim_next_call(const struct gw_sim *sim);
void gw_sim_make_call(struct gw_sim *sim);
void gw_sim_drop_calls(struct gw_sim *sim);
/* Sets the time everywhere; no event may be before it. */
void gw_sim_set_time(struct gw_sim *sim, uint64_t now_us);

/* sim_draw.c: a number of the host's own generator, below n. */
uint64_t gw_sim_host_draw(struct gw_sim_host *host, uint64_t n);

/* sim_caller.c: the caller of a process waits until `done`, or for the next
   event if that is NULL. */
void gw_sim_caller_wait(struct gw_sim_process *process,
                        int (*done)(void *owner),
                        void *owner);
void gw_sim_caller_computed(struct gw_loop *loop,
                            const struct gw_computed *part);
void gw_sim_caller_interrupt(struct gw_loop *loop);
/* Resumes a waiting caller: after an event; and after a send has left, which
   satisfies no `done`. */
void gw_sim_caller_wake(struct gw_sim_process *process);
void gw_sim_caller_wake_sent(struct gw_sim_process *process);

/* sim_link.c */
void gw_sim_cut_process(struct gw_sim_process *process);
void gw_sim_fail_dials(struct gw_sim_process *process); /* of a dead process */

/* sim_incoming.c */
void gw_sim_flights_free(struct gw_sim_region *region);

/* sim_host.c: the host of a name, made at the first call, or NULL (no memory);
   not while the world is divided */
struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name);
/* NULL: there is none. */
struct gw_sim_host *gw_sim_host_find(const struct gw_sim *sim,
                                     const char *name);
/* The least time in which a frame reaches a host of another region. */
uint64_t gw_sim_least_latency(const struct gw_sim *sim);
void gw_sim_hosts_free(struct gw_sim *sim);
/* Waits in line for one frame; not while it waits or is served. */
void gw_sim_turn_ask(struct gw_sim_port *port, struct gw_sim_turn *turn);
/* The same, but if the frame has passed by now (its first byte was there
   earlier): 1, and `done` is not called. */
int gw_sim_turn_pass(struct gw_sim_port *port, struct gw_sim_turn *turn);
/* Leaves the line; `done` will not be called. */
void gw_sim_turn_leave(struct gw_sim_port *port, struct gw_sim_turn *turn);

/* sim_disk.c: the disk of a host, made at the first call */
struct gw_disk *gw_sim_disk_of(struct gw_sim *sim, const char *host);
/* Time that syncs have taken since the last call: it is added to the work that
   made them. */
uint64_t gw_sim_disk_late_us(struct gw_disk *disk);
void gw_sim_disk_free(struct gw_sim_disk *disk);

/* sim_fiber.c */
struct gw_sim_fiber;
enum gw_status gw_sim_fiber_new(void (*main)(void *argument),
                                void *argument,
                                struct gw_sim_fiber **fiber_p,
                                struct gw_error *error);
void gw_sim_fiber_free(struct gw_sim_fiber *fiber);
/* Runs the fiber until it yields; returns 0 when its main has returned. */
int gw_sim_fiber_resume(struct gw_sim_fiber *fiber);
/* From within: back to the caller of gw_sim_fiber_resume. */
void gw_sim_fiber_yield(struct gw_sim_fiber *fiber);

#endif
