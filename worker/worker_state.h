/*
 * Inside a worker: the state that its files share.
 *
 *   worker.c  sets it up: device, data, model
 *   device.c  the device, and its memory for the model
 *   step.c    the loop
 *   pass.c    batches through the model, with the rank's tensors
 *   tune.c    worker.autotune
 */
#ifndef GW_WORKER_WORKER_STATE_H
#define GW_WORKER_WORKER_STATE_H

#include "kernels/kernels.h"
#include "worker/data/dataset.h"
#include "worker/data/feed.h"
#include "worker/model/model.h"
#include "worker/trainer/rank.h"
#include "worker/worker.h"

struct gw_worker {
    const struct gw_worker_options *options;
    struct gw_error *error;
    struct gw_rank *rank;
    const struct gw_config *config; /* the rank's */
    int payload_free; /* nothing is computed: arrays have no memory behind them
                       */

    const struct gw_backend_ops *backend;
    struct gw_device *device;
    char description[128];      /* the device's, */
    char tuned[GW_TUNED_BYTES]; /* and the ways its products take; "": the usual
                                   ones */
    uint64_t device_bytes;      /* device memory, taken before the arenas */

    struct gw_dataset *train, *test; /* test: NULL if there is none */
    const struct gw_plan *plan;
    size_t batch_max; /* samples at a time, of training and of the test set */
    struct gw_model *model;
    const struct gw_key *key; /* [keys] of the model */
    size_t keys;
    struct gw_feed feed; /* batches */

    /* the step that is going on */
    struct gw_rank_step step;
    uint64_t batches, batch; /* how many, and the next one */
    struct gw_rank_sum sum;
};

/* device.c: opens one more handle of the worker's device each time. */
enum gw_status gw_worker_open_device(struct gw_worker *worker,
                                     struct gw_backend_choice *choice_p,
                                     struct gw_device **device_p,
                                     struct gw_error *error);
/* The worker's own one, with its line in the log. */
enum gw_status gw_worker_find_device(struct gw_worker *worker);
void gw_worker_close_device(struct gw_worker *worker);
/* GW_ENOMEM if the device has no memory for this worker. Memory that this
   worker has taken of it so far counts as free. */
enum gw_status gw_worker_check_room(const struct gw_worker *worker,
                                    struct gw_error *error);

/* pass.c: begins the batches of a step; non-zero if there is a next one; one
   batch through the model: queued on the device, with reading ahead meanwhile,
   and its result added to the sum. */
void gw_worker_begin_batches(struct gw_worker *worker);
int gw_worker_has_batch(const struct gw_worker *worker);
enum gw_status gw_worker_train_batch(struct gw_worker *worker);
enum gw_status gw_worker_score_batch(struct gw_worker *worker);

/* tune.c: worker.autotune, between the model and the declaration. GW_ENOMEM,
   GW_EIO (the device fails). */
enum gw_status gw_worker_tune(struct gw_worker *worker);

/* step.c: trains from the rank's first step to the end of the job. */
enum gw_status gw_step_run(struct gw_worker *worker);

#endif
