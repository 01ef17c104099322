#include "config.h"

#include "server/checkpoint/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "server/checkpoint/json.h"

#define FORMAT 1

void gw_manifest_free(struct gw_manifest *manifest)
{
    free(manifest->keys);
    free(manifest->job);
    free(manifest->files);
    free(manifest->ranks);
    *manifest = (struct gw_manifest){0};
}

/*
 * Everything of jansson's that needs memory is checked: half a manifest looks
 * whole, and one that could not be read must not be taken for a damaged one.
 */

/* ---- printing ---- */

/* The array, or NULL where one of its elements is missing. */
static json_t *whole_or_none(json_t *array, int failed)
{
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *print_state(const struct gw_decision_state *state)
{
    return json_pack(
        "{s:I, s:I, s:f, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "clock",
        (json_int_t)state->clock, "applied", (json_int_t)state->applied,
        "loss_scale", state->loss_scale, "good_steps",
        (json_int_t)state->good_steps, "skipped_in_a_row",
        (json_int_t)state->skipped_in_a_row, "best_loss", state->best_loss,
        "best_clock", (json_int_t)state->best_clock, "evaluations",
        (json_int_t)state->evaluations, "evaluations_without_progress",
        (json_int_t)state->evaluations_without_progress, "pushes",
        (json_int_t)state->pushes);
}

/* The job's position in its data, and the course that led there. */
static json_t *print_data(const struct gw_manifest *manifest)
{
    const struct gw_course *course = &manifest->course;
    const struct gw_course_step at =
        gw_course_at(course, manifest->state.clock);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I}}", "epoch",
        (json_int_t)at.epoch, "sample", (json_int_t)at.first, "samples",
        (json_int_t)course->samples, "global_batch", (json_int_t)course->batch,
        "since", "clock", (json_int_t)course->clock, "epoch",
        (json_int_t)course->epoch, "sample", (json_int_t)course->sample);
}

static json_t *print_shape(const struct gw_key *key)
{
    json_t *shape = json_array();
    int failed = 0;
    for (uint8_t d = 0; d < key->dims; d++)
        failed |= json_array_append_new(
            shape, json_integer((json_int_t)key->shape[d]));
    return whole_or_none(shape, failed);
}

static json_t *print_keys(const struct gw_manifest *manifest)
{
    json_t *keys = json_array();
    int failed = 0;
    for (size_t i = 0; i < manifest->n_keys; i++) {
        const struct gw_key *key = &manifest->keys[i];
        json_t *one = json_pack("{s:s, s:i, s:o}", "name", key->name, "dtype",
                                key->dtype, "shape", print_shape(key));
        /* left out where it is 0, as before there were groups */
        if (key->group > 0)
            failed |=
                json_object_set_new(one, "group", json_integer(key->group));
        if (key->rule > 0)
            failed |= json_object_set_new(one, "rule", json_integer(key->rule));
        failed |= json_array_append_new(keys, one);
    }
    return whole_or_none(keys, failed);
}

static json_t *print_files(const struct gw_manifest *manifest)
{
    json_t *files = json_array();
    int failed = 0;
    for (size_t i = 0; i < manifest->n_files; i++) {
        const struct gw_manifest_file *file = &manifest->files[i];
        char hex[2 * GW_DIGEST_BYTES + 1];
        gw_digest_hex(file->sha256, hex);
        failed |= json_array_append_new(
            files, json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes",
                             (json_int_t)file->bytes, "sha256", hex));
    }
    return whole_or_none(files, failed);
}

static json_t *print_ranks(const struct gw_manifest *manifest)
{
    json_t *ranks = json_array();
    int failed = 0;
    for (size_t i = 0; i < manifest->n_ranks; i++) {
        const struct gw_manifest_rank *rank = &manifest->ranks[i];
        json_t *one = json_pack("{s:I, s:s, s:I}", "data_cursor",
                                (json_int_t)rank->data_cursor, "device",
                                rank->device, "split", (json_int_t)rank->split);
        /* left out where there is none, as before there could be one */
        if (rank->inner[0])
            failed |=
                json_object_set_new(one, "inner", json_string(rank->inner));
        if (rank->tuned[0])
            failed |=
                json_object_set_new(one, "tuned", json_string(rank->tuned));
        failed |= json_array_append_new(ranks, one);
    }
    return whole_or_none(ranks, failed);
}

