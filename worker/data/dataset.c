#include "config.h"

#include "worker/data/dataset_format.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"

#define OUTPUTS_TEXT_BYTES 192

static const struct gw_data_reader *const readers[] = {
    [GW_DATA_IDX] = &gw_data_idx,
    [GW_DATA_CIFAR10] = &gw_data_cifar10,
    [GW_DATA_NPY] = &gw_data_npy,
};

enum gw_status gw_data_locate_files(const struct gw_path_list *names,
                                    struct gw_data_paths *paths,
                                    struct gw_error *error)
{
    if (names->n == 0)
        return gw_fail(error, GW_EUSAGE, "names no file");
    paths->n = names->n;
    for (size_t i = 0; i < names->n; i++)
        snprintf(paths->path[i], GW_DATA_PATH_MAX, "%s", gw_path_at(names, i));
    return GW_OK;
}

void gw_data_note(struct gw_dataset *set,
                  enum gw_dataset_note note,
                  const char *format,
                  ...)
{
    char *text = set->note[note];
    size_t used = strlen(text), room = sizeof set->note[note];
    va_list args;
    if (used > 0)
        snprintf(text + used, room - used, "; ");
    used = strlen(text);
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

const char *gw_dataset_note(const struct gw_dataset *set,
                            enum gw_dataset_note note)
{
    return set->note[note];
}

enum gw_status gw_data_labels_create(struct gw_dataset *set,
                                     struct gw_error *error)
{
    set->shape.classes = 2;
    set->labels = calloc(set->shape.samples, sizeof *set->labels);
    if (!set->labels)
        return gw_fail(error, GW_ENOMEM, "no memory for %" PRIu64 " labels",
                       set->shape.samples);
    return GW_OK;
}

enum gw_status gw_data_label_set(struct gw_dataset *set,
                                 const char *name,
                                 uint64_t sample,
                                 int64_t value,
                                 uint64_t limit,
                                 struct gw_error *error)
{
    if (value < 0 || (uint64_t)value >= limit)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: label %" PRId64 " of sample %" PRIu64
                       " is not within 0..%" PRIu64,
                       name, value, sample, limit - 1);
    set->labels[sample] = (int32_t)value;
    if (set->shape.classes <= (size_t)value)
        set->shape.classes = (size_t)value + 1;
    return GW_OK;
}

/* Messages about samples come later than the caller keeps it. */
static enum gw_status
keep_name(struct gw_dataset *set, size_t file, struct gw_error *error)
{
    set->name[file] = strdup(set->file[file].name);
    if (!set->name[file])
        return gw_fail(error, GW_ENOMEM, "no memory for a data set");
    set->file[file].name = set->name[file];
    return GW_OK;
}

enum gw_status gw_dataset_create(const struct gw_config *config,
                                 const struct gw_data_reader *reader,
                                 const struct gw_data_file *files,
                                 size_t n,
                                 struct gw_dataset **dataset_p,
                                 struct gw_error *error)
{
    enum gw_status status = GW_OK;
    struct gw_dataset *set = calloc(1, sizeof *set);
    if (!set) {
        for (size_t f = 0; f < n; f++) {
            struct gw_data_file file = files[f];
            gw_data_file_close(&file);
        }
        return gw_fail(error, GW_ENOMEM, "no memory for a data set");
    }
    memcpy(set->file, files, n * sizeof *files);
    set->files = n;
    for (size_t f = 0; status == GW_OK && f < n; f++)
        status = keep_name(set, f, error);
    for (size_t f = 0; status == GW_OK && f < n; f++)
        status = gw_data_check_kind(set->file[f].name, set->file[f].bytes,
                                    set->file[f].n, error);
    if (status == GW_OK)
        status = reader->read(set, config, error);
    if (status == GW_OK)
        status = gw_dataset_prepare(set, config, error);
    if (status != GW_OK) {
        gw_dataset_close(set);
        return status;
    }
    *dataset_p = set;
    return GW_OK;
}

typedef enum gw_status open_file_fn(const char *path,
                                    gw_data_size_cb *size,
                                    struct gw_data_file *file,
                                    struct gw_error *error);

