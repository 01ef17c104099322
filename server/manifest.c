#include "config.h"

#include "server/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"

#define FORMAT 1

void gw_manifest_free(struct gw_manifest *manifest)
{
    free(manifest->keys);
    free(manifest->job);
    free(manifest->files);
    free(manifest->ranks);
    *manifest = (struct gw_manifest){0};
}

/* ---- printing ---- */

static json_t *print_state(const struct gw_decision_state *state)
{
    return json_pack(
        "{s:I, s:I, s:f, s:I, s:I, s:f, s:I, s:I, s:I}", "clock",
        (json_int_t)state->clock, "applied", (json_int_t)state->applied,
        "loss_scale", state->loss_scale, "good_steps",
        (json_int_t)state->good_steps, "skipped_in_a_row",
        (json_int_t)state->skipped_in_a_row, "best_loss", state->best_loss,
        "best_clock", (json_int_t)state->best_clock, "evaluations",
        (json_int_t)state->evaluations, "evaluations_without_progress",
        (json_int_t)state->evaluations_without_progress);
}

static json_t *print_keys(const struct gw_manifest *manifest)
{
    json_t *keys = json_array();
    for (size_t i = 0; i < manifest->n_keys; i++) {
        const struct gw_key *key = &manifest->keys[i];
        json_t *shape = json_array();
        for (uint8_t d = 0; d < key->dims; d++)
            json_array_append_new(shape,
                                  json_integer((json_int_t)key->shape[d]));
        json_array_append_new(keys,
                              json_pack("{s:s, s:i, s:o}", "name", key->name,
                                        "dtype", key->dtype, "shape", shape));
    }
    return keys;
}

static json_t *print_files(const struct gw_manifest *manifest)
{
    json_t *files = json_array();
    for (size_t i = 0; i < manifest->n_files; i++) {
        const struct gw_manifest_file *file = &manifest->files[i];
        char hex[2 * GW_DIGEST_BYTES + 1];
        gw_digest_hex(file->sha256, hex);
        json_array_append_new(
            files, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                             (json_int_t)file->bytes, "sha256", hex));
    }
    return files;
}

static json_t *print_ranks(const struct gw_manifest *manifest)
{
    json_t *ranks = json_array();
    for (size_t i = 0; i < manifest->n_ranks; i++)
        json_array_append_new(
            ranks, json_pack("{s:I, s:s}", "data_cursor",
                             (json_int_t)manifest->ranks[i].data_cursor,
                             "device", manifest->ranks[i].device));
    return ranks;
}

/* The digest is over the body as it is printed compactly, in its order. */
static int digest_body(const json_t *body, char hex[2 * GW_DIGEST_BYTES + 1])
{
    char *text = json_dumps(body, JSON_COMPACT);
    uint8_t out[GW_DIGEST_BYTES];
    if (!text)
        return 0;
    struct gw_digest *digest = gw_digest_begin();
    gw_digest_add(digest, text, strlen(text));
    gw_digest_end(digest, out);
    gw_digest_hex(out, hex);
    free(text);
    return 1;
}

char *gw_manifest_print(const struct gw_manifest *manifest)
{
    char hex[2 * GW_DIGEST_BYTES + 1], hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, manifest->keys_hash);
    json_t *body = json_pack(
        "{s:i, s:s, s:o, s:b, s:s, s:o, s:s, s:s, s:o, s:o}", "format", FORMAT,
        "program", PACKAGE_VERSION, "state", print_state(&manifest->state),
        "best", manifest->best, "keys_hash", hash, "keys", print_keys(manifest),
        "optimizer", manifest->optimizer, "job",
        manifest->job ? manifest->job : "", "files", print_files(manifest),
        "ranks", print_ranks(manifest));
    char *text = NULL;
    if (body && digest_body(body, hex)) {
        json_t *whole = json_pack("{s:O, s:s}", "body", body, "sha256", hex);
        if (whole)
            text = json_dumps(whole, JSON_INDENT(1));
        json_decref(whole);
    }
    json_decref(body);
    return text;
}

/* ---- parsing ---- */

