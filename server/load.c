/*
 * A checkpoint's weights and state back into a shard, whatever the number of
 * shards that wrote it: chunks are the same for any number, so each tensor of a
 * chunk is found whole in one of the files.
 */
#include "config.h"

#include "server/server_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/safetensors.h"
#include "server/store.h"

#define TENSOR_NAME 160

/* How long the simulator lets a load take. */
#define LOAD_MODEL_US 2000

struct gw_load {
    struct gw_server *server;
    struct gw_work work;
    struct gw_error error;
    enum gw_status status;
    uint8_t *found; /* [chunks], arrays found */
};

/* Reads one file's header into a table of its tensors. */
static enum gw_status read_header(struct gw_disk *disk,
                                  const char *path,
                                  struct gw_file *file,
                                  struct gw_safetensors **tensors_p,
                                  struct gw_error *error)
{
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES];
    uint64_t bytes = 0;
    size_t json_bytes = 0;
    enum gw_status status = disk->ops->size(file, &bytes, error);
    if (status == GW_OK)
        status = disk->ops->read(file, 0, prefix, sizeof prefix, error);
    if (status == GW_OK)
        status = gw_safetensors_header_bytes(path, prefix, bytes, &json_bytes,
                                             error);
    if (status != GW_OK)
        return status;
    uint8_t *json = malloc(json_bytes + 1);
    if (!json)
        return gw_fail(error, GW_ENOMEM, "no memory to read %s", path);
    status = disk->ops->read(file, sizeof prefix, json, json_bytes, error);
    if (status == GW_OK)
        status = gw_safetensors_read(path, json, json_bytes, bytes, tensors_p,
                                     error);
    free(json);
    return status;
}

/* Reads what this shard needs of a file into its arrays. */
static enum gw_status take_tensors(struct gw_load *load,
                                   struct gw_file *file,
                                   const struct gw_safetensors *tensors,
                                   int weights_only)
{
    struct gw_shard *shard = load->server->shard;
    struct gw_disk *disk = load->server->loop->disk;
    unsigned arrays = weights_only ? 1 : 1 + shard->optimizer->states;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        const struct gw_shard_chunk *chunk = &shard->chunk[i];
        for (unsigned array = 0; array < arrays; array++) {
            char name[TENSOR_NAME];
            const char *state =
                array ? shard->optimizer->state_names[array - 1] : NULL;
            gw_chunk_tensor_name(shard->map, chunk->global, state, name,
                                 sizeof name);
            const struct gw_tensor *tensor = gw_safetensors_find(tensors, name);
            if (!tensor)
                continue;
            if (tensor->elems != chunk->elems ||
                strcmp(tensor->dtype, "F32") != 0)
                return gw_fail(&load->error, GW_EMISMATCH,
                               "tensor %s has another size or type", name);
            float *to = array ? shard->state[array - 1] : shard->weights[0];
            enum gw_status status =
                disk->ops->read(file, tensor->offset, to + chunk->first,
                                tensor->bytes, &load->error);
            if (status != GW_OK)
                return status;
            load->found[i]++;
        }
    }
    return GW_OK;
}

static enum gw_status
read_file(struct gw_load *load, const char *name, int weights_only)
{
    struct gw_server *server = load->server;
    struct gw_disk *disk = server->loop->disk;
    struct gw_safetensors *tensors = NULL;
    struct gw_file *file;
    char path[GW_PATH_MAX];
    gw_store_path(server->resume, server->start.state.clock, name, path);
    enum gw_status status =
        disk->ops->open(disk, path, GW_FILE_READ, &file, &load->error);
    if (status != GW_OK)
        return status;
    status = read_header(disk, path, file, &tensors, &load->error);
    if (status == GW_OK)
        status = take_tensors(load, file, tensors, weights_only);
    gw_safetensors_free(tensors);
    disk->ops->close(file, NULL);
    return status;
}

static enum gw_status check_complete(struct gw_load *load, int weights_only)
{
    const struct gw_shard *shard = load->server->shard;
    unsigned arrays = weights_only ? 1 : 1 + shard->optimizer->states;
    for (uint32_t i = 0; i < shard->chunks; i++) {
        if (load->found[i] == arrays)
            continue;
        char name[TENSOR_NAME];
        gw_chunk_tensor_name(shard->map, shard->chunk[i].global, NULL, name,
                             sizeof name);
        return gw_fail(&load->error, GW_EMISMATCH,
                       "the checkpoint of step %" PRIu64 " lacks %s or its "
                       "optimizer state: it is of another model or optimizer",
                       load->server->start.state.clock, name);
    }
    return GW_OK;
}

static void run(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    struct gw_server *server = load->server;
    struct gw_manifest manifest = {0};
    load->status =
        gw_store_manifest(server->loop->disk, server->resume,
                          server->start.state.clock, &manifest, &load->error);
    int weights_only = manifest.optimizer[0] == '\0';
    for (size_t i = 0; i < manifest.n_files && load->status == GW_OK; i++)
        load->status = read_file(load, manifest.files[i].name, weights_only);
    if (load->status == GW_OK)
        load->status = check_complete(load, weights_only);
    gw_manifest_free(&manifest);
}

static void done(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    struct gw_server *server = load->server;
    if (load->status != GW_OK) {
        gw_server_finish(server, load->status, "%s", load->error.text);
        return;
    }
    gw_shard_loaded(server->shard, server->start.state.clock);
    gw_server_loaded(server);
}

enum gw_status gw_load_begin(struct gw_server *server, struct gw_error *error)
{
    struct gw_load *load = calloc(1, sizeof *load);
    if (!load)
        return gw_fail(error, GW_ENOMEM, "no memory to load a checkpoint");
    server->load = load;
    load->server = server;
    load->found = calloc(server->shard->chunks + 1, sizeof *load->found);
    if (!load->found)
        return gw_fail(error, GW_ENOMEM, "no memory to load a checkpoint");
    load->work = (struct gw_work){
        .run = run, .done = done, .owner = load, .model_us = LOAD_MODEL_US};
    gw_loop_work(server->loop, &load->work);
    return GW_OK;
}

void gw_load_close(struct gw_server *server)
{
    struct gw_load *load = server->load;
    if (!load)
        return;
    gw_loop_cancel(server->loop, &load->work);
    free(load->found);
    free(load);
    server->load = NULL;
}
