#include "config.h"

#include "server/checkpoint/tensors.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/half.h"
#include "proto/wire.h"

/* Elements that are read at a time. */
#define PIECE 4096

/* In front of a chunk's name in the metadata. */
#define SKIPPED "skipped"

void gw_tensor_name(const struct gw_map *map,
                    uint32_t chunk,
                    const char *state,
                    char name[GW_TENSOR_NAME_MAX])
{
    const struct gw_chunk *place = &map->chunk[chunk];
    snprintf(name, GW_TENSOR_NAME_MAX, "%s%s%s[%" PRIu64 ":%" PRIu64 "]",
             state ? state : "", state ? "." : "", map->key[place->key].name,
             place->key_elem, place->key_elem + place->elems);
}

/* ---- a shard's file ---- */

/* An entry of the metadata. */
struct entry {
    char key[GW_TENSOR_NAME_MAX], value[24];
};

/* The memory of a header while it is made. */
struct draft {
    struct gw_tensor_spec *tensor; /* [tensors] */
    uint64_t *shape;
    char (*name)[GW_TENSOR_NAME_MAX];
    struct entry *entry; /* [entries] */
    struct gw_metadata *metadata;
    size_t entries;
};

static int take_draft(struct draft *draft, size_t tensors, size_t entries)
{
    draft->tensor = calloc(tensors + 1, sizeof *draft->tensor);
    draft->shape = calloc(tensors + 1, sizeof *draft->shape);
    draft->name = calloc(tensors + 1, sizeof *draft->name);
    draft->entry = calloc(entries, sizeof *draft->entry);
    draft->metadata = calloc(entries, sizeof *draft->metadata);
    return draft->tensor && draft->shape && draft->name && draft->entry &&
           draft->metadata;
}

static void drop_draft(struct draft *draft)
{
    free(draft->tensor);
    free(draft->shape);
    free(draft->name);
    free(draft->entry);
    free(draft->metadata);
}

static void list_tensors(const struct gw_map *map,
                         const struct gw_tensors_shard *shard,
                         size_t n,
                         struct draft *draft)
{
    size_t chunks = map->shard_chunks[shard->number];
    for (size_t i = 0; i < n; i++) {
        size_t array = i / chunks;
        uint32_t chunk = map->shard_chunk[shard->number][i % chunks];
        gw_tensor_name(map, chunk, array ? shard->states[array - 1] : NULL,
                       draft->name[i]);
        draft->shape[i] = map->chunk[chunk].elems;
        draft->tensor[i] = (struct gw_tensor_spec){
            .name = draft->name[i], .dims = 1, .shape = &draft->shape[i]};
    }
}

static void add_entry(struct draft *draft, uint64_t count)
{
    struct entry *entry = &draft->entry[draft->entries];
    snprintf(entry->value, sizeof entry->value, "%" PRIu64, count);
    draft->metadata[draft->entries++] =
        (struct gw_metadata){entry->key, entry->value};
}

static void list_entries(const struct gw_map *map,
                         const struct gw_tensors_shard *shard,
                         struct draft *draft)
{
    strcpy(draft->entry[0].key, "clock");
    add_entry(draft, shard->clock);
    for (uint32_t i = 0; i < map->shard_chunks[shard->number]; i++) {
        if (!shard->skipped || shard->skipped[i] == 0)
            continue;
        gw_tensor_name(map, map->shard_chunk[shard->number][i], SKIPPED,
                       draft->entry[draft->entries].key);
        add_entry(draft, shard->skipped[i]);
    }
}

enum gw_status gw_tensors_header(const struct gw_map *map,
                                 const struct gw_tensors_shard *shard,
                                 struct gw_safetensors_header *header,
                                 struct gw_error *error)
{
    size_t chunks = map->shard_chunks[shard->number];
    size_t tensors = (1 + shard->n) * chunks;
    struct draft draft = {.entries = 0};
    enum gw_status status = GW_ENOMEM;
    if (!take_draft(&draft, tensors, 1 + chunks)) {
        gw_fail(error, status, "no memory for a checkpoint's header");
        goto out;
    }
    list_tensors(map, shard, tensors, &draft);
    list_entries(map, shard, &draft);
    status = gw_safetensors_header_make(draft.tensor, tensors, draft.metadata,
                                        draft.entries, header, error);
out:
    drop_draft(&draft);
    return status;
}

