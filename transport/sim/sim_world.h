/*
 * Inside the simulator: what the files of its name share.
 */
#ifndef GW_TRANSPORT_SIM_WORLD_H
#define GW_TRANSPORT_SIM_WORLD_H

#include <assert.h>

#include "transport/link/heap.h"
#include "transport/sim/sim.h"
#include "transport/link/transport.h"

/* Large worlds do not fit into a cache: what is used together lies together,
   and what is about to be used is asked for. */
#define GW_CACHE_LINE 64

static inline void gw_sim_prefetch(const void *memory, size_t bytes)
{
    const char *at = memory;
    for (size_t line = 0; at && line < bytes; line += GW_CACHE_LINE)
        __builtin_prefetch(at + line, 1);
}

/* Memory that leads to other memory is asked for this many times, one behind
   the other. */
#define GW_SIM_AHEAD 4

/* The order of what happens at one time: by when it was scheduled, then by the
   host that did, then as that host did. How hosts are divided among threads has
   no part in it. */
struct gw_sim_place {
    uint64_t made_us, number;
};

/* Something that happens at a time, to a process or (NULL) to its region. */
struct gw_sim_event {
    struct gw_heap_node node; /* in the queue */
    uint64_t at_us;
    struct gw_sim_place place;
    struct gw_sim_process *process;
    void (*run)(struct gw_sim_event *event);
    void (*drop)(struct gw_sim_event *event); /* instead, or NULL: it is part
                                                 of something that stays */
    /* NULL, or: GW_SIM_AHEAD times before it happens, down to 1 */
    void (*prefetch)(const struct gw_sim_event *event, int times);
    void *owner;
    struct gw_sim_event *next; /* among those that a paused process keeps */
    int scheduled;
    int near; /* in the queue's wheel */
};

#define GW_SIM_SLOTS      4096
#define GW_SIM_SLOT_WORDS (GW_SIM_SLOTS / 64)

struct gw_sim_slot {
    struct gw_heap_node *first, *last;
};

/* What is scheduled. */
struct gw_sim_queue {
    struct gw_sim_slot slot[GW_SIM_SLOTS]; /* of a microsecond each */
    uint64_t filled[GW_SIM_SLOT_WORDS];    /* a bit for each slot */
    uint64_t unsorted[GW_SIM_SLOT_WORDS];
    struct gw_heap far;
};

struct gw_listener;
struct gw_sim_caller;
struct gw_sim_disk;
struct gw_sim_flight;
struct gw_sim_link;

/* Somebody who now and then has a frame for a port. */
struct gw_sim_turn {
    struct gw_sim_turn *next, **back; /* among those who wait */
    /* Takes the next frame: its bytes, and in *from_us since when it is there,
       if that is not now. */
    double (*begin)(struct gw_sim_turn *turn, double *from_us);
    /* As its port's event nears: asks for its own memory, then for what that
       points to. */
    void (*prefetch)(const struct gw_sim_turn *turn, int times);
    void (*done)(struct gw_sim_turn *turn); /* it is through */
};

/* An interface in one direction: one frame is at it, others wait. */
struct gw_sim_port {
    struct gw_sim_host *host;
    struct gw_sim_turn *first, **last;
    struct gw_sim_turn *serves; /* NULL: nobody, or somebody who has left */
    int telling;                /* who was served, that it is through */
    double turn_bytes;          /* of this turn, so far */
    struct gw_sim_event event;  /* it is free */
    double free_us;             /* when it is, or was */
};

enum gw_sim_direction {
    GW_SIM_OUT,
    GW_SIM_IN,
    GW_SIM_DIRECTIONS
};

struct gw_sim_host {
    struct gw_sim *sim;
    struct gw_sim_region *region;
    struct gw_sim_host *next; /* of its bucket */
    uint64_t number;          /* from 1 on */
    uint64_t placed, draws;   /* so far */
    struct gw_sim_host_options options;
    struct gw_sim_port port[GW_SIM_DIRECTIONS];
    struct gw_listener *listeners;
    unsigned ports;
    char name[64];
};

/* What one host says to another beside frames: how links come up and end. On
   arrival at the host it happens to nobody; its `run` finds to whom. Freed by
   whoever hears it. */
struct gw_sim_note {
    struct gw_sim_event event;
    struct gw_sim_note *next; /* in a mail */
    struct gw_sim_host *to;
};

