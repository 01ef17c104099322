/*
 * This worker's part of checkpoints, which goes through the coordinator
 * (transport/member/remote.h):
 *
 *   cut decided --> the caller saves --> digest, on another thread --> sent
 *               while the caller computes --> SAVED
 *
 * and back when a job goes on, in the caller's time. One file at a time.
 */
#include "config.h"

#include "worker/client/client_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/digest.h"
#include "transport/member/remote.h"
#include "transport/member/saved.h"

/* How long the simulator lets a digest take. */
#define DIGEST_MODEL_US 1000

struct gw_client_files {
    struct gw_client *client;
    struct gw_remote *remote;
    char name[GW_FILE_NAME_MAX];
    int busy; /* it is sent, or read */

    /* sending */
    uint64_t clock; /* of the checkpoint */
    const struct gw_file_part *parts;
    size_t n_parts;
    uint64_t bytes;
    uint8_t sha256[GW_DIGEST_BYTES];
    struct gw_work work;
    struct gw_saved_files told; /* for a coordinator that comes later */

    /* reading */
    uint64_t file_bytes;
};

/* ---- in ---- */

void gw_client_files_link_up(struct gw_client *client)
{
    if (client->files)
        gw_remote_link_up(client->files->remote);
}

void gw_client_got_file_reply(void *actor,
                              struct gw_peer *peer,
                              const struct gw_message *message)
{
    struct gw_client *client = actor;
    if (!client->files) {
        gw_peer_reject(peer, 0, GW_MESSAGE_UNEXPECTED);
        return;
    }
    client->progress_us = gw_loop_now(client->loop);
    gw_remote_reply(client->files->remote, &message->file_reply);
}

int gw_client_files_frame(struct gw_client *client,
                          const struct gw_frame *frame)
{
    if (!client->files || frame->kind != GW_FRAME_FILE)
        return 0;
    client->progress_us = gw_loop_now(client->loop);
    return gw_remote_frame(client->files->remote, frame);
}

uint64_t
gw_client_file_name(const struct gw_client *client, char *text, size_t room)
{
    const struct gw_client_files *files = client->files;
    snprintf(text, room, "file %s", files->name);
    return files->clock;
}

/* ---- opening and closing ---- */

static enum gw_status open_files(struct gw_client *client)
{
    struct gw_error error = {.text = ""};
    if (client->files)
        return GW_OK;
    struct gw_client_files *files = calloc(1, sizeof *files);
    gw_loop_enter(client->loop);
    enum gw_status status =
        files ? gw_remote_open(client->coordinator, &files->remote, &error)
              : gw_fail(&error, GW_ENOMEM, "no memory for files");
    if (status == GW_OK) {
        files->client = client;
        if (!gw_away_is_known(&client->away))
            gw_remote_hold(files->remote);
        gw_worker_file_name(client->job->rank, client->job->ranks, files->name);
        client->files = files;
    } else {
        gw_client_fail(client, status, "%s", error.text);
        free(files);
    }
    gw_loop_leave(client->loop);
    return status;
}

void gw_client_files_close(struct gw_client *client)
{
    struct gw_client_files *files = client->files;
    if (!files)
        return;
    gw_loop_cancel(client->loop, &files->work);
    gw_remote_close(files->remote);
    free(files);
    client->files = NULL;
}

/* ---- waiting ---- */

static int is_idle(const struct gw_client *client)
{
    return !client->files->busy;
}

/* Until nothing is sent or read. */
static enum gw_status flush(struct gw_client *client)
{
    uint64_t before = gw_loop_now(client->loop);
    enum gw_status status =
        gw_client_wait_for(client, is_idle, GW_WAITING_FILE);
    gw_metrics_add(client->metrics, GW_METRIC_WAIT_US,
                   gw_loop_now(client->loop) - before);
    return status;
}

enum gw_status gw_client_saved(struct gw_client *client)
{
    if (gw_client_is_over(client))
        return client->error.status;
    return client->files ? flush(client) : GW_OK;
}

/* ---- sending ---- */

