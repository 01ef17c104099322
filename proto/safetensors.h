/*
 * safetensors, the file format of checkpoints: tensors by name behind a JSON
 * header. Writes and reads headers only; the caller moves the bytes through
 * its own disk interface. A file is treated as hostile: nothing that its
 * header says is believed before it has been compared with the file's size.
 *
 *   u64 header bytes | header: JSON, padded with spaces | data, no holes
 *
 *   {"__metadata__": {"key": "value"},
 *    "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
 *
 * Offsets count from the first byte of the data. Integers are little-endian.
 */
#ifndef GW_PROTO_SAFETENSORS_H
#define GW_PROTO_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"

#define GW_SAFETENSORS_PREFIX_BYTES 8
#define GW_SAFETENSORS_HEADER_MAX   100000000u /* as the reference library */
#define GW_SAFETENSORS_ALIGN        64         /* the data's first byte */
#define GW_TENSOR_DIMS_MAX          8

/* One fp32 tensor to write; name and shape stay the caller's. */
struct gw_tensor_spec {
    const char *name;
    size_t dims;
    const uint64_t *shape;
};

struct gw_metadata {
    const char *key, *value;
};

/* The beginning of a file that is to be written. */
struct gw_safetensors_header {
    uint8_t *bytes; /* length, JSON, padding; the file's data follows */
    size_t n;
    uint64_t *offset;    /* [tensors] of each tensor's data in the file */
    uint64_t file_bytes; /* the whole file's */
};

/*
 * Lays out fp32 tensors in the given order. The same input gives the same
 * bytes. GW_EINVAL with a line that names the tensor or key (a name twice, not
 * UTF-8, or "__metadata__"; too many dimensions), GW_ERANGE (sizes beyond 64
 * bits, a header beyond GW_SAFETENSORS_HEADER_MAX), GW_ENOMEM. *header is set
 * only on GW_OK and freed with gw_safetensors_header_free.
 */
enum gw_status gw_safetensors_header_make(const struct gw_tensor_spec *tensors,
                                          size_t n,
                                          const struct gw_metadata *metadata,
                                          size_t n_metadata,
                                          struct gw_safetensors_header *header,
                                          struct gw_error *error);
void gw_safetensors_header_free(struct gw_safetensors_header *header);

/* A tensor of a file that is read; belongs to its gw_safetensors. */
struct gw_tensor {
    const char *name;
    const char *dtype; /* "F32"; other types are carried, not understood */
    size_t dims;
    uint64_t shape[GW_TENSOR_DIMS_MAX];
    uint64_t elems;
    uint64_t offset; /* offset of its first byte in the file */
    uint64_t bytes;
};

struct gw_safetensors;

/*
 * From the first GW_SAFETENSORS_PREFIX_BYTES of a file and the size of the
 * file: the bytes of the JSON header that follow. GW_ECORRUPT where the file
 * is shorter or the header too long. `name` is for messages.
 */
enum gw_status
gw_safetensors_header_bytes(const char *name,
                            const uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES],
                            uint64_t file_bytes,
                            size_t *json_bytes_p,
                            struct gw_error *error);

/*
 * Reads a JSON header of json_bytes. On GW_OK every tensor lies within the
 * file, none overlaps another, and together they are all of its data.
 * GW_ECORRUPT with a line that names the file and the tensor, GW_EUNSUPPORTED
 * (a dtype of unknown size, too many dimensions), GW_ENOMEM. Nothing of `json`
 * is kept.
 */
enum gw_status gw_safetensors_read(const char *name,
                                   const uint8_t *json,
                                   size_t json_bytes,
                                   uint64_t file_bytes,
                                   struct gw_safetensors **file_p,
                                   struct gw_error *error);
void gw_safetensors_free(struct gw_safetensors *file);

/* All tensors in the order of their data; *n_p of them. */
const struct gw_tensor *
gw_safetensors_tensors(const struct gw_safetensors *file, size_t *n_p);

/* The value of `key` in the header's metadata, as long as the file is there;
   NULL: there is none. */
const char *gw_safetensors_metadata(const struct gw_safetensors *file,
                                    const char *key);

/* NULL where there is none of that name. */
const struct gw_tensor *gw_safetensors_find(const struct gw_safetensors *file,
                                            const char *name);

#endif
