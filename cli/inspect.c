#include "config.h"

#include "cli/inspect.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "worker/trainer/mirror.h"

void gw_inspect_refused(uint64_t clock, const char *why)
{
    fprintf(stderr,
            "gradweir: the checkpoint of step %" PRIu64 " is refused: %s\n",
            clock, why);
}

static int is_empty(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *one = folder ? readdir(folder) : NULL;
    while (one && one->d_name[strspn(one->d_name, ".")] == '\0')
        one = readdir(folder);
    int empty = folder && !one;
    if (folder)
        closedir(folder);
    return empty;
}

/* Explains a path that is no checkpoint at first sight. */
static enum gw_status look(const char *path, struct gw_error *error)
{
    struct stat found;
    if (!path[0])
        return gw_fail(error, GW_EUSAGE, "no checkpoint: its name is empty");
    if (stat(path, &found) != 0)
        return gw_fail(error, errno == ENOENT ? GW_ENOENT : GW_EIO,
                       "no checkpoint: %s: %s", path, strerror(errno));
    if (!S_ISDIR(found.st_mode))
        return gw_fail(error, GW_EMISMATCH,
                       "no checkpoint: %s is a file; a checkpoint is a folder, "
                       "such as DIR/step-00000120, and import makes one of a "
                       "safetensors file",
                       path);
    if (is_empty(path))
        return gw_fail(error, GW_ENOENT, "no checkpoint: %s is an empty folder",
                       path);
    return GW_OK;
}

enum gw_status gw_inspect_checkpoint(struct gw_disk *disk,
                                     const char *path,
                                     struct gw_checkpoint *checkpoint,
                                     struct gw_error *error)
{
    enum gw_status status = look(path, error);
    if (status != GW_OK)
        return status;
    return gw_checkpoint_open(disk, path, gw_inspect_refused, checkpoint,
                              error);
}

static enum gw_status open_model(const struct gw_config *config,
                                 size_t classes,
                                 struct gw_inspect *inspect,
                                 struct gw_error *error)
{
    struct gw_dataset_shape shape = *gw_dataset_shape(inspect->data);
    /* a part of the data may lack classes, but has no others */
    if (classes > 0) {
        enum gw_status fits = gw_dataset_check_labels(
            inspect->data, classes, GW_OUTPUTS_TRAINED, error);
        if (fits != GW_OK)
            return fits;
        shape.classes = classes;
    } else {
        enum gw_status fits =
            gw_model_check_labels(config, inspect->data, inspect->data, error);
        if (fits != GW_OK)
            return fits;
    }
    struct gw_backend_choice choice;
    enum gw_status status =
        gw_device_open(config, 0, &choice, &inspect->device, error);
    if (status != GW_OK)
        return status;
    inspect->backend = choice.ops;
    status = gw_model_create(config, &shape, GW_INSPECT_BATCH, inspect->backend,
                             inspect->device, &inspect->model, error);
    if (status != GW_OK)
        return status;
    return gw_feed_open(&inspect->feed, inspect->backend, inspect->device,
                        &shape, GW_INSPECT_BATCH, error);
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
    for (size_t i = 0; status == GW_OK && i < GW_DATASET_NOTES; i++)
        if (gw_dataset_note(inspect->data, i)[0])
            fprintf(stderr, "gradweir: %s\n",
                    gw_dataset_note(inspect->data, i));
    if (status == GW_OK)
        status = open_model(config, classes, inspect, error);
    if (status != GW_OK)
        gw_inspect_close(inspect);
    return status;
}

void gw_inspect_close(struct gw_inspect *inspect)
{
    gw_model_destroy(inspect->model);
    gw_feed_close(&inspect->feed);
    if (inspect->device)
        inspect->backend->close(inspect->device);
    gw_dataset_close(inspect->data);
    *inspect = (struct gw_inspect){0};
}

static enum gw_status score_batches(struct gw_inspect *inspect,
                                    const float *const *weights,
                                    struct gw_model_result *sum,
                                    struct gw_error *error)
{
    uint64_t samples = gw_dataset_shape(inspect->data)->samples;
    enum gw_status status = GW_OK;
    for (uint64_t at = 0; at < samples && status == GW_OK;
         at += GW_INSPECT_BATCH) {
        uint64_t left = samples - at;
        struct gw_batch_site site = {
            .first = at,
            .n = (size_t)(left < GW_INSPECT_BATCH ? left : GW_INSPECT_BATCH)};
        struct gw_model_result result = {0};
        gw_feed_load(&inspect->feed, inspect->data, &site);
        struct gw_model_pass pass = {
            .x = inspect->feed.x, .labels = inspect->feed.labels, .n = site.n};
        gw_model_score(inspect->model, &pass, weights, NULL);
        status = gw_model_result(inspect->model, &result, error);
        sum->loss += result.loss;
        sum->correct += result.correct;
    }
    return status;
}

enum gw_status gw_inspect_score(struct gw_inspect *inspect,
                                const struct gw_map *map,
                                const float *arena,
                                float *const *weights,
                                struct gw_model_result *sum,
                                struct gw_error *error)
{
    struct gw_mirror_of of = {.ops = inspect->backend,
                              .device = inspect->device,
                              .arena = arena,
                              .bytes = map->arena_bytes,
                              .weight = weights};
    struct gw_mirror *mirror;
    of.key = gw_model_keys(inspect->model, &of.keys);
    *sum = (struct gw_model_result){0};
    enum gw_status status = gw_mirror_open(&of, &mirror, error);
    if (status != GW_OK)
        return status;
    gw_mirror_upload(mirror, 0, of.keys, GW_ENCODING_RAW);
    status = score_batches(inspect, gw_mirror_weights(mirror), sum, error);
    gw_mirror_close(mirror);
    return status;
}