/* On another thread: touches only the file that is sent. */
static void run_digest(struct gw_work *work)
{
    struct gw_client_files *files = work->owner;
    struct gw_digest *digest = gw_digest_begin();
    files->bytes = 0;
    for (size_t i = 0; i < files->n_parts; i++) {
        gw_digest_add(digest, files->parts[i].bytes, (size_t)files->parts[i].n);
        files->bytes += files->parts[i].n;
    }
    gw_digest_end(digest, files->sha256);
}

void gw_client_files_hold(struct gw_client *client)
{
    if (client->files)
        gw_remote_hold(client->files->remote);
}

void gw_client_files_renew(struct gw_client *client)
{
    struct gw_client_files *files = client->files;
    struct gw_message message;
    if (!files)
        return;
    for (unsigned i = 0; gw_saved_at(&files->told, i, &message); i++)
        gw_client_tell(client, client->coordinator, &message);
    gw_remote_renew(files->remote);
}

static void
sent(void *owner, enum gw_status status, const char *text, uint64_t bytes)
{
    struct gw_client_files *files = owner;
    struct gw_client *client = files->client;
    (void)bytes;
    struct gw_saved saved = {.clock = files->clock,
                             .status = status,
                             .file = files->name,
                             .bytes = files->bytes,
                             .text = text};
    memcpy(saved.sha256, files->sha256, GW_DIGEST_BYTES);
    const struct gw_message message = gw_saved_keep(&files->told, &saved);
    files->busy = 0;
    if (status == GW_OK) {
        gw_metrics_add(client->metrics, GW_METRIC_CHECKPOINTS, 1);
        gw_metrics_add(client->metrics, GW_METRIC_CHECKPOINT_BYTES,
                       files->bytes);
    }
    if (gw_away_is_known(&client->away))
        gw_client_tell(client, client->coordinator, &message);
}

static void digest_done(struct gw_work *work)
{
    struct gw_client_files *files = work->owner;
    gw_remote_write(files->remote, files->clock, files->name, files->parts,
                    files->n_parts, sent, files);
}

enum gw_status gw_client_save(struct gw_client *client,
                              uint64_t name,
                              const struct gw_file_part *parts,
                              size_t n)
{
    enum gw_status status = open_files(client);
    if (status == GW_OK)
        status = gw_client_saved(client);
    if (status != GW_OK)
        return status;
    struct gw_client_files *files = client->files;
    gw_loop_enter(client->loop);
    files->busy = 1;
    files->clock = name;
    files->parts = parts;
    files->n_parts = n;
    files->work = (struct gw_work){.run = run_digest,
                                   .done = digest_done,
                                   .owner = files,
                                   .model_us = DIGEST_MODEL_US};
    gw_loop_work(client->loop, &files->work);
    gw_loop_leave(client->loop);
    return GW_OK;
}

/* ---- reading ---- */

static void
was_read(void *owner, enum gw_status status, const char *text, uint64_t bytes)
{
    struct gw_client_files *files = owner;
    files->busy = 0;
    files->file_bytes = bytes;
    if (status != GW_OK)
        gw_client_fail(files->client, status,
                       "the coordinator cannot read %s: %s", files->name, text);
}

static enum gw_status
read_file(struct gw_client *client, uint64_t offset, void *to, size_t n)
{
    struct gw_client_files *files = client->files;
    gw_loop_enter(client->loop);
    files->busy = 1;
    files->clock = gw_client_first_step(client);
    gw_remote_read(files->remote, files->clock, files->name, offset, to, n,
                   was_read, files);
    gw_loop_leave(client->loop);
    return flush(client);
}

enum gw_status gw_client_load_size(struct gw_client *client, uint64_t *bytes_p)
{
    enum gw_status status = open_files(client);
    if (status == GW_OK)
        status = read_file(client, 0, NULL, 0);
    if (status == GW_OK)
        *bytes_p = client->files->file_bytes;
    return status;
}

enum gw_status
gw_client_load(struct gw_client *client, uint64_t offset, void *to, size_t n)
{
    return n > 0 ? read_file(client, offset, to, n) : GW_OK;
}
