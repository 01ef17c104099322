/*
 * Inside the simulator: what the files of its name share.
 */
#ifndef GW_TRANSPORT_SIM_WORLD_H
#define GW_TRANSPORT_SIM_WORLD_H

#include "transport/heap.h"
#include "transport/sim.h"
#include "transport/transport.h"

/* Large worlds do not fit into a cache: what is used together lies together,
   and what is about to be used is asked for. */
#define GW_CACHE_LINE 64

static inline void gw_sim_fetch(const void *memory, size_t bytes)
{
    const char *at = memory;
    for (size_t line = 0; at && line < bytes; line += GW_CACHE_LINE)
        __builtin_prefetch(at + line, 1);
}

/* Memory that leads to other memory is asked for this many times, one behind
   the other. */
#define GW_SIM_AHEAD 4

/* Something that happens at a time, to a process or (NULL) to the world. */
struct gw_sim_event {
    struct gw_heap_node node; /* in the queue */
    uint64_t at_us, order;
    struct gw_sim_process *process;
    void (*run)(struct gw_sim_event *event);
    void (*drop)(struct gw_sim_event *event); /* instead, or NULL: it is part
                                                 of something that stays */
    /* NULL, or: GW_SIM_AHEAD times before it happens, down to 1 */
    void (*nears)(const struct gw_sim_event *event, int times);
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
    struct gw_heap far;
};

struct gw_sim_caller;
struct gw_sim_disk;
struct gw_sim_link;

/* Somebody who now and then has a frame for a port. */
struct gw_sim_turn {
    struct gw_sim_turn *next, **back; /* among those who wait */
    /* Takes the next frame: its bytes, and in *from_us since when it is there,
       if that is not now. */
    double (*begin)(struct gw_sim_turn *turn, double *from_us);
    /* As its port's event nears: asks for its own memory, then for what that
       points to. */
    void (*nears)(const struct gw_sim_turn *turn, int times);
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

enum gw_sim_way {
    GW_SIM_OUT,
    GW_SIM_IN,
    GW_SIM_WAYS
};

struct gw_sim_host {
    struct gw_sim *sim;
    struct gw_sim_host *next;
    char name[64];
    struct gw_sim_host_options options;
    struct gw_sim_port port[GW_SIM_WAYS];
};

struct gw_sim {
    struct gw_sim_options options;
    uint64_t now_us, order, draws;
    struct gw_sim_queue queue;
    struct gw_sim_process *processes;
    struct gw_sim_host *hosts;
    struct gw_sim_disk *disks;
    struct gw_sim_link *links;   /* all open ends */
    struct gw_sim_flight *spare; /* that carry no bytes, for the next ones */
    struct gw_listener *listeners;
    unsigned ports;
};

struct gw_sim_process {
    struct gw_loop base;
    struct gw_sim *sim;
    struct gw_sim_host *host;
    struct gw_sim_caller *caller; /* the fiber, if there is one */
    size_t scheduled;             /* events of its own */
    int dead, paused, stopped;
    uint64_t after_us; /* time of a dead process that is being unwound */
    struct gw_sim_process *next, **back;
    struct gw_sim_link *links; /* its ends */
    struct gw_sim_event *held, **held_last;
    struct gw_sim_event timer, tasks;
    struct gw_sim_event resume;
    struct gw_task *tasks_first, **tasks_last;
    uint64_t (*compute_us)(void *owner, uint64_t samples);
    void (*compute_passed)(void *owner, uint64_t begin_us, uint64_t end_us);
    void *compute_owner;
    double bytes_per_us; /* of its links, 0: as all */
};

struct gw_sim_process *gw_sim_process_of(const struct gw_loop *loop);

/* sim_queue.c: nothing that is scheduled lies before now_us */
void gw_sim_queue_insert(struct gw_sim_queue *queue,
                         struct gw_sim_event *event,
                         uint64_t now_us);
void gw_sim_queue_remove(struct gw_sim_queue *queue,
                         struct gw_sim_event *event);
/* By time, then by order; left in place. NULL: there is none. */
struct gw_sim_event *gw_sim_queue_first(const struct gw_sim_queue *queue,
                                        uint64_t now_us);
/* Lets those that happen right after `event` ask for their memory. */
void gw_sim_queue_look_ahead(const struct gw_sim_event *event);

/* sim.c */
void gw_sim_schedule(struct gw_sim *sim,
                     struct gw_sim_event *event,
                     uint64_t at_us);
void gw_sim_cancel(struct gw_sim *sim, struct gw_sim_event *event);

/* The same in two parts: what has its place among the events of one time may
   be scheduled later, when what stands before it has happened. */
uint64_t gw_sim_place(struct gw_sim *sim);
void gw_sim_schedule_placed(struct gw_sim *sim,
                            struct gw_sim_event *event,
                            uint64_t at_us,
                            uint64_t place);

/* Happens now; or is kept, where the process stands still. */
void gw_sim_deliver(struct gw_sim_event *event);

/* Forgets every event of a process that is about to be freed. */
void gw_sim_purge(struct gw_sim *sim, struct gw_sim_process *process);

/* sim_loop.c: something has happened to the process, or no more than that a
   send has left */
void gw_sim_look_again(struct gw_sim_process *process);
void gw_sim_look_sent(struct gw_sim_process *process);

/* sim_link.c */
void gw_sim_cut_process(struct gw_sim_process *process);
void gw_sim_fail_dials(struct gw_sim_process *process); /* of the dead */

/* sim_flight.c */
void gw_sim_flights_free(struct gw_sim *sim);

/* sim_host.c: the host of a name, made when it is first asked for, or NULL */
struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name);
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
