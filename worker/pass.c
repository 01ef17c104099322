/*
 * Batches through the model. While the device computes one, the next is read
 * from the data set, piece by piece, and gradients leave in between, so that
 * neither waits for the other.
 */
#include "config.h"

#include "worker/worker_state.h"

/* ---- the model's hooks ---- */

static enum gw_status need(void *context, size_t first, size_t n)
{
    struct gw_worker *worker = context;
    return gw_rank_need(worker->rank, first, n);
}

static enum gw_status ready(void *context, size_t first, size_t n)
{
    struct gw_worker *worker = context;
    return gw_rank_ready(worker->rank, first, n);
}

static void computed(void *context, uint64_t flop)
{
    struct gw_worker *worker = context;
    gw_rank_computed(worker->rank, flop);
}

static struct gw_model_hooks hooks_of(struct gw_worker *worker)
{
    return (struct gw_model_hooks){
        .context = worker, .need = need, .ready = ready, .computed = computed};
}

/* ---- batches ---- */

/* Samples of a batch of this step, at most. */
static size_t most_of(const struct gw_worker *worker,
                      const struct gw_rank_step *step)
{
    return step->task == GW_RANK_TRAIN ? worker->plan->max_batch
                                       : worker->batch_max;
}

static struct gw_batch_site site_of(const struct gw_worker *worker,
                                    const struct gw_rank_step *step,
                                    uint64_t batch)
{
    struct gw_plan_run run =
        gw_plan_batch(step->run, most_of(worker, step), batch);
    if (step->task == GW_RANK_SCORE)
        return (struct gw_batch_site){.first = run.first, .n = run.n};
    return (struct gw_batch_site){.seed = worker->config->train.seed,
                                  .epoch = step->epoch,
                                  .first = run.first,
                                  .n = run.n,
                                  .train = 1};
}

static void load(struct gw_worker *worker,
                 const struct gw_dataset *data,
                 const struct gw_batch_site *site)
{
    if (!worker->payload_free)
        gw_feed_load(&worker->feed, data, site);
}

void gw_worker_begin_batches(struct gw_worker *worker)
{
    worker->batches =
        gw_plan_batches(worker->step.run, most_of(worker, &worker->step));
    worker->batch = 0;
    worker->sum = (struct gw_rank_sum){0};
}

int gw_worker_has_batch(const struct gw_worker *worker)
{
    return worker->batch < worker->batches;
}

/* The next batch of this step, or the first of the next one; 0: there is none,
   or it is not known yet. */
static int batch_ahead(const struct gw_worker *worker,
                       struct gw_batch_site *site_p)
{
    struct gw_rank_step step = worker->step;
    uint64_t batch = worker->batch + 1;
    if (batch == worker->batches) {
        if (!gw_rank_ahead(worker->rank, &step))
            return 0;
        batch = 0;
    }
    if (worker->payload_free || step.run.n == 0)
        return 0;
    *site_p = site_of(worker, &step, batch);
    return 1;
}

/* Reads ahead and hands gradients over until the device has done its queued
   work. */
static enum gw_status finish(struct gw_worker *worker)
{
    struct gw_batch_site site;
    enum gw_status status = GW_OK;
    int more = batch_ahead(worker, &site);
    while (status == GW_OK && more) {
        more = gw_feed_ahead(&worker->feed, worker->train, &site);
        status = gw_rank_hand_over(worker->rank, 0);
    }
    return status == GW_OK ? gw_rank_hand_over(worker->rank, 1) : status;
}

/* Adds the device's result of the batch; if the device has failed, the job
   fails by it. */
static enum gw_status add_result(struct gw_worker *worker)
{
    struct gw_model_result result;
    enum gw_status status = gw_rank_fail(
        worker->rank, gw_model_result(worker->model, &result, worker->error));
    if (status != GW_OK)
        return status;
    worker->sum.loss += result.loss;
    worker->sum.correct += result.correct;
    worker->batch++;
    return GW_OK;
}

enum gw_status gw_worker_train_batch(struct gw_worker *worker)
{
    const struct gw_model_hooks hooks = hooks_of(worker);
    const struct gw_rank_step *step = &worker->step;
    const struct gw_batch_site site = site_of(worker, step, worker->batch);
    load(worker, worker->train, &site);
    /* the scale of this step is known when its first weights are */
    enum gw_status status = gw_rank_need(worker->rank, 0, 1);
    if (status != GW_OK)
        return status;
    const struct gw_model_pass pass = {
        .x = worker->feed.x,
        .labels = worker->feed.labels,
        .n = site.n,
        .seed = site.seed,
        .step = step->number,
        .first_sample = step->offset + (site.first - step->run.first),
        .scale = (float)gw_rank_loss_scale(worker->rank),
        .accumulate = worker->batch > 0,
        .last = worker->batch + 1 == worker->batches,
    };
    status = gw_model_train(worker->model, &pass,
                            gw_rank_device_weights(worker->rank),
                            gw_rank_device_gradients(worker->rank), &hooks);
    if (status == GW_OK)
        status = finish(worker);
    return status == GW_OK ? add_result(worker) : status;
}

enum gw_status gw_worker_score_batch(struct gw_worker *worker)
{
    const struct gw_model_hooks hooks = hooks_of(worker);
    const struct gw_batch_site site =
        site_of(worker, &worker->step, worker->batch);
    load(worker, worker->test, &site);
    const struct gw_model_pass pass = {
        .x = worker->feed.x, .labels = worker->feed.labels, .n = site.n};
    enum gw_status status = gw_model_score(
        worker->model, &pass, gw_rank_device_weights(worker->rank), &hooks);
    return status == GW_OK ? add_result(worker) : status;
}
