/*
 * A checkpoint's weights and state back into a shard, for any number of shards
 * that wrote it: chunks do not depend on that number, so each tensor of a chunk
 * is found whole in one of the files.
 *
 *   manifest --> for each file: header --> the tensors that are ours
 *
 * One read after the other, each on another thread, or through the coordinator
 * if this process does not see the directory.
 */
#include "config.h"

#include "server/server_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/checkpoint/store.h"
#include "server/checkpoint/tensors.h"
#include "transport/member/remote.h"

/* How long the simulator lets a read take. */
#define READ_MODEL_US 100

struct gw_load {
    struct gw_server *server;
    void (*loaded)(struct gw_server *server);
    struct gw_remote *remote; /* NULL: the directory is seen from here */
    uint8_t *found;           /* [arrays][chunks] the tensor was found */
    struct gw_manifest manifest;
    uint32_t arrays; /* weights, states, arrays of each rank; a checkpoint of
                        weights alone: 1 */
    int is_other;    /* another optimizer than the one before: */
    uint32_t anew;   /* so many, from the first state on, begin afresh */
    size_t file;     /* of the manifest */
    uint8_t prefix[GW_SAFETENSORS_PREFIX_BYTES];
    uint8_t *text; /* manifest or header */
    size_t text_bytes;
    struct gw_safetensors *tensors;
    size_t tensor; /* the next to look at: array * chunks + chunk */

    /* the read that is going on */
    struct gw_disk dir; /* read from here, unless `remote` */
    char name[GW_FILE_NAME_MAX];
    uint64_t offset, file_bytes;
    void *to;
    size_t n;
    void (*then)(struct gw_load *load);
    struct gw_work work;
    struct gw_error error;
    enum gw_status status;
};

static void give_up(struct gw_load *load)
{
    gw_server_finish(load->server, load->error.status, "%s", load->error.text);
}

/* ---- one read ---- */

static void run_read(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    struct gw_server *server = load->server;
    struct gw_disk *dir = &load->dir;
    char path[GW_PATH_MAX];
    struct gw_file *file;
    gw_store_path(server->start.state.clock, load->name, path);
    load->status = dir->ops->open(dir, path, GW_FILE_READ, &file, &load->error);
    if (load->status != GW_OK)
        return;
    load->status = dir->ops->size(file, &load->file_bytes, &load->error);
    if (load->status == GW_OK && load->n > 0)
        load->status =
            dir->ops->read(file, load->offset, load->to, load->n, &load->error);
    dir->ops->close(file, NULL);
}

static void read_done(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    if (load->status != GW_OK)
        give_up(load);
    else
        load->then(load);
}

static void remote_done(void *owner,
                        enum gw_status status,
                        const char *text,
                        uint64_t bytes)
{
    struct gw_load *load = owner;
    load->status = status;
    load->file_bytes = bytes;
    if (status != GW_OK)
        gw_fail(&load->error, status, "the coordinator cannot read it: %s",
                text);
    read_done(&load->work);
}

/* Reads and goes on with `then`; n = 0 only learns the size of the file. */
static void read_at(struct gw_load *load,
                    const char *name,
                    uint64_t offset,
                    void *to,
                    size_t n,
                    void (*then)(struct gw_load *load))
{
    snprintf(load->name, sizeof load->name, "%s", name);
    load->offset = offset;
    load->to = to;
    load->n = n;
    load->then = then;
    if (load->remote) {
        gw_remote_read(load->remote, load->server->start.state.clock, name,
                       offset, to, n, remote_done, load);
        return;
    }
    load->work.run = run_read;
    load->work.done = read_done;
    gw_loop_work(load->server->loop, &load->work);
}

static void read_text(struct gw_load *load,
                      const char *name,
                      uint64_t offset,
                      size_t n,
                      void (*then)(struct gw_load *load))
{
    free(load->text);
    load->text = malloc(n + 1);
    load->text_bytes = n;
    if (!load->text) {
        gw_fail(&load->error, GW_ENOMEM, "no memory to read %s", name);
        give_up(load);
        return;
    }
    read_at(load, name, offset, load->text, n, then);
}

/* ---- tensors ---- */

static void name_of(const struct gw_shard *shard,
                    uint32_t array,
                    uint32_t chunk,
                    char name[GW_TENSOR_NAME_MAX])
{
    char saved[GW_SAVED_NAME_MAX];
    if (array > 0)
        gw_shard_saved_name(shard, array - 1, saved);
    gw_tensor_name(shard->map, shard->chunk[chunk].global,
                   array > 0 ? saved : NULL, name);
}

