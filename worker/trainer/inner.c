#include "config.h"

#include "worker/trainer/inner.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/file_name.h"
#include "worker/trainer/rank_state.h"

/* "exp_avg." and a key. */
#define NAME_MAX_BYTES (GW_KEY_NAME_MAX + 32)

/* ---- names and places ---- */

static void name_of(const struct gw_rank *rank,
                    const struct gw_inner *inner,
                    unsigned state,
                    size_t key,
                    char name[NAME_MAX_BYTES])
{
    snprintf(name, NAME_MAX_BYTES, "%s.%s",
             inner->optimizer->state_names[state], rank->key[key].name);
}

/* The place of a key's part of a state. */
static float *place_of(const struct gw_rank *rank,
                       const struct gw_inner *inner,
                       unsigned state,
                       size_t key)
{
    return inner->state[state] + (rank->gradient[key] - rank->gradient[0]);
}

static size_t count_elems(const struct gw_rank *rank)
{
    size_t elems = 0;
    for (size_t key = 0; key < rank->keys; key++)
        elems += gw_key_elems(&rank->key[key]);
    return elems;
}

/* ---- out ---- */

static enum gw_status make_header(const struct gw_rank *rank,
                                  struct gw_inner *inner,
                                  uint64_t clock,
                                  struct gw_error *error)
{
    size_t keys = rank->keys, n = inner->optimizer->states * keys;
    char step[24], updates[24];
    const struct gw_metadata metadata[] = {
        {.key = "clock", .value = step},
        {.key = "optimizer", .value = inner->optimizer->name},
        {.key = "updates", .value = updates}};
    struct gw_tensor_spec *tensors = calloc(n + 1, sizeof *tensors);
    char(*names)[NAME_MAX_BYTES] = calloc(n + 1, sizeof *names);
    enum gw_status status = GW_ENOMEM;
    snprintf(step, sizeof step, "%" PRIu64, clock);
    snprintf(updates, sizeof updates, "%" PRIu64, *inner->updates);
    if (!tensors || !names) {
        gw_fail(error, status, "no memory for a checkpoint's header");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        const struct gw_key *key = &rank->key[i % keys];
        name_of(rank, inner, (unsigned)(i / keys), i % keys, names[i]);
        tensors[i] = (struct gw_tensor_spec){
            .name = names[i], .dims = key->dims, .shape = key->shape};
    }
    gw_safetensors_header_free(&inner->header);
    status = gw_safetensors_header_make(tensors, n, metadata,
                                        sizeof metadata / sizeof *metadata,
                                        &inner->header, error);
out:
    free(tensors);
    free(names);
    return status;
}

static enum gw_status take_snapshot(const struct gw_rank *rank,
                                    struct gw_inner *inner,
                                    struct gw_error *error)
{
    size_t bytes = inner->optimizer->states * count_elems(rank) * sizeof(float);
    if (!inner->snapshot)
        inner->snapshot = malloc(bytes);
    if (!inner->snapshot)
        return gw_fail(error, GW_ENOMEM, "no memory for a checkpoint: %zu MiB",
                       bytes >> 20);
    float *to = inner->snapshot;
    for (unsigned s = 0; s < inner->optimizer->states; s++) {
        for (size_t key = 0; key < rank->keys; key++) {
            size_t elems = gw_key_elems(&rank->key[key]);
            memcpy(to, place_of(rank, inner, s, key), elems * sizeof *to);
            to += elems;
        }
    }
    inner->parts[0] =
        (struct gw_file_part){inner->header.bytes, inner->header.n};
    inner->parts[1] = (struct gw_file_part){inner->snapshot, bytes};
    return GW_OK;
}

static enum gw_status
save(struct gw_rank *rank, struct gw_inner *inner, uint64_t name)
{
    struct gw_error error = {.text = ""};
    enum gw_status status = gw_client_saved(rank->client);
    if (status != GW_OK)
        return status;
    status = make_header(rank, inner, name, &error);
    if (status == GW_OK)
        status = take_snapshot(rank, inner, &error);
    if (status != GW_OK) {
        gw_client_fail_with(rank->client, &error);
        return status;
    }
    return gw_client_save(rank->client, name, inner->parts, 2);
}

enum gw_status gw_inner_cut(struct gw_rank *rank, struct gw_inner *inner)
{
    enum gw_status status = GW_OK;
    uint64_t name;
    while (status == GW_OK && gw_client_cut(rank->client, rank->clock, &name))
        status = save(rank, inner, name);
    return status;
}

