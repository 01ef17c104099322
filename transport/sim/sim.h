/*
 * The simulator: a cluster in one process, in virtual time. It offers the same
 * loop and the same transport table as the real world, so the same server,
 * coordinator and client code runs in it. A run is exact: the seed and the
 * build replay it bit for bit. One thread, or several (gw_sim_run).
 *
 * A world holds processes; a process has a loop, a disk and perhaps a fiber in
 * which a worker computes and waits. The caller that made them frees them:
 * first the processes' loops are closed, then the world.
 */
#ifndef GW_TRANSPORT_SIM_H
#define GW_TRANSPORT_SIM_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "transport/link/loop.h"

struct gw_sim;
struct gw_sim_process;

/* Version of the history that a seed means. A change of the order of events at
   one time, of a drawn number or of a duration needs another one. */
#define GW_SIM_HISTORY 2

struct gw_sim_options {
    uint64_t seed;
    uint64_t latency_us; /* least latency of every frame */
    uint64_t jitter_us;  /* uniformly added, drawn per frame and link */
    double bytes_per_us; /* of each link and direction, 0: unlimited */
    unsigned threads;    /* see gw_sim_run; more than 64 are 64 */
};

/* GW_ENOMEM. Free it with gw_sim_destroy, without processes (asserted). */
enum gw_status gw_sim_create(const struct gw_sim_options *options,
                             struct gw_sim **sim_p,
                             struct gw_error *error);
void gw_sim_destroy(struct gw_sim *sim);

/* The world's time: in several threads, the end of the last window. Callbacks
   of processes use gw_loop_now instead. */
uint64_t gw_sim_now(const struct gw_sim *sim);

/* A number of the world's own generator, below n. */
uint64_t gw_sim_draw(struct gw_sim *sim, uint64_t n);

/* The network of a host, shared by all its processes. */
struct gw_sim_host_options {
    double bytes_per_us; /* in each direction, 0: unlimited */
    uint64_t latency_us; /* added to the world's, for frames that leave and that
                            arrive */
};

/*
 * Frames between `host` and others pass its interface one after the other, at
 * its rate, in each direction; frames within the host do not. Takes effect now;
 * without this call a host is unlimited. GW_ENOMEM.
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
 * Sets the duration of a computation of the caller of `loop` over so many
 * samples (gw_loop_computed), unless it is interrupted; NULL: no time.
 * compute_us is called when the first part is done; each part takes its share
 * of that time, and together they take all of it.
 */
void gw_sim_compute_model(struct gw_loop *loop,
                          uint64_t (*compute_us)(void *owner, uint64_t samples),
                          void *owner);

/* `passed` is called after each part of a computation, with the begin and the
   end of its time, and with the model's owner. */
void gw_sim_compute_watch(struct gw_loop *loop,
                          void (*passed)(void *owner,
                                         uint64_t begin_us,
                                         uint64_t end_us));

/* Sets the rate at which the process goes through memory while it works
   (gw_loop_worked): during that time it handles no event, and timers are late.
   0: work takes no time. */
void gw_sim_work_model(struct gw_loop *loop, double bytes_per_us);

/* Limits the rate of this process's links; 0: the rate of all others. */
void gw_sim_slow(struct gw_loop *loop, double bytes_per_us);

/*
 * Runs the world until `done` returns non-zero (1), or nothing is left to
 * happen before until_us (0; then it is until_us, unless that is UINT64_MAX).
 * `done` has no side effects.
 *
 * With options.threads of 2 or more the hosts are divided among so many
 * threads, including the caller's, or as many as can be started, and the
 * history of every host is the same to the bit as in one thread. Callbacks and
 * fibers of a process then run in the thread of its host, and may use their own
 * loop, disk and links. The world, hosts and processes may be changed from
 * outside only in calls of gw_sim_at and between runs (asserted). `done` is
 * called now and then only, at the latest one least latency after it could have
 * returned non-zero, so actions after such a run happen at other times than in
 * one thread. That latency, between any two hosts, must not be 0 (asserted).
 */
int gw_sim_run(struct gw_sim *sim,
               int (*done)(void *owner),
               void *owner,
               uint64_t until_us);

/* ---- faults, at the current virtual time ---- */

/* Calls `fire` after delay_us, outside of every process, before all other
   events of that time. */
void gw_sim_at(struct gw_sim *sim,
               uint64_t delay_us,
               void (*fire)(void *owner),
               void *owner);

/* Breaks one of the open links, chosen by the world's generator; frames on
   their way are lost, the first put of them perhaps half written. Returns 0
   when there is none. */
int gw_sim_cut(struct gw_sim *sim);

/* Pauses the process for pause_us; its events wait. */
void gw_sim_pause(struct gw_loop *loop, uint64_t pause_us);

/* Pauses every process at once. */
void gw_sim_pause_all(struct gw_sim *sim, uint64_t pause_us);

/*
 * Kills the process: no event reaches it and its links break. Its objects stay
 * allocated until their owner frees them, without effect on others.
 */
void gw_sim_kill(struct gw_loop *loop);
int gw_sim_is_dead(const struct gw_loop *loop);

/*
 * Lets the fiber of a killed process run to its end, so that it frees its
 * memory: it receives nothing, its frames are dropped, and its own time passes
 * from deadline to deadline until its last wait is over.
 */
void gw_sim_unwind(struct gw_loop *loop);

/* ---- the disk of a host ---- */

/*
 * The n-th operation from now that changes the disk fails with `status`; with
 * GW_OK the host loses power there: every later operation fails, and
 * gw_sim_disk_restart restores the synced state.
 */
void gw_sim_disk_fail(struct gw_loop *loop,
                      uint64_t operation,
                      enum gw_status status);
void gw_sim_disk_restart(struct gw_loop *loop);

/* From now on each sync of a file on the disk of this process takes so long,
   and so does the work that makes it. */
void gw_sim_disk_slow(struct gw_loop *loop, uint64_t sync_us);

/* Number of changing operations so far: the limit of a sweep. */
uint64_t gw_sim_disk_operations(const struct gw_loop *loop);

#endif
