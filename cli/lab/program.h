/*
 * A program of the user's in simulation (model.kind = "external"): a rank that
 * waits for weights and pushes gradients, and computes nothing.
 */
#ifndef GW_CLI_PROGRAM_H
#define GW_CLI_PROGRAM_H

#include <stddef.h>

#include "proto/map.h"
#include "worker/worker.h"

/*
 * Trains tensors to the end of the job. Each step takes computing in proportion
 * to the tensors' sizes, a third of it forward. Forward begins with the weights
 * of all tensors; in backward, from the last tensor to the first, each gradient
 * is pushed as soon as it is made. Errors of a rank; *error has the line.
 */
enum gw_status gw_program_run(const struct gw_worker_options *options,
                              const struct gw_key *key,
                              size_t keys,
                              struct gw_error *error);

#endif
