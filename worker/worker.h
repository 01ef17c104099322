/*
 * A worker: joins a job, opens its data and model, and trains until the job
 * ends. Blocking; in simulation it runs in a fiber.
 */
#ifndef GW_WORKER_WORKER_H
#define GW_WORKER_WORKER_H

#include "proto/config.h"
#include "proto/colocated.h"
#include "worker/client/client_options.h"
#include "worker/data/dataset.h"

struct gw_backend_ops;
struct gw_rank;

struct gw_worker_options {
    struct gw_client_options client;
    /* this host's settings, which override the job's; NULL: none */
    const struct gw_config *local;
    /* the worker's number on this host, by which workers take different
       devices; GW_RANK_NONE: its rank */
    uint32_t place;
    /* the backend that computes; NULL: the one that worker.device names */
    const struct gw_backend_ops *backend;
    /* data that is open already, shared by workers of one process that run one
       at a time; NULL: opened from the job's files */
    struct gw_dataset *train, *test;
    /* as in struct gw_rank_options; may be NULL */
    void (*opened)(void *owner, struct gw_rank *rank);
    /* called once, on the worker's thread, when all members have joined and the
       worker has a device, before it has data or memory; NULL: the worker does
       not wait for them */
    void (*colocated)(void *owner, const struct gw_colocated *colocated);
    void *owner;
};

/*
 * GW_OK: the job is complete; GW_EINTERRUPTED: stopped, resumable; else the
 * reason why the job or this worker failed. *error always gets its line.
 */
enum gw_status gw_worker_run(const struct gw_worker_options *options,
                             struct gw_error *error);

#endif
