/*
 * What a job will take before it runs: memory of each role, bytes on each link,
 * the time of a step and what bounds it, and whether it fits. What is not given
 * is measured on this machine.
 */
#ifndef GW_CLI_PLAN_H
#define GW_CLI_PLAN_H

#include <stdint.h>
#include <stdio.h>

#include "cli/available.h"
#include "cli/plan/estimate.h"
#include "cli/plan/calibrate.h"
#include "cli/needs.h"
#include "cli/lab/placement.h"
#include "proto/config.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"

struct gw_plan_options {
    const char *file;                /* of the job */
    const struct gw_config *config;  /* checked */
    int has_link;                    /* 0: all are on this machine */
    struct gw_sim_host_options link; /* of each host, as links are sold */
    struct gw_placement placement;
    uint32_t per_host; /* workers; 0: one, or all where there is no link */
    uint32_t cores;    /* that all processes share; 0: each host has its own, or
                          where there is no link this machine's */
    uint32_t gpus;     /* of each host with workers, 0: not given */
    /* 0: not given */
    double step_s, flops, memory_rate, host_bytes;
    double device_bytes;           /* of each GPU */
    double device_rate, peer_rate; /* between it and its host, or another one */
};

#define GW_PLAN_HOSTS                                                          \
    2 /* kinds of them: with workers, and with servers alone */

struct gw_planned {
    /* the job */
    struct gw_map *map;
    uint64_t global_batch, batch, steps_per_epoch; /* batch: of a worker */
    uint64_t sample_flop;
    uint64_t period; /* steps from one exchange to the next */
    /* what workers compute on */
    char device[512];       /* in words */
    int device_is_here;     /* else it is planned for all the same, and */
    char why_not_here[512]; /* says so */
    int has_one_device;     /* worker.device says which one all take */
    /* memory */
    int shared_links; /* within a host they are in shared memory */
    struct gw_needs needs;
    uint64_t program, blas; /* of each process; of a worker's passes */
    struct gw_needs_host host[GW_PLAN_HOSTS];
    size_t hosts;
    struct gw_available available; /* of this host */
    int does_not_fit;              /* and nothing below is known */
    /* figures, and where they are from */
    double compute_s, update_elems_per_s, move_s_per_byte;
    double rate; /* payload of a link, 0: no link */
    char compute_from[160];
    const char *update_from;
    uint32_t cores;     /* shared, or 0 */
    double device_rate; /* 0: not known, and no time is taken */
    const char *device_rate_from;
    double peer_rate; /* 0: what passes between devices takes the same way */
    /* bytes of a step that the busiest host sends, and as many come */
    struct gw_estimate_link worker_link, server_link;
    uint32_t worker_hosts, server_hosts;      /* server: without workers */
    struct gw_estimate_device device_traffic; /* of a step, of a GPU */
    /* time */
    double seconds[GW_BOUNDS]; /* by itself; 0: not known or none */
    double step_s;
    int simulated;
    enum gw_bound bound;
    double ring_s, ring_step_s;
};

/*
 * GW_ENOMEM with a line of gw_needs_check where the job does not fit; *planned
 * has what it needs then, and no times. Other errors name what could not be
 * looked at or measured. Free with gw_plan_free, in any case.
 */
enum gw_status gw_plan_find(const struct gw_plan_options *options,
                            struct gw_planned *planned,
                            struct gw_error *error);
void gw_plan_free(struct gw_planned *planned);

/* What a process of that row's role has in memory at most. */
uint64_t gw_plan_gpu_bytes(const struct gw_planned *planned); /* for one */
uint64_t gw_plan_worker_bytes(const struct gw_planned *planned);
uint64_t gw_plan_server_bytes(const struct gw_planned *planned);
uint64_t gw_plan_coordinator_bytes(const struct gw_planned *planned);

/* For people; and one JSON object, GW_EIO or GW_ENOMEM. `refused`: the line why
   the job does not fit, and there are no times; else NULL. */
void gw_plan_print(const struct gw_plan_options *options,
                   const struct gw_planned *planned,
                   FILE *out);
enum gw_status gw_plan_write(const struct gw_plan_options *options,
                             const struct gw_planned *planned,
                             const char *refused,
                             FILE *out,
                             struct gw_error *error);

#endif