/* What hosts of one region have sent to hosts of another one in a window. */
struct gw_sim_mail {
    struct gw_sim_letter {
        struct gw_sim_link *to;
        struct gw_sim_flight *flight;
    } * letter;
    size_t letters, room;
    struct gw_sim_note *notes, **notes_last;
    uint64_t first_us; /* when the first of it arrives */
};

#define GW_SIM_REGIONS_MAX 64

/* Hosts to which things happen one after the other, in one thread. Hosts of
   different regions know of each other by frames and notes alone. */
struct gw_sim_region {
    struct gw_sim *sim;
    uint64_t now_us;
    struct gw_sim_flight *spare; /* that carry no bytes, for the next ones */
    size_t spares;
    struct gw_sim_queue queue;
    struct gw_sim_mail out[GW_SIM_REGIONS_MAX]; /* of this window, by region */
    struct gw_sim_mail in[GW_SIM_REGIONS_MAX];  /* of the one before */
};

#define GW_SIM_BUCKETS 1024

struct gw_sim {
    struct gw_sim_options options;
    uint64_t now_us;       /* while it is divided: when the last window ended */
    uint64_t lookahead_us; /* 0: to be looked up */
    uint64_t end_us;       /* of the window, while it is divided */
    uint64_t draws, calls;
    struct gw_heap world_calls;
    struct gw_sim_region *region; /* [regions] */
    size_t regions;
    int divided;  /* each region is in a thread of its own, now */
    int has_slow; /* processes: only then theirs is asked for */
    struct gw_sim_process *processes;
    struct gw_sim_host *bucket[GW_SIM_BUCKETS]; /* by the hash of the name */
    uint64_t hosts;
    struct gw_sim_disk *disks;
};

/* Lasts as long as its loop and the last end of its links. */
struct gw_sim_process {
    struct gw_loop base;
    struct gw_sim_host *host;
    size_t users;                 /* the loop, and ends */
    struct gw_sim_caller *caller; /* the fiber, if there is one */
    size_t scheduled;             /* events of its own */
    int dead, paused, stopped;
    /* its own time, where that is ahead of the world's: of a dead one that is
       being unwound, of one that is at work */
    uint64_t after_us;
    uint64_t turn_us;         /* when what happens to it began, */
    int in_turn;              /* while it does */
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
    double bytes_per_us; /* of its links, 0: as all */
};

extern const struct gw_loop_ops gw_sim_loop_ops;

static inline struct gw_sim_process *
gw_sim_process_of(const struct gw_loop *loop)
{
    assert(loop->ops == &gw_sim_loop_ops);
    return GW_CONTAINER(loop, struct gw_sim_process, base);
}

/* sim_queue.c: nothing that is scheduled lies before now_us */
void gw_sim_queue_insert(struct gw_sim_queue *queue,
                         struct gw_sim_event *event,
                         uint64_t now_us);
void gw_sim_queue_remove(struct gw_sim_queue *queue,
                         struct gw_sim_event *event);
/* By time, then by place; left in place. NULL: there is none. */
struct gw_sim_event *gw_sim_queue_first(struct gw_sim_queue *queue,
                                        uint64_t now_us);
/* Lets those that happen right after `event` ask for their memory. */
void gw_sim_queue_prefetch(const struct gw_sim_event *event);

/* sim_region.c: now, at a host */
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

/* For an event of this host, or of what is at it. */
void gw_sim_schedule(struct gw_sim_host *host,
                     struct gw_sim_event *event,
                     uint64_t at_us);
/* Also of an event that a paused process keeps, or that is not scheduled. */
void gw_sim_cancel(struct gw_sim_host *host, struct gw_sim_event *event);

/* The same in two parts: what has its place among the events of one time may
   be scheduled later, when what stands before it has happened. */
struct gw_sim_place gw_sim_place(struct gw_sim_host *host);
void gw_sim_schedule_placed(struct gw_sim_region *region,
                            struct gw_sim_event *event,
                            uint64_t at_us,
                            struct gw_sim_place place);

/* An event that will not happen: calls its `drop`, if it has one. */
void gw_sim_drop(struct gw_sim_event *event);

/* Keeps an event until the paused process goes on, and forgets all of them. */
void gw_sim_hold(struct gw_sim_process *process, struct gw_sim_event *event);
void gw_sim_drop_held(struct gw_sim_process *process);
/* Forgets every event of a process that is about to be freed. */
void gw_sim_purge(struct gw_sim_process *process);
/* Forgets every event of a region, whose world is about to be freed, and says
   how many; some of them may lead to others elsewhere. */
size_t gw_sim_region_purge(struct gw_sim_region *region);

