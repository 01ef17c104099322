/*
 * Files of checkpoint.dir for members that do not see it: read and written
 * here, on another thread, moved through windows. proto/control.h has the
 * exchange, transport/member/remote.c the other side.
 */
#include "config.h"

#include "server/coordinator/coordinator_keep.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire.h"
#include "server/checkpoint/store.h"

#define WINDOW_BYTES ((uint64_t)4 << 20)
#define PRIORITY     UINT32_MAX

/* The time of an access in the simulator. */
#define ACCESS_MODEL_US 500

/* The request of one member. */
struct gw_served {
    struct gw_coordinator *self;
    struct gw_seat *who;
    uint8_t *memory; /* the window, and the bytes that are read */
    uint32_t window;
    struct gw_file_open request;
    char name[GW_FILE_NAME_MAX];
    struct gw_file_open later; /* came while this one was busy */
    char later_name[GW_FILE_NAME_MAX];
    int has_later;

    struct gw_work work;
    int busy;
    enum gw_status status;
    struct gw_error error;

    /* writing */
    struct gw_store_file file;
    int writing, committing;
    uint64_t received, written, piece;

    /* reading */
    uint64_t file_bytes;
    struct gw_send send;
    int sending;
};

static void
reply(struct gw_served *served, enum gw_status status, const char *text)
{
    const struct gw_file_open *request = &served->request;
    struct gw_message message = {
        .kind = GW_MESSAGE_FILE_REPLY,
        .file_reply = {.status = status,
                       .text = text,
                       .offset = served->written,
                       .bytes =
                           request->write ? WINDOW_BYTES : served->file_bytes,
                       .window = served->window,
                       .request = request->request}};
    gw_coordinator_tell(served->self, served->who->peer, &message);
}

static void begin(struct gw_served *served);

static void start_work(struct gw_served *served,
                       void (*run)(struct gw_work *work),
                       void (*done)(struct gw_work *work))
{
    served->busy = 1;
    served->work = (struct gw_work){
        .run = run, .done = done, .owner = served, .model_us = ACCESS_MODEL_US};
    gw_loop_work(served->self->loop, &served->work);
}

/* The request that came meanwhile, if one did. Returns 0 when there is none. */
static int turn_to_later(struct gw_served *served)
{
    if (!served->has_later)
        return 0;
    served->has_later = 0;
    served->request = served->later;
    strcpy(served->name, served->later_name);
    served->request.name = served->name;
    begin(served);
    return 1;
}

/* ---- reading ---- */

static void run_read(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    const struct gw_file_open *request = &served->request;
    struct gw_disk *dir = gw_origin_resume_dir(served->self);
    char path[GW_PATH_MAX];
    struct gw_file *file;
    gw_store_path(request->clock, served->name, path);
    served->status =
        dir->ops->open(dir, path, GW_FILE_READ, &file, &served->error);
    if (served->status != GW_OK)
        return;
    served->status = dir->ops->size(file, &served->file_bytes, &served->error);
    if (served->status == GW_OK && request->bytes > 0)
        served->status = dir->ops->read(file, request->offset, served->memory,
                                        (size_t)request->bytes, &served->error);
    dir->ops->close(file, NULL);
}

static void on_read_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_served *served = send->owner;
    (void)status; /* the member asks again for bytes that did not arrive */
    served->sending = 0;
    turn_to_later(served);
}

static void read_done(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    const struct gw_file_open *request = &served->request;
    served->busy = 0;
    if (turn_to_later(served))
        return;
    if (served->status != GW_OK || request->bytes == 0) {
        reply(served, served->status, served->error.text);
        return;
    }
    served->sending = 1;
    served->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_FILE,
                  .clock = request->offset,
                  .window = request->window,
                  .chunk = GW_CHUNK_NONE,
                  .count = request->request,
                  .length = (uint32_t)request->bytes},
        .payload = served->memory,
        .priority = PRIORITY,
        .done = on_read_sent,
        .owner = served,
    };
    gw_peer_send(served->who->peer, 0, &served->send);
}

/* ---- writing ---- */

static void write_more(struct gw_served *served);

static void run_create(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    served->status = gw_store_create(
        gw_origin_dir(served->self), served->request.clock, served->name,
        served->request.bytes, &served->file, &served->error);
}

static void run_put(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    served->status =
        gw_store_put(&served->file, served->written,
                     served->memory + served->written % WINDOW_BYTES,
                     (size_t)served->piece, &served->error);
}

static void run_commit(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    served->status = gw_store_commit(&served->file, &served->error);
}

static void run_abandon(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    gw_store_abandon(&served->file);
}

static void abandoned(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    served->busy = 0;
    served->writing = 0;
    if (!turn_to_later(served))
        reply(served, served->status, served->error.text);
}

