/*
 * One simulated job: real gradients in virtual time, computing times from a
 * model, each host with its given network. Leaves the record of a real job
 * (record.h), with virtual wall_s, and the spans in which workers computed. The
 * output depends only on the job and these options.
 */
#ifndef GW_CLI_SIMULATE_H
#define GW_CLI_SIMULATE_H

#include <stdint.h>

#include "cli/lab/placement.h"
#include "cli/lab/straggle.h"
#include "proto/config.h"
#include "proto/map.h"
#include "proto/status.h"
#include "transport/sim/sim.h"
#include "worker/data/dataset.h"

struct gw_simulate_options {
    const struct gw_config *config; /* checked, with transport sim */
    uint64_t seed;                  /* for stragglers and jitter */
    /* plain computing time of a step: constant, and per sample; evaluations
       take none */
    double step_us, sample_us;
    const struct gw_straggle *straggle; /* fits the number of workers */
    struct gw_sim_host_options network; /* of each host */
    struct gw_placement placement;      /* of servers; fits the hosts */
    uint32_t workers_per_host;          /* share its network; 0: one */
    struct gw_dataset *train, *test;
    /* [keys] the tensors of a program, whose job has an external model and no
       data; NULL: the job's own model trains */
    const struct gw_key *key;
    size_t keys;
    const char *record; /* files, overwritten */
    /* lines "rank begin_us end_us", in order per rank; NULL: none; a
       computation that waits for weights has several */
    const char *spans;
    uint64_t limit_us; /* virtual time limit; then the run is given up */
    /* up to 64, 0: one; also one if the network has no latency. The output does
       not depend on it */
    unsigned threads;
};

/*
 * Runs the job to its end. Otherwise *error has the reason: the job's own error
 * (GW_ENONFINITE: it diverged), GW_ETIMEOUT after limit_us, GW_EIO, GW_ENOMEM;
 * the record then has the steps so far.
 */
enum gw_status gw_simulate(const struct gw_simulate_options *options,
                           struct gw_error *error);

#endif