int gw_tensors_skipped(const struct gw_safetensors *tensors,
                       const struct gw_map *map,
                       uint32_t chunk,
                       uint64_t *skipped_p)
{
    char name[GW_TENSOR_NAME_MAX], *end;
    gw_tensor_name(map, chunk, SKIPPED, name);
    const char *told = gw_safetensors_metadata(tensors, name);
    *skipped_p = told ? strtoull(told, &end, 10) : 0;
    return !told || (isdigit((unsigned char)told[0]) && *end == '\0');
}

/* ---- reading ---- */

enum gw_status gw_tensors_open(struct gw_disk *disk,
                               const char *path,
                               struct gw_tensors *tensors,
                               struct gw_error *error)
{
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES], *json = NULL;
    uint64_t bytes;
    size_t n;
    *tensors = (struct gw_tensors){.disk = disk};
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_READ, &tensors->file, error);
    if (status != GW_OK)
        return status;
    status = disk->ops->size(tensors->file, &bytes, error);
    if (status == GW_OK && bytes < sizeof prefix)
        status = gw_fail(error, GW_ECORRUPT, "%s is no safetensors file", path);
    if (status == GW_OK)
        status =
            disk->ops->read(tensors->file, 0, prefix, sizeof prefix, error);
    if (status == GW_OK)
        status = gw_safetensors_header_bytes(path, prefix, bytes, &n, error);
    if (status == GW_OK) {
        json = malloc(n + 1);
        status =
            json ? disk->ops->read(tensors->file, sizeof prefix, json, n, error)
                 : gw_fail(error, GW_ENOMEM, "no memory to read %s", path);
    }
    if (status == GW_OK)
        status =
            gw_safetensors_read(path, json, n, bytes, &tensors->header, error);
    free(json);
    if (status != GW_OK)
        gw_tensors_close(tensors);
    return status;
}

void gw_tensors_close(struct gw_tensors *tensors)
{
    gw_safetensors_free(tensors->header);
    if (tensors->file)
        tensors->disk->ops->close(tensors->file, NULL);
    *tensors = (struct gw_tensors){0};
}

/* ---- elements ---- */

static float from_f32(const uint8_t *in)
{
    uint32_t bits = gw_get_u32(in);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f16(const uint8_t *in)
{
    return gw_half_from_f16(gw_get_u16(in));
}

static float from_bf16(const uint8_t *in)
{
    return gw_half_from_bf16(gw_get_u16(in));
}

static float from_f64(const uint8_t *in)
{
    uint64_t bits = gw_get_u64(in);
    double value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static const struct kind {
    const char *dtype;
    size_t bytes;
    float (*from)(const uint8_t *in);
} kinds[] = {
    {.dtype = "F32", .bytes = 4, .from = from_f32},
    {.dtype = "F16", .bytes = 2, .from = from_f16},
    {.dtype = "BF16", .bytes = 2, .from = from_bf16},
    {.dtype = "F64", .bytes = 8, .from = from_f64},
};

static const struct kind *kind_of(const struct gw_tensor *tensor)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].dtype, tensor->dtype) == 0)
            return &kinds[i];
    return NULL;
}

enum gw_status gw_tensors_read(const struct gw_tensors *tensors,
                               const char *file,
                               const struct gw_tensor *tensor,
                               float *to,
                               struct gw_error *error)
{
    uint8_t piece[8 * PIECE];
    const struct kind *kind = kind_of(tensor);
    if (!kind)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: tensor %s is of type %.16s; save it as one of "
                       "F32, F16, BF16 and F64",
                       file, tensor->name, tensor->dtype);
    for (uint64_t at = 0; at < tensor->elems; at += PIECE) {
        uint64_t left = tensor->elems - at;
        size_t n = left < PIECE ? (size_t)left : PIECE;
        enum gw_status status = tensors->disk->ops->read(
            tensors->file, tensor->offset + at * kind->bytes, piece,
            n * kind->bytes, error);
        if (status != GW_OK)
            return status;
        for (size_t i = 0; i < n; i++) {
            to[at + i] = kind->from(piece + i * kind->bytes);
            if (!isfinite(to[at + i]))
                return gw_fail(error, GW_ECORRUPT,
                               "%s: tensor %s has a value that is NaN or "
                               "infinite, element %" PRIu64,
                               file, tensor->name, at + i);
        }
    }
    return GW_OK;
}
