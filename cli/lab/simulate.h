/*
 * One job in simulation: real gradients in virtual time, each computation as
 * long as a model says, each host with the network that it is given. Leaves
 * the same record as a job of processes (record.h), in which wall_s is virtual,
 * and the spans in which workers computed. What it leaves depends on the job
 * and on these options alone.
 */
#ifndef GW_CLI_SIMULATE_H
#define GW_CLI_SIMULATE_H

#include <stdint.h>

#include "cli/lab/placement.h"
#include "cli/lab/straggle.h"
#include "proto/config.h"
#include "proto/status.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"

struct gw_simulate_options {
    const struct gw_config *config; /* checked, with transport sim */
    uint64_t seed;                  /* of stragglers and jitter */
    /* the plain time of a step's computation: so much, and so much for each
       sample; evaluations take none */
    double step_us, sample_us;
    const struct gw_straggle *straggle; /* fits the job's workers */
    struct gw_sim_host_options network; /* of every host */
    struct gw_placement placement;      /* of the servers; fits the hosts */
    uint32_t workers_per_host;          /* which share its network; 0: one */
    struct gw_dataset *train, *test;
    const char *record; /* files, made anew */
    /* lines "rank begin_us end_us", those of a rank in order, NULL: none; a
       computation in which the worker waited has several */
    const char *spans;
    uint64_t limit_us; /* of virtual time, after which it is given up */
    /* up to 64, 0: one; one also where the network has no latency. What is left
       does not depend on it */
    unsigned threads;
};

/*
 * GW_OK: the job ran to its end. Else why it did not, in *error: what ended the
 * job (GW_ENONFINITE: it diverged), GW_ETIMEOUT after limit_us, GW_EIO,
 * GW_ENOMEM; the record has what there was until then.
 */
enum gw_status gw_simulate(const struct gw_simulate_options *options,
                           struct gw_error *error);

#endif