static int is_anew(const struct gw_load *load, uint32_t array)
{
    return array > 0 && array <= load->anew;
}

/* The first chunk without a tensor of this array; *found_p: how many chunks
   have one. */
static uint32_t
first_missing(const struct gw_load *load, uint32_t array, uint32_t *found_p)
{
    uint32_t chunks = load->server->shard->chunks, missing = chunks;
    const uint8_t *found = load->found + (size_t)array * chunks;
    *found_p = 0;
    for (uint32_t i = chunks; i-- > 0;) {
        *found_p += found[i];
        if (!found[i])
            missing = i;
    }
    return missing;
}

/* All must be there but arrays of a rank: under another policy, or in a job
   without that rank, nothing was kept for it, and it begins afresh. */
static void complete(struct gw_load *load)
{
    struct gw_server *server = load->server;
    const struct gw_shard *shard = server->shard;
    uint32_t anew = 0;
    for (uint32_t array = 0; array < load->arrays; array++) {
        char name[GW_TENSOR_NAME_MAX];
        uint32_t found, missing = first_missing(load, array, &found);
        if (missing == shard->chunks || is_anew(load, array))
            continue;
        if (array > shard->optimizer->states && found == 0) {
            gw_shard_begin_saved(server->shard, array - 1);
            anew++;
            continue;
        }
        name_of(shard, array, missing, name);
        gw_fail(&load->error, GW_EMISMATCH,
                "the checkpoint of step %" PRIu64 " lacks %s: it is of another "
                "model or optimizer",
                server->start.state.clock, name);
        give_up(load);
        return;
    }
    /* an import has nothing of any worker's */
    for (uint32_t array = load->arrays; array <= gw_shard_saved(shard); array++)
        if (array > shard->optimizer->states)
            gw_shard_begin_saved(server->shard, array - 1);
    if (anew > 0)
        gw_log_info(server->log,
                    "the checkpoint of step %" PRIu64 " has nothing of its own "
                    "for %u worker%s: it begins anew",
                    server->start.state.clock, anew, gw_plural(anew));
    gw_shard_loaded(server->shard);
    load->loaded(server);
}

static void next_file(struct gw_load *load);

/* The next tensor of this file that is ours, or NULL. */
static const struct gw_tensor *
find_next(struct gw_load *load, uint32_t *array_p, uint32_t *chunk_p)
{
    const struct gw_shard *shard = load->server->shard;
    while (load->tensor < (size_t)load->arrays * shard->chunks) {
        uint32_t array = (uint32_t)(load->tensor / shard->chunks);
        uint32_t chunk = (uint32_t)(load->tensor % shard->chunks);
        char name[GW_TENSOR_NAME_MAX];
        name_of(shard, array, chunk, name);
        load->tensor++;
        if (is_anew(load, array))
            continue;
        const struct gw_tensor *tensor =
            gw_safetensors_find(load->tensors, name);
        if (!tensor)
            continue;
        *array_p = array;
        *chunk_p = chunk;
        return tensor;
    }
    return NULL;
}

/* The updates of a chunk that changed nothing, from the file that has its
   weights. */
static int take_skipped(struct gw_load *load, uint32_t index)
{
    const struct gw_shard *shard = load->server->shard;
    struct gw_shard_chunk *chunk = &shard->chunk[index];
    if (!gw_tensors_skipped(load->tensors, shard->map, chunk->global,
                            &chunk->skipped)) {
        gw_fail(&load->error, GW_ECORRUPT,
                "%s does not say how many updates were skipped", load->name);
        return 0;
    }
    /* fragments of a model have not had the same number of updates */
    if (chunk->skipped > chunk->updates)
        chunk->skipped = chunk->updates;
    return 1;
}

static void next_tensor(struct gw_load *load)
{
    struct gw_shard *shard = load->server->shard;
    uint32_t array, index;
    const struct gw_tensor *tensor = find_next(load, &array, &index);
    if (!tensor) {
        load->file++;
        next_file(load);
        return;
    }
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    float *arena =
        array > 0 ? gw_shard_saved_array(shard, array - 1) : shard->weights[0];
    if (tensor->elems != chunk->elems || strcmp(tensor->dtype, "F32") != 0) {
        gw_fail(&load->error, GW_EMISMATCH,
                "tensor %s of %s has another size or type", tensor->name,
                load->name);
        give_up(load);
        return;
    }
    if (array == 0 && !load->is_other && !take_skipped(load, index)) {
        give_up(load);
        return;
    }
    load->found[(size_t)array * shard->chunks + index] = 1;
    read_at(load, load->manifest.files[load->file].name, tensor->offset,
            arena + chunk->first, (size_t)tensor->bytes, next_tensor);
}

