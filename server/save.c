/*
 * Cuts: a checkpoint of this shard at one clock, written while the job goes on.
 *
 *   decided --> copying: each chunk, when it is idle, or at the latest before
 *               it leaves that version --> writing, on another thread (or
 *               through the coordinator) --> SAVED
 *
 * There is one snapshot. A cut that is decided while the one before is still
 * being written waits, and so do the chunks that would leave its version.
 */
#include "config.h"

#include "server/commit.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/checkpoint/manifest.h"
#include "server/checkpoint/store.h"
#include "server/checkpoint/tensors.h"
#include "transport/member/remote.h"
#include "transport/member/saved.h"

#define CUTS_MAX 4

/* How long the simulator lets a write take. */
#define WRITE_MODEL_US 2000

enum save_phase {
    SAVE_IDLE,
    SAVE_COPYING,
    SAVE_WRITING
};

/* The checkpoint of step `clock`: every chunk at `version`. */
struct cut_point {
    uint64_t clock, version;
};

struct gw_save {
    struct gw_server *server;
    enum save_phase phase;
    struct cut_point cut;               /* that is made */
    struct cut_point waiting[CUTS_MAX]; /* that are decided; of a standby, which
                                           makes none: the last ones */
    uint32_t waiting_n;
    uint8_t *saved;    /* [chunks] */
    uint64_t *skipped; /* [chunks] of those that are saved */
    uint32_t saved_n;
    uint32_t arrays; /* weights, and those that gw_shard_saved counts */
    char (*names)[GW_SAVED_NAME_MAX]; /* [arrays - 1], of all but weights */
    const char **name;                /* to them */
    uint64_t *place;      /* [chunks] in an array of the file's data */
    uint64_t array_bytes; /* of one array there */
    uint8_t *snapshot;    /* the file's data; taken with the first cut */
    size_t snapshot_bytes;
    struct gw_task copy_task;
    struct gw_work work;
    /* of the work */
    struct gw_disk dir; /* checkpoint.dir, once it was seen from here */
    int sees;           /* it still is */
    struct gw_safetensors_header header;
    struct gw_file_part parts[2];
    struct gw_manifest_file described;
    atomic_int given_up; /* the job has ended without it */
    struct gw_error error;
    enum gw_status status;
    struct gw_saved_files told; /* for a coordinator that comes later */
};

/* ---- the snapshot: arrays one after the other, in each the chunks ---- */

static void copy_chunk(struct gw_save *save, uint32_t index)
{
    const struct gw_shard *shard = save->server->shard;
    const struct gw_shard_chunk *chunk = &shard->chunk[index];
    for (uint32_t array = 0; array < save->arrays; array++) {
        const float *from =
            array == 0 ? gw_shard_weights(shard, index)
                       : gw_shard_saved_array(shard, array - 1) + chunk->first;
        memcpy(save->snapshot + array * save->array_bytes + save->place[index],
               from, chunk->elems * sizeof(float));
    }
    gw_commit_worked(save->server, index, 2 * save->arrays);
    save->skipped[index] = chunk->skipped;
    save->saved[index] = 1;
    save->saved_n++;
}

static int is_due(const struct gw_save *save, uint32_t index)
{
    const struct gw_shard_chunk *chunk = &save->server->shard->chunk[index];
    return save->phase == SAVE_COPYING && chunk->ready &&
           chunk->version == save->cut.version && !save->saved[index];
}

static void maybe_write(struct gw_save *save)
{
    if (save->phase != SAVE_COPYING ||
        save->saved_n < save->server->shard->chunks)
        return;
    save->phase = SAVE_WRITING;
    gw_loop_work(save->server->loop, &save->work);
}

/* Copies idle chunks, as many in a turn as it has time for. */
static void copy_idle(struct gw_task *task)
{
    struct gw_save *save = task->owner;
    struct gw_server *server = save->server;
    for (uint32_t i = 0; i < server->shard->chunks; i++) {
        if (!is_due(save, i))
            continue;
        copy_chunk(save, i);
        if (gw_loop_turn_is_over(server->loop)) {
            gw_loop_post(server->loop, task);
            break;
        }
    }
    maybe_write(save);
}

static void drop_snapshot(struct gw_save *save)
{
    if (save->snapshot)
        munmap(save->snapshot, save->snapshot_bytes);
    save->snapshot = NULL;
    save->snapshot_bytes = 0;
    free(save->names);
    free(save->name);
    save->names = NULL;
    save->name = NULL;
}