/* The digest is over the body as it is printed compactly, in its order. */
static int digest_body(const json_t *body, char hex[2 * GW_DIGEST_BYTES + 1])
{
    char *text = gw_json_dump(body, JSON_COMPACT);
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
        "{s:i, s:s, s:o, s:b, s:s, s:o, s:s, s:s, s:s, s:o, s:o}", "format",
        FORMAT, "program", PACKAGE_VERSION, "state",
        print_state(&manifest->state), "best", manifest->best, "keys_hash",
        hash, "keys", print_keys(manifest), "optimizer", manifest->optimizer,
        "policy", manifest->policy, "job", manifest->job ? manifest->job : "",
        "files", print_files(manifest), "ranks", print_ranks(manifest));
    char *text = NULL;
    /* left out where nothing is known of the data */
    if (body && manifest->course.batch > 0 &&
        json_object_set_new(body, "data", print_data(manifest)) != 0) {
        json_decref(body);
        return NULL;
    }
    if (body && digest_body(body, hex)) {
        json_t *whole = json_pack("{s:O, s:s}", "body", body, "sha256", hex);
        if (whole)
            text = gw_json_dump(whole, JSON_INDENT(1));
        json_decref(whole);
    }
    json_decref(body);
    return text;
}

/* ---- parsing ---- */

static enum gw_status parse_state(json_t *from, struct gw_decision_state *state)
{
    json_int_t n[8];
    double loss_scale, best_loss;
    enum gw_status status = gw_json_unpack(
        from, "{s:I, s:I, s:F, s:I, s:I, s:F, s:I, s:I, s:I, s:I}", "clock",
        &n[0], "applied", &n[1], "loss_scale", &loss_scale, "good_steps", &n[2],
        "skipped_in_a_row", &n[3], "best_loss", &best_loss, "best_clock", &n[4],
        "evaluations", &n[5], "evaluations_without_progress", &n[6], "pushes",
        &n[7]);
    if (status != GW_OK)
        return status;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        if (n[i] < 0)
            return GW_ECORRUPT;
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
        .pushes = (uint64_t)n[7],
    };
    return GW_OK;
}

/* Two ways to say one place: they must agree. Earlier versions said neither. */
static enum gw_status parse_data(json_t *from, struct gw_manifest *manifest)
{
    json_int_t n[7];
    if (!from)
        return GW_OK;
    enum gw_status status = gw_json_unpack(
        from, "{s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I}}", "epoch", &n[0],
        "sample", &n[1], "samples", &n[2], "global_batch", &n[3], "since",
        "clock", &n[4], "epoch", &n[5], "sample", &n[6]);
    if (status != GW_OK)
        return status;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        if (n[i] < 0)
            return GW_ECORRUPT;
    const struct gw_course course = {.clock = (uint64_t)n[4],
                                     .epoch = (uint64_t)n[5],
                                     .sample = (uint64_t)n[6],
                                     .batch = (uint64_t)n[3],
                                     .samples = (uint64_t)n[2]};
    const struct gw_course_step at =
        gw_course_at(&course, manifest->state.clock);
    if (!gw_course_is_valid(&course) || course.batch == 0 ||
        course.clock > manifest->state.clock || at.epoch != (uint64_t)n[0] ||
        at.first != (uint64_t)n[1])
        return GW_ECORRUPT;
    manifest->course = course;
    return GW_OK;
}

