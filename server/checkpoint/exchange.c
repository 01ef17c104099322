/* Weights out to one safetensors file, and in from one or a checkpoint. */
#include "config.h"

#include "server/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/manifest.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/tensors.h"
#include "transport/link/output.h"

#define SHAPE_BYTES 128 /* bytes of its text; a longer one is cut */

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

/* The tensors follow each other in the order of the keys. */
static void put_tensors(struct gw_output *to,
                        const struct gw_checkpoint *checkpoint,
                        const struct gw_safetensors_header *header)
{
    const struct gw_map *map = checkpoint->map;
    int goes_on = gw_output_put(to, header->bytes, header->n);
    for (size_t i = 0; i < map->keys && goes_on; i++)
        goes_on = gw_output_put(to, gw_checkpoint_key(checkpoint, i),
                                map->key_elems[i] * sizeof(float));
}

enum gw_status gw_checkpoint_export(const struct gw_checkpoint *checkpoint,
                                    const char *file,
                                    struct gw_error *error)
{
    struct gw_safetensors_header header;
    struct gw_output to;
    enum gw_status status = make_header(checkpoint, &header, error);
    if (status != GW_OK)
        return status;
    status = gw_output_open(file, &to, error);
    if (status == GW_OK) {
        put_tensors(&to, checkpoint, &header);
        status = gw_output_commit(&to, error);
    }
    gw_safetensors_header_free(&header);
    return status;
}

/* ---- in ---- */

static int is_transposed(const struct gw_tensor *tensor,
                         const struct gw_key *key)
{
    return tensor->dims == 2 && key->dims == 2 &&
           tensor->shape[0] == key->shape[1] &&
           tensor->shape[1] == key->shape[0];
}

static int same_shape(const struct gw_tensor *tensor, const struct gw_key *key)
{
    if (tensor->dims != key->dims)
        return 0;
    for (size_t d = 0; d < tensor->dims; d++)
        if (tensor->shape[d] != key->shape[d])
            return 0;
    return 1;
}

/* "[2, 3]"; "[]" for a single number. */
static const char *
print_shape(const uint64_t *shape, size_t dims, char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "[");
    for (size_t d = 0; d < dims && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRIu64,
                                 d ? ", " : "", shape[d]);
    if (used < room)
        snprintf(text + used, room - used, "]");
    return text;
}

static enum gw_status refuse_shape(const char *file,
                                   const struct gw_tensor *tensor,
                                   const struct gw_key *key,
                                   struct gw_error *error)
{
    char theirs[SHAPE_BYTES], ours[SHAPE_BYTES];
    return gw_fail(
        error, GW_EMISMATCH,
        "%s is of another model: its tensor %s is %s, the job's %s%s", file,
        key->name,
        print_shape(tensor->shape, tensor->dims, theirs, sizeof theirs),
        print_shape(key->shape, key->dims, ours, sizeof ours),
        is_transposed(tensor, key) ? "; it looks transposed" : "");
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
        return refuse_shape(file, tensor, key, error);
    return gw_tensors_read(tensors, file, tensor, to, error);
}

/* A tensor that was not fp32 in the file. */
static void note_converted(const struct gw_tensors *tensors,
                           const struct gw_map *map,
                           char *note,
                           size_t room)
{
    const char *first = NULL;
    size_t converted = 0;
    for (size_t i = 0; i < map->keys; i++) {
        const struct gw_tensor *tensor =
            gw_safetensors_find(tensors->header, map->key[i].name);
        if (strcmp(tensor->dtype, "F32") == 0)
            continue;
        first = first ? first : tensor->dtype;
        converted++;
    }
    if (converted > 0)
        snprintf(note, room,
                 "%zu of %zu tensors were not float32 (%s), and are converted",
                 converted, map->keys, first);
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
                                   char note[GW_ERROR_TEXT_BYTES],
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
    if (status == GW_OK)
        note_converted(&tensors, map, note, GW_ERROR_TEXT_BYTES);
    gw_tensors_close(&tensors);
    return status;
}

/* The weights of a checkpoint. With the same keys they lie as the weights of
   the job do. */
static enum gw_status take_weights(struct gw_disk *disk,
                                   const char *path,
                                   gw_checkpoint_refused *refused,
                                   struct gw_checkpoint *checkpoint,
                                   struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    struct gw_checkpoint from;
    enum gw_status status =
        gw_checkpoint_open(disk, path, refused, &from, error);
    if (status != GW_OK)
        return status;
    if (gw_keys_hash(from.map->key, from.map->keys) ==
        gw_keys_hash(map->key, map->keys)) {
        checkpoint->weights = from.weights;
        from.weights = NULL;
    } else {
        status = gw_fail(error, GW_EMISMATCH,
                         "%s is of another model: its keys or their shapes "
                         "are not the job's",
                         path);
    }
    gw_checkpoint_close(&from);
    return status;
}

