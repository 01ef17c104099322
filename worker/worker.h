/*
 * A worker: joins a job, opens its data and model, and trains until the job
 * ends. Blocking; in simulation it runs in a fiber.
 */
#ifndef GW_WORKER_WORKER_H
#define GW_WORKER_WORKER_H

#include "proto/config.h"
#include "worker/client/client.h"
#include "worker/data/dataset.h"

struct gw_worker_options {
    struct gw_client_options client;
    /* settings of this host, over those of the job; NULL: none */
    const struct gw_config *local;
    /* the worker's number on this host, by which workers take different
       devices; GW_RANK_NONE: its rank */
    uint32_t place;
    /* what computes; NULL: what worker.device says */
    const struct gw_backend_ops *backend;
    /* data that is open already, shared by workers of one process that run one
       at a time; NULL: opened from the job's files */
    struct gw_dataset *train, *test;
    /* told once, when the client is there: for stopping it from a signal */
    void (*opened)(void *owner, struct gw_client *client);
    /* told once, on the worker's thread, when all members have joined and it
       has a device, before it has data or memory; NULL: that is not waited for
     */
    void (*met)(void *owner, const struct gw_mates *mates);
    void *owner;
};

/*
 * GW_OK: the job is complete; GW_EINTERRUPTED: stopped, resumable; else why the
 * job or this worker failed. *error always gets the line that says it.
 */
enum gw_status gw_worker_run(const struct gw_worker_options *options,
                             struct gw_error *error);

#endif
