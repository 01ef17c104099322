#include "config.h"

#include "server/policy/splits.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16

/* In every line that tells of a split, and in few others. */
#define MARK "\"split_weights\""

void gw_splits_free(struct gw_splits *splits)
{
    free(splits->clock);
    free(splits->weight);
    *splits = (struct gw_splits){0};
}

static enum gw_status make_room(struct gw_splits *splits)
{
    if (splits->n < splits->room)
        return GW_OK;
    size_t room = splits->room ? 2 * splits->room : ROOM_FIRST;
    uint64_t *clock = realloc(splits->clock, room * sizeof *clock);
    if (!clock)
        return GW_ENOMEM;
    splits->clock = clock;
    uint32_t *weight =
        realloc(splits->weight, room * splits->ranks * sizeof *weight);
    if (!weight)
        return GW_ENOMEM;
    splits->weight = weight;
    splits->room = room;
    return GW_OK;
}

enum gw_status
gw_splits_add(struct gw_splits *splits, uint64_t clock, const uint32_t *weight)
{
    while (splits->n > 0 && splits->clock[splits->n - 1] >= clock)
        splits->n--;
    if ((splits->n + 1) * splits->ranks > GW_SPLITS_WEIGHTS_MAX)
        return GW_ERANGE;
    if (make_room(splits) != GW_OK)
        return GW_ENOMEM;
    splits->clock[splits->n] = clock;
    memcpy(splits->weight + splits->n * splits->ranks, weight,
           splits->ranks * sizeof *weight);
    splits->n++;
    return GW_OK;
}

const uint32_t *gw_splits_at(const struct gw_splits *splits, uint64_t clock)
{
    size_t low = 0, high = splits->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (splits->clock[middle] <= clock)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? splits->weight + (low - 1) * splits->ranks : NULL;
}

/* ---- the file ---- */

struct reader {
    const char *path;
    struct gw_splits *splits;
    struct gw_error *error;
    uint32_t *weight; /* [ranks] */
    uint64_t line;
};

static enum gw_status damaged(const struct reader *reader, const char *why)
{
    return gw_fail(reader->error, GW_ECORRUPT,
                   "train.split_from: %s:%" PRIu64 ": %s", reader->path,
                   reader->line, why);
}

static enum gw_status take_weights(struct reader *reader, json_t *weights)
{
    uint32_t ranks = reader->splits->ranks;
    if (json_array_size(weights) != ranks)
        return gw_fail(reader->error, GW_EMISMATCH,
                       "train.split_from: %s:%" PRIu64
                       ": a split of %zu workers, this job has %u",
                       reader->path, reader->line, json_array_size(weights),
                       ranks);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        json_int_t weight = json_integer_value(json_array_get(weights, rank));
        if (weight < 0 || weight > GW_SPLIT_TOTAL)
            return damaged(reader, "a weight is out of range");
        reader->weight[rank] = (uint32_t)weight;
    }
    if (!gw_split_is_whole(reader->weight, ranks))
        return damaged(reader, "the weights do not add up to 1048576");
    return GW_OK;
}

static enum gw_status take_split(struct reader *reader, json_t *object)
{
    json_t *step = json_object_get(object, "split_step");
    json_t *weights = json_object_get(object, "split_weights");
    if (!weights)
        return GW_OK; /* the mark was somewhere else */
    if (!json_is_integer(step) || json_integer_value(step) < 0 ||
        !json_is_array(weights))
        return damaged(reader, "no split of a run's --json");
    enum gw_status status = take_weights(reader, weights);
    if (status != GW_OK)
        return status;
    status = gw_splits_add(reader->splits, (uint64_t)json_integer_value(step),
                           reader->weight);
    if (status == GW_ERANGE)
        return gw_fail(reader->error, status,
                       "train.split_from: %s:%" PRIu64
                       ": more than %zu splits of %u workers",
                       reader->path, reader->line,
                       GW_SPLITS_WEIGHTS_MAX / reader->splits->ranks,
                       reader->splits->ranks);
    if (status != GW_OK)
        return gw_fail(reader->error, status, "no memory for splits");
    return GW_OK;
}

static enum gw_status take_line(struct reader *reader, const char *text)
{
    json_error_t why;
    reader->line++;
    if (!strstr(text, MARK))
        return GW_OK;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!object)
        return damaged(reader, why.text[0] ? why.text : "no memory to read it");
    enum gw_status status = take_split(reader, object);
    json_decref(object);
    return status;
}

/* Every whole line of the n bytes; returns how many bytes they have. Bytes
   without a newline at their end are the last line, or the beginning of one. */
static enum gw_status
take_lines(struct reader *reader, char *text, size_t n, int last, size_t *used)
{
    enum gw_status status = GW_OK;
    *used = 0;
    while (status == GW_OK && *used < n) {
        char *end = memchr(text + *used, '\n', n - *used);
        if (!end && !last)
            break;
        if (!end)
            end = text + n; /* there is room for a byte more */
        *end = '\0';
        status = take_line(reader, text + *used);
        *used = (size_t)(end - text) + 1;
    }
    if (*used > n)
        *used = n;
    return status;
}

static enum gw_status
read_lines(struct reader *reader, struct gw_disk *disk, struct gw_file *file)
{
    uint64_t bytes, at = 0;
    size_t kept = 0, used;
    enum gw_status status = disk->ops->size(file, &bytes, reader->error);
    char *text = malloc(GW_SPLITS_LINE_MAX + 1);
    if (!text)
        return gw_fail(reader->error, GW_ENOMEM, "no memory for splits");
    while (status == GW_OK && at < bytes) {
        size_t room = GW_SPLITS_LINE_MAX - kept;
        size_t n = bytes - at < room ? (size_t)(bytes - at) : room;
        status = disk->ops->read(file, at, text + kept, n, reader->error);
        at += n;
        if (status == GW_OK)
            status = take_lines(reader, text, kept + n, at == bytes, &used);
        if (status != GW_OK)
            break;
        kept += n - used;
        memmove(text, text + used, kept);
        if (kept == GW_SPLITS_LINE_MAX) {
            reader->line++;
            status = damaged(reader, "the line is too long");
        }
    }
    free(text);
    return status;
}

enum gw_status gw_splits_read(struct gw_disk *disk,
                              const char *path,
                              uint32_t ranks,
                              uint64_t first,
                              struct gw_splits *splits,
                              struct gw_error *error)
{
    struct gw_file *file;
    struct reader reader = {.path = path, .splits = splits, .error = error};
    *splits = (struct gw_splits){.ranks = ranks};
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_READ, &file, error);
    if (status != GW_OK) {
        gw_fail_in(error, "train.split_from");
        return status;
    }
    reader.weight = calloc(ranks, sizeof *reader.weight);
    status = reader.weight ? read_lines(&reader, disk, file)
                           : gw_fail(error, GW_ENOMEM, "no memory for splits");
    disk->ops->close(file, NULL);
    free(reader.weight);
    if (status == GW_OK && splits->n > 0 && !gw_splits_at(splits, first))
        status = gw_fail(error, GW_EUSAGE,
                         "train.split_from: %s begins at step %" PRIu64
                         ", this run at step %" PRIu64,
                         path, splits->clock[0], first);
    if (status == GW_OK && splits->n == 0)
        status = gw_fail(error, GW_EUSAGE,
                         "train.split_from: %s has no split in it; take the "
                         "file of --json of a run with train.split = speed",
                         path);
    return status;
}
