/* Weights out to one safetensors file, and in from one. */
#include "config.h"

#include "server/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "server/manifest.h"
#include "server/store.h"
#include "server/tensors.h"

#define TENSOR_NAME 160

/* ---- out ---- */

static enum gw_status make_header(const struct gw_checkpoint *checkpoint,
                                  struct gw_safetensors_header *header,
                                  struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    char clock[24];
    const struct gw_metadata metadata[] = {{"format", "pt"}, {"step", clock}};
    struct gw_tensor_spec *specs = calloc(map->keys, sizeof *specs);
    if (!specs)
        return gw_fail(error, GW_ENOMEM, "no memory for a header");
    snprintf(clock, sizeof clock, "%" PRIu64, checkpoint->clock);
    for (size_t i = 0; i < map->keys; i++)
        specs[i] = (struct gw_tensor_spec){.name = map->key[i].name,
                                           .dims = map->key[i].dims,
                                           .shape = map->key[i].shape};
    enum gw_status status = gw_safetensors_header_make(
        specs, map->keys, metadata, 2, header, error);
    free(specs);
    return status;
}

static enum gw_status write_tensors(struct gw_disk *disk,
                                    struct gw_file *file,
                                    const struct gw_checkpoint *checkpoint,
                                    const struct gw_safetensors_header *header,
                                    struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    enum gw_status status = disk->ops->reserve(file, header->file_bytes, error);
    if (status == GW_OK)
        status = disk->ops->write(file, 0, header->bytes, header->n, error);
    for (size_t i = 0; i < map->keys && status == GW_OK; i++)
        status = disk->ops->write(file, header->offset[i],
                                  gw_checkpoint_key(checkpoint, i),
                                  map->key_elems[i] * sizeof(float), error);
    if (status == GW_OK)
        status = disk->ops->sync(file, error);
    return status;
}

/* "dir/file" to "dir"; what has no directory is in this one. */
static void parent_of(const char *file, char dir[GW_PATH_MAX])
{
    snprintf(dir, GW_PATH_MAX, "%s", file);
    char *slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = '\0';
    else
        strcpy(dir, ".");
}

enum gw_status gw_checkpoint_export(struct gw_disk *disk,
                                    const struct gw_checkpoint *checkpoint,
                                    const char *file,
                                    struct gw_error *error)
{
    char temporary[GW_PATH_MAX + 4], dir[GW_PATH_MAX];
    struct gw_safetensors_header header;
    struct gw_file *to;
    if (strlen(file) >= GW_PATH_MAX)
        return gw_fail(error, GW_EINVAL, "the name of %.64s... is too long",
                       file);
    snprintf(temporary, sizeof temporary, "%s.tmp", file);
    parent_of(file, dir);
    enum gw_status status = make_header(checkpoint, &header, error);
    if (status != GW_OK)
        return status;
    status = disk->ops->open(disk, temporary, GW_FILE_CREATE, &to, error);
    if (status != GW_OK)
        goto free_header;
    status = write_tensors(disk, to, checkpoint, &header, error);
    enum gw_status closed =
        disk->ops->close(to, status == GW_OK ? error : NULL);
    if (status == GW_OK)
        status = closed;
    if (status == GW_OK)
        status = disk->ops->rename(disk, temporary, file, error);
    if (status == GW_OK)
        status = disk->ops->sync_dir(disk, dir, error);
    else
        disk->ops->remove(disk, temporary, NULL);
free_header:
    gw_safetensors_header_free(&header);
    return status;
}

/* ---- in ---- */

static int same_shape(const struct gw_tensor *tensor, const struct gw_key *key)
{
    if (tensor->dims != key->dims)
        return 0;
    for (size_t d = 0; d < tensor->dims; d++)
        if (tensor->shape[d] != key->shape[d])
            return 0;
    return 1;
}

static enum gw_status read_key(const char *file,
                               const struct gw_tensors *tensors,
                               const struct gw_key *key,
                               float *to,
                               struct gw_error *error)
{
    const struct gw_tensor *tensor =
        gw_safetensors_find(tensors->header, key->name);
    if (!tensor)
        return gw_fail(error, GW_EMISMATCH,
                       "%s is of another model: it has no tensor %s", file,
                       key->name);
    if (!same_shape(tensor, key))
        return gw_fail(error, GW_EMISMATCH,
                       "%s is of another model: its tensor %s has another "
                       "shape than the job's",
                       file, key->name);
    if (strcmp(tensor->dtype, "F32") != 0)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: tensor %s is of type %s; save it as fp32 (F32)",
                       file, key->name, tensor->dtype);
    return tensors->disk->ops->read(tensors->file, tensor->offset, to,
                                    (size_t)tensor->bytes, error);
}

static enum gw_status refuse_others(const char *file,
                                    const struct gw_tensors *tensors,
                                    const struct gw_map *map,
                                    struct gw_error *error)
{
    size_t n;
    const struct gw_tensor *all = gw_safetensors_tensors(tensors->header, &n);
    for (size_t i = 0; i < n; i++) {
        size_t key = 0;
        while (key < map->keys && strcmp(map->key[key].name, all[i].name) != 0)
            key++;
        if (key == map->keys)
            return gw_fail(error, GW_EMISMATCH,
                           "%s is of another model: the job's has no tensor "
                           "%.96s",
                           file, all[i].name);
    }
    return GW_OK;
}

