/* A safetensors file on a disk, opened for reading. Private to server/. */
#ifndef GW_SERVER_TENSORS_H
#define GW_SERVER_TENSORS_H

#include "server/safetensors.h"
#include "transport/loop.h"

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

#endif
