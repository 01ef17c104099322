/*
 * Safetensors files of this program's own making: a shard's file, a tensor for
 * each of its chunks; and any safetensors file, opened for reading. Private to
 * server/. Blocking calls.
 */
#ifndef GW_SERVER_TENSORS_H
#define GW_SERVER_TENSORS_H

#include "proto/map.h"
#include "proto/safetensors.h"
#include "transport/link/loop.h"

/* A state's name, a key's, and two numbers. */
#define GW_TENSOR_NAME_MAX (GW_KEY_NAME_MAX + 96)

/* The tensor of a chunk in a shard's file: "fc1.weight[0:16384]", for an
   optimizer's state with its name in front: "exp_avg.fc1.weight[0:16384]". */
void gw_tensor_name(const struct gw_map *map,
                    uint32_t chunk,
                    const char *state,
                    char name[GW_TENSOR_NAME_MAX]);

/* A shard's file: the weights of its chunks in their order, then each of the
   states likewise. */
struct gw_tensors_shard {
    uint32_t number;
    const char *const *states; /* [n] */
    unsigned n;
    uint64_t clock;
    const uint64_t *skipped; /* [chunks] updates of each that changed nothing;
                                NULL: none are told */
};

/* The header of the file. Errors of gw_safetensors_header_make, and GW_ENOMEM;
 *header is set only on GW_OK. */
enum gw_status gw_tensors_header(const struct gw_map *map,
                                 const struct gw_tensors_shard *shard,
                                 struct gw_safetensors_header *header,
                                 struct gw_error *error);

/* The skipped updates of a chunk as the file of its weights tells them, by
   "skipped.fc1.weight[0:16384]" in the metadata. 0: it is no count. */
int gw_tensors_skipped(const struct gw_safetensors *tensors,
                       const struct gw_map *map,
                       uint32_t chunk,
                       uint64_t *skipped_p);

struct gw_tensors {
    struct gw_disk *disk;
    struct gw_file *file;
    struct gw_safetensors *header;
};

/* Errors as of the disk and of gw_safetensors_read; nothing is left open. */
enum gw_status gw_tensors_open(struct gw_disk *disk,
                               const char *path,
                               struct gw_tensors *tensors,
                               struct gw_error *error);
void gw_tensors_close(struct gw_tensors *tensors);

/*
 * A tensor's elements as fp32: F32 as they are, F16, BF16 and F64 converted.
 * GW_EMISMATCH: it is of another type; GW_ECORRUPT: one is NaN or infinite, or
 * so in fp32; errors of the disk. Lines name `file` and the tensor.
 */
enum gw_status gw_tensors_read(const struct gw_tensors *tensors,
                               const char *file,
                               const struct gw_tensor *tensor,
                               float *to,
                               struct gw_error *error);

#endif
