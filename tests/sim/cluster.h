/*
 * A whole job in simulation: coordinator, servers and workers of one job file,
 * each a process of one simulated world, running the code that real processes
 * run. Used by the tests in tests/sim.
 */
#ifndef GW_TESTS_CLUSTER_H
#define GW_TESTS_CLUSTER_H

#include "cli/lab/world.h"
#include "server/checkpoint/store.h"

#define CLUSTER_MAX 16

#define CLUSTER_TOLD 16 /* notes that are kept */

/* The letter of the house that the servers are in, too. */
#define CLUSTER_AT_SERVERS '*'

struct cluster {
    struct gw_config config;
    struct gw_sim *sim;
    struct gw_dataset *train, *test;
    int disks_apart; /* the servers do not see the coordinator's */
    const struct gw_secret *secret;       /* of the job; NULL: it has none */
    const struct gw_backend_ops *backend; /* of workers; NULL: the cpu's */
    gw_world_work_cb work;                /* of workers; NULL: the built-in */
    int fixed_ports;    /* of the servers, see struct gw_world_options */
    const char *houses; /* a letter for each worker: where it is; NULL: each
                           worker is by itself */

    struct gw_disk checkpoints; /* the coordinator's "ck", see below */

    /* what is in the world, see there */
    struct gw_world world;
    struct gw_loop *loop; /* the coordinator's */
    struct gw_coordinator *coordinator;
    struct gw_world_worker *worker;
    struct gw_world_server *server;
    size_t workers, servers;
    uint8_t excused[CLUSTER_MAX]; /* servers that may end as they like */

    /* what the coordinator told */
    int running, finished;
    struct gw_final_report final;
    char text[GW_ERROR_TEXT_BYTES];
    double loss[4096], lr[4096]; /* per logged step */
    char policy[4096][GW_WORD_BYTES];
    struct gw_staleness staleness[CLUSTER_MAX];
    uint64_t scored[4096]; /* per logged step: that was scored last by then */
    uint64_t steps, scores, notes;
    char note[GW_ERROR_TEXT_BYTES]; /* the last one; and of the last ones: */
    char told[CLUSTER_TOLD][GW_ERROR_TEXT_BYTES]; /* note n at n % this */
    struct gw_score_report score[256];
    struct { /* of the first, and each change */
        uint64_t step;
        uint32_t weight[CLUSTER_MAX];
    } split[256];
    uint64_t splits;
    uint64_t split_samples[4096][CLUSTER_MAX]; /* per logged step */
};

/*
 * The data that every test job trains on: 300 + 300 images of 28 x 28 in a
 * temporary directory that is removed at exit.
 */
const char *cluster_data_dir(void);
void cluster_data_open(struct gw_dataset **train, struct gw_dataset **test);

/* The small default job with --set assignments over it, ended by NULL. Fails
   the test on any error. */
void cluster_config(struct gw_config *config, const char *const *settings);

/*
 * Opens every process of the job, in a new world or, if *cluster still has one,
 * in that; `settings` are --set assignments over a small default job, ended by
 * NULL. Fails the test on any error. train, test, disks_apart, secret, backend,
 * work, fixed_ports and houses of *cluster are kept.
 */
void cluster_open(struct cluster *cluster,
                  const struct gw_sim_options *options,
                  const char *const *settings,
                  const char *resume);

/* Runs until every process has ended; returns 0 after limit_us. */
int cluster_run(struct cluster *cluster, uint64_t limit_us);

/* The same; fails the test unless the job is complete, and each worker says
   so. */
void cluster_finish(struct cluster *cluster, uint64_t limit_us);

/* Runs until `done` says so. */
int cluster_run_until(struct cluster *cluster,
                      int (*done)(void *owner),
                      void *owner,
                      uint64_t limit_us);

/* Runs for so long. */
void cluster_pass(struct cluster *cluster, uint64_t us);

/* For cluster_run_until and gw_sim_at, with the cluster for their owner:
   whether the job has begun, has logged three steps, is over; asks it to stop,
   as a signal does. */
int cluster_is_running(void *cluster);
int cluster_has_stepped(void *cluster);
int cluster_is_over(void *cluster);
void cluster_stop(void *cluster);

/* Frames and messages that servers and workers took for a violation of the
   protocol: none, whatever the weather, where all follow it. */
uint64_t cluster_refused(const struct cluster *cluster);

/* Fails the test unless these words are in one of the last notes. */
void cluster_assert_told(const struct cluster *cluster, const char *words);

/* Another worker process in the place of one, which is killed. */
void cluster_replace_worker(struct cluster *cluster, size_t i);

/* Another server process in the place of one, which is killed. */
void cluster_replace_server(struct cluster *cluster, size_t i);

/* Kills the coordinator, and starts another one in its place. */
void cluster_kill_coordinator(struct cluster *cluster);
void cluster_replace_coordinator(struct cluster *cluster);

/* Whether another one could take its place: before the register is there some
   member may not know of its start. */
int cluster_has_register(struct cluster *cluster);

/* Closes the processes, if they are open; the world, with its disks, goes on.
 */
void cluster_end(struct cluster *cluster);

/* Closes everything. */
void cluster_close(struct cluster *cluster);

/* "ck" on the coordinator's disk, entered anew with each call; all of the disk
   where it is not there, which holds no checkpoints. */
struct gw_disk *cluster_checkpoints(struct cluster *cluster);

/* A counter, summed over all servers, or over all workers. */
uint64_t cluster_at_servers(const struct cluster *cluster,
                            enum gw_metric which);
uint64_t cluster_at_workers(const struct cluster *cluster,
                            enum gw_metric which);

/* The server that has a shard: where there are copies, the one that answers for
   it, or did when the job ended. NULL: none does. */
const struct gw_server *cluster_server(const struct cluster *cluster,
                                       uint32_t shard);

/* All weights that the shards have, as they lie in the arena of a worker. */
void cluster_gather(const struct cluster *cluster, void *arena);

/* Whether the weights that the job ended with, which rank 0 pulled, are those
   that the shards then had. */
int cluster_agrees(const struct cluster *cluster);

/* The digest of the final weights, as hex. */
void cluster_digest(const struct cluster *cluster, char hex[65]);

#endif