static enum gw_status read_weights(struct gw_disk *disk,
                                   const char *file,
                                   struct gw_checkpoint *checkpoint,
                                   struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    struct gw_tensors tensors;
    enum gw_status status = gw_tensors_open(disk, file, &tensors, error);
    if (status != GW_OK)
        return status;
    checkpoint->weights = calloc(1, map->arena_bytes);
    if (!checkpoint->weights)
        status = gw_fail(error, GW_ENOMEM, "no memory for %" PRIu64 " MiB",
                         map->arena_bytes >> 20);
    for (size_t i = 0; i < map->keys && status == GW_OK; i++)
        status = read_key(
            file, &tensors, &map->key[i],
            checkpoint->weights + map->key_offset[i] / sizeof(float), error);
    if (status == GW_OK)
        status = refuse_others(file, &tensors, map, error);
    gw_tensors_close(&tensors);
    return status;
}

/* A shard's file of all chunks, as the one shard of a server writes it. */
static enum gw_status write_shard(struct gw_disk *disk,
                                  const struct gw_checkpoint *checkpoint,
                                  const char *dir,
                                  struct gw_manifest_file *file,
                                  struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    const struct gw_metadata metadata = {"clock", "0"};
    struct gw_safetensors_header header = {0};
    struct gw_tensor_spec *specs = calloc(map->chunks, sizeof *specs);
    struct gw_store_part *parts = calloc(map->chunks + 1, sizeof *parts);
    uint64_t *shape = calloc(map->chunks, sizeof *shape);
    char(*names)[TENSOR_NAME] = calloc(map->chunks, sizeof *names);
    enum gw_status status = GW_ENOMEM;
    if (!specs || !parts || !shape || !names) {
        gw_fail(error, status, "no memory for a checkpoint's header");
        goto out;
    }
    for (uint32_t c = 0; c < map->chunks; c++) {
        const struct gw_chunk *chunk = &map->chunk[c];
        gw_chunk_tensor_name(map, c, NULL, names[c], sizeof names[c]);
        shape[c] = chunk->elems;
        specs[c] = (struct gw_tensor_spec){names[c], 1, &shape[c]};
        parts[c + 1] = (struct gw_store_part){
            checkpoint->weights + chunk->arena_offset / sizeof(float),
            chunk->elems * sizeof(float)};
    }
    status = gw_safetensors_header_make(specs, map->chunks, &metadata, 1,
                                        &header, error);
    if (status != GW_OK)
        goto out;
    parts[0] = (struct gw_store_part){header.bytes, header.n};
    struct gw_digest *digest = gw_digest_begin();
    for (size_t i = 0; i <= map->chunks; i++)
        gw_digest_add(digest, parts[i].bytes, parts[i].n);
    gw_digest_end(digest, file->sha256);
    file->bytes = header.file_bytes;
    gw_shard_file_name(0, 1, file->name);
    status =
        gw_store_write(disk, dir, 0, file->name, parts, map->chunks + 1, error);
out:
    gw_safetensors_header_free(&header);
    free(specs);
    free(parts);
    free(shape);
    free(names);
    return status;
}

static enum gw_status write_checkpoint(struct gw_disk *disk,
                                       struct gw_checkpoint *checkpoint,
                                       const char *dir,
                                       struct gw_error *error)
{
    struct gw_manifest_file file = {.name = ""};
    struct gw_manifest manifest = {
        .keys_hash = gw_keys_hash(checkpoint->map->key, checkpoint->map->keys),
        .keys = checkpoint->map->key,
        .n_keys = checkpoint->map->keys,
        .job = checkpoint->job,
        .files = &file,
        .n_files = 1,
    };
    enum gw_status status = gw_store_make_dir(disk, dir, error);
    if (status == GW_OK)
        status = write_shard(disk, checkpoint, dir, &file, error);
    if (status != GW_OK)
        return status;
    char *text = gw_manifest_print(&manifest);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory to print a manifest");
    const struct gw_store_part part = {text, strlen(text)};
    status = gw_store_write(disk, dir, 0, GW_MANIFEST_NAME, &part, 1, error);
    free(text);
    return status;
}

enum gw_status gw_checkpoint_import(struct gw_disk *disk,
                                    const char *file,
                                    const struct gw_key *keys,
                                    size_t n_keys,
                                    const char *job,
                                    const char *dir,
                                    struct gw_error *error)
{
    struct gw_checkpoint checkpoint = {.job = strdup(job)};
    uint64_t clock;
    if (!checkpoint.job)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    enum gw_status status = GW_OK;
    if (gw_store_list(disk, dir, &clock, 1) > 0)
        status = gw_fail(error, GW_EEXIST,
                         "%s holds a checkpoint of step %" PRIu64
                         " already; choose another directory",
                         dir, clock);
    if (status == GW_OK)
        status = gw_map_create(keys, n_keys, 1, &checkpoint.map, error);
    if (status == GW_OK)
        status = read_weights(disk, file, &checkpoint, error);
    if (status == GW_OK)
        status = write_checkpoint(disk, &checkpoint, dir, error);
    gw_checkpoint_close(&checkpoint);
    return status;
}
