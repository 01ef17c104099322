/*
 * A whole job in this process and in virtual time: coordinator, servers and
 * workers of one job, each a process of one simulated world, running the code
 * of real processes. For studies, and for tests of whole jobs.
 *
 * Threads: the coordinator's events come in one of the world's threads
 * (gw_sim_run), logged lines in any. Their contents depend only on the job, the
 * options and the seed; with several threads lines come in any order, and their
 * times are times of windows.
 */
#ifndef GW_CLI_WORLD_H
#define GW_CLI_WORLD_H

#include "proto/config.h"
#include "server/coordinator/coordinator.h"
#include "server/server.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"
#include "worker/worker.h"

/* Identities of members: the machine of the first server, counted on for the
   others (the coordinator shares the second's); and the process number. */
#define GW_WORLD_MACHINE 100
#define GW_WORLD_PID     300

/* A worker's main function: gw_worker_run, or another trainer's. */
typedef enum gw_status (*gw_world_work_cb)(
    const struct gw_worker_options *options, struct gw_error *error);

struct gw_world_worker {
    struct gw_loop *loop;
    gw_world_work_cb work;
    struct gw_worker_options options;
    struct gw_metrics metrics;
    struct gw_error error;
    enum gw_status status;
    int finished; /* then `status` and `error` are its end */
    uint64_t ended_us;
};

/* Threads of a server beyond two: two shards with two copies. */
#define GW_WORLD_MORE 2

struct gw_world_server {
    struct gw_loop *loop;
    struct gw_server *server;
    /* its other threads; NULL: it has none */
    struct gw_server *standby, *more[GW_WORLD_MORE];
    struct gw_world_thread *thread; /* [2 + GW_WORLD_MORE] */
    uint64_t process;               /* its number */
    struct gw_metrics metrics;
    enum gw_status status; /* of the first thread */
    char text[GW_ERROR_TEXT_BYTES];
    int finished, killed;
    int is_over; /* a thread has ended */
};

struct gw_world_options {
    struct gw_sim *sim; /* the caller's; gives hosts their networks */
    /* checked; "auto" devices are the cpu */
    const struct gw_config *config;
    struct gw_dataset *train, *test; /* shared by all workers */
    const char *resume;              /* see gw_coordinator_options, or NULL */
    const struct gw_secret *secret;  /* the job's, or NULL */
    gw_world_work_cb work;           /* of each worker; NULL: gw_worker_run */
    /* Writes the name of a member's host. */
    void (*host)(
        void *owner, uint8_t role, size_t rank, char *name, size_t room);
    uint32_t shards; /* of each server, at most 2; 0: 1 */
    int fixed_ports; /* a server in the place of another has its addresses */
    const struct gw_coordinator_events *events; /* the coordinator's */
    void (*sink)(void *context, const char *line, size_t bytes); /* the log's */
    enum gw_log_level level;
    void *owner; /* for host, events, work and (as context) sink */
};

struct gw_world {
    struct gw_world_options options; /* as it was opened */
    struct gw_sim *sim;
    struct gw_loop *loop; /* the coordinator's; NULL: it was killed */
    struct gw_coordinator *coordinator;
    char address[GW_ADDRESS_MAX];   /* of the coordinator, dead or alive */
    struct gw_world_dead *dead;     /* coordinators and servers that were killed
                                     */
    struct gw_world_worker *worker; /* [workers] */
    struct gw_world_server *server; /* [servers] */
    size_t workers, servers;
    uint64_t servers_replaced; /* so often */
    struct gw_config local;    /* configuration of every host */
    struct gw_log log;
};

/*
 * Opens every process of the job; objects that options point to outlive the
 * world. On an error (GW_ENOMEM, and those of gw_coordinator_open and
 * gw_server_open) nothing is open.
 */
enum gw_status gw_world_open(const struct gw_world_options *options,
                             struct gw_world *world,
                             struct gw_error *error);

/* Worker `i` is killed, if it has not ended, and counts as one that has. Where
   gw_sim_run allows that the world is changed, as the next. */
void gw_world_end_worker(struct gw_world *world, size_t i);

/* Server `i` is killed, with all its threads, if it has not ended. */
void gw_world_end_server(struct gw_world *world, size_t i);

/* Another server process in the place of server `i`, which is killed: on the
   same host. GW_ENOMEM. */
enum gw_status gw_world_replace_server(struct gw_world *world,
                                       size_t i,
                                       struct gw_error *error);

/* Another worker process in the place of worker `i`: on the same host, and
   asking for the same rank. GW_ENOMEM. */
enum gw_status gw_world_replace_worker(struct gw_world *world,
                                       size_t i,
                                       struct gw_error *error);

/*
 * The coordinator is killed, if it has not been; and another one takes its
 * place, on the same host. GW_ENOMEM, and the errors of gw_coordinator_open:
 * then there is none, and it may be tried again.
 */
enum gw_status gw_world_end_coordinator(struct gw_world *world,
                                        struct gw_error *error);
enum gw_status gw_world_replace_coordinator(struct gw_world *world,
                                            struct gw_error *error);

/* Non-zero when all workers and servers have ended. */
int gw_world_is_over(const struct gw_world *world);

/* Closes the processes, running ones as if killed; the simulated hosts and
   their disks stay. Allowed for a world that is not open. */
void gw_world_close(struct gw_world *world);

#endif