/* A file was begun, a piece of it written, or all of it made safe. */
static void write_done(struct gw_work *work)
{
    struct gw_served *served = work->owner;
    served->busy = 0;
    gw_keeper_grew(served->self);
    if (served->status != GW_OK || served->has_later) {
        start_work(served, run_abandon, abandoned);
        return;
    }
    if (served->committing) {
        served->writing = 0;
        reply(served, GW_OK, "");
        return;
    }
    served->written += served->piece;
    served->piece = 0;
    /* the last reply waits until the file is safe */
    if (served->written < served->request.bytes)
        reply(served, GW_OK, "");
    write_more(served);
}

static void write_more(struct gw_served *served)
{
    uint64_t at = served->written % WINDOW_BYTES;
    uint64_t n = served->received - served->written;
    if (served->busy)
        return;
    if (served->written == served->request.bytes) {
        served->committing = 1;
        start_work(served, run_commit, write_done);
        return;
    }
    if (n == 0)
        return;
    served->piece = n < WINDOW_BYTES - at ? n : WINDOW_BYTES - at;
    start_work(served, run_put, write_done);
}

void gw_files_frame(struct gw_coordinator *self,
                    struct gw_seat *who,
                    const struct gw_frame *frame)
{
    struct gw_served *served = who->served;
    uint64_t end = frame->clock + frame->length;
    (void)self;
    if (!served || !served->writing || served->committing ||
        frame->count != served->request.request)
        return;
    if (frame->clock > served->received || frame->length == 0 ||
        end > served->request.bytes || end > served->written + WINDOW_BYTES ||
        frame->offset != frame->clock % WINDOW_BYTES) {
        gw_peer_reject(who->peer, 0, "a piece of a file out of order");
        return;
    }
    if (end <= served->received)
        return; /* sent again after a link broke */
    served->received = end;
    write_more(served);
}

/* ---- requests ---- */

/* Only files of a checkpoint are read or written. */
static int is_allowed(struct gw_coordinator *self,
                      const struct gw_seat *who,
                      const struct gw_file_open *request)
{
    if (request->write)
        return request->bytes > 0 &&
               (who->role == GW_ROLE_SERVER ||
                request->bytes <= gw_inner_bytes_max(self)) &&
               (gw_keeper_is_past(self, request->clock) ||
                gw_keeper_awaits(self, who, request->clock, request->name));
    return request->bytes <= WINDOW_BYTES &&
           gw_origin_may_read(self, who, request->clock, request->name);
}

static void begin(struct gw_served *served)
{
    served->status = GW_OK;
    served->error.text[0] = '\0';
    served->received = served->written = served->piece = 0;
    served->file_bytes = 0;
    served->committing = 0;
    served->writing = served->request.write;
    if (served->writing &&
        gw_keeper_is_past(served->self, served->request.clock)) {
        /* a server in the place of another cannot know */
        served->writing = 0;
        reply(served, GW_EREFUSED, "nobody waits for the file any more");
        return;
    }
    if (served->request.write)
        start_work(served, run_create, write_done);
    else
        start_work(served, run_read, read_done);
}

static struct gw_served *served_of(struct gw_coordinator *self,
                                   struct gw_seat *who)
{
    if (who->served)
        return who->served;
    struct gw_served *served = calloc(1, sizeof *served);
    uint8_t *memory = malloc(WINDOW_BYTES);
    if (!served || !memory ||
        gw_window_open(&who->peer->windows, GW_FRAME_FILE, memory, WINDOW_BYTES,
                       &served->window) != GW_OK) {
        free(served);
        free(memory);
        return NULL;
    }
    served->self = self;
    served->who = who;
    served->memory = memory;
    who->served = served;
    return served;
}

void gw_files_open(struct gw_coordinator *self,
                   struct gw_seat *who,
                   const struct gw_file_open *request)
{
    struct gw_served *served = served_of(self, who);
    if (!served) {
        gw_coordinator_end(self, GW_ENOMEM, "no memory to pass files on");
        return;
    }
    if (strlen(request->name) >= GW_FILE_NAME_MAX ||
        !is_allowed(self, who, request)) {
        gw_peer_reject(who->peer, 0, "a file that is not its to ask for");
        return;
    }
    if ((served->busy || served->sending || served->writing) &&
        request->request == served->request.request)
        return; /* asked again; the answer is on its way */
    served->later = *request;
    strcpy(served->later_name, request->name);
    served->has_later = 1;
    if (served->busy || served->sending)
        return;
    if (served->writing)
        start_work(served, run_abandon, abandoned);
    else
        turn_to_later(served);
}

void gw_files_forget(struct gw_seat *who)
{
    struct gw_served *served = who->served;
    if (!served)
        return;
    assert(!served->sending); /* the links are closed */
    gw_loop_cancel(served->self->loop, &served->work);
    gw_store_abandon(&served->file);
    free(served->memory);
    free(served);
    who->served = NULL;
}

void gw_files_close(struct gw_coordinator *self)
{
    for (struct gw_seat *one = gw_roster_first(self); one; one = one->next)
        gw_files_forget(one);
}
