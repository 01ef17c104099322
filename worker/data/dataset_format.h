/*
 * Inside worker/data/dataset: the input and the output of a format's reader.
 * Readers see bytes and a name for messages, never a path, so that tests and
 * fuzzers can feed them from memory. Private to dataset*.c and their tests.
 *
 *   names --locate--> paths --gw_data_file_open--> bytes --read--> data set
 */
#ifndef GW_WORKER_DATASET_FORMAT_H
#define GW_WORKER_DATASET_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "worker/data/dataset.h"

#define GW_DATA_PATH_MAX     (GW_PATH_BYTES + 32)
#define GW_DATA_HEAD_BYTES   ((size_t)68 << 10) /* no header is longer */
#define GW_DATA_PAIRS_MAX    (GW_LIST_MAX / 2)
#define GW_DATA_CLASSES_MAX  ((uint64_t)1 << 20)
#define GW_DATA_ADVICE_AGAIN "get the file again"

/*
 * From the first bytes of a file: the bytes that the whole file must have by
 * its own header. Fails where `n` bytes hold no valid header.
 */
typedef enum gw_status gw_data_size_cb(const char *name,
                                       const uint8_t *head,
                                       size_t n,
                                       uint64_t *bytes_p,
                                       struct gw_error *error);

enum gw_data_memory {
    GW_DATA_BORROWED,
    GW_DATA_MAPPED,
    GW_DATA_ALLOCATED
};

struct gw_data_file {
    const char *name; /* in messages only; owned by the file's owner */
    const uint8_t *bytes;
    size_t n;
    enum gw_data_memory memory;
    size_t packed; /* bytes that it was read from while it was, or 0 */
    int looked;    /* behind its head there may be zeros */
};

/*
 * Maps a regular file, or inflates it if it begins as gzip. `size` bounds the
 * unpacked size of a gzipped file before memory is taken; NULL: the format has
 * no header and cannot be read gzipped. GW_ENOENT, GW_EIO, GW_ECORRUPT,
 * GW_EUNSUPPORTED, GW_ENOMEM; *file is set only on GW_OK.
 */
enum gw_status gw_data_file_open(const char *path,
                                 gw_data_size_cb *size,
                                 struct gw_data_file *file,
                                 struct gw_error *error);

/* The same, but of a large gzipped file only the header is real: the rest is
   zeros that take no memory. */
enum gw_status gw_data_file_look(const char *path,
                                 gw_data_size_cb *size,
                                 struct gw_data_file *file,
                                 struct gw_error *error);

/* The same for bytes in memory, which *file borrows if they are not gzip. */
enum gw_status gw_data_file_from_bytes(const char *name,
                                       const uint8_t *bytes,
                                       size_t n,
                                       gw_data_size_cb *size,
                                       struct gw_data_file *file,
                                       struct gw_error *error);
void gw_data_file_close(struct gw_data_file *file);

enum gw_data_pixel {
    GW_PIXEL_U8,
    GW_PIXEL_F32
};

/* Samples that lie one after another, `stride` bytes apart. */
struct gw_data_run {
    const uint8_t *pixels;
    uint64_t samples;
    size_t stride;
};

struct gw_dataset {
    struct gw_dataset_shape shape;
    enum gw_data_pixel pixel;
    size_t files, runs;
    struct gw_data_file file[GW_LIST_MAX]; /* owned */
    struct gw_data_run run[GW_LIST_MAX];   /* views into the files */
    int32_t *labels;                       /* [samples] owned */
    char *name[GW_LIST_MAX];               /* of the files, owned */
    size_t label_file; /* with the labels; runs: of the files with pixels */
    char note[GW_DATASET_NOTES][GW_ERROR_TEXT_BYTES];

    /* normalisation: one pair for all channels, or one per channel */
    size_t pairs;
    float mean[GW_DATA_PAIRS_MAX], deviation[GW_DATA_PAIRS_MAX];
    float table[GW_DATA_PAIRS_MAX][256]; /* of a byte's value */

    size_t pad; /* "crop PAD", 0: no crop */
    int flip;
};

struct gw_data_paths {
    size_t n;
    char path[GW_LIST_MAX][GW_DATA_PATH_MAX];
};

struct gw_data_reader {
    const char *name;
    gw_data_size_cb *size; /* or NULL: no header, see gw_data_file_open */
    /* the files that data.train or data.test name */
    enum gw_status (*locate)(const struct gw_path_list *names,
                             enum gw_dataset_part part,
                             struct gw_data_paths *paths,
                             struct gw_error *error);
    /* fills shape, pixel, runs and labels of *set from set->file[files];
       on failure the caller still closes *set */
    enum gw_status (*read)(struct gw_dataset *set,
                           const struct gw_config *config,
                           struct gw_error *error);
};

extern const struct gw_data_reader gw_data_idx;
extern const struct gw_data_reader gw_data_cifar10;
extern const struct gw_data_reader gw_data_npy;

/* The paths as they were given; for formats with names of files. */
enum gw_status gw_data_locate_files(const struct gw_path_list *names,
                                    struct gw_data_paths *paths,
                                    struct gw_error *error);

/* Appends to a note of the set. */
void gw_data_note(struct gw_dataset *set,
                  enum gw_dataset_note note,
                  const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

/*
 * GW_OK, or GW_ECORRUPT with a name for bytes that are no data: the page of a
 * server that had another answer, a pointer of git-lfs, an archive.
 */
enum gw_status gw_data_check_kind(const char *name,
                                  const uint8_t *bytes,
                                  size_t n,
                                  struct gw_error *error);

/* Allocates set->labels for shape.samples, which a file must back. */
enum gw_status gw_data_labels_create(struct gw_dataset *set,
                                     struct gw_error *error);

/*
 * Stores one label and keeps shape.classes up to date. GW_ECORRUPT for a
 * value outside 0..limit-1 that names the file and the sample.
 */
enum gw_status gw_data_label_set(struct gw_dataset *set,
                                 const char *name,
                                 uint64_t sample,
                                 int64_t value,
                                 uint64_t limit,
                                 struct gw_error *error);

/*
 * A data set from files in memory, all steps of gw_dataset_open that follow
 * the opening of files. Takes over `files`, also on failure.
 */
enum gw_status gw_dataset_create(const struct gw_config *config,
                                 const struct gw_data_reader *reader,
                                 const struct gw_data_file *files,
                                 size_t n,
                                 struct gw_dataset **dataset_p,
                                 struct gw_error *error);

/* dataset_batch.c: data.normalize and data.augment against the shape. */
enum gw_status gw_dataset_prepare(struct gw_dataset *set,
                                  const struct gw_config *config,
                                  struct gw_error *error);

/* The first byte of a sample's pixels; index < samples. */
const uint8_t *gw_dataset_pixels(const struct gw_dataset *set, uint64_t index);

/* Bytes of one sample's pixels. */
size_t gw_dataset_sample_bytes(const struct gw_dataset *set);

#endif