static int parse_hex(const char *hex, uint8_t out[GW_DIGEST_BYTES])
{
    if (strlen(hex) != 2 * GW_DIGEST_BYTES)
        return 0;
    for (size_t i = 0; i < GW_DIGEST_BYTES; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
            return 0;
        out[i] = (uint8_t)byte;
    }
    return 1;
}

static int parse_state(json_t *from, struct gw_decision_state *state)
{
    json_int_t n[7];
    double loss_scale, best_loss;
    if (json_unpack(from, "{s:I, s:I, s:F, s:I, s:I, s:F, s:I, s:I, s:I}",
                    "clock", &n[0], "applied", &n[1], "loss_scale", &loss_scale,
                    "good_steps", &n[2], "skipped_in_a_row", &n[3], "best_loss",
                    &best_loss, "best_clock", &n[4], "evaluations", &n[5],
                    "evaluations_without_progress", &n[6]) != 0)
        return 0;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        if (n[i] < 0)
            return 0;
    *state = (struct gw_decision_state){
        .clock = (uint64_t)n[0],
        .applied = (uint64_t)n[1],
        .loss_scale = loss_scale,
        .good_steps = (uint64_t)n[2],
        .skipped_in_a_row = (uint32_t)n[3],
        .best_loss = best_loss,
        .best_clock = (uint64_t)n[4],
        .evaluations = (uint32_t)n[5],
        .evaluations_without_progress = (uint32_t)n[6],
    };
    return 1;
}

static int parse_key(json_t *from, struct gw_key *key)
{
    const char *name;
    int dtype;
    json_t *shape;
    if (json_unpack(from, "{s:s, s:i, s:o}", "name", &name, "dtype", &dtype,
                    "shape", &shape) != 0 ||
        strlen(name) >= sizeof key->name || dtype < 0 || dtype > UINT8_MAX ||
        !json_is_array(shape) || json_array_size(shape) > GW_KEY_DIMS_MAX)
        return 0;
    strcpy(key->name, name);
    key->dtype = (uint8_t)dtype;
    key->dims = (uint8_t)json_array_size(shape);
    for (size_t d = 0; d < key->dims; d++) {
        json_t *size = json_array_get(shape, d);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return 0;
        key->shape[d] = (uint64_t)json_integer_value(size);
    }
    return 1;
}

static int parse_keys(json_t *from, struct gw_manifest *manifest)
{
    if (!json_is_array(from) || json_array_size(from) > GW_KEYS_MAX)
        return 0;
    manifest->n_keys = json_array_size(from);
    manifest->keys = calloc(manifest->n_keys + 1, sizeof *manifest->keys);
    if (!manifest->keys)
        return 0;
    for (size_t i = 0; i < manifest->n_keys; i++)
        if (!parse_key(json_array_get(from, i), &manifest->keys[i]))
            return 0;
    return manifest->keys_hash ==
           gw_keys_hash(manifest->keys, manifest->n_keys);
}

static int parse_files(json_t *from, struct gw_manifest *manifest)
{
    if (!json_is_array(from))
        return 0;
    manifest->n_files = json_array_size(from);
    manifest->files = calloc(manifest->n_files + 1, sizeof *manifest->files);
    if (!manifest->files)
        return 0;
    for (size_t i = 0; i < manifest->n_files; i++) {
        struct gw_manifest_file *file = &manifest->files[i];
        const char *name, *hex;
        json_int_t bytes;
        /* a name, not a path: nothing outside of the checkpoint is opened */
        if (json_unpack(json_array_get(from, i), "{s:s, s:I, s:s}", "name",
                        &name, "bytes", &bytes, "sha256", &hex) != 0 ||
            strlen(name) >= sizeof file->name || strchr(name, '/') ||
            name[0] == '.' || name[0] == '\0' || bytes < 0 ||
            !parse_hex(hex, file->sha256))
            return 0;
        strcpy(file->name, name);
        file->bytes = (uint64_t)bytes;
    }
    return 1;
}

