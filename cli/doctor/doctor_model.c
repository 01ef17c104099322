/*
 * Memory that a job's processes register with an RDMA device. It follows from
 * the model, whose input and output sizes come from the data. Memory that is
 * registered for two peers, or with two devices, counts twice.
 *
 *   worker   for each shard: the window of its weights and its gradients, both
 *            whole, and the buffers of each connection
 *   server   for each worker and shard: landing slots (rank 0: a second time,
 *            for the first weights), two arrays of weights, connections
 */
#include "config.h"

#include "cli/doctor/doctor.h"

#include <stdlib.h>

#include "kernels/kernels.h"
#include "proto/interfaces.h"
#include "proto/map.h"
#include "worker/data/dataset.h"
#include "worker/model/model.h"

/* Messages and the header ring of a connection, and rounding of all registered
   memory to pages. */
#define LINK_BYTES ((uint64_t)192 << 10)

/* Includes the per-rank array of easgd and dc-async for every policy, since a
   job may switch policies. */
#define SERVER_ARRAYS 4

/* Additional bytes of an array or arena if weights are sent as bf16. */
static uint64_t bf16_of(const struct gw_config *config, uint64_t bytes)
{
    return config->train.weights == GW_ENCODING_RAW
               ? 0
               : gw_encoded_size(config->train.weights, bytes);
}

static struct gw_doctor_memory count(const struct gw_config *config,
                                     const struct gw_map *map)
{
    uint64_t links = gw_config_connections(config) * LINK_BYTES, largest = 0;
    uint64_t devices = gw_interfaces_count(config->cluster.interface);
    devices = devices > 0 ? devices
                          : 1; /* each shard's connection registers all of it */
    for (size_t s = 0; s < map->shards; s++)
        if (map->shard_bytes[s] > largest)
            largest = map->shard_bytes[s];
    uint64_t arrays = SERVER_ARRAYS * largest + bf16_of(config, largest);
    uint64_t arenas = 2 * map->arena_bytes + bf16_of(config, map->arena_bytes);
    uint64_t rank = arrays * devices + links;
    return (struct gw_doctor_memory){
        .worker = map->shards * (arenas * devices + links),
        .server = config->server.threads *
                  (config->cluster.workers * rank + largest * devices),
    };
}

static enum gw_status measure(const struct gw_config *config,
                              const struct gw_dataset *data,
                              struct gw_doctor_memory *memory_p,
                              struct gw_error *error)
{
    const struct gw_backend_ops *cpu =
        gw_backend_find(gw_device_kind_name(GW_DEVICE_CPU), error);
    struct gw_model *model = NULL;
    struct gw_map *map = NULL;
    size_t n, shards = config->cluster.servers * config->server.threads;
    if (!cpu)
        return error->status;
    enum gw_status status =
        gw_model_outline(config, gw_dataset_shape(data), 1, cpu, &model, error);
    if (status == GW_OK) {
        const struct gw_key *keys = gw_model_keys(model, &n);
        status = gw_map_create(keys, n, shards, &map, error);
    }
    if (status == GW_OK) {
        *memory_p = count(config, map);
        gw_map_destroy(map);
    }
    gw_model_destroy(model);
    return status;
}

enum gw_status gw_doctor_memory(const struct gw_config *config,
                                struct gw_doctor_memory *memory_p,
                                struct gw_error *error)
{
    struct gw_dataset *data = NULL;
    enum gw_status status =
        gw_dataset_open(config, GW_DATASET_TRAIN, &data, error);
    if (status != GW_OK)
        return status;
    status = measure(config, data, memory_p, error);
    gw_dataset_close(data);
    return status;
}