/* Takes the next event out of the queue, and it is then; NULL: there is none
   until until_us. */
struct gw_sim_event *gw_sim_region_next(struct gw_sim_region *region,
                                        uint64_t until_us);

/* sim_process.c: an event happens now; or is kept, while its process is paused;
   or is dropped, after the process has died. */
void gw_sim_deliver(struct gw_sim_event *event);
/* Delivers the next event of the region, if it is not after until_us: 1. */
int gw_sim_region_step(struct gw_sim_region *region, uint64_t until_us);
/* One user less; the last one frees it. */
void gw_sim_process_release(struct gw_sim_process *process);

/* sim_mail.c: brings a frame to an end, or a note to its host, at the time that
   it says; what crosses a region takes no less than the window. */
void gw_sim_mail_flight(struct gw_sim_region *from,
                        struct gw_sim_link *to,
                        struct gw_sim_host *there,
                        struct gw_sim_flight *flight);
void gw_sim_mail_note(struct gw_sim_host *from,
                      struct gw_sim_note *note,
                      uint64_t at_us);
/* What others have sent in the window before is in the region now. */
void gw_sim_mail_take(struct gw_sim_region *region);
/* What was sent becomes what is to be taken; when the first of it arrives, or
   UINT64_MAX. While no region runs. */
uint64_t gw_sim_mail_pass(struct gw_sim *sim);
void gw_sim_mail_prepare(struct gw_sim_region *region);
void gw_sim_mail_free(struct gw_sim_region *region);

/* sim_window.c: gw_sim_run of a world that is divided */
int gw_sim_run_windows(struct gw_sim *sim,
                       int (*done)(void *owner),
                       void *owner,
                       uint64_t until_us);

/* sim_call.c: the time of the world's next call, or UINT64_MAX; makes it. */
uint64_t gw_sim_next_call(const struct gw_sim *sim);
void gw_sim_make_call(struct gw_sim *sim);
void gw_sim_drop_calls(struct gw_sim *sim);
/* It is then everywhere; nothing that is left lies before it. */
void gw_sim_set_time(struct gw_sim *sim, uint64_t now_us);

/* sim_draw.c: a number of the host's own generator, below n. */
uint64_t gw_sim_host_draw(struct gw_sim_host *host, uint64_t n);

/* sim_caller.c: the caller of a process waits until `done`, or for the next
   event where that is NULL. */
void gw_sim_caller_wait(struct gw_sim_process *process,
                        int (*done)(void *owner),
                        void *owner);
void gw_sim_caller_computed(struct gw_loop *loop,
                            const struct gw_computed *part);
void gw_sim_caller_interrupt(struct gw_loop *loop);
/* Resumes a waiting caller: after an event, or after a send has left, which
   alone satisfies no `done`. */
void gw_sim_look_again(struct gw_sim_process *process);
void gw_sim_look_sent(struct gw_sim_process *process);

/* sim_link.c */
void gw_sim_cut_process(struct gw_sim_process *process);
void gw_sim_fail_dials(struct gw_sim_process *process); /* of the dead */

/* sim_incoming.c */
void gw_sim_flights_free(struct gw_sim_region *region);

/* sim_host.c: the host of a name, made when it is first asked for, or NULL (no
   memory); not while the world is divided */
struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name);
/* NULL: there is none. */
struct gw_sim_host *gw_sim_host_find(const struct gw_sim *sim,
                                     const char *name);
/* What leaves a host takes no less to reach one of another region. */
uint64_t gw_sim_least_latency(const struct gw_sim *sim);
void gw_sim_hosts_free(struct gw_sim *sim);
/* Waits for a turn of one frame; not while it waits or is served. */
void gw_sim_turn_ask(struct gw_sim_port *port, struct gw_sim_turn *turn);
/* The same, but a frame that is through by now (its first byte was there
   earlier) has had its turn: 1, and `done` is not called. */
int gw_sim_turn_pass(struct gw_sim_port *port, struct gw_sim_turn *turn);
/* Waits no more, and will not hear that its frame is through. */
void gw_sim_turn_leave(struct gw_sim_port *port, struct gw_sim_turn *turn);

/* sim_disk.c: the disk of a host, made when it is first asked for */
struct gw_disk *gw_sim_disk_of(struct gw_sim *sim, const char *host);
/* Time that syncs have taken since the last call: the work that made them lasts
   longer by that. */
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
/* From within: back to whoever resumed. */
void gw_sim_fiber_yield(struct gw_sim_fiber *fiber);

#endif
