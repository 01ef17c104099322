/* Reading a checkpoint: manifest, then chunk by chunk into one arena. */
#include "config.h"

#include "server/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/manifest.h"
#include "server/store.h"
#include "server/tensors.h"

#define CHECKPOINTS_MAX 4096

/* ---- a checkpoint ---- */

/* "dir/step-00000120": the directory, and 1 with the clock; else 0. */
static int split_path(char *path, uint64_t *clock_p)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    char *slash = strrchr(path, '/');
    if (!gw_checkpoint_clock(slash ? slash + 1 : path, clock_p))
        return 0;
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
    return 1;
}

/* The newest that is whole; what is being written has no manifest yet. */
static enum gw_status newest(struct gw_disk *disk,
                             const char *dir,
                             gw_checkpoint_refused *refused,
                             struct gw_manifest *manifest,
                             struct gw_error *error)
{
    uint64_t *clocks = calloc(CHECKPOINTS_MAX, sizeof *clocks);
    struct gw_error why;
    size_t damaged = 0;
    if (!clocks)
        return gw_fail(error, GW_ENOMEM, "no memory to look for checkpoints");
    size_t n = gw_store_list(disk, dir, clocks, CHECKPOINTS_MAX);
    enum gw_status status = GW_ENOENT;
    for (size_t i = 0; i < n && status != GW_OK && status != GW_ENOMEM; i++) {
        status = gw_store_whole(disk, dir, clocks[i], manifest, &why);
        if (status == GW_OK || status == GW_ENOMEM || status == GW_ENOENT)
            continue;
        refused(clocks[i], why.text);
        damaged++;
    }
    free(clocks);
    if (status == GW_ENOMEM)
        return gw_fail(error, status, "%s", why.text);
    if (status != GW_OK && damaged)
        return gw_fail(error, GW_ECORRUPT, "no checkpoint in %s is whole", dir);
    if (status != GW_OK)
        return gw_fail(error, GW_ENOENT, "there is no checkpoint in %s", dir);
    return GW_OK;
}

static enum gw_status read_file(struct gw_disk *disk,
                                const char *path,
                                struct gw_checkpoint *checkpoint,
                                uint8_t *found,
                                struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    struct gw_tensors tensors;
    enum gw_status status = gw_tensors_open(disk, path, &tensors, error);
    if (status != GW_OK)
        return status;
    for (uint32_t c = 0; c < map->chunks && status == GW_OK; c++) {
        char name[GW_TENSOR_NAME_MAX];
        gw_tensor_name(map, c, NULL, name);
        const struct gw_tensor *tensor =
            gw_safetensors_find(tensors.header, name);
        if (!tensor)
            continue;
        if (found[c] || strcmp(tensor->dtype, "F32") != 0 ||
            tensor->elems != map->chunk[c].elems)
            status = gw_fail(error, GW_ECORRUPT,
                             "%s: %s is there twice, or of another size or "
                             "type",
                             path, name);
        else
            status = disk->ops->read(tensors.file, tensor->offset,
                                     (uint8_t *)checkpoint->weights +
                                         map->chunk[c].arena_offset,
                                     (size_t)tensor->bytes, error);
        found[c] = 1;
    }
    gw_tensors_close(&tensors);
    return status;
}

static enum gw_status read_weights(struct gw_disk *disk,
                                   const char *dir,
                                   const struct gw_manifest *manifest,
                                   struct gw_checkpoint *checkpoint,
                                   struct gw_error *error)
{
    char path[GW_PATH_MAX], name[GW_TENSOR_NAME_MAX];
    enum gw_status status = gw_map_create(manifest->keys, manifest->n_keys, 1,
                                          &checkpoint->map, error);
    if (status != GW_OK)
        return status;
    const struct gw_map *map = checkpoint->map;
    uint8_t *found = calloc(map->chunks, 1);
    checkpoint->weights =
        aligned_alloc(GW_ARENA_ALIGN,
                      (map->arena_bytes / GW_ARENA_ALIGN + 1) * GW_ARENA_ALIGN);
    if (!found || !checkpoint->weights)
        status = gw_fail(error, GW_ENOMEM, "no memory for %" PRIu64 " MiB",
                         map->arena_bytes >> 20);
    for (size_t i = 0; i < manifest->n_files && status == GW_OK; i++) {
        if (gw_is_worker_file(manifest->files[i].name))
            continue; /* no weights */
        gw_store_path(dir, manifest->state.clock, manifest->files[i].name,
                      path);
        status = read_file(disk, path, checkpoint, found, error);
    }
    for (uint32_t c = 0; status == GW_OK && c < map->chunks; c++) {
        if (found[c])
            continue;
        gw_tensor_name(map, c, NULL, name);
        status = gw_fail(error, GW_ECORRUPT,
                         "the checkpoint of step %" PRIu64 " in %s has no %s",
                         manifest->state.clock, dir, name);
    }
    free(found);
    return status;
}

enum gw_status gw_checkpoint_open(struct gw_disk *disk,
                                  const char *path,
                                  gw_checkpoint_refused *refused,
                                  struct gw_checkpoint *checkpoint,
                                  struct gw_error *error)
{
    char dir[GW_PATH_MAX];
    struct gw_checkpoint made = {0};
    struct gw_manifest manifest = {0};
    uint64_t clock;
    if (strlen(path) >= sizeof dir || !path[0])
        return gw_fail(error, GW_EINVAL, "%.64s is no name of a checkpoint",
                       path);
    strcpy(dir, path);
    enum gw_status status =
        split_path(dir, &clock)
            ? gw_store_whole(disk, dir, clock, &manifest, error)
            : newest(disk, dir, refused, &manifest, error);
    if (status != GW_OK)
        return status;
    status = read_weights(disk, dir, &manifest, &made, error);
    if (status == GW_OK) {
        made.clock = manifest.state.clock;
        made.job = manifest.job;
        manifest.job = NULL;
        *checkpoint = made;
    } else {
        gw_checkpoint_close(&made);
    }
    gw_manifest_free(&manifest);
    return status;
}

void gw_checkpoint_close(struct gw_checkpoint *checkpoint)
{
    gw_map_destroy(checkpoint->map);
    free(checkpoint->weights);
    free(checkpoint->job);
    *checkpoint = (struct gw_checkpoint){0};
}

const float *gw_checkpoint_key(const struct gw_checkpoint *checkpoint,
                               size_t key)
{
    return checkpoint->weights +
           checkpoint->map->key_offset[key] / sizeof(float);
}
