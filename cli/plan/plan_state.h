/*
 * State shared by plan.c, plan_job.c and plan_device.c.
 */
#ifndef GW_CLI_PLAN_STATE_H
#define GW_CLI_PLAN_STATE_H

#include "cli/plan/plan.h"
#include "proto/policy.h"

/* A job while it is planned. */
struct planning {
    const struct gw_plan_options *options;
    const struct gw_config *config;
    struct gw_planned *planned;
    struct gw_dataset *train, *test;
    struct gw_key *key; /* that stand for a program's own, or NULL */
    struct gw_worker_case what;
    struct gw_policy_word word;
    uint32_t *server_host; /* [servers] */
    double *server_bytes;  /* [servers] */
    struct gw_error *error;
};

static inline uint32_t gw_planning_workers(const struct planning *planning)
{
    return (uint32_t)planning->config->cluster.workers;
}

/* Non-zero if gradweir computes on devices with memory of their own. */
static inline int gw_planning_is_on_device(const struct planning *planning)
{
    return planning->what.backend && !planning->what.backend->on_host;
}

/* ---- plan_job.c ---- */

/*
 * Opens what is known of the job: its map, its policies, its batches, and the
 * case of a worker. GW_EUSAGE: a figure that a program's model lacks, or that a
 * model of gradweir's has itself; errors of gw_dataset_open,
 * gw_model_check_labels, gw_plan_make and gw_worker_map. Closed in any case.
 */
enum gw_status gw_plan_open_job(struct planning *planning);
void gw_plan_close_job(struct planning *planning);

/* ---- plan_device.c ---- */

/* Non-zero if a figure of GPUs is given. */
int gw_plan_gives_gpus(const struct gw_plan_options *options);

/*
 * Chooses the workers' device: one of this machine, or a GPU that is not here
 * (with known sizes) if the job or a figure asks for it. GW_EUSAGE, and errors
 * of gw_backend_choose.
 */
enum gw_status gw_plan_choose_device(struct planning *planning);

/* Sets the devices of a host with so many workers, as far as they are given or
   can be asked. Errors of gw_device_look. */
enum gw_status gw_plan_count_devices(struct planning *planning,
                                     struct gw_needs_host *host);

/* Finds the rates to and from a device: GW_OK also if they are unknown, which
 *planned tells. */
enum gw_status gw_plan_find_device_rates(struct planning *planning);

/* Computes the devices' traffic per step and its time alone. */
void gw_plan_find_device_traffic(struct planning *planning);

/* The longer of the times between host and device and between devices. */
double gw_plan_device_s(const struct gw_planned *planned);

#endif