static int is_directory(struct gw_disk *disk, const char *path)
{
    struct gw_disk dir;
    int is = gw_store_enter(disk, path, GW_ACCESS_PRIVATE, &dir, NULL) == GW_OK;
    gw_store_leave(&dir);
    return is;
}

/* A shard's file of all chunks, as the one shard of a server writes it. */
static enum gw_status write_shard(struct gw_disk *dir,
                                  const struct gw_checkpoint *checkpoint,
                                  struct gw_manifest_file *file,
                                  struct gw_error *error)
{
    const struct gw_map *map = checkpoint->map;
    const struct gw_tensors_shard weights = {.number = 0};
    struct gw_safetensors_header header;
    enum gw_status status = gw_tensors_header(map, &weights, &header, error);
    if (status != GW_OK)
        return status;
    struct gw_file_part *parts = calloc(map->chunks + 1, sizeof *parts);
    if (!parts) {
        status = gw_fail(error, GW_ENOMEM, "no memory for a checkpoint");
        goto free_header;
    }
    parts[0] = (struct gw_file_part){header.bytes, header.n};
    for (size_t c = 0; c < map->chunks; c++) {
        const struct gw_chunk *chunk = &map->chunk[c];
        parts[c + 1] = (struct gw_file_part){
            checkpoint->weights + chunk->arena_offset / sizeof(float),
            chunk->elems * sizeof(float)};
    }
    gw_shard_file_name(0, 1, file->name);
    status = gw_store_write(dir, 0, parts, map->chunks + 1, NULL, file, error);
    free(parts);
free_header:
    gw_safetensors_header_free(&header);
    return status;
}

static enum gw_status write_checkpoint(struct gw_disk *dir,
                                       struct gw_checkpoint *checkpoint,
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
    enum gw_status status = write_shard(dir, checkpoint, &file, error);
    if (status != GW_OK)
        return status;
    char *text = gw_manifest_print(&manifest);
    if (!text)
        return gw_fail(error, GW_ENOMEM, "no memory to print a manifest");
    const struct gw_file_part part = {text, strlen(text)};
    struct gw_manifest_file own = {.name = GW_MANIFEST_NAME};
    status = gw_store_write(dir, 0, &part, 1, NULL, &own, error);
    free(text);
    return status;
}

/* Into a directory without any, which is made if it is not there. */
static enum gw_status write_new(struct gw_disk *disk,
                                struct gw_checkpoint *checkpoint,
                                const struct gw_checkpoint_target *target,
                                struct gw_error *error)
{
    struct gw_disk dir;
    uint64_t clock;
    enum gw_status status =
        gw_store_enter_new(disk, target->dir, target->access, &dir, error);
    if (status == GW_OK && gw_store_newest(&dir, &clock))
        status = gw_fail(error, GW_EEXIST,
                         "%s holds a checkpoint of step %" PRIu64
                         " already; choose another directory",
                         target->dir, clock);
    if (status == GW_OK) {
        status = write_checkpoint(&dir, checkpoint, error);
        if (status != GW_OK) /* nothing half-written stays */
            gw_store_remove(&dir, 0);
    }
    gw_store_leave(&dir);
    return status;
}

enum gw_status gw_checkpoint_import(struct gw_disk *disk,
                                    const char *from,
                                    gw_checkpoint_refused *refused,
                                    const struct gw_key *keys,
                                    size_t n_keys,
                                    const char *job,
                                    const struct gw_checkpoint_target *target,
                                    char note[GW_ERROR_TEXT_BYTES],
                                    struct gw_error *error)
{
    struct gw_checkpoint checkpoint = {.job = strdup(job)};
    note[0] = '\0';
    if (!checkpoint.job)
        return gw_fail(error, GW_ENOMEM, "no memory for a job");
    enum gw_status status =
        gw_map_create(keys, n_keys, 1, &checkpoint.map, error);
    if (status == GW_OK)
        status = is_directory(disk, from)
                     ? take_weights(disk, from, refused, &checkpoint, error)
                     : read_weights(disk, from, &checkpoint, note, error);
    if (status == GW_OK)
        status = write_new(disk, &checkpoint, target, error);
    gw_checkpoint_close(&checkpoint);
    return status;
}