static enum gw_status parse_key(json_t *from, struct gw_key *key)
{
    const char *name;
    int dtype, group = 0, rule = 0;
    json_t *shape;
    enum gw_status status = gw_json_unpack(
        from, "{s:s, s:i, s:o, s?:i, s?:i}", "name", &name, "dtype", &dtype,
        "shape", &shape, "group", &group, "rule", &rule);
    if (status != GW_OK)
        return status;
    if (strlen(name) >= sizeof key->name || dtype < 0 || dtype > UINT8_MAX ||
        group < 0 || group >= GW_KEY_GROUPS_MAX || rule < 0 ||
        rule >= GW_KEY_RULES || !json_is_array(shape) ||
        json_array_size(shape) > GW_KEY_DIMS_MAX)
        return GW_ECORRUPT;
    strcpy(key->name, name);
    key->dtype = (uint8_t)dtype;
    key->group = (uint32_t)group;
    key->rule = (uint8_t)rule;
    key->dims = (uint8_t)json_array_size(shape);
    for (size_t d = 0; d < key->dims; d++) {
        json_t *size = json_array_get(shape, d);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return GW_ECORRUPT;
        key->shape[d] = (uint64_t)json_integer_value(size);
    }
    return GW_OK;
}

static enum gw_status parse_keys(json_t *from, struct gw_manifest *manifest)
{
    enum gw_status status = GW_OK;
    if (!json_is_array(from) || json_array_size(from) > GW_KEYS_MAX)
        return GW_ECORRUPT;
    manifest->n_keys = json_array_size(from);
    manifest->keys = calloc(manifest->n_keys + 1, sizeof *manifest->keys);
    if (!manifest->keys)
        return GW_ENOMEM;
    for (size_t i = 0; i < manifest->n_keys && status == GW_OK; i++)
        status = parse_key(json_array_get(from, i), &manifest->keys[i]);
    if (status == GW_OK &&
        manifest->keys_hash != gw_keys_hash(manifest->keys, manifest->n_keys))
        status = GW_ECORRUPT;
    return status;
}

static enum gw_status parse_file(json_t *from, struct gw_manifest_file *file)
{
    const char *name, *hex;
    json_int_t bytes;
    enum gw_status status =
        gw_json_unpack(from, "{s:s, s:I, s:s}", "name", &name, "bytes", &bytes,
                       "sha256", &hex);
    if (status != GW_OK)
        return status;
    /* a name, not a path: nothing outside of the checkpoint is opened */
    if (strlen(name) >= sizeof file->name || strchr(name, '/') ||
        name[0] == '.' || name[0] == '\0' || bytes < 0 ||
        !gw_digest_from_hex(hex, file->sha256))
        return GW_ECORRUPT;
    strcpy(file->name, name);
    file->bytes = (uint64_t)bytes;
    return GW_OK;
}

static enum gw_status parse_files(json_t *from, struct gw_manifest *manifest)
{
    enum gw_status status = GW_OK;
    if (!json_is_array(from))
        return GW_ECORRUPT;
    manifest->n_files = json_array_size(from);
    manifest->files = calloc(manifest->n_files + 1, sizeof *manifest->files);
    if (!manifest->files)
        return GW_ENOMEM;
    for (size_t i = 0; i < manifest->n_files && status == GW_OK; i++)
        status = parse_file(json_array_get(from, i), &manifest->files[i]);
    return status;
}

static enum gw_status parse_rank(json_t *from, struct gw_manifest_rank *rank)
{
    const char *device, *inner = "", *tuned = "";
    json_int_t cursor, split = 0;
    /* earlier versions divided evenly, and did not say so */
    enum gw_status status = gw_json_unpack(
        from, "{s:I, s:s, s?:s, s?:s, s?:I}", "data_cursor", &cursor, "device",
        &device, "inner", &inner, "tuned", &tuned, "split", &split);
    if (status != GW_OK)
        return status;
    if (cursor < 0 || split < 0 || split > UINT32_MAX ||
        strlen(inner) >= sizeof rank->inner ||
        strlen(tuned) >= sizeof rank->tuned)
        return GW_ECORRUPT;
    rank->data_cursor = (uint64_t)cursor;
    rank->split = (uint32_t)split;
    snprintf(rank->device, sizeof rank->device, "%s", device);
    strcpy(rank->inner, inner);
    strcpy(rank->tuned, tuned);
    return GW_OK;
}

