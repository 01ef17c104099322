/*
 * Data sets: labelled images from IDX (gzipped or not), CIFAR-10 binary and
 * npy files, and the batches of a job. Every file is treated as hostile: a size
 * that a header declares is checked against the file before it is believed.
 *
 * Names in data.train and data.test:
 *
 *   idx      two files (images, labels), or one PREFIX that stands for
 *            PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, each plain
 *            or with .gz
 *   cifar10  one or more .bin files, read one after another, or one directory
 *            (train: data_batch_1.bin to data_batch_5.bin, test:
 *            test_batch.bin)
 *   npy      two files: x, uint8 or float32 of [n,c,h,w], [n,h,w] or
 *            [n,features]; y, uint8, int32 or int64 of [n]
 */
#ifndef GW_WORKER_DATASET_H
#define GW_WORKER_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "proto/config.h"
#include "proto/digest.h"
#include "proto/status.h"

struct gw_dataset;

enum gw_dataset_part {
    GW_DATASET_TRAIN,
    GW_DATASET_TEST
};

struct gw_dataset_shape {
    uint64_t samples;
    size_t channels, height, width;
    size_t classes; /* 1 + largest label, at least 2 */
};

/*
 * Opens data.train or data.test of a job. Plain files are mapped read-only
 * (and must stay as they are while the job runs); gzipped ones are inflated
 * into memory. Errors name the file and what is wrong with it: GW_ENOENT,
 * GW_EIO, GW_ECORRUPT (truncated, wrong magic, labels that do not match
 * images), GW_EMISMATCH (shape or type), GW_ENOMEM; GW_EUSAGE where
 * data.normalize or data.augment does not fit the data.
 */
enum gw_status gw_dataset_open(const struct gw_config *config,
                               enum gw_dataset_part part,
                               struct gw_dataset **dataset_p,
                               struct gw_error *error);
/* Reads headers only: shape and bytes are as the files' headers say, pixels
   must not be read. Quick, also where gw_dataset_open has to unpack. */
enum gw_status gw_dataset_look(const struct gw_config *config,
                               enum gw_dataset_part part,
                               struct gw_dataset **dataset_p,
                               struct gw_error *error);
void gw_dataset_close(struct gw_dataset *dataset);

const struct gw_dataset_shape *gw_dataset_shape(const struct gw_dataset *set);

/* GW_EMISMATCH unless samples of both have the same channels, height and width.
   Their classes need not be the same. */
enum gw_status gw_dataset_check_alike(const struct gw_dataset *train,
                                      const struct gw_dataset *test,
                                      struct gw_error *error);

/* The source of a model's outputs, which decides the remedy if they are too
   few. */
enum gw_dataset_outputs {
    GW_OUTPUTS_WRITTEN, /* model.layers ends in them */
    GW_OUTPUTS_ADDED,   /* for the labels of the training set */
    GW_OUTPUTS_TRAINED  /* a checkpoint has weights of theirs */
};

/* GW_EUSAGE with a line that names the first sample whose label is not below
   `outputs`, the number of a model's outputs. */
enum gw_status gw_dataset_check_labels(const struct gw_dataset *set,
                                       size_t outputs,
                                       enum gw_dataset_outputs from,
                                       struct gw_error *error);

/*
 * Lines for people about how the files were read, "" if there is nothing to
 * say: values that were converted, which happens once; and values that look
 * wrong, which is a warning.
 */
enum gw_dataset_note {
    GW_DATASET_CONVERTED,
    GW_DATASET_DOUBTFUL,
    GW_DATASET_NOTES
};
const char *gw_dataset_note(const struct gw_dataset *set,
                            enum gw_dataset_note note);

/* Bytes that it takes: of unpacked files and labels, and of files that are
   mapped, which the system may drop and read again. While it was opened it took
   `opening` of both at once, gzipped files included. */
struct gw_dataset_bytes {
    uint64_t held, mapped, opening;
};
struct gw_dataset_bytes gw_dataset_bytes(const struct gw_dataset *set);

/* The place of a batch in the job; decides its order and augmentation. */
struct gw_batch_site {
    uint64_t seed;
    uint32_t epoch;
    uint64_t first; /* place of its first sample in the epoch's permutation */
    size_t n;
    int train; /* 1: permuted and augmented, 0: in file order, as it is */
};

/*
 * Fills x[n][channels][height][width] with normalised pixels, (value / 255 -
 * mean) / deviation (npy of floats: no division by 255), and labels[n].
 * data.normalize is [mean, deviation], or one pair per channel, one after
 * another.
 *
 * data.augment: "crop PAD" cuts a window of the image's size at random out of
 * the image with PAD zero pixels around it, zero before normalisation; "flip"
 * mirrors left and right with probability 1/2, after the crop. Both depend on
 * (seed, epoch, place in the permutation) only, so every split of a batch
 * gives the same samples. No allocation. Thread: any.
 * site.first + n <= samples (asserted).
 */
void gw_dataset_batch(const struct gw_dataset *dataset,
                      const struct gw_batch_site *site,
                      float *x,
                      int32_t *labels);

/* SHA-256 over shape, pixels and labels: the data set's identity, which does
   not depend on the files. */
void gw_dataset_digest(const struct gw_dataset *dataset,
                       uint8_t out[GW_DIGEST_BYTES]);

#endif