void gw_inner_close(struct gw_inner *inner)
{
    gw_safetensors_header_free(&inner->header);
    free(inner->snapshot);
    inner->snapshot = NULL;
}

/* ---- in ---- */

static enum gw_status read_header(struct gw_rank *rank,
                                  const char *file,
                                  struct gw_safetensors **tensors_p)
{
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES], *json = NULL;
    uint64_t bytes = 0;
    size_t n = 0;
    enum gw_status status = gw_client_load_size(rank->client, &bytes);
    if (status == GW_OK && bytes < sizeof prefix)
        status = gw_fail(rank->error, GW_ECORRUPT, "%s is no safetensors file",
                         file);
    if (status == GW_OK)
        status = gw_client_load(rank->client, 0, prefix, sizeof prefix);
    if (status == GW_OK)
        status =
            gw_safetensors_header_bytes(file, prefix, bytes, &n, rank->error);
    if (status != GW_OK)
        return status;
    json = malloc(n);
    status =
        json ? gw_client_load(rank->client, sizeof prefix, json, n)
             : gw_fail(rank->error, GW_ENOMEM, "no memory to read %s", file);
    if (status == GW_OK)
        status =
            gw_safetensors_read(file, json, n, bytes, tensors_p, rank->error);
    free(json);
    return status;
}

/* Reads the updates that the optimizer had made; it must be this one. */
static enum gw_status read_updates(const struct gw_rank *rank,
                                   const struct gw_inner *inner,
                                   const char *file,
                                   const struct gw_safetensors *tensors)
{
    const char *optimizer = gw_safetensors_metadata(tensors, "optimizer");
    const char *updates = gw_safetensors_metadata(tensors, "updates");
    char *end = NULL;
    if (!optimizer || strcmp(optimizer, inner->optimizer->name) != 0)
        return gw_fail(rank->error, GW_EMISMATCH, "%s is not the state of %s",
                       file, inner->optimizer->name);
    uint64_t n = updates ? strtoull(updates, &end, 10) : 0;
    if (!updates || !isdigit((unsigned char)updates[0]) || *end)
        return gw_fail(rank->error, GW_ECORRUPT,
                       "%s does not say how many updates were made", file);
    *inner->updates = n;
    return GW_OK;
}

static int same_shape(const struct gw_tensor *tensor, const struct gw_key *key)
{
    int same = tensor->dims == key->dims && strcmp(tensor->dtype, "F32") == 0;
    for (size_t d = 0; same && d < key->dims; d++)
        same = tensor->shape[d] == key->shape[d];
    return same;
}

static enum gw_status read_state(struct gw_rank *rank,
                                 const struct gw_inner *inner,
                                 const char *file,
                                 const struct gw_safetensors *tensors)
{
    for (unsigned s = 0; s < inner->optimizer->states; s++) {
        for (size_t key = 0; key < rank->keys; key++) {
            char name[NAME_MAX_BYTES];
            name_of(rank, inner, s, key, name);
            const struct gw_tensor *tensor = gw_safetensors_find(tensors, name);
            if (!tensor || !same_shape(tensor, &rank->key[key]))
                return gw_fail(rank->error, GW_EMISMATCH,
                               "%s lacks %s in the key's shape: it is of "
                               "another model",
                               file, name);
            enum gw_status status = gw_client_load(
                rank->client, tensor->offset, place_of(rank, inner, s, key),
                (size_t)tensor->bytes);
            if (status != GW_OK)
                return status;
        }
    }
    return GW_OK;
}

enum gw_status gw_inner_load(struct gw_rank *rank, struct gw_inner *inner)
{
    struct gw_safetensors *tensors = NULL;
    char file[GW_FILE_NAME_MAX];
    if (inner->optimizer->states == 0)
        return GW_OK;
    if (!gw_client_has_inner(rank->client))
        return GW_OK;
    gw_worker_file_name(rank->number, rank->ranks, file);
    enum gw_status status = read_header(rank, file, &tensors);
    if (status == GW_OK)
        status = read_updates(rank, inner, file, tensors);
    if (status == GW_OK)
        status = read_state(rank, inner, file, tensors);
    gw_safetensors_free(tensors);
    if (status == GW_OK)
        gw_log_info(rank->options.client.log,
                    "goes on with the state of its own %s after %" PRIu64
                    " updates",
                    inner->optimizer->name, *inner->updates);
    return status;
}
