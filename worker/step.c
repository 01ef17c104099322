/*
 * A worker's loop:
 *
 *   begin     the next step, with this rank's samples of it
 *   forward   each layer waits for its weights, and for no more
 *   backward  each layer's gradient leaves when it is made, and with it the
 *             request for the next version of its weights
 *   end       the step's loss, and how fast it went
 *
 * Waiting and sending are inside forward and backward: the model calls back
 * before it reads a layer's weights and after it has made a layer's gradient
 * (pass.c), and the rank (trainer/rank.h) acts there by the job's policy. So
 * computing and the network overlap, here for three layers:
 *
 *   computes   forward 1   2   3   backward 3   2   1    forward 1   2   3
 *   sends                                     3   2   1
 *   receives         2   3                         3   2   1
 *
 * The last layers' weights are on their way while the first ones compute, and
 * the last layers' gradients have left, and their next weights are back, before
 * the first ones' gradients are made.
 *
 * A batch that meets another status than GW_OK ends the step: the rank knows
 * whether that is the end of the job, a step that goes on without this worker,
 * or a failure. An evaluation is a step that is forward only, over this rank's
 * part of the test set.
 */
#include "config.h"

#include "worker/worker_state.h"

/* Forward and backward, over one batch after the other. */
static enum gw_status train(struct gw_worker *worker)
{
    enum gw_status status = GW_OK;
    while (status == GW_OK && gw_worker_has_batch(worker))
        status = gw_worker_train_batch(worker);
    return status;
}

/* Forward alone, over this rank's part of the test set. */
static enum gw_status score(struct gw_worker *worker)
{
    enum gw_status status = GW_OK;
    while (status == GW_OK && gw_worker_has_batch(worker))
        status = gw_worker_score_batch(worker);
    return status;
}

enum gw_status gw_step_run(struct gw_worker *worker)
{
    while (gw_rank_begin(worker->rank, &worker->step) == GW_OK) {
        gw_worker_begin_batches(worker);
        enum gw_status status =
            worker->step.task == GW_RANK_TRAIN ? train(worker) : score(worker);
        gw_rank_end(worker->rank, status, &worker->sum);
    }
    return gw_rank_finish(worker->rank);
}
