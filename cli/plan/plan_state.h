/*
 * State shared by plan.c and plan_device.c.
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

/* ---- plan_device.c ---- */

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
