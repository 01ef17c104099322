/*
 * Inside a worker: what its files share.
 *
 *   worker.c  sets it up: device, data, model
 *   device.c  the device, and whether it has memory for the model
 *   step.c    the loop
 *   pass.c    batches through the model, and the rank's tensors as it needs
 * them tune.c    worker.autotune
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
    int hollow; /* nothing is computed: arrays have no memory behind them */

    const struct gw_backend_ops *backend;
    struct gw_device *device;
    char description[128];      /* of the device, */
    char tuned[GW_TUNED_BYTES]; /* and which ways its products take; "": the
                                   usual ones */
    uint64_t device_bytes; /* of the device's memory, taken before the arenas */

    struct gw_dataset *train, *test; /* test: NULL where there is none */
    const struct gw_plan *plan;
    size_t batch_max; /* samples at a time, of training and of the test set */
    struct gw_model *model;
    const struct gw_key *key; /* [keys] of the model */
    size_t keys;
    struct gw_feed feed; /* batches */

    /* the step that is going on */
    struct gw_rank_step step;
    uint64_t batches, batch; /* how many, and which is next */
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
/* Before anything is taken of it, and after that with what is: GW_ENOMEM where
   the device has no memory for this worker. */
enum gw_status gw_worker_check_room(const struct gw_worker *worker,
                                    struct gw_error *error);

/* pass.c: the batches of a step begin; whether there is a next one; one batch
   through the model: queued on the device, with reading ahead meanwhile, and
   its result added to the sum. */
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
