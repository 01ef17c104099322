#include "config.h"

#include "server/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

enum gw_status gw_tensors_header(const struct gw_map *map,
                                 uint32_t shard,
                                 const char *const *states,
                                 unsigned n_states,
                                 uint64_t clock,
                                 struct gw_safetensors_header *header,
                                 struct gw_error *error)
{
    size_t chunks = map->shard_chunks[shard], n = (1 + n_states) * chunks;
    char step[24];
    const struct gw_metadata metadata = {.key = "clock", .value = step};
    struct gw_tensor_spec *tensors = calloc(n + 1, sizeof *tensors);
    uint64_t *shape = calloc(n + 1, sizeof *shape);
    char(*names)[GW_TENSOR_NAME_MAX] = calloc(n + 1, sizeof *names);
    enum gw_status status = GW_ENOMEM;
    snprintf(step, sizeof step, "%" PRIu64, clock);
    if (!tensors || !shape || !names) {
        gw_fail(error, status, "no memory for a checkpoint's header");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        size_t array = i / chunks;
        uint32_t chunk = map->shard_chunk[shard][i % chunks];
        gw_tensor_name(map, chunk, array ? states[array - 1] : NULL, names[i]);
        shape[i] = map->chunk[chunk].elems;
        tensors[i] = (struct gw_tensor_spec){
            .name = names[i], .dims = 1, .shape = &shape[i]};
    }
    status =
        gw_safetensors_header_make(tensors, n, &metadata, 1, header, error);
out:
    free(tensors);
    free(shape);
    free(names);
    return status;
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
