/* Reading a checkpoint: manifest, then chunk by chunk into one arena. */
#include "config.h"

#include "server/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/manifest.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/tensors.h"

#define CHECKPOINTS_MAX 4096

/* ---- a checkpoint ---- */

/* The newest whole one, entered; one being written has no manifest yet. */
static enum gw_status newest(struct gw_disk *dir,
                             gw_checkpoint_refused *refused,
                             struct gw_disk *checkpoint,
                             struct gw_manifest *manifest,
                             struct gw_error *error)
{
    uint64_t *clocks = calloc(CHECKPOINTS_MAX, sizeof *clocks);
    struct gw_error why;
    size_t damaged = 0;
    if (!clocks)
        return gw_fail(error, GW_ENOMEM, "no memory to look for checkpoints");
    size_t n = gw_store_list(dir, clocks, CHECKPOINTS_MAX), i = 0;
    enum gw_status status = GW_ENOENT;
    for (; i < n && status != GW_OK && status != GW_ENOMEM; i++) {
        status = gw_store_whole(dir, clocks[i], manifest, &why);
        if (status == GW_OK || status == GW_ENOMEM || status == GW_ENOENT)
            continue;
        refused(clocks[i], why.text);
        damaged++;
    }
    if (status == GW_OK) {
        char where[GW_PATH_MAX];
        gw_store_path(clocks[i - 1], "", where);
        status =
            gw_store_enter(dir, where, GW_ACCESS_PRIVATE, checkpoint, error);
        if (status != GW_OK)
            gw_manifest_free(manifest);
    } else if (status == GW_ENOMEM) {
        gw_fail(error, status, "%s", why.text);
    } else if (damaged) {
        status = gw_fail(error, GW_ECORRUPT, "no checkpoint in %s is whole",
                         dir->name);
    } else {
        status = gw_fail(error, GW_ENOENT, "there is no checkpoint in %s",
                         dir->name);
    }
    free(clocks);
    return status;
}

static enum gw_status read_file(struct gw_disk *dir,
                                const char *name,
                                struct gw_checkpoint *checkpoint,
                                uint8_t *found,
                                struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    struct gw_tensors tensors;
    enum gw_status status = gw_tensors_open(dir, name, &tensors, error);
    if (status != GW_OK)
        return status;
    for (uint32_t c = 0; c < map->chunks && status == GW_OK; c++) {
        char tensor_name[GW_TENSOR_NAME_MAX];
        gw_tensor_name(map, c, NULL, tensor_name);
        const struct gw_tensor *tensor =
            gw_safetensors_find(tensors.header, tensor_name);
        if (!tensor)
            continue;
        if (found[c] || strcmp(tensor->dtype, "F32") != 0 ||
            tensor->elems != map->chunk[c].elems)
            status = gw_fail(error, GW_ECORRUPT,
                             "%s/%s: %s is there twice, or of another size "
                             "or type",
                             dir->name, name, tensor_name);
        else
            status = dir->ops->read(tensors.file, tensor->offset,
                                    (uint8_t *)checkpoint->weights +
                                        map->chunk[c].arena_offset,
                                    (size_t)tensor->bytes, error);
        found[c] = 1;
    }
    gw_tensors_close(&tensors);
    return status;
}

static enum gw_status read_weights(struct gw_disk *dir,
                                   const struct gw_manifest *manifest,
                                   struct gw_checkpoint *checkpoint,
                                   struct gw_error *error)
{
    char name[GW_TENSOR_NAME_MAX];
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
        status =
            read_file(dir, manifest->files[i].name, checkpoint, found, error);
    }
    for (uint32_t c = 0; status == GW_OK && c < map->chunks; c++) {
        if (found[c])
            continue;
        gw_tensor_name(map, c, NULL, name);
        status = gw_fail(error, GW_ECORRUPT,
                         "the checkpoint of step %" PRIu64 " in %s has no %s",
                         manifest->state.clock, dir->name, name);
    }
    free(found);
    return status;
}

/* "dir/step-00000120/": it must be one then. */
static int is_named_as_one(const char *path)
{
    char name[GW_FILE_NAME_MAX];
    uint64_t unused;
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    if (end - begin >= sizeof name)
        return 0;
    snprintf(name, end - begin + 1, "%s", path + begin);
    return gw_checkpoint_clock(name, &unused);
}

/* A directory with a manifest is a checkpoint under any name; another one may
   hold some. */
static enum gw_status find(struct gw_disk *disk,
                           const char *path,
                           gw_checkpoint_refused *refused,
                           struct gw_disk *checkpoint,
                           struct gw_manifest *manifest,
                           struct gw_error *error)
{
    struct gw_disk dir;
    enum gw_status status =
        gw_store_enter(disk, path, GW_ACCESS_PRIVATE, &dir, error);
    if (status == GW_ENOENT)
        return gw_fail(error, status, "there is no checkpoint in %s", path);
    if (status != GW_OK)
        return status;
    status = gw_store_whole_here(&dir, manifest, error);
    if (status == GW_OK) {
        *checkpoint = dir;
        return GW_OK;
    }
    if (status == GW_ENOENT && !is_named_as_one(path))
        status = newest(&dir, refused, checkpoint, manifest, error);
    gw_store_leave(&dir);
    return status;
}

enum gw_status gw_checkpoint_open(struct gw_disk *disk,
                                  const char *path,
                                  gw_checkpoint_refused *refused,
                                  struct gw_checkpoint *checkpoint,
                                  struct gw_error *error)
{
    struct gw_disk dir;
    struct gw_checkpoint made = {0};
    struct gw_manifest manifest = {0};
    if (!path[0])
        return gw_fail(error, GW_EINVAL, "\"\" is no name of a checkpoint");
    enum gw_status status = find(disk, path, refused, &dir, &manifest, error);
    if (status != GW_OK)
        return status;
    status = read_weights(&dir, &manifest, &made, error);
    gw_store_leave(&dir);
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