/* ---- files ---- */

static void got_header(struct gw_load *load)
{
    const struct gw_manifest_file *file = &load->manifest.files[load->file];
    if (gw_safetensors_read(file->name, load->text, load->text_bytes,
                            file->bytes, &load->tensors,
                            &load->error) != GW_OK) {
        give_up(load);
        return;
    }
    load->tensor = 0;
    next_tensor(load);
}

static void got_prefix(struct gw_load *load)
{
    const struct gw_manifest_file *file = &load->manifest.files[load->file];
    size_t n;
    if (gw_safetensors_header_bytes(file->name, load->prefix, file->bytes, &n,
                                    &load->error) != GW_OK)
        give_up(load);
    else
        read_text(load, file->name, sizeof load->prefix, n, got_header);
}

static void next_file(struct gw_load *load)
{
    gw_safetensors_free(load->tensors);
    load->tensors = NULL;
    while (load->file < load->manifest.n_files &&
           gw_is_worker_file(load->manifest.files[load->file].name))
        load->file++; /* nothing of a shard's is in it */
    if (load->file == load->manifest.n_files) {
        complete(load);
        return;
    }
    read_at(load, load->manifest.files[load->file].name, 0, load->prefix,
            sizeof load->prefix, got_prefix);
}

static void got_manifest(struct gw_load *load)
{
    if (gw_manifest_parse(GW_MANIFEST_NAME, (const char *)load->text,
                          load->text_bytes, &load->manifest,
                          &load->error) != GW_OK) {
        give_up(load);
        return;
    }
    /* an imported checkpoint has weights only */
    load->arrays = 1;
    const struct gw_shard *shard = load->server->shard;
    if (load->manifest.optimizer[0])
        load->arrays += gw_shard_saved(shard);
    load->is_other =
        strcmp(load->manifest.optimizer, shard->optimizer->name) != 0;
    if (load->is_other)
        load->anew = shard->optimizer->states;
    next_file(load);
}

static void got_manifest_size(struct gw_load *load)
{
    if (load->file_bytes > GW_MANIFEST_BYTES_MAX) {
        gw_fail(&load->error, GW_ECORRUPT, "the manifest is too large");
        give_up(load);
        return;
    }
    read_text(load, GW_MANIFEST_NAME, 0, (size_t)load->file_bytes,
              got_manifest);
}

/* ---- beginning and ending ---- */

static void run_look(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    struct gw_server *server = load->server;
    load->status = gw_store_enter(server->loop->disk, server->start.resume,
                                  GW_ACCESS_PRIVATE, &load->dir, NULL);
    if (load->status != GW_OK ||
        !gw_store_sees(&load->dir, server->start.token))
        load->status = GW_ENOENT;
}

static void look_done(struct gw_work *work)
{
    struct gw_load *load = work->owner;
    struct gw_server *server = load->server;
    if (load->status == GW_ENOENT) {
        gw_log_info(server->log,
                    "%s is not seen from here: reading through the coordinator",
                    server->start.resume);
        load->remote = server->remote;
    }
    read_at(load, GW_MANIFEST_NAME, 0, NULL, 0, got_manifest_size);
}

enum gw_status gw_load_begin(struct gw_server *server,
                             void (*loaded)(struct gw_server *server),
                             struct gw_error *error)
{
    struct gw_load *load = calloc(1, sizeof *load);
    if (!load)
        return gw_fail(error, GW_ENOMEM, "no memory to load a checkpoint");
    server->load = load;
    load->server = server;
    load->loaded = loaded;
    size_t arrays = 1 + (size_t)gw_shard_saved(server->shard);
    load->found = calloc(arrays * server->shard->chunks + 1, 1);
    if (!load->found)
        return gw_fail(error, GW_ENOMEM, "no memory to load a checkpoint");
    load->work = (struct gw_work){.run = run_look,
                                  .done = look_done,
                                  .owner = load,
                                  .model_us = READ_MODEL_US};
    gw_loop_work(server->loop, &load->work);
    return GW_OK;
}

void gw_load_close(struct gw_server *server)
{
    struct gw_load *load = server->load;
    if (!load)
        return;
    gw_loop_cancel(server->loop, &load->work);
    gw_store_leave(&load->dir);
    gw_manifest_free(&load->manifest);
    gw_safetensors_free(load->tensors);
    free(load->text);
    free(load->found);
    free(load);
    server->load = NULL;
}