/* The arrays depend on the policy. */
static int lay_out(struct gw_save *save)
{
    const struct gw_shard *shard = save->server->shard;
    uint32_t arrays = 1 + gw_shard_saved(shard);
    size_t bytes = arrays * save->array_bytes;
    if (bytes != save->snapshot_bytes || arrays != save->arrays)
        drop_snapshot(save);
    save->arrays = arrays;
    if (!save->names) {
        save->names = calloc(arrays, sizeof *save->names);
        save->name = calloc(arrays, sizeof *save->name);
    }
    if (!save->snapshot && bytes > 0) {
        uint8_t *taken = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        save->snapshot = taken != MAP_FAILED ? taken : NULL;
        save->snapshot_bytes = taken != MAP_FAILED ? bytes : 0;
    }
    if (!save->names || !save->name || (!save->snapshot && bytes > 0))
        return 0;
    for (uint32_t i = 0; i + 1 < arrays; i++) {
        gw_shard_saved_name(shard, i, save->names[i]);
        save->name[i] = save->names[i];
    }
    return 1;
}

static void begin(struct gw_save *save, struct cut_point cut)
{
    struct gw_server *server = save->server;
    if (!lay_out(save)) {
        gw_server_finish(server, GW_ENOMEM,
                         "no memory for a checkpoint: %zu MiB",
                         (size_t)(save->arrays * save->array_bytes) >> 20);
        return;
    }
    save->phase = SAVE_COPYING;
    save->cut = cut;
    save->saved_n = 0;
    memset(save->saved, 0, server->shard->chunks);
    gw_loop_post(server->loop, &save->copy_task);
}

static struct cut_point take_first(struct gw_save *save)
{
    struct cut_point first = save->waiting[0];
    save->waiting_n--;
    memmove(save->waiting, save->waiting + 1,
            save->waiting_n * sizeof *save->waiting);
    return first;
}

static void remember(struct gw_save *save, struct cut_point cut)
{
    if (save->waiting_n == CUTS_MAX)
        take_first(save);
    save->waiting[save->waiting_n++] = cut;
}

void gw_save_cut(struct gw_server *server, uint64_t clock, uint64_t version)
{
    struct gw_save *save = server->save;
    struct cut_point cut = {clock, version};
    if (server->stands_by) {
        remember(save, cut);
    } else if (save->phase == SAVE_IDLE) {
        begin(save, cut);
    } else if (save->waiting_n < CUTS_MAX) {
        save->waiting[save->waiting_n++] = cut;
    } else {
        gw_server_finish(server, GW_EPROTO, "too many cuts at once");
    }
}

void gw_save_recall_cut(struct gw_server *server,
                        uint64_t clock,
                        uint64_t version)
{
    struct gw_save *save = server->save;
    uint32_t n = save->waiting_n;
    if (server->stands_by && (n == 0 || save->waiting[n - 1].clock < clock))
        remember(save, (struct cut_point){clock, version});
}

int gw_save_before_update(struct gw_server *server, uint32_t index)
{
    struct gw_save *save = server->save;
    if (is_due(save, index)) {
        copy_chunk(save, index);
        maybe_write(save);
    }
    for (uint32_t i = 0; i < save->waiting_n; i++)
        if (server->shard->chunk[index].version == save->waiting[i].version)
            return 0;
    return 1;
}

void gw_save_reached(struct gw_server *server, uint32_t index)
{
    struct gw_save *save = server->save;
    if (is_due(save, index))
        gw_loop_post(server->loop, &save->copy_task);
}

/* ---- writing ---- */

/* The coordinator's directory is seen from here. Once it was, another one
   that takes its place is not looked at. */
static int sees(struct gw_save *save)
{
    struct gw_server *server = save->server;
    if (save->dir.ops)
        return gw_store_sees(&save->dir, server->start.token);
    if (gw_store_enter(server->loop->disk, server->start.dir,
                       server->config.checkpoint.access, &save->dir,
                       NULL) != GW_OK)
        return 0;
    int is_its = gw_store_sees(&save->dir, server->start.token);
    if (!is_its)
        gw_store_leave(&save->dir);
    return is_its;
}

/* The coordinator hears of it with the counters. */
static int moved(void *owner, uint64_t bytes)
{
    struct gw_save *save = owner;
    gw_metrics_add(save->server->metrics, GW_METRIC_CHECKPOINT_BYTES, bytes);
    return !atomic_load(&save->given_up);
}

/* Runs on another thread: touches nothing that the loop may change. */
static void write_file(struct gw_work *work)
{
    struct gw_save *save = work->owner;
    struct gw_server *server = save->server;
    gw_safetensors_header_free(&save->header);
    save->error.text[0] = '\0';
    const struct gw_tensors_shard shard = {.number = server->number,
                                           .states = save->name,
                                           .n = save->arrays - 1,
                                           .clock = save->cut.clock,
                                           .skipped = save->skipped};
    save->status =
        gw_tensors_header(server->map, &shard, &save->header, &save->error);
    if (save->status != GW_OK)
        return;
    save->parts[0] = (struct gw_file_part){save->header.bytes, save->header.n};
    save->parts[1] =
        (struct gw_file_part){save->snapshot, save->arrays * save->array_bytes};
    const struct gw_store_progress progress = {moved, save};
    save->sees = sees(save);
    if (save->sees)
        save->status =
            gw_store_write(&save->dir, save->cut.clock, save->parts, 2,
                           &progress, &save->described, &save->error);
    else
        save->status = gw_store_digest(save->parts, 2, &progress,
                                       &save->described, &save->error);
}

