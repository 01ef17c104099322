/*
 * Inside a plan: what plan.c and plan_device.c share.
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
 * What workers compute on: what is here, or a GPU that is not (its sizes are
 * known), where the job or a figure asks for one. GW_EUSAGE, and errors of
 * gw_backend_choose.
 */
enum gw_status gw_plan_choose_device(struct planning *planning);

/* Which devices a host with so many workers has, as far as that is given or can
   be asked. Errors of gw_device_look. */
enum gw_status gw_plan_count_devices(struct planning *planning,
                                     struct gw_needs_host *host);

/* How fast bytes come to a device and from there: GW_OK also where that is not
   known, which *planned says then. */
enum gw_status gw_plan_find_device_rates(struct planning *planning);

/* What devices carry in a step, and how long that takes by itself. */
void gw_plan_find_device_traffic(struct planning *planning);

/* Of that what the way between host and device takes, and that between devices.
 */
double gw_plan_device_s(const struct gw_planned *planned);

#endif
