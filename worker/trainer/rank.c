/* A rank from joining to its end; the steps between are in rank_phase.c. */
#include "config.h"

#include "worker/trainer/rank_state.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/digest.h"

#define NO_TEST_SET                                                            \
    "train.eval_every: the trainer has no test set; set it to \"never\""

/* Reads the job, and puts this host's own settings over it. */
static enum gw_status read_job(struct gw_rank *rank)
{
    gw_config_default(&rank->config);
    enum gw_status status = gw_config_parse(
        &rank->config, "job", gw_client_job(rank->client), rank->error);
    if (status == GW_OK && rank->options.local)
        gw_config_keep_local(&rank->config, rank->options.local);
    rank->number = gw_client_rank(rank->client);
    rank->ranks = (uint32_t)rank->config.cluster.workers;
    rank->payload_free = rank->config.train.arithmetic == GW_ARITHMETIC_NONE;
    return gw_rank_fail(rank, status);
}

enum gw_status gw_rank_open(const struct gw_rank_options *options,
                            struct gw_rank **rank_p,
                            struct gw_error *error)
{
    struct gw_rank *rank = calloc(1, sizeof *rank);
    *rank_p = NULL;
    if (!rank)
        return gw_fail(error, GW_ENOMEM, "no memory for a worker");
    rank->options = *options;
    rank->error = error;
    if (!options->client.loop->metrics)
        options->client.loop->metrics = options->client.metrics;
    enum gw_status status =
        gw_client_open(&options->client, &rank->client, error);
    if (status != GW_OK) {
        free(rank);
        return status;
    }
    if (options->opened)
        options->opened(options->owner, rank);
    status = read_job(rank);
    if (status == GW_OK)
        *rank_p = rank;
    else
        gw_rank_close(rank);
    return status;
}

void gw_rank_close(struct gw_rank *rank)
{
    if (!rank)
        return;
    const struct gw_rank_options *options = &rank->options;
    /* if the job failed, queued work may read memory that others export, until
       the client is closed */
    if (rank->device)
        rank->backend->sync(rank->device, NULL);
    if (gw_client_error(rank->client)->text[0])
        *rank->error = *gw_client_error(rank->client);
    if (options->opened)
        options->opened(options->owner, NULL);
    /* the arenas are in use until the client is closed */
    gw_client_close(rank->client);
    gw_rank_free_arenas(rank);
    free(rank);
}

void gw_rank_stop(struct gw_rank *rank)
{
    gw_client_stop(rank->client);
}

int gw_rank_is_over(const struct gw_rank *rank)
{
    return gw_client_is_over(rank->client);
}

const struct gw_config *gw_rank_config(const struct gw_rank *rank)
{
    return &rank->config;
}

uint32_t gw_rank_number(const struct gw_rank *rank)
{
    return rank->number;
}

const char *gw_rank_tuned(const struct gw_rank *rank)
{
    return gw_client_tuned(rank->client);
}

enum gw_status gw_rank_meet(struct gw_rank *rank,
                            struct gw_colocated *colocated_p)
{
    return gw_client_meet(rank->client, colocated_p);
}

enum gw_status gw_rank_fail(struct gw_rank *rank, enum gw_status status)
{
    if (status == GW_OK || gw_client_is_over(rank->client))
        return gw_rank_tell(rank, status);
    if (rank->error->status != status || !rank->error->text[0])
        gw_fail(rank->error, status, "the trainer failed without a word");
    gw_client_fail_with(rank->client, rank->error);
    return status;
}

enum gw_status gw_rank_tell(struct gw_rank *rank, enum gw_status status)
{
    if (status != GW_OK && status != GW_EAGAIN && status != GW_EEND &&
        gw_client_is_over(rank->client))
        *rank->error = *gw_client_error(rank->client);
    return status;
}

enum gw_status
gw_rank_misused(struct gw_rank *rank, size_t key, const char *why)
{
    return gw_rank_fail(rank,
                        gw_fail(rank->error, GW_EUSAGE,
                                "step %" PRIu64 ": key %s %s, by a mistake "
                                "of the trainer",
                                rank->clock, rank->key[key].name, why));
}

enum gw_status gw_rank_data(struct gw_rank *rank,
                            uint64_t samples,
                            uint64_t test_samples,
                            const struct gw_plan **plan_p)
{
    if (plan_p)
        *plan_p = &rank->plan;
    rank->test_samples = test_samples;
    /* servers that ask for a score wait for it */
    if (test_samples == 0 && rank->config.train.eval_every.unit != GW_NEVER)
        return gw_fail(rank->error, GW_EUSAGE, NO_TEST_SET);
    return gw_plan_make(&rank->config, samples, rank->ranks,
                        gw_client_from(rank->client), &rank->plan, rank->error);
}

enum gw_status
gw_rank_own_data(struct gw_rank *rank, uint64_t step_weight, int scores)
{
    const struct gw_config *config = &rank->config;
    if (!gw_config_is_external(config))
        return gw_fail(rank->error, GW_EUSAGE,
                       "the job has a model of its own; set model.kind to "
                       "\"external\", and leave out model.layers and data");
    if (!scores && config->train.eval_every.unit == GW_STEPS)
        return gw_fail(rank->error, GW_EUSAGE, NO_TEST_SET);
    rank->test_samples = scores ? UINT64_MAX : 0;
    rank->plan = gw_plan_of_weight(config, step_weight, rank->ranks);
    return GW_OK;
}

/* The rest of the job without the trainer: steps, and scores, without
   samples. */
static enum gw_status sit_to_the_end(struct gw_rank *rank)
{
    const struct gw_rank_sum nothing = {.loss = 0};
    struct gw_rank_step step;
    rank->leaves = 1;
    while (gw_rank_begin(rank, &step) == GW_OK)
        gw_rank_end(rank, GW_OK, &nothing);
    return rank->over;
}

/* The trainer leaves a job that goes on. */
static enum gw_status leave(struct gw_rank *rank)
{
    if (gw_config_is_external(&rank->config))
        return sit_to_the_end(rank);
    return gw_rank_fail(rank, gw_fail(rank->error, GW_EUSAGE,
                                      "the trainer left at step %" PRIu64
                                      ", before the end of the job",
                                      rank->clock));
}

enum gw_status gw_rank_finish(struct gw_rank *rank)
{
    uint8_t digest[GW_DIGEST_BYTES] = {0};
    if (rank->over == GW_OK)
        rank->over = leave(rank);
    if (rank->over != GW_EEND)
        return rank->over;
    /* gw_client_finish lets go of others' devices, and they of ours */
    enum gw_status status =
        gw_rank_fail(rank, rank->backend->sync(rank->device, rank->error));
    if (status != GW_OK)
        return status;
    if (rank->number == 0 && !rank->payload_free)
        gw_digest_weights(rank->weight, rank->key, rank->keys, digest);
    return gw_rank_tell(rank, gw_client_finish(rank->client, rank->clock,
                                               digest, gw_rank_rss_bytes()));
}
