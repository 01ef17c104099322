/*
 * The time of a job's step, by simulating a few steps with the job's own code
 * over given links and computing times (simulate.h). Nothing is computed, and
 * messages have a length but no contents.
 */
#ifndef GW_CLI_FORECAST_H
#define GW_CLI_FORECAST_H

#include <stdint.h>

#include "cli/lab/placement.h"
#include "proto/config.h"
#include "proto/map.h"
#include "proto/status.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"

struct gw_forecast_case {
    const struct gw_config *config; /* checked */
    const struct gw_map *map;
    struct gw_dataset *train;        /* NULL: a program has the map's keys */
    struct gw_sim_host_options link; /* of each host */
    struct gw_placement placement;   /* of servers */
    uint32_t per_host;               /* workers */
    double compute_s;                /* computing time of a worker's step */
};

/*
 * The policy to plan for: the first word of the job's. gw_forecast_period:
 * steps from one exchange to the next, at least 1.
 */
enum gw_status gw_forecast_word(const struct gw_config *config,
                                struct gw_policy_word *word_p,
                                struct gw_error *error);
uint64_t gw_forecast_period(const struct gw_policy_word *word);

/*
 * Mean seconds of a step, without the first ones. GW_ERANGE: the cluster is too
 * large, or its links too slow, to be simulated quickly. Errors of gw_simulate.
 */
enum gw_status gw_forecast_step(const struct gw_forecast_case *what,
                                double *step_s_p,
                                struct gw_error *error);

#endif