static int parse_ranks(json_t *from, struct gw_manifest *manifest)
{
    if (!json_is_array(from))
        return 0;
    manifest->n_ranks = json_array_size(from);
    manifest->ranks = calloc(manifest->n_ranks + 1, sizeof *manifest->ranks);
    if (!manifest->ranks)
        return 0;
    for (size_t i = 0; i < manifest->n_ranks; i++) {
        struct gw_manifest_rank *rank = &manifest->ranks[i];
        const char *device;
        json_int_t cursor;
        if (json_unpack(json_array_get(from, i), "{s:I, s:s}", "data_cursor",
                        &cursor, "device", &device) != 0 ||
            cursor < 0)
            return 0;
        rank->data_cursor = (uint64_t)cursor;
        snprintf(rank->device, sizeof rank->device, "%s", device);
    }
    return 1;
}

/* The name of the first field that is not as it should be, or NULL. */
static const char *parse_body(json_t *body, struct gw_manifest *manifest)
{
    const char *hash, *optimizer, *job, *program;
    json_t *state, *keys, *files, *ranks;
    int format;
    char *end;
    if (json_unpack(body, "{s:i, s:s, s:o, s:b, s:s, s:o, s:s, s:s, s:o, s:o}",
                    "format", &format, "program", &program, "state", &state,
                    "best", &manifest->best, "keys_hash", &hash, "keys", &keys,
                    "optimizer", &optimizer, "job", &job, "files", &files,
                    "ranks", &ranks) != 0)
        return "body";
    if (format != FORMAT)
        return "format";
    manifest->keys_hash = strtoull(hash, &end, 16);
    if (*end || !parse_keys(keys, manifest))
        return "keys";
    if (strlen(optimizer) >= sizeof manifest->optimizer)
        return "optimizer";
    strcpy(manifest->optimizer, optimizer);
    manifest->job = strdup(job);
    if (!parse_state(state, &manifest->state))
        return "state";
    if (!parse_files(files, manifest))
        return "files";
    if (!parse_ranks(ranks, manifest))
        return "ranks";
    return manifest->job ? NULL : "job";
}

enum gw_status gw_manifest_parse(const char *file,
                                 const char *text,
                                 size_t bytes,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error)
{
    struct gw_manifest result = {0};
    char hex[2 * GW_DIGEST_BYTES + 1];
    const char *digest = NULL, *wrong = NULL;
    json_t *body = NULL;
    json_error_t where;
    json_t *whole = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &where);
    if (!whole)
        return gw_fail(error, GW_ECORRUPT, "%s:%d: %s", file, where.line,
                       where.text);
    if (json_unpack(whole, "{s:o, s:s}", "body", &body, "sha256", &digest) != 0)
        wrong = "body";
    else if (!digest_body(body, hex) || strcmp(hex, digest) != 0)
        wrong = "sha256";
    else
        wrong = parse_body(body, &result);
    if (wrong) {
        gw_fail(error, GW_ECORRUPT, "%s: \"%s\" is damaged", file, wrong);
        gw_manifest_free(&result);
    } else {
        *manifest = result;
    }
    json_decref(whole);
    return wrong ? GW_ECORRUPT : GW_OK;
}

/* ---- names ---- */

void gw_checkpoint_name(uint64_t clock, char name[GW_FILE_NAME_MAX])
{
    snprintf(name, GW_FILE_NAME_MAX, "step-%08" PRIu64, clock);
}

int gw_checkpoint_clock(const char *name, uint64_t *clock_p)
{
    char again[GW_FILE_NAME_MAX];
    if (strncmp(name, "step-", 5) != 0)
        return 0;
    *clock_p = strtoull(name + 5, NULL, 10);
    gw_checkpoint_name(*clock_p, again);
    return strcmp(again, name) == 0;
}

void gw_shard_file_name(uint32_t shard,
                        uint32_t shards,
                        char name[GW_FILE_NAME_MAX])
{
    snprintf(name, GW_FILE_NAME_MAX, "shard-%u-of-%u.safetensors", shard,
             shards);
}

void gw_chunk_tensor_name(const struct gw_map *map,
                          uint32_t chunk,
                          const char *state,
                          char *name,
                          size_t room)
{
    const struct gw_chunk *place = &map->chunk[chunk];
    snprintf(name, room, "%s%s%s[%" PRIu64 ":%" PRIu64 "]", state ? state : "",
             state ? "." : "", map->key[place->key].name, place->key_elem,
             place->key_elem + place->elems);
}
