/* IDX, the format of MNIST: a big-endian header, then numbers. */
#include "config.h"

#include "worker/data/dataset_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * 0 0 type dims | u32 per dimension, the first is the number of samples | data
 */
#define IDX_DIMS_MAX 4
#define IDX_IMAGES   0x00000803u
#define IDX_LABELS   0x00000801u

static const struct {
    uint8_t code;
    struct gw_number number;
} types[] = {
    {0x08, {GW_NUMBER_UINT, 1, 1}},  {0x09, {GW_NUMBER_INT, 1, 1}},
    {0x0b, {GW_NUMBER_INT, 2, 1}},   {0x0c, {GW_NUMBER_INT, 4, 1}},
    {0x0d, {GW_NUMBER_FLOAT, 4, 1}}, {0x0e, {GW_NUMBER_FLOAT, 8, 1}},
};

struct idx {
    struct gw_number number;
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

/* The third byte of the magic number; the first two are zero. */
static int find_type(uint32_t magic, struct gw_number *number_p)
{
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        if (magic >> 8 != types[t].code)
            continue;
        *number_p = types[t].number;
        return 1;
    }
    return 0;
}

/* The header's fields, not yet compared with the file. */
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
    *idx = (struct idx){.dims = in[3]};
    if (!find_type(big_endian(in), &idx->number) || idx->dims < 1 ||
        idx->dims > IDX_DIMS_MAX)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: begins with 0x%08" PRIx32
                       ", IDX images of bytes begin with 0x%08x and labels "
                       "with 0x%08x; check data.format",
                       name, big_endian(in), IDX_IMAGES, IDX_LABELS);
    idx->header_bytes = 4 + 4 * idx->dims;
    if (n < idx->header_bytes)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: %zu bytes are too few for its header of "
                       "%zu; " GW_DATA_ADVICE_AGAIN,
                       name, n, idx->header_bytes);
    idx->bytes = idx->number.bytes;
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

/* The header, once the file agrees with it. */
static enum gw_status
check(const struct gw_data_file *file, struct idx *idx, struct gw_error *error)
{
    enum gw_status status = parse(file->name, file->bytes, file->n, idx, error);
    if (status != GW_OK)
        return status;
    if (idx->bytes != file->n)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: its header declares %" PRIu64
                       " bytes, it holds %zu (%s); " GW_DATA_ADVICE_AGAIN,
                       file->name, idx->bytes, file->n,
                       file->n < idx->bytes ? "truncated"
                                            : "bytes behind the end");
    return GW_OK;
}

static enum gw_status
check_images(const char *name, const struct idx *x, struct gw_error *error)
{
    char type[GW_NUMBER_NAME_BYTES];
    gw_number_name(x->number, type);
    if (x->dims < 3)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds labels where images are expected; name the "
                       "images first, then the labels",
                       name);
    if (x->dims > 3 || x->number.kind != GW_NUMBER_UINT)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: holds images of %zu dimensions of %s; uint8 of "
                       "[n,h,w] are read, others with data.format = \"npy\"",
                       name, x->dims, type);
    return GW_OK;
}

/* Labels of any whole numbers, also as a column. */
static enum gw_status
check_labels(const char *name, const struct idx *y, struct gw_error *error)
{
    char type[GW_NUMBER_NAME_BYTES];
    gw_number_name(y->number, type);
    if (y->dims >= 3)
        return gw_fail(error, GW_ECORRUPT,
                       "%s: holds images where labels are expected; name the "
                       "images first, then the labels",
                       name);
    if (y->number.kind == GW_NUMBER_FLOAT)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: holds labels of %s; whole numbers of 8, 16 or 32 "
                       "bits are read",
                       name, type);
    if (y->dims == 2 && y->shape[1] != 1)
        return gw_fail(error, GW_EMISMATCH,
                       "%s: holds %" PRIu64 " numbers for each sample; labels "
                       "are one",
                       name, y->shape[1]);
    return GW_OK;
}

static enum gw_status check_kinds(const struct gw_data_file *file,
                                  const struct idx *x,
                                  const struct idx *y,
                                  struct gw_error *error)
{
    enum gw_status status = check_images(file[0].name, x, error);
    if (status == GW_OK)
        status = check_labels(file[1].name, y, error);
    if (status != GW_OK || x->shape[0] == y->shape[0])
        return status;
    return gw_fail(error, GW_ECORRUPT,
                   "%s: holds %" PRIu64 " labels for the %" PRIu64
                   " images of %s; do the files belong together?",
                   file[1].name, y->shape[0], x->shape[0], file[0].name);
}

static enum gw_status read_set(struct gw_dataset *set,
                               const struct gw_config *config,
                               struct gw_error *error)
{
    const struct gw_data_file *images = &set->file[0], *labels = &set->file[1];
    struct idx x = {0}, y = {0};
    (void)config;
    enum gw_status status = check(images, &x, error);
    if (status == GW_OK)
        status = check(labels, &y, error);
    if (status == GW_OK)
        status = check_kinds(set->file, &x, &y, error);
    if (status != GW_OK)
        return status;
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
    if (status == GW_OK)
        status = gw_data_labels_read(set, 1, y.number, y.header_bytes, error);
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

static enum gw_status locate(const struct gw_path_list *names,
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
        find(gw_path_at(names, 0), "-images-idx3-ubyte", paths->path[0], error);
    if (status == GW_OK)
        status = find(gw_path_at(names, 0), "-labels-idx1-ubyte",
                      paths->path[1], error);
    return status;
}

const struct gw_data_reader gw_data_idx = {
    .name = "idx",
    .size = file_size,
    .locate = locate,
    .read = read_set,
};
