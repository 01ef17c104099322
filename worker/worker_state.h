/*
 * Inside a worker: what worker.c sets up and step.c works with.
 */
#ifndef GW_WORKER_WORKER_STATE_H
#define GW_WORKER_WORKER_STATE_H

#include "kernels/kernels.h"
#include "worker/client.h"
#include "worker/dataset.h"
#include "worker/model.h"
#include "worker/plan.h"
#include "worker/worker.h"

struct gw_worker {
    const struct gw_worker_options *options;
    struct gw_config config;
    struct gw_client *client;
    struct gw_error *error;

    struct gw_dataset *train, *test;
    const struct gw_backend_ops *backend;
    struct gw_device *device;
    char description[128]; /* of the device */
    struct gw_model *model;
    struct gw_plan plan;
    uint32_t rank, ranks;
    const struct gw_key *key; /* [keys] of the model */
    size_t keys;

    float *weights, *gradients; /* the arenas */
    float **weight, **gradient; /* [keys] views of them */
    float *x;                   /* a batch's input, on the device */
    float *host_x;              /* the same, as the data set fills it */
    int32_t *labels;
    size_t batch_max;

    /* the step that is going on, for the hooks */
    uint64_t clock;
    uint32_t samples;
    int pushing;           /* a part of this clock's gradient has left */
    int whole;             /* all weights are there: the test set is scored */
    uint64_t scored_clock; /* of the last evaluation */

    struct gw_model_result unreported; /* each push: since the last report */
    uint64_t unreported_samples;
};

/* step.c: trains from the client's first clock to the end of the job. */
enum gw_status gw_step_run(struct gw_worker *worker);

#endif
