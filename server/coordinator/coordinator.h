/*
 * The coordinator: knows the members, hands out ranks and shards, watches that
 * they are alive, keeps the manifests, and ends the job. It is not on the data
 * path: once the job runs, workers and servers need it only when something
 * changes.
 *
 * A state machine on one loop, like gw_server. Its progress is told through
 * events, so that a terminal, a JSON file and a test can watch alike.
 */
#ifndef GW_SERVER_COORDINATOR_H
#define GW_SERVER_COORDINATOR_H

#include <stdint.h>

#include "proto/config.h"
#include "proto/control.h"
#include "proto/log.h"
#include "proto/metrics.h"
#include "proto/secret.h"
#include "proto/staleness.h"
#include "proto/status.h"
#include "transport/link/loop.h"
#include "transport/link/transport.h"

struct gw_coordinator;

/* One logged step, over all workers. */
struct gw_step_report {
    uint64_t step, epoch;
    uint64_t total_steps; /* of the whole job */
    double loss; /* mean over the samples of the step; without any NaN */
    double lr;
    uint64_t samples, correct;
    uint64_t bytes_pushed, bytes_pulled; /* so far, all workers */
    uint64_t all_samples;                /* so far, all workers */
    const char *policy;                  /* the word that holds */
    /* Per-push policies: `step` is updates over workers, `loss` the
       mean since the last report, and this [workers] of each so far; else NULL.
     */
    const struct gw_staleness *staleness;
    size_t workers;
    const uint64_t *split; /* speed: [workers] samples of each in this step;
                              NULL: even */
};

/* speed: how steps are divided from `step` on, until another one is told with
   the same step or an earlier one. */
struct gw_split_report {
    uint64_t step;
    const uint32_t *weight; /* [workers], see proto/split.h */
    size_t workers;
};

struct gw_score_report {
    uint64_t step;
    double loss, accuracy;
    int best;
};

/* How a job came out. */
struct gw_final_report {
    enum gw_status status;
    const char *text;
    uint64_t step;
    uint8_t weights_sha256[GW_DIGEST_BYTES];
    int has_weights;
    int has_score;
    struct gw_score_report score;    /* of the last evaluation */
    uint64_t rss_worker, rss_server; /* largest of each role */
    struct gw_metrics_snapshot workers, servers;
    uint64_t checkpoint; /* newest complete one */
    int has_checkpoint;
};

struct gw_coordinator_events {
    /* Everyone is there and has weights: the first step can begin. */
    void (*running)(void *owner);
    void (*step)(void *owner, const struct gw_step_report *report);
    void (*score)(void *owner, const struct gw_score_report *report);
    /* With the first step, and one exchange before each change. */
    void (*split)(void *owner, const struct gw_split_report *report);
    /* A rank waits for another worker, since its own has died; may be NULL.
       Non-zero: another one is started, and the one before is ended where it
       was only silent. */
    int (*vacant)(void *owner, uint32_t rank);
    /* A server process is lost, and the job goes on: another one may join; may
       be NULL. Its pid, or 0: one that another coordinator has lost. `leaves`:
       it is about to end by itself. */
    void (*server_vacant)(void *owner, uint32_t pid, int leaves);
    /* A line for people: a skipped step, a stall, where the job goes on. */
    void (*note)(void *owner, const char *text);
    /* One that somebody should act on: a checkpoint that failed. */
    void (*warning)(void *owner, const char *text);
    /* Once, at the end; the coordinator may be closed after it returned. */
    void (*finished)(void *owner, const struct gw_final_report *report);
};

/* Takes the place of a coordinator that has died, where its job may still run
   (checkpoint.dir says so): members come back to its address. */
enum gw_rejoin_kind {
    GW_REJOIN_NEVER,
    GW_REJOIN_IF_ANY, /* else the job begins */
    GW_REJOIN_ONLY    /* else GW_ENOENT */
};

