/*
 * Names of the files of a checkpoint: the name says which member writes the
 * file, and which may ask for it. Pure, any thread.
 */
#ifndef GW_PROTO_FILE_NAME_H
#define GW_PROTO_FILE_NAME_H

#include <stdint.h>

#define GW_FILE_NAME_MAX 64 /* with its end */

/* "shard-0-of-2.safetensors": weights and the state of the server's optimizer.
 */
void gw_shard_file_name(uint32_t shard,
                        uint32_t shards,
                        char name[GW_FILE_NAME_MAX]);

/* "worker-0-of-2.safetensors": the state of a worker's own optimizer. */
void gw_worker_file_name(uint32_t rank,
                         uint32_t ranks,
                         char name[GW_FILE_NAME_MAX]);

/* Non-zero for the second kind. */
int gw_is_worker_file(const char *name);

#endif