/* Every file of a set, or none. */
static enum gw_status open_files(const struct gw_data_reader *reader,
                                 open_file_fn *open_file,
                                 const struct gw_data_paths *paths,
                                 struct gw_data_file *files,
                                 struct gw_error *error)
{
    enum gw_status status = GW_OK;
    size_t n = 0;
    while (n < paths->n) {
        status = open_file(paths->path[n], reader->size, &files[n], error);
        if (status != GW_OK)
            break;
        n++;
    }
    while (status != GW_OK && n > 0)
        gw_data_file_close(&files[--n]);
    return status;
}

static enum gw_status open_set(const struct gw_config *config,
                               enum gw_dataset_part part,
                               open_file_fn *open_file,
                               struct gw_dataset **dataset_p,
                               struct gw_error *error)
{
    const struct gw_data_reader *reader = readers[config->data.format];
    int test = part == GW_DATASET_TEST;
    struct gw_data_paths *paths = calloc(1, sizeof *paths);
    struct gw_data_file files[GW_LIST_MAX];
    if (!paths)
        return gw_fail(error, GW_ENOMEM, "no memory for a data set");

    enum gw_status status = reader->locate(
        test ? &config->data.test : &config->data.train, part, paths, error);
    if (status == GW_OK)
        status = open_files(reader, open_file, paths, files, error);
    if (status == GW_OK)
        status = gw_dataset_create(config, reader, files, paths->n, dataset_p,
                                   error);
    if (status != GW_OK && error)
        gw_fail_in(error, test ? "data.test" : "data.train");
    free(paths);
    return status;
}

enum gw_status gw_dataset_open(const struct gw_config *config,
                               enum gw_dataset_part part,
                               struct gw_dataset **dataset_p,
                               struct gw_error *error)
{
    return open_set(config, part, gw_data_file_open, dataset_p, error);
}

enum gw_status gw_dataset_look(const struct gw_config *config,
                               enum gw_dataset_part part,
                               struct gw_dataset **dataset_p,
                               struct gw_error *error)
{
    return open_set(config, part, gw_data_file_look, dataset_p, error);
}

void gw_dataset_close(struct gw_dataset *dataset)
{
    if (!dataset)
        return;
    for (size_t f = 0; f < dataset->files; f++) {
        gw_data_file_close(&dataset->file[f]);
        free(dataset->name[f]);
    }
    free(dataset->labels);
    free(dataset);
}

enum gw_status gw_dataset_check_alike(const struct gw_dataset *train,
                                      const struct gw_dataset *test,
                                      struct gw_error *error)
{
    const struct gw_dataset_shape *a = &train->shape, *b = &test->shape;
    if (a->channels == b->channels && a->height == b->height &&
        a->width == b->width)
        return GW_OK;
    return gw_fail(error, GW_EMISMATCH,
                   "data.test is %zux%zux%zu, data.train is %zux%zux%zu",
                   b->channels, b->height, b->width, a->channels, a->height,
                   a->width);
}

/* Labels that count from 1 leave the first output without a sample, and have
   one more than there is. */
static int count_from_one(const struct gw_dataset *set, size_t outputs)
{
    for (uint64_t i = 0; i < set->shape.samples; i++)
        if (set->labels[i] == 0)
            return 0;
    return set->shape.classes == outputs + 1;
}

/* The reason for which a label of `set` has no output, and the remedy. */
static void say_outputs(const struct gw_dataset *set,
                        size_t outputs,
                        enum gw_dataset_outputs from,
                        char text[OUTPUTS_TEXT_BYTES])
{
    size_t used;
    if (from == GW_OUTPUTS_ADDED)
        used = (size_t)snprintf(text, OUTPUTS_TEXT_BYTES,
                                "the training set has labels 0 to %zu, for "
                                "which the model has outputs",
                                outputs - 1);
    else
        used = (size_t)snprintf(
            text, OUTPUTS_TEXT_BYTES, "%s %zu outputs, for labels 0 to %zu",
            from == GW_OUTPUTS_WRITTEN ? "model.layers ends in"
                                       : "the model was trained with",
            outputs, outputs - 1);
    text += used;
    if (count_from_one(set, outputs))
        snprintf(text, OUTPUTS_TEXT_BYTES - used,
                 "; these count from 1: write them counting from 0");
    else if (from == GW_OUTPUTS_ADDED)
        snprintf(text, OUTPUTS_TEXT_BYTES - used,
                 "; end model.layers in \"dense %zu\"", set->shape.classes);
    else if (from == GW_OUTPUTS_WRITTEN)
        snprintf(text, OUTPUTS_TEXT_BYTES - used,
                 "; give it as many as there are classes");
}

