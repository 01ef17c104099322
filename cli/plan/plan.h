/*
 * Requirements of a job before it runs: memory per role, bytes per link, the
 * time of a step and its bound, and whether the job fits. Figures that are not
 * given are measured on this machine.
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
#include "proto/policy.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"

struct gw_plan_options {
    const char *file;                /* job file */
    const struct gw_config *config;  /* checked */
    int has_link;                    /* 0: all processes are on this machine */
    struct gw_sim_host_options link; /* of each host, as sold */
    struct gw_placement placement;
    uint32_t per_host; /* workers; 0: one, or all where there is no link */
    uint32_t cores;    /* shared by all processes; 0: each host has its own, or
                          without a link this machine's */
    uint32_t gpus;     /* per host with workers; 0: not given */
    /* 0: not given */
    double weights; /* how many a program's model has */
    double step_s, flops, memory_rate, host_bytes;
    double device_bytes; /* of each GPU */
    double device_rate,
        peer_rate; /* between a GPU and its host, and another GPU */
};

#define GW_PLAN_HOSTS 2 /* kinds: with workers, and with servers alone */

/* Bytes of a worker in a step, to all servers and from them; policies with an
   exchange in several steps have the mean. */
struct gw_plan_exchange {
    struct gw_policy_word word;
    double push, get;
};

struct gw_planned {
    /* the job */
    struct gw_map *map;
    int is_external; /* a program of the user's computes: its batches, FLOP,
                        device and own memory are unknown, all 0 */
    uint64_t global_batch, batch, steps_per_epoch; /* batch: per worker */
    uint64_t sample_flop;
    uint64_t period; /* steps from one exchange to the next */
    struct gw_plan_exchange exchange[GW_POLICY_PHASES_MAX]; /* of each phase */
    size_t exchanges;
    /* the workers' device */
    char device[512];       /* description */
    int device_is_here;     /* 0: the plan is for a device of another machine */
    char why_not_here[512]; /* the reason */
    int has_one_device; /* worker.device names a single one, for all workers */
    /* memory */
    int shared_links; /* links within a host are in shared memory */
    struct gw_needs needs;
    uint64_t program, blas; /* program: per process; blas: a worker's passes */
    struct gw_needs_host host[GW_PLAN_HOSTS];
    size_t hosts;
    struct gw_available available; /* of this host */
    int does_not_fit;
    int has_times; /* what follows is known */
    /* figures and their origin; compute_s: 0: unknown, of a program */
    double compute_s, update_elems_per_s, move_s_per_byte;
    double rate; /* payload of a link, 0: no link */
    char compute_from[160];
    const char *update_from;
    uint32_t cores;     /* shared, or 0 */
    double device_rate; /* 0: unknown, and counted as no time */
    const char *device_rate_from;
    double peer_rate; /* 0: traffic between devices goes through the host */
    /* bytes per step that the busiest host sends; it receives as many */
    struct gw_estimate_link worker_link, server_link;
    uint32_t worker_hosts,
        server_hosts; /* server_hosts: those without workers */
    struct gw_estimate_device device_traffic; /* per step and GPU */
    /* time */
    double seconds[GW_BOUNDS]; /* each part alone; 0: unknown or none */
    double exchange_s; /* of a step without computing, if that is unknown, */
    double step_s;     /* else the whole step's */
    int simulated;
    enum gw_bound bound;
    double ring_s, ring_step_s; /* ring_step_s: 0 like step_s */
};

/*
 * Plans a job. GW_ENOMEM with a line of gw_needs_check if the job does not fit;
 * *planned then has its needs and no times. Other errors name the missing input
 * or measurement. Free with gw_plan_free, also on failure.
 */
enum gw_status gw_plan_find(const struct gw_plan_options *options,
                            struct gw_planned *planned,
                            struct gw_error *error);
void gw_plan_free(struct gw_planned *planned);

/* Memory of a process of that role, at most. */
uint64_t gw_plan_gpu_bytes(const struct gw_planned *planned); /* for one */
uint64_t gw_plan_worker_bytes(const struct gw_planned *planned);
uint64_t gw_plan_server_bytes(const struct gw_planned *planned);
uint64_t gw_plan_coordinator_bytes(const struct gw_planned *planned);

/* Prints the plan for people, or writes one JSON object (GW_EIO, GW_ENOMEM).
   `refused`: the reason why the job does not fit, and there are no times; else
   NULL. */
void gw_plan_print(const struct gw_plan_options *options,
                   const struct gw_planned *planned,
                   FILE *out);
enum gw_status gw_plan_write(const struct gw_plan_options *options,
                             const struct gw_planned *planned,
                             const char *refused,
                             FILE *out,
                             struct gw_error *error);

#endif