static enum gw_status parse_ranks(json_t *from, struct gw_manifest *manifest)
{
    enum gw_status status = GW_OK;
    if (!json_is_array(from))
        return GW_ECORRUPT;
    manifest->n_ranks = json_array_size(from);
    manifest->ranks = calloc(manifest->n_ranks + 1, sizeof *manifest->ranks);
    if (!manifest->ranks)
        return GW_ENOMEM;
    for (size_t i = 0; i < manifest->n_ranks && status == GW_OK; i++)
        status = parse_rank(json_array_get(from, i), &manifest->ranks[i]);
    return status;
}

/* Sets *field_p to the field that is looked at, for a line about it. */
static enum gw_status
parse_body(json_t *body, struct gw_manifest *manifest, const char **field_p)
{
    const char *hash, *optimizer, *policy = "", *job, *program;
    json_t *state, *data = NULL, *keys, *files, *ranks;
    int format;
    char *end;
    *field_p = "body";
    enum gw_status status = gw_json_unpack(
        body, "{s:i, s:s, s:o, s:b, s:s, s:o, s:s, s?:s, s:s, s:o, s:o, s?:o}",
        "format", &format, "program", &program, "state", &state, "best",
        &manifest->best, "keys_hash", &hash, "keys", &keys, "optimizer",
        &optimizer, "policy", &policy, "job", &job, "files", &files, "ranks",
        &ranks, "data", &data);
    if (status != GW_OK)
        return status;
    *field_p = "format";
    if (format != FORMAT)
        return GW_ECORRUPT;
    *field_p = "keys";
    manifest->keys_hash = strtoull(hash, &end, 16);
    status = *end ? GW_ECORRUPT : parse_keys(keys, manifest);
    if (status != GW_OK)
        return status;
    *field_p = "optimizer";
    if (strlen(optimizer) >= sizeof manifest->optimizer)
        return GW_ECORRUPT;
    strcpy(manifest->optimizer, optimizer);
    *field_p = "policy";
    if (strlen(policy) >= sizeof manifest->policy)
        return GW_ECORRUPT;
    strcpy(manifest->policy, policy);
    *field_p = "job";
    manifest->job = strdup(job);
    if (!manifest->job)
        return GW_ENOMEM;
    *field_p = "state";
    status = parse_state(state, &manifest->state);
    if (status != GW_OK)
        return status;
    *field_p = "data";
    status = parse_data(data, manifest);
    if (status != GW_OK)
        return status;
    *field_p = "files";
    status = parse_files(files, manifest);
    if (status != GW_OK)
        return status;
    *field_p = "ranks";
    return parse_ranks(ranks, manifest);
}

static enum gw_status
parse_whole(json_t *whole, struct gw_manifest *manifest, const char **field_p)
{
    char hex[2 * GW_DIGEST_BYTES + 1];
    const char *digest;
    json_t *body;
    *field_p = "body";
    enum gw_status status =
        gw_json_unpack(whole, "{s:o, s:s}", "body", &body, "sha256", &digest);
    if (status != GW_OK)
        return status;
    *field_p = "sha256";
    if (!digest_body(body, hex))
        return GW_ENOMEM;
    if (strcmp(hex, digest) != 0)
        return GW_ECORRUPT;
    return parse_body(body, manifest, field_p);
}

enum gw_status gw_manifest_parse(const char *file,
                                 const char *text,
                                 size_t bytes,
                                 struct gw_manifest *manifest,
                                 struct gw_error *error)
{
    struct gw_manifest result = {0};
    const char *field;
    json_t *whole;
    enum gw_status status = gw_json_load(file, text, bytes, &whole, error);
    if (status != GW_OK)
        return status;
    status = parse_whole(whole, &result, &field);
    json_decref(whole);
    if (status != GW_OK)
        gw_manifest_free(&result);
    if (status == GW_ENOMEM)
        return gw_fail(error, status, "%s: no memory to read it", file);
    if (status != GW_OK)
        return gw_fail(error, status, "%s: \"%s\" is damaged", file, field);
    *manifest = result;
    return GW_OK;
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
