#include "config.h"

#include "cli/study.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void tell_refused(uint64_t clock, const char *why)
{
    fprintf(stderr,
            "gradweir: the checkpoint of step %" PRIu64 " is refused: %s\n",
            clock, why);
}

enum gw_status gw_study_checkpoint(struct gw_disk *disk,
                                   const char *path,
                                   struct gw_checkpoint *checkpoint,
                                   struct gw_error *error)
{
    return gw_checkpoint_open(disk, path, tell_refused, checkpoint, error);
}

static enum gw_status open_model(const struct gw_config *config,
                                 size_t classes,
                                 struct gw_study *study,
                                 struct gw_error *error)
{
    struct gw_dataset_shape shape = *gw_dataset_shape(study->data);
    struct gw_device_options options = {.threads = (int)config->worker.threads};
    /* a part of the data need not have every class */
    if (classes > shape.classes)
        shape.classes = classes;
    study->backend = gw_backend_find(config->worker.device, error);
    if (!study->backend)
        return error->status;
    enum gw_status status =
        study->backend->open(&options, &study->device, error);
    if (status == GW_OK)
        status = gw_model_create(config, &shape, GW_STUDY_BATCH, study->backend,
                                 study->device, &study->model, error);
    if (status != GW_OK)
        return status;
    size_t elems = shape.channels * shape.height * shape.width;
    study->x = study->backend->alloc(study->device,
                                     GW_STUDY_BATCH * elems * sizeof(float));
    study->labels = calloc(GW_STUDY_BATCH, sizeof *study->labels);
    if (!study->x || !study->labels)
        return gw_fail(error, GW_ENOMEM, "no memory for a batch");
    return GW_OK;
}

enum gw_status gw_study_open(const struct gw_config *config,
                             enum gw_dataset_part part,
                             size_t classes,
                             struct gw_study *study,
                             struct gw_error *error)
{
    *study = (struct gw_study){0};
    enum gw_status status = gw_dataset_open(config, part, &study->data, error);
    if (status == GW_OK)
        status = open_model(config, classes, study, error);
    if (status != GW_OK)
        gw_study_close(study);
    return status;
}

void gw_study_close(struct gw_study *study)
{
    gw_model_destroy(study->model);
    if (study->device) {
        study->backend->free(study->device, study->x);
        study->backend->close(study->device);
    }
    gw_dataset_close(study->data);
    free(study->labels);
    *study = (struct gw_study){0};
}

enum gw_status gw_study_score(struct gw_study *study,
                              const float *const *weights,
                              struct gw_model_result *sum)
{
    uint64_t samples = gw_dataset_shape(study->data)->samples;
    *sum = (struct gw_model_result){0};
    for (uint64_t at = 0; at < samples; at += GW_STUDY_BATCH) {
        uint64_t left = samples - at;
        struct gw_batch_site site = {
            .first = at,
            .n = (size_t)(left < GW_STUDY_BATCH ? left : GW_STUDY_BATCH)};
        struct gw_model_result result;
        gw_dataset_batch(study->data, &site, study->x, study->labels);
        struct gw_model_pass pass = {
            .x = study->x, .labels = study->labels, .n = site.n};
        enum gw_status status =
            gw_model_score(study->model, &pass, weights, NULL, &result);
        if (status != GW_OK)
            return status;
        sum->loss += result.loss;
        sum->correct += result.correct;
    }
    return GW_OK;
}