void gw_save_tell_again(struct gw_server *server)
{
    struct gw_message message;
    for (unsigned i = 0; gw_saved_at(&server->save->told, i, &message); i++)
        gw_server_tell(server, server->coordinator, &message);
}

static void tell_saved(struct gw_save *save, const struct gw_saved *one)
{
    struct gw_server *server = save->server;
    const struct gw_message message = gw_saved_keep(&save->told, one);
    if (gw_away_is_known(&server->home.away))
        gw_server_tell(server, server->coordinator, &message);
}

static void saved(struct gw_save *save)
{
    struct gw_server *server = save->server;
    struct gw_saved one = {.clock = save->cut.clock,
                           .status = save->status,
                           .file = save->described.name,
                           .bytes = save->described.bytes,
                           .text = save->error.text};
    memcpy(one.sha256, save->described.sha256, GW_DIGEST_BYTES);
    save->phase = SAVE_IDLE;
    if (save->status == GW_OK)
        gw_metrics_add(server->metrics, GW_METRIC_CHECKPOINTS, 1);
    tell_saved(save, &one);
    if (save->waiting_n == 0)
        return;
    begin(save, take_first(save));
    gw_commit_of(server)->resume(server);
}

/* A chunk has left the version of the cut. */
static int is_past(const struct gw_save *save, struct cut_point cut)
{
    const struct gw_shard *shard = save->server->shard;
    for (uint32_t i = 0; i < shard->chunks; i++)
        if (shard->chunk[i].version > cut.version)
            return 1;
    return 0;
}

/* The coordinator knows which of them are complete. */
void gw_save_take_over(struct gw_server *server)
{
    struct gw_save *save = server->save;
    for (uint32_t left = save->waiting_n; left > 0; left--) {
        struct cut_point cut = take_first(save);
        struct gw_saved lost = {.clock = cut.clock,
                                .status = GW_EDEAD,
                                .file = save->described.name,
                                .text = "the server before it died with its "
                                        "part"};
        if (is_past(save, cut))
            tell_saved(save, &lost);
        else
            gw_save_cut(server, cut.clock, cut.version);
    }
}

static void written_remotely(void *owner,
                             enum gw_status status,
                             const char *text,
                             uint64_t bytes)
{
    struct gw_save *save = owner;
    (void)bytes;
    save->status = status;
    if (status != GW_OK)
        gw_fail(&save->error, status, "%s", text);
    saved(save);
}

static void written(struct gw_work *work)
{
    struct gw_save *save = work->owner;
    if (save->status == GW_OK && !save->sees)
        gw_remote_write(save->server->remote, save->cut.clock,
                        save->described.name, save->parts, 2, written_remotely,
                        save);
    else
        saved(save);
}

/* ---- opening and closing ---- */

enum gw_status gw_save_open(struct gw_server *server, struct gw_error *error)
{
    const struct gw_shard *shard = server->shard;
    struct gw_save *save = calloc(1, sizeof *save);
    if (!save)
        return gw_fail(error, GW_ENOMEM, "no memory for checkpoints");
    server->save = save;
    save->server = server;
    save->saved = calloc(shard->chunks + 1, sizeof *save->saved);
    save->skipped = calloc(shard->chunks + 1, sizeof *save->skipped);
    save->place = calloc(shard->chunks + 1, sizeof *save->place);
    if (!save->saved || !save->skipped || !save->place)
        return gw_fail(error, GW_ENOMEM, "no memory for checkpoints");
    for (uint32_t i = 0; i < shard->chunks; i++) {
        save->place[i] = save->array_bytes;
        save->array_bytes += shard->chunk[i].elems * sizeof(float);
    }
    gw_shard_file_name(server->number, server->shards, save->described.name);
    save->copy_task.run = copy_idle;
    save->copy_task.owner = save;
    save->work = (struct gw_work){.run = write_file,
                                  .done = written,
                                  .owner = save,
                                  .model_us = WRITE_MODEL_US};
    return GW_OK;
}

void gw_save_close(struct gw_server *server)
{
    struct gw_save *save = server->save;
    server->save = NULL;
    if (!save)
        return;
    atomic_store(&save->given_up, 1);
    gw_loop_cancel(server->loop, &save->work);
    gw_loop_unpost(server->loop, &save->copy_task);
    gw_store_leave(&save->dir);
    gw_safetensors_header_free(&save->header);
    drop_snapshot(save);
    free(save->saved);
    free(save->skipped);
    free(save->place);
    free(save);
}
