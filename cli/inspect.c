#include "config.h"

#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void tell_refused(uint64_t clock, const char *why)
{
    fprintf(stderr,
            "gradweir: the checkpoint of step %" PRIu64 " is refused: %s\n",
            clock, why);
}

enum gw_status gw_inspect_checkpoint(struct gw_disk *disk,
                                     const char *path,
                                     struct gw_checkpoint *checkpoint,
                                     struct gw_error *error)
{
    return gw_checkpoint_open(disk, path, tell_refused, checkpoint, error);
}

static enum gw_status open_model(const struct gw_config *config,
                                 size_t classes,
                                 struct gw_inspect *inspect,
                                 struct gw_error *error)
{
    struct gw_dataset_shape shape = *gw_dataset_shape(inspect->data);
    struct gw_device_options options = {.threads = (int)config->worker.threads};
    /* a part of the data need not have every class */
    if (classes > shape.classes)
        shape.classes = classes;
    inspect->backend = gw_backend_find(config->worker.device, error);
    if (!inspect->backend)
        return error->status;
    enum gw_status status =
        inspect->backend->open(&options, &inspect->device, error);
    if (status == GW_OK)
        status =
            gw_model_create(config, &shape, GW_INSPECT_BATCH, inspect->backend,
                            inspect->device, &inspect->model, error);
    if (status != GW_OK)
        return status;
    size_t elems = shape.channels * shape.height * shape.width;
    inspect->x = inspect->backend->alloc(
        inspect->device, GW_INSPECT_BATCH * elems * sizeof(float));
    inspect->labels = calloc(GW_INSPECT_BATCH, sizeof *inspect->labels);
    if (!inspect->x || !inspect->labels)
        return gw_fail(error, GW_ENOMEM, "no memory for a batch");
    return GW_OK;
}

enum gw_status gw_inspect_open(const struct gw_config *config,
                               enum gw_dataset_part part,
                               size_t classes,
                               struct gw_inspect *inspect,
                               struct gw_error *error)
{
    *inspect = (struct gw_inspect){0};
    enum gw_status status =
        gw_dataset_open(config, part, &inspect->data, error);
    if (status == GW_OK)
        status = open_model(config, classes, inspect, error);
    if (status != GW_OK)
        gw_inspect_close(inspect);
    return status;
}

void gw_inspect_close(struct gw_inspect *inspect)
{
    gw_model_destroy(inspect->model);
    if (inspect->device) {
        inspect->backend->free(inspect->device, inspect->x);
        inspect->backend->close(inspect->device);
    }
    gw_dataset_close(inspect->data);
    free(inspect->labels);
    *inspect = (struct gw_inspect){0};
}

enum gw_status gw_inspect_score(struct gw_inspect *inspect,
                                const float *const *weights,
                                struct gw_model_result *sum)
{
    uint64_t samples = gw_dataset_shape(inspect->data)->samples;
    *sum = (struct gw_model_result){0};
    for (uint64_t at = 0; at < samples; at += GW_INSPECT_BATCH) {
        uint64_t left = samples - at;
        struct gw_batch_site site = {
            .first = at,
            .n = (size_t)(left < GW_INSPECT_BATCH ? left : GW_INSPECT_BATCH)};
        struct gw_model_result result;
        gw_dataset_batch(inspect->data, &site, inspect->x, inspect->labels);
        struct gw_model_pass pass = {
            .x = inspect->x, .labels = inspect->labels, .n = site.n};
        enum gw_status status =
            gw_model_score(inspect->model, &pass, weights, NULL, &result);
        if (status != GW_OK)
            return status;
        sum->loss += result.loss;
        sum->correct += result.correct;
    }
    return GW_OK;
}
