/* CIFAR-10 binary: records of a label and the planes R, G, B of 32 x 32. */
#include "config.h"

#include "worker/data/dataset_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define CIFAR_CHANNELS     3
#define CIFAR_SIDE         32
#define CIFAR_PIXELS       (CIFAR_CHANNELS * CIFAR_SIDE * CIFAR_SIDE)
#define CIFAR_RECORD_BYTES (1 + CIFAR_PIXELS)
#define CIFAR_CLASSES      10
#define CIFAR_TRAIN_FILES  5

static enum gw_status check(const struct gw_data_file *file,
                            struct gw_error *error)
{
    size_t rest = file->n % CIFAR_RECORD_BYTES;
    if (file->n == 0 || rest != 0)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its %zu bytes are not whole records of %d, the "
                       "last has %zu; " GW_DATA_ADVICE_AGAIN
                       ", or check data.format",
                       file->name, file->n, CIFAR_RECORD_BYTES, rest);
    return GW_OK;
}

/* Labels of one file; its first sample is sample `first` of the set. */
static enum gw_status read_labels(struct gw_dataset *set,
                                  const struct gw_data_file *file,
                                  uint64_t first,
                                  struct gw_error *error)
{
    enum gw_status status = GW_OK;
    size_t records = file->n / CIFAR_RECORD_BYTES;
    for (size_t i = 0; status == GW_OK && i < records; i++)
        status = gw_data_label_set(set, file->name, first + i,
                                   file->bytes[i * CIFAR_RECORD_BYTES],
                                   CIFAR_CLASSES, error);
    return status;
}

static enum gw_status read_set(struct gw_dataset *set,
                               const struct gw_config *config,
                               struct gw_error *error)
{
    (void)config;
    enum gw_status status = GW_OK;
    set->pixel = GW_PIXEL_U8;
    set->shape.channels = CIFAR_CHANNELS;
    set->shape.height = CIFAR_SIDE;
    set->shape.width = CIFAR_SIDE;
    for (size_t f = 0; f < set->files; f++) {
        const struct gw_data_file *file = &set->file[f];
        status = check(file, error);
        if (status != GW_OK)
            return status;
        set->run[f] =
            (struct gw_data_run){.pixels = file->bytes + 1,
                                 .samples = file->n / CIFAR_RECORD_BYTES,
                                 .stride = CIFAR_RECORD_BYTES};
        set->shape.samples += set->run[f].samples;
    }
    set->runs = set->files;

    uint64_t first = 0;
    status = gw_data_labels_create(set, error);
    for (size_t f = 0; status == GW_OK && f < set->files; f++) {
        status = read_labels(set, &set->file[f], first, error);
        first += set->run[f].samples;
    }
    return status;
}

static enum gw_status locate(const struct gw_path_list *names,
                             enum gw_dataset_part part,
                             struct gw_data_paths *paths,
                             struct gw_error *error)
{
    struct stat about;
    if (names->n != 1 || stat(gw_path_at(names, 0), &about) != 0 ||
        !S_ISDIR(about.st_mode))
        return gw_data_locate_files(names, paths, error);
    if (part == GW_DATASET_TEST) {
        paths->n = 1;
        snprintf(paths->path[0], GW_DATA_PATH_MAX, "%s/test_batch.bin",
                 gw_path_at(names, 0));
        return GW_OK;
    }
    paths->n = CIFAR_TRAIN_FILES;
    for (int f = 0; f < CIFAR_TRAIN_FILES; f++)
        snprintf(paths->path[f], GW_DATA_PATH_MAX, "%s/data_batch_%d.bin",
                 gw_path_at(names, 0), f + 1);
    return GW_OK;
}

const struct gw_data_reader gw_data_cifar10 = {
    .name = "cifar10",
    .size = NULL, /* no header that would say */
    .locate = locate,
    .read = read_set,
};
