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

/* An entry of the header's metadata. */
struct entry {
    char key[NAME_MAX_BYTES], value[24];
};

static void skipped_name_of(const struct gw_rank *rank,
                            size_t key,
                            char name[NAME_MAX_BYTES])
{
    snprintf(name, NAME_MAX_BYTES, "skipped.%s", rank->key[key].name);
}

/* Fills [3 + keys] entries; how many there are. */
static size_t make_entries(const struct gw_rank *rank,
                           const struct gw_inner *inner,
                           uint64_t clock,
                           struct entry *entry)
{
    size_t n = 3;
    entry[0] = (struct entry){.key = "clock"};
    snprintf(entry[0].value, sizeof entry->value, "%" PRIu64, clock);
    entry[1] = (struct entry){.key = "optimizer"};
    snprintf(entry[1].value, sizeof entry->value, "%s", inner->optimizer->name);
    entry[2] = (struct entry){.key = "updates"};
    snprintf(entry[2].value, sizeof entry->value, "%" PRIu64, *inner->updates);
    for (size_t key = 0; key < rank->keys; key++) {
        if (inner->skipped[key] == 0)
            continue;
        skipped_name_of(rank, key, entry[n].key);
        snprintf(entry[n].value, sizeof entry->value, "%" PRIu64,
                 inner->skipped[key]);
        n++;
    }
    return n;
}

static enum gw_status make_header(const struct gw_rank *rank,
                                  struct gw_inner *inner,
                                  uint64_t clock,
                                  struct gw_error *error)
{
    size_t keys = rank->keys, n = inner->optimizer->states * keys;
    struct gw_tensor_spec *tensors = calloc(n + 1, sizeof *tensors);
    char(*names)[NAME_MAX_BYTES] = calloc(n + 1, sizeof *names);
    struct entry *entry = calloc(3 + keys, sizeof *entry);
    struct gw_metadata *metadata = calloc(3 + keys, sizeof *metadata);
    enum gw_status status = GW_ENOMEM;
    if (!tensors || !names || !entry || !metadata) {
        gw_fail(error, status, "no memory for a checkpoint's header");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        const struct gw_key *key = &rank->key[i % keys];
        name_of(rank, inner, (unsigned)(i / keys), i % keys, names[i]);
        tensors[i] = (struct gw_tensor_spec){
            .name = names[i], .dims = key->dims, .shape = key->shape};
    }
    size_t entries = make_entries(rank, inner, clock, entry);
    for (size_t i = 0; i < entries; i++)
        metadata[i] = (struct gw_metadata){entry[i].key, entry[i].value};
    gw_safetensors_header_free(&inner->header);
    status = gw_safetensors_header_make(tensors, n, metadata, entries,
                                        &inner->header, error);
out:
    free(tensors);
    free(names);
    free(entry);
    free(metadata);
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

/* 0: the text is no count. */
static int read_count(const char *text, uint64_t *count_p)
{
    char *end = NULL;
    if (!text || !isdigit((unsigned char)text[0]))
        return 0;
    *count_p = strtoull(text, &end, 10);
    return *end == '\0';
}

/* The updates that had no gradient of a key: none where none are told. */
static enum gw_status read_skipped(const struct gw_rank *rank,
                                   const struct gw_inner *inner,
                                   const char *file,
                                   const struct gw_safetensors *tensors)
{
    for (size_t key = 0; key < rank->keys; key++) {
        char name[NAME_MAX_BYTES];
        skipped_name_of(rank, key, name);
        const char *told = gw_safetensors_metadata(tensors, name);
        inner->skipped[key] = 0;
        if (told && (!read_count(told, &inner->skipped[key]) ||
                     inner->skipped[key] > *inner->updates))
            return gw_fail(rank->error, GW_ECORRUPT,
                           "%s: %s is no part of the updates", file, name);
    }
    return GW_OK;
}

/* Reads the updates that the optimizer had made; it must be this one. */
static enum gw_status read_updates(const struct gw_rank *rank,
                                   const struct gw_inner *inner,
                                   const char *file,
                                   const struct gw_safetensors *tensors)
{
    const char *optimizer = gw_safetensors_metadata(tensors, "optimizer");
    const char *updates = gw_safetensors_metadata(tensors, "updates");
    if (!optimizer || strcmp(optimizer, inner->optimizer->name) != 0)
        return gw_fail(rank->error, GW_EMISMATCH, "%s is not the state of %s",
                       file, inner->optimizer->name);
    if (!read_count(updates, inner->updates))
        return gw_fail(rank->error, GW_ECORRUPT,
                       "%s does not say how many updates were made", file);
    return read_skipped(rank, inner, file, tensors);
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