enum gw_status gw_dataset_check_labels(const struct gw_dataset *set,
                                       size_t outputs,
                                       enum gw_dataset_outputs from,
                                       struct gw_error *error)
{
    char why[OUTPUTS_TEXT_BYTES];
    uint64_t sample = 0, first = 0;
    size_t run = 0;
    if (set->shape.classes <= outputs)
        return GW_OK;
    while (sample < set->shape.samples && (size_t)set->labels[sample] < outputs)
        sample++;
    if (sample == set->shape.samples)
        return GW_OK; /* all of one class, which count as two */
    /* if each file has pixels and labels, samples are counted per file */
    for (; set->runs > 1 && sample - first >= set->run[run].samples; run++)
        first += set->run[run].samples;
    say_outputs(set, outputs, from, why);
    return gw_fail(error, GW_EUSAGE,
                   "%s: sample %" PRIu64 " has label %" PRId32 ", and %s",
                   set->name[set->runs > 1 ? run : set->label_file],
                   sample - first, set->labels[sample], why);
}

const struct gw_dataset_shape *gw_dataset_shape(const struct gw_dataset *set)
{
    return &set->shape;
}

struct gw_dataset_bytes gw_dataset_bytes(const struct gw_dataset *set)
{
    struct gw_dataset_bytes bytes = {.held = set->shape.samples *
                                             sizeof *set->labels};
    uint64_t before = 0;
    for (size_t f = 0; f < set->files; f++) {
        uint64_t now = before + set->file[f].n + set->file[f].packed;
        bytes.opening = now > bytes.opening ? now : bytes.opening;
        before += set->file[f].n;
        if (set->file[f].memory == GW_DATA_ALLOCATED)
            bytes.held += set->file[f].n;
        else if (set->file[f].memory == GW_DATA_MAPPED)
            bytes.mapped += set->file[f].n;
    }
    return bytes;
}

size_t gw_dataset_sample_bytes(const struct gw_dataset *set)
{
    size_t values = set->shape.channels * set->shape.height * set->shape.width;
    return set->pixel == GW_PIXEL_F32 ? values * sizeof(float) : values;
}

const uint8_t *gw_dataset_pixels(const struct gw_dataset *set, uint64_t index)
{
    const struct gw_data_run *run = set->run;
    while (index >= run->samples) {
        index -= run->samples;
        run++;
    }
    return run->pixels + index * run->stride;
}

/* Shape and type, then all pixels, then all labels, all little-endian. */
void gw_dataset_digest(const struct gw_dataset *set,
                       uint8_t out[GW_DIGEST_BYTES])
{
    const struct gw_dataset_shape *shape = &set->shape;
    const uint64_t fields[] = {shape->samples, shape->channels,
                               shape->height,  shape->width,
                               shape->classes, (uint64_t)set->pixel};
    uint8_t bytes[sizeof fields];
    size_t sample_bytes = gw_dataset_sample_bytes(set);
    struct gw_digest *digest = gw_digest_begin();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        gw_put_u64(bytes + 8 * i, fields[i]);
    gw_digest_add(digest, bytes, sizeof bytes);
    for (uint64_t i = 0; i < shape->samples; i++)
        gw_digest_add(digest, gw_dataset_pixels(set, i), sample_bytes);
    for (uint64_t i = 0; i < shape->samples; i++) {
        gw_put_u32(bytes, (uint32_t)set->labels[i]);
        gw_digest_add(digest, bytes, 4);
    }
    gw_digest_end(digest, out);
}
