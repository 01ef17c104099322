/* Sets a worker up: job, device, data, model; then step.c trains. */
#include "config.h"

#include "worker/worker_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum gw_status open_data(struct gw_worker *worker)
{
    const struct gw_worker_options *options = worker->options;
    enum gw_status status = GW_OK;
    worker->train = options->train;
    worker->test = worker->payload_free ? NULL : options->test;
    if (!worker->train)
        status = gw_dataset_open(worker->config, GW_DATASET_TRAIN,
                                 &worker->train, worker->error);
    if (status == GW_OK && !worker->test && !worker->payload_free &&
        worker->config->data.test.n > 0)
        status = gw_dataset_open(worker->config, GW_DATASET_TEST, &worker->test,
                                 worker->error);
    if (status != GW_OK || !worker->test)
        return status;
    return gw_dataset_check_alike(worker->train, worker->test, worker->error);
}

/* An allocation failed though there was room before: perhaps another process
   has taken the memory meanwhile. */
static enum gw_status explain(struct gw_worker *worker, enum gw_status status)
{
    struct gw_error error;
    if (status == GW_ENOMEM && worker->train &&
        gw_worker_check_room(worker, &error) == GW_ENOMEM)
        *worker->error = error;
    return status;
}

static enum gw_status check_labels(const struct gw_worker *worker)
{
    const struct gw_config *config = worker->config;
    if (worker->payload_free)
        return GW_OK;
    enum gw_status status = gw_model_check_labels(config, worker->train,
                                                  worker->train, worker->error);
    if (status == GW_OK && worker->test)
        status = gw_model_check_labels(config, worker->train, worker->test,
                                       worker->error);
    return status;
}

static enum gw_status open_model(struct gw_worker *worker)
{
    const struct gw_dataset_shape *shape = gw_dataset_shape(worker->train);
    uint64_t test = worker->test ? gw_dataset_shape(worker->test)->samples : 0;
    enum gw_status status =
        gw_rank_data(worker->rank, shape->samples, test, &worker->plan);
    if (status == GW_OK)
        status = check_labels(worker);
    if (status == GW_OK)
        status = gw_worker_check_room(worker, worker->error);
    if (status != GW_OK)
        return status;
    worker->batch_max = gw_plan_batch_max(worker->plan, test > 0);
    status = gw_model_create(worker->config, shape, worker->batch_max,
                             worker->backend, worker->device, &worker->model,
                             worker->error);
    if (status != GW_OK)
        return status;
    worker->device_bytes = gw_model_bytes(worker->model);
    worker->key = gw_model_keys(worker->model, &worker->keys);
    status = gw_feed_open(&worker->feed, worker->backend, worker->device, shape,
                          worker->batch_max, worker->error);
    if (status == GW_OK) {
        struct gw_feed_bytes batch = gw_feed_bytes(shape, worker->batch_max);
        worker->device_bytes += batch.x + batch.labels;
    }
    return status;
}

/* Appends `more` to the note. */
static void add_note(char note[GW_ERROR_TEXT_BYTES], const char *more)
{
    size_t used = strlen(note);
    if (more[0])
        snprintf(note + used, GW_ERROR_TEXT_BYTES - used, "%s%s",
                 used ? "; " : "", more);
}

/* Writes conversions of the files to the job's note, and warns of doubtful data
   in the log. One of the workers does, all read the same. */
static void tell_data(const struct gw_worker *worker,
                      char note[GW_ERROR_TEXT_BYTES])
{
    const struct gw_dataset *sets[] = {worker->train, worker->test};
    char outputs[GW_ERROR_TEXT_BYTES / 2];
    note[0] = '\0';
    if (gw_rank_number(worker->rank) != 0)
        return;
    for (size_t i = 0; i < 2 && sets[i]; i++) {
        const char *doubtful = gw_dataset_note(sets[i], GW_DATASET_DOUBTFUL);
        add_note(note, gw_dataset_note(sets[i], GW_DATASET_CONVERTED));
        if (doubtful[0])
            gw_log_warn(worker->options->client.log, "%s: %s",
                        i == 0 ? "data.train" : "data.test", doubtful);
    }
    if (worker->payload_free)
        return;
    gw_model_note_outputs(worker->model, gw_dataset_shape(worker->train),
                          outputs, sizeof outputs);
    add_note(note, outputs);
}

