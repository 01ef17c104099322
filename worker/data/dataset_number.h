/*
 * Numbers as the files of data sets have them: of some bytes, in either order,
 * whole or not. Private to dataset*.c and their tests.
 */
#ifndef GW_WORKER_DATASET_NUMBER_H
#define GW_WORKER_DATASET_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "worker/data/dataset_format.h"

enum gw_number_kind {
    GW_NUMBER_UINT,
    GW_NUMBER_INT,
    GW_NUMBER_FLOAT
};

struct gw_number {
    enum gw_number_kind kind;
    uint8_t bytes; /* 1, 2, 4 or 8; a float has no 1 */
    uint8_t big;   /* the most significant byte comes first */
};

#define GW_NUMBER_NAME_BYTES 24

/* "uint8", "float64, big-endian" */
void gw_number_name(struct gw_number number, char name[GW_NUMBER_NAME_BYTES]);

/* The value of a whole number's bytes; INT64_MAX where it is beyond. */
int64_t gw_number_integer(struct gw_number number, const uint8_t *in);

/* The value of any; one that fp32 does not have becomes the nearest, or
   infinite. */
float gw_number_float(struct gw_number number, const uint8_t *in);

/*
 * Puts fp32 in place of the n numbers behind the first header_bytes of the
 * set's file, in memory of its own, times `scale`, and notes that. Of a file
 * that was only looked at nothing is read, and the memory stays untouched.
 * GW_ENOMEM.
 */
enum gw_status gw_data_convert(struct gw_dataset *set,
                               size_t file,
                               struct gw_number number,
                               size_t header_bytes,
                               uint64_t n,
                               float scale,
                               struct gw_error *error);

/* All labels of the set, which are whole numbers behind the first header_bytes
   of the file. Errors of gw_data_label_set. */
enum gw_status gw_data_labels_read(struct gw_dataset *set,
                                   size_t file,
                                   struct gw_number number,
                                   size_t header_bytes,
                                   struct gw_error *error);

/*
 * Looks through pixels that are fp32: GW_ECORRUPT where one is NaN or infinite,
 * by sample. Without data.normalize, pixels far outside of the usual range get
 * a note with the range that was found.
 */
enum gw_status gw_data_check_floats(struct gw_dataset *set,
                                    const struct gw_config *config,
                                    const char *name,
                                    struct gw_error *error);

#endif
