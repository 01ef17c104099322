#include "config.h"

#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/data/dataset_format.h"

#define BATCH_MAX  4
#define VALUES_MAX ((size_t)1 << 16)

void fuzz_promise(int kept, const char *text)
{
    if (kept)
        return;
    fprintf(stderr, "broken promise: %s\n", text);
    abort();
}

static void check_error(enum gw_status status, const struct gw_error *error)
{
    FUZZ_PROMISE(error->status == status);
    FUZZ_PROMISE(error->text[0] != '\0');
    FUZZ_PROMISE(strchr(error->text, '\n') == NULL);
}

/* Memory of exactly the file's size, so that every overread is seen. */
static enum gw_status open_file(const struct gw_data_reader *reader,
                                const uint8_t *data,
                                size_t n,
                                struct gw_data_file *file,
                                struct gw_error *error)
{
    uint8_t *copy = malloc(n + (n == 0));
    FUZZ_PROMISE(copy != NULL);
    memcpy(copy, data, n);
    enum gw_status status =
        gw_data_file_from_bytes("file", copy, n, reader->size, file, error);
    if (status == GW_OK && file->memory == GW_DATA_BORROWED)
        file->memory = GW_DATA_ALLOCATED;
    else
        free(copy);
    return status;
}

/* Its fault is one line; a label without an output is found, and no
   other. */
static void check_outputs(const struct gw_dataset *set)
{
    struct gw_error error = {.text = ""};
    size_t classes = gw_dataset_shape(set)->classes, least = 2;
    for (enum gw_dataset_note i = 0; i < GW_DATASET_NOTES; i++)
        FUZZ_PROMISE(strchr(gw_dataset_note(set, i), '\n') == NULL);
    FUZZ_PROMISE(gw_dataset_check_labels(set, classes, GW_OUTPUTS_WRITTEN,
                                         &error) == GW_OK);
    if (classes == least)
        return;
    for (int from = GW_OUTPUTS_WRITTEN; from <= GW_OUTPUTS_TRAINED; from++) {
        enum gw_status status = gw_dataset_check_labels(
            set, classes - 1, (enum gw_dataset_outputs)from, &error);
        check_error(status, &error);
        FUZZ_PROMISE(error.status == GW_EUSAGE);
    }
}

/* Every pixel and label once, and both ends of the set as batches. */
static void read_all(const struct gw_dataset *set)
{
    static float x[BATCH_MAX * VALUES_MAX];
    int32_t labels[BATCH_MAX];
    uint8_t digest[GW_DIGEST_BYTES];
    const struct gw_dataset_shape *shape = gw_dataset_shape(set);
    gw_dataset_digest(set, digest);
    check_outputs(set);
    if (shape->channels * shape->height * shape->width > VALUES_MAX)
        return;
    size_t n = shape->samples < BATCH_MAX ? shape->samples : BATCH_MAX;
    struct gw_batch_site sites[] = {
        {.n = n, .train = 1},
        {.n = n, .first = shape->samples - n},
    };
    for (size_t s = 0; s < 2; s++) {
        gw_dataset_batch(set, &sites[s], x, labels);
        for (size_t i = 0; i < n; i++)
            FUZZ_PROMISE(labels[i] >= 0 && (size_t)labels[i] < shape->classes);
    }
}

void fuzz_dataset(const struct gw_data_reader *reader,
                  size_t files,
                  const uint8_t *data,
                  size_t n)
{
    static const struct gw_config config = {
        .data = {.augment = {2, {"crop 1", "flip"}}}};
    static const struct gw_config plain;
    struct gw_data_file file[2];
    struct gw_dataset *set = NULL;
    struct gw_error error = {.text = ""};
    size_t opened = 0, begin = 0, end = n;
    enum gw_status status = GW_OK;
    if (files == 2) {
        if (n < 2)
            return;
        begin = 2;
        end = begin + ((size_t)data[0] | (size_t)data[1] << 8);
        end = end < n ? end : n;
    }
    while (opened < files) {
        status =
            open_file(reader, data + begin, end - begin, &file[opened], &error);
        if (status != GW_OK)
            break;
        opened++;
        begin = end;
        end = n;
    }
    if (status != GW_OK) {
        check_error(status, &error);
        while (opened > 0)
            gw_data_file_close(&file[--opened]);
        return;
    }
    /* both, since images that are too small to crop are refused with it */
    int odd = n % 2 == 1;
    status = gw_dataset_create(odd ? &config : &plain, reader, file, files,
                               &set, &error);
    if (status != GW_OK)
        check_error(status, &error);
    else
        read_all(set);
    gw_dataset_close(set);
}
