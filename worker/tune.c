/*
 * worker.autotune: before the first step, every product of the job's batches is
 * computed once while the device times its ways, with first weights and real
 * samples. The chosen ways go to the coordinator, for checkpoints.
 */
#include "config.h"

#include "worker/worker_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first weights, and gradients; as far from each other, and with as much
   alignment, as they will have in arenas. */
struct trial {
    size_t bytes; /* each */
    char *host, *memory;
    float **first;              /* [keys] in host memory */
    float **weight, **gradient; /* [keys] on the device */
};

static size_t key_room(const struct gw_key *key)
{
    size_t bytes = gw_key_elems(key) * sizeof(float);
    return (bytes + GW_ARENA_ALIGN - 1) / GW_ARENA_ALIGN * GW_ARENA_ALIGN;
}

static void close_trial(struct gw_worker *worker, struct trial *trial)
{
    if (trial->memory)
        worker->backend->free(worker->device, trial->memory);
    free(trial->host);
    free(trial->first);
    free(trial->weight);
    free(trial->gradient);
}

static void lay_out(const struct gw_worker *worker, struct trial *trial)
{
    size_t at = 0;
    for (size_t i = 0; i < worker->keys; i++) {
        trial->first[i] = (float *)(void *)(trial->host + at);
        trial->weight[i] = (float *)(void *)(trial->memory + at);
        trial->gradient[i] =
            (float *)(void *)(trial->memory + trial->bytes + at);
        at += key_room(&worker->key[i]);
    }
}

static enum gw_status open_trial(struct gw_worker *worker, struct trial *trial)
{
    *trial = (struct trial){.bytes = 0};
    for (size_t i = 0; i < worker->keys; i++)
        trial->bytes += key_room(&worker->key[i]);
    trial->host = calloc(1, trial->bytes);
    trial->memory = worker->backend->alloc(worker->device, 2 * trial->bytes);
    trial->first = calloc(worker->keys, sizeof *trial->first);
    trial->weight = calloc(worker->keys, sizeof *trial->weight);
    trial->gradient = calloc(worker->keys, sizeof *trial->gradient);
    if (!trial->host || !trial->memory || !trial->first || !trial->weight ||
        !trial->gradient) {
        close_trial(worker, trial);
        return gw_fail(worker->error, GW_ENOMEM,
                       "worker.autotune: no memory for weights and gradients "
                       "of %zu MiB each; set it to false, or lower train.batch",
                       trial->bytes >> 20);
    }
    lay_out(worker, trial);
    gw_model_init(worker->model, worker->config->train.seed, trial->first);
    worker->backend->upload(worker->device, trial->memory, trial->host,
                            trial->bytes);
    return GW_OK;
}

/* The first n samples of a set, forward, and backward if it trains. GW_EIO. */
static enum gw_status pass_over(struct gw_worker *worker,
                                const struct trial *trial,
                                const struct gw_dataset *data,
                                size_t n,
                                int train)
{
    struct gw_model_result void_result;
    const float *const *weights = (const float *const *)trial->weight;
    size_t samples = gw_dataset_shape(data)->samples;
    const struct gw_batch_site site = {.seed = worker->config->train.seed,
                                       .n = n < samples ? n : samples,
                                       .train = train};
    gw_feed_load(&worker->feed, data, &site);
    const struct gw_model_pass pass = {.x = worker->feed.x,
                                       .labels = worker->feed.labels,
                                       .n = site.n,
                                       .seed = site.seed,
                                       .scale = 1,
                                       .last = 1};
    if (train)
        gw_model_train(worker->model, &pass, weights, trial->gradient, NULL);
    else
        gw_model_score(worker->model, &pass, weights, NULL);
    return gw_model_result(worker->model, &void_result, worker->error);
}

enum gw_status gw_worker_tune(struct gw_worker *worker)
{
    char of[128];
    struct trial trial;
    const struct gw_backend_ops *ops = worker->backend;
    const char *known = gw_rank_tuned(worker->rank);
    if (!worker->config->worker.autotune || ops->on_host)
        return GW_OK;
    enum gw_status status = open_trial(worker, &trial);
    if (status != GW_OK)
        return status;
    snprintf(of, sizeof of, "batches of %zu and %zu, keys %016" PRIx64,
             worker->plan->max_batch, worker->batch_max,
             gw_keys_hash(worker->key, worker->keys));
    ops->tune(worker->device, of, known);
    status =
        pass_over(worker, &trial, worker->train, worker->plan->max_batch, 1);
    if (status == GW_OK && worker->test)
        status = pass_over(worker, &trial, worker->test, worker->batch_max, 0);
    ops->tuned(worker->device, worker->tuned);
    close_trial(worker, &trial);
    if (status == GW_OK)
        gw_log_info(worker->options->client.log, "%s: %s",
                    strcmp(known, worker->tuned) == 0
                        ? "products take the ways of the worker before"
                        : "products have been timed, and take these ways",
                    worker->tuned);
    return status;
}
