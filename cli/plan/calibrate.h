/*
 * What a plan measures of this machine, in a second or two: how long a worker
 * computes for a step of the job, what the server's arithmetic does, and what
 * moving bytes between processes costs.
 */
#ifndef GW_CLI_CALIBRATE_H
#define GW_CLI_CALIBRATE_H

#include <stdint.h>

#include "worker/need.h"

struct gw_calibrate_step {
    double step_s;       /* of a worker's part of a step, the mean */
    uint64_t blas_bytes; /* that passes took beside what the model knows of */
    char device[128];    /* in words */
};

/*
 * Steps of the job's own model and data, as a worker takes them, in `at_once`
 * processes at the same time, so that they share what workers on one machine
 * share. Takes a second, and memory for as many workers.
 * GW_ENOMEM, GW_EABORTED with what a process said; the errors of a worker.
 */
enum gw_status gw_calibrate_step(const struct gw_worker_case *what,
                                 unsigned at_once,
                                 struct gw_calibrate_step *step_p,
                                 struct gw_error *error);

/* Weights per second that one server thread reduces and updates, with the job's
   optimizer and a slot of each worker. GW_ENOMEM. */
enum gw_status gw_calibrate_update(const struct gw_config *config,
                                   uint64_t shard_bytes,
                                   double *elems_per_s_p,
                                   struct gw_error *error);

/* Seconds of a core, at both ends together, for each byte that goes from one
   process to another over TCP of this machine, checksums included. GW_EIO. */
enum gw_status gw_calibrate_move(double *core_s_per_byte_p,
                                 struct gw_error *error);

/*
 * The same where their links are in shared memory: the sender makes the
 * checksum and copies, block by block, and the receiver makes it again. `bytes`
 * of a model, which may be small enough to stay in cache. GW_ENOMEM.
 */
enum gw_status gw_calibrate_copy(uint64_t bytes,
                                 double *core_s_per_byte_p,
                                 struct gw_error *error);

/* Bytes per second to the device that computes for workers here, or back, the
   slower of the two, from memory as workers have it. Errors of gw_device_open,
   GW_ENOMEM, GW_EIO. */
enum gw_status gw_calibrate_device(const struct gw_config *config,
                                   double *bytes_per_s_p,
                                   struct gw_error *error);

/* Bytes of this process that are in memory, once it has made a proof: each
   process of a job makes one when it logs in, for which most of libcrypto comes
   into memory. */
uint64_t gw_calibrate_program(void);

#endif