struct gw_coordinator_options {
    struct gw_loop *loop;
    const struct gw_transport_ops *transport;
    const char *listen; /* address, port 0 for any */
    const char *local;  /* path of the socket that orders come through; NULL or
                           "": none. Where it cannot be made, events->warning
                           says so; it is gone when the coordinator is closed */
    const struct gw_secret *secret; /* members prove to have it when they join;
                                       NULL: everybody may join */
    uint64_t machine;               /* as of members: equal for one kernel */
    uint64_t unix_us;               /* now, since 1970; 0: not known */
    int terminal;        /* steps are shown there: log.every = auto asks */
    uint64_t silence_us; /* limit while members join; when all are here it is
                            known whether they are of one host */
    const struct gw_config *config; /* checked; outlives the coordinator */
    const char *resume; /* checkpoint directory to go on from, or NULL */
    enum gw_rejoin_kind rejoin;
    struct gw_log *log;
    struct gw_metrics *metrics;
    const struct gw_coordinator_events *events;
    void *owner;
};

/*
 * Listens. GW_EADDRINUSE, GW_EEXIST (a checkpoint directory that is not to be
 * resumed), GW_ECORRUPT, GW_EMISMATCH, each with a line.
 */
enum gw_status gw_coordinator_open(const struct gw_coordinator_options *options,
                                   struct gw_coordinator **coordinator_p,
                                   struct gw_error *error);
void gw_coordinator_close(struct gw_coordinator *coordinator);

/* The address that members join. */
const char *gw_coordinator_address(const struct gw_coordinator *coordinator);

/* Non-zero where it takes the place of another one; from open on. */
int gw_coordinator_is_rejoining(const struct gw_coordinator *coordinator);

/* Then: the time from the job's first step to open; 0: not known. */
uint64_t gw_coordinator_before_us(const struct gw_coordinator *coordinator);

/* The job goes on if this process dies: another one can take its place. */
int gw_coordinator_is_outlived(const struct gw_coordinator *coordinator);

/* The path of the socket that orders come through; "" where there is none. */
const char *gw_coordinator_local(const struct gw_coordinator *coordinator);

/*
 * Ends the job in order at the next step, with a checkpoint; if that takes more
 * than 6 s, without. Asking again changes nothing: where all members get a
 * signal, each of them asks.
 */
void gw_coordinator_stop(struct gw_coordinator *coordinator, const char *why);

/* Ends the job at once, in order but without a checkpoint. */
void gw_coordinator_stop_now(struct gw_coordinator *coordinator);

/* Its launcher reports that a process of the coordinator's machine is gone.
   Non-zero: it was to take the place of a worker that has died, and another one
   may. */
int gw_coordinator_gone(struct gw_coordinator *coordinator,
                        uint32_t pid,
                        const char *how);

/* Its launcher reports that the program with the worker of that rank has
   ended, and `how`; `code` as a shell has it, above 128 after a signal. */
void gw_coordinator_program_ended(struct gw_coordinator *coordinator,
                                  uint32_t rank,
                                  int code,
                                  const char *how);

/* Its launcher starts no other worker for a vacant rank. */
void gw_coordinator_not_replaced(struct gw_coordinator *coordinator,
                                 uint32_t rank);

/* The launcher died: ends the job in order, at once. */
void gw_coordinator_orphaned(struct gw_coordinator *coordinator);

/* The first one of this run; from `running` on. */
uint64_t gw_coordinator_first_step(const struct gw_coordinator *coordinator);

/* The furthest step that any member is known to be in. */
uint64_t gw_coordinator_step(const struct gw_coordinator *coordinator);

/* A checkpoint is complete, be it the one that the job goes on from. */
int gw_coordinator_has_checkpoint(const struct gw_coordinator *coordinator);

/* The members and their counters as text, for `gradweir status`. */
size_t gw_coordinator_status(const struct gw_coordinator *coordinator,
                             char *text,
                             size_t room);

#endif
