/*
 * The simulator: a cluster in one process, in virtual time. It offers the same
 * loop and the same transport table as the real world, so what runs in it is
 * the same server, coordinator and client code. A run is exact: the seed and
 * the build replay it bit for bit. One thread, or several (gw_sim_run).
 *
 * A world holds processes; a process has a loop, a disk and perhaps a fiber in
 * which a worker computes and waits. Whoever made them frees them: close the
 * processes' loops, then the world.
 */
#ifndef GW_TRANSPORT_SIM_H
#define GW_TRANSPORT_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_sim;
struct gw_sim_process;

/* Another number where the same seed means another history than before: in the
   order of what happens at one time, what is drawn, how long something takes.
 */
#define GW_SIM_HISTORY 2

struct gw_sim_options {
    uint64_t seed;
    uint64_t latency_us; /* of every frame, at least */
    uint64_t jitter_us;  /* uniformly added, drawn per frame and link */
    double bytes_per_us; /* of each link and direction, 0: unlimited */
    unsigned threads;    /* see gw_sim_run; more than 64 are 64 */
};

/* GW_ENOMEM. Free it with gw_sim_destroy, when no process is left (asserted).
 */
enum gw_status gw_sim_create(const struct gw_sim_options *options,
                             struct gw_sim **sim_p,
                             struct gw_error *error);
void gw_sim_destroy(struct gw_sim *sim);

/* In callbacks of processes gw_loop_now is meant: in several threads this is
   when the last window ended. */
uint64_t gw_sim_now(const struct gw_sim *sim);

/* A number of the world's own generator, below n. */
uint64_t gw_sim_draw(struct gw_sim *sim, uint64_t n);

/* The network of a host, which all its processes share. */
struct gw_sim_host_options {
    double bytes_per_us; /* in each direction, 0: unlimited */
    uint64_t latency_us; /* more than the world's, of what leaves and comes */
};

/*
 * Frames between `host` and others pass its interface one after the other, at
 * its rate, both as they leave and as they come; frames within it do not. From
 * now on; without this call a host is unlimited. GW_ENOMEM.
 */
enum gw_status gw_sim_host(struct gw_sim *sim,
                           const char *host,
                           const struct gw_sim_host_options *options,
                           struct gw_error *error);

/*
 * A process on `host` (processes of one host name share its disk). The loop is
 * closed with gw_loop_close, which also removes the process. GW_ENOMEM.
 */
enum gw_status gw_sim_process(struct gw_sim *sim,
                              const char *host,
                              struct gw_loop **loop_p,
                              struct gw_error *error);

/*
 * Runs main(argument) in a fiber of this process at the current virtual time;
 * it may use the caller's side of the loop. `finished` is called on the loop
 * when it returns. One fiber per process (asserted). GW_ENOMEM.
 */
enum gw_status gw_sim_spawn(struct gw_loop *loop,
                            void (*main)(void *argument),
                            void (*finished)(void *argument),
                            void *argument,
                            struct gw_error *error);

/*
 * How long a computation of the caller of `loop` over so many samples takes
 * (gw_loop_computed), unless it is interrupted; NULL: no time. Asked when its
 * first part is done; each part takes its share of that time, and together they
 * take all of it.
 */
void gw_sim_compute_model(struct gw_loop *loop,
                          uint64_t (*compute_us)(void *owner, uint64_t samples),
                          void *owner);

/* `passed` hears of each part of a computation, when its time has passed: from
   when it did, and until when. With the model's owner. */
void gw_sim_compute_watch(struct gw_loop *loop,
                          void (*passed)(void *owner,
                                         uint64_t begin_us,
                                         uint64_t end_us));

/* How fast the process goes through memory where it works (gw_loop_worked): so
   long it hears nothing, and what is due is late. 0: it takes no time. */
void gw_sim_work_model(struct gw_loop *loop, double bytes_per_us);

/* Links of this process are no faster than this; 0: than those of others. */
void gw_sim_slow(struct gw_loop *loop, double bytes_per_us);

/*
 * Runs the world until `done` says so (1), or nothing is left to happen before
 * until_us (0; then it is until_us, unless that is UINT64_MAX). `done` looks
 * and changes nothing.
 *
 * With options.threads of 2 or more hosts are divided among so many threads,
 * the caller's among them, or as many as there can be, and what happens on
 * hosts is the same to the bit as in one thread. Processes' callbacks then run
 * in the thread that has their host in this run, fibers too, and may do what
 * they do with their own loop, disk and links. All that is done to the world,
 * to hosts and to processes from outside is for calls of gw_sim_at and for the
 * time between runs (asserted). `done` is asked now and then only, no later
 * than the smallest latency after it could have said yes, so that what is
 * begun after such a run is not begun at the same time as in one thread. That
 * latency, between any two hosts, must not be 0 (asserted).
 */
int gw_sim_run(struct gw_sim *sim,
               int (*done)(void *owner),
               void *owner,
               uint64_t until_us);

/* ---- faults, at the current virtual time ---- */

/* Calls `fire` after delay_us, outside of every process, before anything that
   happens at that time. */
void gw_sim_at(struct gw_sim *sim,
               uint64_t delay_us,
               void (*fire)(void *owner),
               void *owner);

/* Breaks one of the open links, chosen by the world's generator; what was on
 * its way is lost, the first put of it perhaps half written. Returns 0 when
 * there is none. */
int gw_sim_cut(struct gw_sim *sim);

/* The process stands still for pause_us; events wait. */
void gw_sim_pause(struct gw_loop *loop, uint64_t pause_us);

/* Every process stands still at once. */
void gw_sim_pause_all(struct gw_sim *sim, uint64_t pause_us);

/*
 * The process is gone: no event reaches it and its links break. Its objects
 * stay allocated until their owner frees them, which has no effect on others.
 */
void gw_sim_kill(struct gw_loop *loop);
int gw_sim_is_dead(const struct gw_loop *loop);

/*
 * Lets the fiber of a killed process run to its end, so that it frees what it
 * holds: it hears nothing any more, nothing it sends goes anywhere, and its own
 * time passes from deadline to deadline until its last wait is over.
 */
void gw_sim_unwind(struct gw_loop *loop);

/* ---- the disk of a host ---- */

/*
 * The n-th operation from now that changes the disk fails with `status`; with
 * GW_OK the host loses power there: every later operation fails, and
 * gw_sim_disk_restart brings back what was synced.
 */
void gw_sim_disk_fail(struct gw_loop *loop,
                      uint64_t operation,
                      enum gw_status status);
void gw_sim_disk_restart(struct gw_loop *loop);

/* From now on each sync of a file on the disk of this process takes so long,
   and the work that makes it. */
void gw_sim_disk_slow(struct gw_loop *loop, uint64_t sync_us);

/* Changing operations so far: what a sweep counts to. */
uint64_t gw_sim_disk_operations(const struct gw_loop *loop);

#endif
