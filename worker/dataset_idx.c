/* IDX, the format of MNIST: a big-endian header, then bytes. */
#include "config.h"

#include "worker/dataset_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * 0 0 type dims | u32 per dimension, the first is the number of samples | data
 */
#define IDX_TYPE_U8    0x08u
#define IDX_DIMS_MAX   3
#define IDX_IMAGES     0x00000803u
#define IDX_LABELS     0x00000801u
#define IDX_LABELS_MAX 256

struct idx {
    uint32_t magic;
    size_t dims;
    uint64_t shape[IDX_DIMS_MAX];
    size_t header_bytes;
    uint64_t bytes; /* of the whole file */
};

static uint32_t big_endian(const uint8_t *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 |
           (uint32_t)in[2] << 8 | (uint32_t)in[3];
}

/* What the header says, not yet compared with the file. */
static enum gw_status parse(const char *name,
                            const uint8_t *in,
                            size_t n,
                            struct idx *idx,
                            struct gw_error *error)
{
    if (n < 4)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: %zu bytes are too few for an IDX "
                       "header; " GW_DATA_ADVICE_AGAIN,
                       name, n);
    *idx = (struct idx){.magic = big_endian(in)};
    if (idx->magic != IDX_IMAGES && idx->magic != IDX_LABELS)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: begins with 0x%08" PRIx32
                       ", IDX images of bytes begin with 0x%08x and labels "
                       "with 0x%08x; check data.format",
                       name, idx->magic, IDX_IMAGES, IDX_LABELS);
    idx->dims = idx->magic & 0xff;
    idx->header_bytes = 4 + 4 * idx->dims;
    if (n < idx->header_bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: %zu bytes are too few for its header of "
                       "%zu; " GW_DATA_ADVICE_AGAIN,
                       name, n, idx->header_bytes);
    idx->bytes = 1;
    for (size_t i = 0; i < idx->dims; i++) {
        idx->shape[i] = big_endian(in + 4 + 4 * i);
        if (idx->shape[i] == 0)
            return gw_fail(error, GW_ECORRUPT, "%s: its header declares no %s",
                           name, i == 0 ? "samples" : "pixels");
        if (__builtin_mul_overflow(idx->bytes, idx->shape[i], &idx->bytes))
            return gw_fail(error, GW_ECORRUPT,
                           "%s: its header declares more than 2^64 "
                           "bytes; " GW_DATA_ADVICE_AGAIN,
                           name);
    }
    if (__builtin_add_overflow(idx->bytes, idx->header_bytes, &idx->bytes))
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header declares more than 2^64 "
                       "bytes; " GW_DATA_ADVICE_AGAIN,
                       name);
    return GW_OK;
}

static enum gw_status file_size(const char *name,
                                const uint8_t *head,
                                size_t n,
                                uint64_t *bytes_p,
                                struct gw_error *error)
{
    struct idx idx = {0};
    enum gw_status status = parse(name, head, n, &idx, error);
    if (status == GW_OK)
        *bytes_p = idx.bytes;
    return status;
}

/* The header, once the file is what it declares, of the wanted kind. */
static enum gw_status check(const struct gw_data_file *file,
                            uint32_t magic,
                            struct idx *idx,
                            struct gw_error *error)
{
    enum gw_status status = parse(file->name, file->bytes, file->n, idx, error);
    if (status != GW_OK)
        return status;
    if (idx->magic != magic)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds %s where %s are expected; name the images "
                       "first, then the labels",
                       file->name, magic == IDX_IMAGES ? "labels" : "images",
                       magic == IDX_IMAGES ? "images" : "labels");
    if (idx->bytes != file->n)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header declares %" PRIu64
                       " bytes, it holds %zu (%s); " GW_DATA_ADVICE_AGAIN,
                       file->name, idx->bytes, file->n,
                       file->n < idx->bytes ? "truncated"
                                            : "bytes behind the end");
    return GW_OK;
}

static enum gw_status read_set(struct gw_dataset *set, struct gw_error *error)
{
    const struct gw_data_file *images = &set->file[0], *labels = &set->file[1];
    struct idx x = {0}, y = {0};
    enum gw_status status = check(images, IDX_IMAGES, &x, error);
    if (status == GW_OK)
        status = check(labels, IDX_LABELS, &y, error);
    if (status != GW_OK)
        return status;
    if (x.shape[0] != y.shape[0])
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds %" PRIu64 " labels for the %" PRIu64
                       " images of %s; do the files belong together?",
                       labels->name, y.shape[0], x.shape[0], images->name);

    set->pixel = GW_PIXEL_U8;
    set->shape.samples = x.shape[0];
    set->shape.channels = 1;
    set->shape.height = x.shape[1];
    set->shape.width = x.shape[2];
    set->runs = 1;
    set->run[0] = (struct gw_data_run){.pixels = images->bytes + x.header_bytes,
                                       .samples = x.shape[0],
                                       .stride = x.shape[1] * x.shape[2]};
    status = gw_data_labels_create(set, error);
    for (uint64_t i = 0; status == GW_OK && i < y.shape[0]; i++)
        status = gw_data_label_set(set, labels->name, i,
                                   labels->bytes[y.header_bytes + i],
                                   IDX_LABELS_MAX, error);
    return status;
}

/* PREFIX + `suffix`, plain if it is there, else with .gz. */
static enum gw_status find(const char *prefix,
                           const char *suffix,
                           char path[GW_DATA_PATH_MAX],
                           struct gw_error *error)
{
    snprintf(path, GW_DATA_PATH_MAX, "%s%s", prefix, suffix);
    if (access(path, F_OK) == 0)
        return GW_OK;
    snprintf(path, GW_DATA_PATH_MAX, "%s%s.gz", prefix, suffix);
    if (access(path, F_OK) == 0)
        return GW_OK;
    /* the examples' data comes as a package, so say where it is from */
    return gw_fail(error, GW_ENOENT, "%s%s: is not there, nor with .gz; %s",
                   prefix, suffix,
                   strstr(prefix, "fashion-mnist")
                       ? "on Debian or Ubuntu: apt-get install "
                         "dataset-fashion-mnist"
                       : "name a prefix of both files, or images and labels");
}

static enum gw_status locate(const struct gw_string_list *names,
                             enum gw_dataset_part part,
                             struct gw_data_paths *paths,
                             struct gw_error *error)
{
    (void)part;
    if (names->n == 2)
        return gw_data_locate_files(names, paths, error);
    if (names->n != 1)
        return gw_fail(error, GW_EUSAGE,
                       "names %zu files; idx takes images and labels, or one "
                       "prefix of both",
                       names->n);
    paths->n = 2;
    enum gw_status status =
        find(names->item[0], "-images-idx3-ubyte", paths->path[0], error);
    if (status == GW_OK)
        status =
            find(names->item[0], "-labels-idx1-ubyte", paths->path[1], error);
    return status;
}

const struct gw_data_reader gw_data_idx = {
    .name = "idx",
    .size = file_size,
    .locate = locate,
    .read = read_set,
};
