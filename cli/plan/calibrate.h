/*
 * Measurements of this machine for a plan, in a second or two: a worker's
 * computing per step, the server's arithmetic, the cost of moving bytes between
 * processes.
 */
#ifndef GW_CLI_CALIBRATE_H
#define GW_CLI_CALIBRATE_H

#include <stdint.h>

#include "worker/need.h"

struct gw_calibrate_step {
    double step_s; /* mean time of a worker's part of a step */
    uint64_t
        blas_bytes; /* taken by passes, in addition to the model's own memory */
    char device[128]; /* its description */
};

/*
 * Runs steps of the job's own model and data, as a worker does, in `at_once`
 * processes at the same time, which share caches and memory bandwidth as
 * workers do. Takes a second, and the memory of as many workers. GW_ENOMEM,
 * GW_EABORTED with the error of a process; the errors of a worker.
 */
enum gw_status gw_calibrate_step(const struct gw_worker_case *what,
                                 unsigned at_once,
                                 struct gw_calibrate_step *step_p,
                                 struct gw_error *error);

/* Weights per second that one server thread reduces and updates, with the job's
   optimizer and a slot per worker. GW_ENOMEM. */
enum gw_status gw_calibrate_update(const struct gw_config *config,
                                   uint64_t shard_bytes,
                                   double *elems_per_s_p,
                                   struct gw_error *error);

/* Core seconds per byte, of both ends together, sent between processes over TCP
   of this machine, checksums included. GW_EIO. */
enum gw_status gw_calibrate_move(double *core_s_per_byte_p,
                                 struct gw_error *error);

/*
 * The same over shared memory: the sender computes the checksum and copies
 * block by block, the receiver computes it again. `bytes`: size of the model,
 * which may fit into cache. GW_ENOMEM.
 */
enum gw_status gw_calibrate_copy(uint64_t bytes,
                                 double *core_s_per_byte_p,
                                 struct gw_error *error);

/* Bytes per second between workers' memory and the device, the slower
   direction. Errors of gw_device_open, GW_ENOMEM, GW_EIO. */
enum gw_status gw_calibrate_device(const struct gw_config *config,
                                   double *bytes_per_s_p,
                                   struct gw_error *error);

/* Resident bytes of this process after it made a proof, as every process does
   to log in: the proof brings most of libcrypto into memory. */
uint64_t gw_calibrate_program(void);

#endif
