/*
 * Joins a job by the address of its coordinator: asks for the job, puts this
 * host's settings over it, and chooses the routes to the other members. Servers
 * ask for their job here, too.
 */
#ifndef GW_WORKER_JOIN_H
#define GW_WORKER_JOIN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "proto/secret.h"
#include "proto/status.h"
#include "transport/link/host.h"
#include "transport/link/transport.h"
#include "worker/trainer/rank.h"

#define GW_JOIN_WAIT_S 60 /* for a coordinator that starts with its members */

/* The options, and all that they point to, outlive the member. */
struct gw_join_options {
    const char *coordinator; /* HOST:PORT, or unix:PATH */
    const char *const *set;  /* [sets] "key=value": settings of this host, */
    size_t sets;             /* keys that may differ per host */
    const struct gw_secret *secret; /* the job's; NULL: it has none */
    uint64_t wait_us;               /* for the coordinator to be there */
    uint32_t rank;                  /* wanted; GW_RANK_NONE: any */
    struct gw_log *log;             /* NULL: none */
    int compare_world; /* WORLD_SIZE must be the job's number of workers */
    /* gw_join_environment's places for the secret and the address */
    struct gw_secret handed;
    char address[GW_STRING_MAX];
    /* as in struct gw_client_options, also while the coordinator is asked */
    const char *(*gives_up)(void *owner);
    /* as in struct gw_rank_options; may be NULL */
    void (*opened)(void *owner, struct gw_rank *rank);
    void *owner;
};

/*
 * Fills in the options that a launcher gives a program by variables (see
 * worker/trainer/environment.h): GRADWEIR_COORDINATOR, or MASTER_ADDR
 * and MASTER_PORT, which need a rank, where `coordinator` is NULL or "",
 * GRADWEIR_SECRET_FD, RANK where `rank` is GW_RANK_NONE, WORLD_SIZE. The
 * options stay at their place from here on. The descriptor of the secret stays
 * open: a process may join again, and so may programs that it starts.
 * GW_EUSAGE, GW_EIO, each with a line that names the variable.
 */
enum gw_status gw_join_environment(struct gw_join_options *options,
                                   struct gw_error *error);

/* All settings are of keys that may differ per host. Needs no coordinator: a
   program calls it early; gw_join_job does so, too. GW_EUSAGE, GW_ENOMEM. */
enum gw_status gw_join_check(const struct gw_join_options *options,
                             struct gw_error *error);

/*
 * Asks the coordinator for the job. Blocks until the coordinator is there.
 * *heard_p becomes non-zero when it has answered: it may then wait for this
 * member, which declines if it cannot come. Errors of gw_ask and
 * gw_config_check; GW_EUSAGE: this host lacks the interface that is set.
 */
enum gw_status gw_join_job(const struct gw_join_options *options,
                           struct gw_config *config,
                           int *heard_p,
                           struct gw_error *error);

/*
 * Tells the coordinator that a member that has asked for the job does not join,
 * for the reason in `cannot` of `member`: the coordinator then waits no more
 * for it. Non-zero: the coordinator has heard so. Blocks for a second at most.
 */
int gw_join_decline(const struct gw_join_options *options,
                    const struct gw_join *member);

/* Everything with which a rank joins; zero before it is open, and at one place
   until it is closed. `rank` is for gw_rank_open. */
struct gw_joining {
    struct gw_rank_options rank;
    struct gw_routes routes;
    char why[256]; /* why the best transport is not taken; "": it is */
    char host[GW_HOST_NAME_MAX];
    struct gw_loop *loop;
    struct gw_metrics metrics;
    struct gw_config own; /* gw_join's */
};

/*
 * Chooses transports and opens a loop. `config` comes from gw_join_job and
 * outlives the rank. GW_EUSAGE: the job has transports that processes cannot
 * use, or links would leave this host without permission; errors of
 * gw_loop_open_uv.
 */
enum gw_status gw_joining_open(const struct gw_join_options *options,
                               const struct gw_config *config,
                               struct gw_joining *joining,
                               struct gw_error *error);

/* Called after the rank is closed. Allowed if nothing is open. */
void gw_joining_close(struct gw_joining *joining);

/* All of the above: asks for the job, and joins, or declines. *rank_p is NULL
   on failure; the caller calls gw_joining_close in any case. Errors of
   gw_join_job, gw_joining_open, gw_rank_open. */
enum gw_status gw_join_rank(const struct gw_join_options *options,
                            struct gw_joining *joining,
                            struct gw_rank **rank_p,
                            struct gw_error *error);

#endif