/* Opens another handle of the device: it sums others' gradients during the
   training. */
static enum gw_status
open_another(void *owner, struct gw_device **device_p, struct gw_error *error)
{
    struct gw_backend_choice choice;
    return gw_worker_open_device(owner, &choice, device_p, error);
}

static enum gw_status declare(struct gw_worker *worker)
{
    char note[GW_ERROR_TEXT_BYTES];
    tell_data(worker, note);
    struct gw_rank_declaration declaration = {
        .key = worker->key,
        .keys = worker->keys,
        .backend = worker->backend,
        .device = worker->device,
        .another = open_another,
        .owner = worker,
        .flop = gw_model_flop(worker->model),
        .words = worker->description,
        .tuned = worker->tuned,
        .note = note,
    };
    if (!worker->payload_free) /* its samples are not read */
        gw_dataset_digest(worker->train, declaration.data_digest);
    enum gw_status status = gw_rank_declare(worker->rank, &declaration);
    return gw_rank_fail(worker->rank, explain(worker, status));
}

static enum gw_status meet(struct gw_worker *worker)
{
    const struct gw_worker_options *options = worker->options;
    struct gw_colocated colocated;
    if (!options->colocated)
        return GW_OK;
    enum gw_status status = gw_rank_meet(worker->rank, &colocated);
    if (status == GW_OK)
        options->colocated(options->owner, &colocated);
    return status;
}

/* A failure here is this worker's own fault: the job is told. */
static enum gw_status open_all(struct gw_worker *worker)
{
    enum gw_status status = open_data(worker);
    if (status == GW_OK)
        status = open_model(worker);
    if (status == GW_OK)
        status = gw_worker_tune(worker);
    return gw_rank_fail(worker->rank, explain(worker, status));
}

/* The worker may be bound to a place when it has met the others: the device is
   opened before that, since its threads are not to stay there, and data after
   that, since it is. */
static enum gw_status set_up(struct gw_worker *worker)
{
    enum gw_status status =
        gw_rank_fail(worker->rank, gw_worker_find_device(worker));
    if (status == GW_OK)
        status = meet(worker);
    if (status == GW_OK)
        status = open_all(worker);
    if (status == GW_OK)
        status = declare(worker);
    return status;
}

static enum gw_status train(struct gw_worker *worker)
{
    if (gw_rank_makes_weights(worker->rank) && !worker->payload_free)
        gw_model_init(worker->model, worker->config->train.seed,
                      gw_rank_weights(worker->rank));
    enum gw_status status = gw_rank_start(worker->rank);
    return status == GW_OK ? gw_step_run(worker) : status;
}

static void tear_down(struct gw_worker *worker)
{
    gw_model_destroy(worker->model);
    gw_feed_close(&worker->feed);
    gw_worker_close_device(worker);
    if (worker->train != worker->options->train)
        gw_dataset_close(worker->train);
    if (worker->test != worker->options->test)
        gw_dataset_close(worker->test);
}

static enum gw_status check_job(struct gw_worker *worker)
{
    if (!gw_config_is_external(worker->config))
        return GW_OK;
    return gw_rank_fail(worker->rank,
                        gw_fail(worker->error, GW_EUSAGE,
                                "model.kind: \"external\" is a program of the "
                                "user's: start that here, and not gradweir "
                                "worker"));
}

static enum gw_status run(struct gw_worker *worker)
{
    worker->config = gw_rank_config(worker->rank);
    worker->payload_free =
        worker->config->train.arithmetic == GW_ARITHMETIC_NONE;
    enum gw_status status = check_job(worker);
    if (status == GW_OK)
        status = set_up(worker);
    if (status == GW_OK)
        status = train(worker);
    gw_rank_close(worker->rank);
    tear_down(worker);
    return status;
}

enum gw_status gw_worker_run(const struct gw_worker_options *options,
                             struct gw_error *error)
{
    struct gw_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return gw_fail(error, GW_ENOMEM, "no memory for a worker");
    worker->options = options;
    worker->error = error;
    const struct gw_rank_options joins = {
        .client = options->client,
        .local = options->local,
        .opened = options->opened,
        .owner = options->owner,
    };
    enum gw_status status = gw_rank_open(&joins, &worker->rank, error);
    if (status == GW_OK)
        status = run(worker);
    free(worker);
    return status;
}
