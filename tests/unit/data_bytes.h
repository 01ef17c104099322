/* Small data files of every format, made in memory for the data set tests. */
#ifndef GW_TESTS_DATA_BYTES_H
#define GW_TESTS_DATA_BYTES_H

#include <stddef.h>
#include <stdint.h>

#include "worker/data/dataset_format.h"

struct bytes {
    size_t n;
    uint8_t at[160 << 10];
};

/* What every made file holds: pixel k of a sample, and its label 0..9. */
uint8_t bytes_pixel(size_t sample, size_t k);
int bytes_label(size_t sample);

void bytes_add(struct bytes *out, const void *from, size_t n);
void bytes_idx_images(struct bytes *out, uint32_t n, uint32_t h, uint32_t w);
void bytes_idx_labels(struct bytes *out, uint32_t n);
void bytes_cifar(struct bytes *out, size_t n, size_t first_sample);

/* An npy file without data, its header as numpy writes it. */
void bytes_npy(struct bytes *out, int major, const char *dict);
/* Whole npy files: n samples of `values` bytes, and their labels as int32. */
void bytes_npy_x(struct bytes *out, size_t n, size_t h, size_t w);
void bytes_npy_y(struct bytes *out, size_t n);

void bytes_gzip(struct bytes *out, const struct bytes *in);

/* A data set from one or two files in memory; second may be NULL. */
enum gw_status bytes_open(const struct gw_config *config,
                          const struct gw_data_reader *reader,
                          const struct bytes *first,
                          const struct bytes *second,
                          struct gw_dataset **set_p,
                          struct gw_error *error);

#endif
