/*
 * Inside the simulator: what sim.c, sim_loop.c, sim_link.c, sim_disk.c and
 * sim_fiber.c share.
 */
#ifndef GW_TRANSPORT_SIM_WORLD_H
#define GW_TRANSPORT_SIM_WORLD_H

#include "transport/heap.h"
#include "transport/sim.h"
#include "transport/transport.h"

/* Something that happens at a time, to a process or (NULL) to the world. */
struct gw_sim_event {
    struct gw_heap_node node;
    uint64_t at_us, order;
    struct gw_sim_process *process;
    void (*run)(struct gw_sim_event *event);
    void (*drop)(struct gw_sim_event *event); /* instead, or NULL: it is part
                                                 of something that stays */
    void *owner;
    struct gw_sim_event *next; /* among those that a paused process keeps */
    int scheduled;
};

struct gw_sim_caller;
struct gw_sim_disk;
struct gw_sim_link;

enum gw_sim_way {
    GW_SIM_OUT,
    GW_SIM_IN
};

struct gw_sim_host {
    struct gw_sim_host *next;
    char name[64];
    struct gw_sim_host_options options;
    double free_us[2]; /* its interface, per way */
};

struct gw_sim {
    struct gw_sim_options options;
    uint64_t now_us, order, draws;
    struct gw_heap events;
    struct gw_sim_process *processes;
    struct gw_sim_host *hosts;
    struct gw_sim_disk *disks;
    struct gw_sim_link *links; /* all open ends */
    struct gw_listener *listeners;
    unsigned ports;
};

struct gw_sim_process {
    struct gw_loop base;
    struct gw_sim *sim;
    struct gw_sim_process *next, **back;
    struct gw_sim_host *host;
    int dead, paused, stopped;
    uint64_t after_us; /* time of a dead process that is being unwound */
    struct gw_sim_event *held, **held_last;
    struct gw_sim_event timer, tasks;
    struct gw_sim_event resume;
    struct gw_task *tasks_first, **tasks_last;
    struct gw_sim_caller *caller; /* the fiber, if there is one */
    uint64_t (*compute_us)(void *owner, uint64_t samples);
    void (*compute_passed)(void *owner, uint64_t begin_us, uint64_t end_us);
    void *compute_owner;
    double bytes_per_us; /* of its links, 0: as all */
};

struct gw_sim_process *gw_sim_process_of(const struct gw_loop *loop);

/* sim.c */
void gw_sim_schedule(struct gw_sim *sim,
                     struct gw_sim_event *event,
                     uint64_t at_us);
void gw_sim_cancel(struct gw_sim *sim, struct gw_sim_event *event);

/* Forgets every event of a process that is about to be freed. */
void gw_sim_purge(struct gw_sim *sim, struct gw_sim_process *process);

/* sim_loop.c: something has happened to the process */
void gw_sim_look_again(struct gw_sim_process *process);

/* sim_link.c */
void gw_sim_cut_process(struct gw_sim_process *process);
void gw_sim_fail_dials(struct gw_sim_process *process); /* of the dead */

/* sim_host.c: the host of a name, made when it is first asked for, or NULL */
struct gw_sim_host *gw_sim_host_of(struct gw_sim *sim, const char *name);
void gw_sim_hosts_free(struct gw_sim *sim);
/* Takes the interface for a frame that is there at from_us; returns when it is
   through. */
double gw_sim_host_pass(struct gw_sim_host *host,
                        enum gw_sim_way way,
                        double from_us,
                        double bytes);

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
