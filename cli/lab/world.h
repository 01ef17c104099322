/*
 * A whole job in this process and in virtual time: coordinator, servers and
 * workers of one job, each a process of one simulated world, running the code
 * that real processes run. For studies, and for the tests of whole jobs.
 *
 * The world's threads (gw_sim_run): what the coordinator tells comes in one of
 * them, logged lines in any. What they say depends on the job, the options and
 * the seed alone; in several threads lines come in any order, and their times
 * are those of windows.
 */
#ifndef GW_CLI_WORLD_H
#define GW_CLI_WORLD_H

#include "proto/config.h"
#include "server/coordinator/coordinator.h"
#include "server/server.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"
#include "worker/worker.h"

/* What members say of themselves: the first server's machine, the others count
   on, the coordinator shares that of the second one; and its process number. */
#define GW_WORLD_MACHINE 100
#define GW_WORLD_PID     300

struct gw_world_worker {
    struct gw_loop *loop;
    struct gw_worker_options options;
    struct gw_metrics metrics;
    struct gw_error error;
    enum gw_status status;
    int finished; /* then status is its end, and *error says it */
    uint64_t ended_us;
};

struct gw_world_server {
    struct gw_loop *loop;
    struct gw_server *server;
    struct gw_metrics metrics;
    enum gw_status status;
    char text[GW_ERROR_TEXT_BYTES];
    int finished;
};

struct gw_world_options {
    struct gw_sim *sim; /* the caller's, which gives hosts their networks */
    /* checked; what computes is the cpu where it says "auto" */
    const struct gw_config *config;
    struct gw_dataset *train, *test; /* shared by all workers */
    const char *resume;              /* see gw_coordinator_options, or NULL */
    const struct gw_secret *secret;  /* of the job, or NULL */
    /* Writes the name of the host on which a member lives. */
    void (*host)(
        void *owner, uint8_t role, size_t rank, char *name, size_t room);
    const struct gw_coordinator_events *events; /* as the coordinator tells */
    void (*sink)(void *context, const char *line, size_t bytes); /* the log's */
    enum gw_log_level level;
    void *owner; /* of host, events and (as context) sink */
};

struct gw_world {
    struct gw_sim *sim;
    struct gw_loop *loop; /* the coordinator's; NULL: the job is not open */
    struct gw_coordinator *coordinator;
    struct gw_world_worker *worker; /* [workers] */
    struct gw_world_server *server; /* [servers] */
    size_t workers, servers;
    struct gw_config local; /* what holds on every host */
    struct gw_log log;
};

/*
 * Opens every process of the job; what options point to outlives the world. On
 * an error (GW_ENOMEM, and those of gw_coordinator_open and gw_server_open)
 * nothing is open.
 */
enum gw_status gw_world_open(const struct gw_world_options *options,
                             struct gw_world *world,
                             struct gw_error *error);

/* Whether every worker and every server has ended. */
int gw_world_is_over(const struct gw_world *world);

/* Closes the processes, those that still run like killed ones; the simulated
   hosts with their disks go on. Also of a world that is not open. */
void gw_world_close(struct gw_world *world);

#endif
