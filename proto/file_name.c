#include <config.h>

#include "proto/file_name.h"

#include <stdio.h>
#include <string.h>

#define OF_WORKER "worker-"

void gw_shard_file_name(uint32_t shard,
                        uint32_t shards,
                        char name[GW_FILE_NAME_MAX])
{
    snprintf(name, GW_FILE_NAME_MAX, "shard-%u-of-%u.safetensors", shard,
             shards);
}

void gw_worker_file_name(uint32_t rank,
                         uint32_t ranks,
                         char name[GW_FILE_NAME_MAX])
{
    snprintf(name, GW_FILE_NAME_MAX, OF_WORKER "%u-of-%u.safetensors", rank,
             ranks);
}

int gw_is_worker_file(const char *name)
{
    return strncmp(name, OF_WORKER, strlen(OF_WORKER)) == 0;
}
