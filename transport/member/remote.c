#include "config.h"

#include "transport/member/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUNCE_BYTES ((size_t)1 << 20)
#define PIECE_BYTES  ((uint64_t)1 << 20)
#define PRIORITY     UINT32_MAX /* gradients and weights go first */

enum phase {
    IDLE,
    READING,
    WRITING,
    LEAVING /* over, except for a piece that has not left */
};

struct gw_remote {
    struct gw_peer *coordinator;
    enum phase phase;
    int is_held; /* nothing is asked now */
    uint32_t request;
    uint64_t clock;
    char name[GW_FILE_NAME_MAX];
    gw_remote_cb *done;
    void *owner;

    /* reading: pieces land in `bounce` and are copied on */
    uint8_t *bounce;
    uint32_t bounce_window;
    uint64_t offset;
    uint8_t *to;
    size_t n, got;

    /* writing */
    const struct gw_file_part *parts;
    size_t n_parts;
    uint64_t bytes;
    uint64_t sent;    /* next byte to send */
    uint64_t reached; /* end of the bytes that ever left; a broken link takes
                         `sent` back */
    uint64_t written; /* by the coordinator's count */
    uint32_t window;  /* the coordinator's; GW_WINDOW_NONE: not yet */
    uint64_t window_bytes;
    struct gw_send send;
    int sending;
    enum gw_status status; /* leaving: the result */
    char text[GW_ERROR_TEXT_BYTES];
};

/* The caller may free the written bytes, so no piece of them may be on its
   way any more: a piece that was sent twice may be, although the coordinator
   has it. */
static void
finish(struct gw_remote *remote, enum gw_status status, const char *text)
{
    uint64_t bytes = remote->bytes;
    if (remote->sending) {
        remote->phase = LEAVING;
        remote->status = status;
        snprintf(remote->text, sizeof remote->text, "%s", text);
        return;
    }
    remote->phase = IDLE;
    remote->done(remote->owner, status, text, bytes);
}

static void begin(struct gw_remote *remote,
                  enum phase phase,
                  uint64_t clock,
                  const char *name,
                  gw_remote_cb *done,
                  void *owner)
{
    remote->phase = phase;
    remote->request++;
    remote->clock = clock;
    snprintf(remote->name, sizeof remote->name, "%s", name);
    remote->done = done;
    remote->owner = owner;
    remote->bytes = 0;
}

static void ask(struct gw_remote *remote, uint64_t offset, uint64_t bytes)
{
    if (remote->is_held)
        return;
    struct gw_message message = {
        .kind = GW_MESSAGE_FILE_OPEN,
        .file_open = {.name = remote->name,
                      .clock = remote->clock,
                      .write = remote->phase == WRITING,
                      .offset = offset,
                      .bytes = bytes,
                      .window = remote->bounce_window,
                      .request = remote->request}};
    enum gw_status status = gw_peer_tell(remote->coordinator, &message);
    if (status != GW_OK && status != GW_ECLOSED)
        finish(remote, status, "cannot ask the coordinator for a file");
}

/* ---- reading ---- */

static size_t piece_to_read(const struct gw_remote *remote)
{
    size_t left = remote->n - remote->got;
    return left < BOUNCE_BYTES ? left : BOUNCE_BYTES;
}

static void ask_for_piece(struct gw_remote *remote)
{
    ask(remote, remote->offset + remote->got, piece_to_read(remote));
}

void gw_remote_read(struct gw_remote *remote,
                    uint64_t clock,
                    const char *name,
                    uint64_t offset,
                    void *to,
                    size_t n,
                    gw_remote_cb *done,
                    void *owner)
{
    begin(remote, READING, clock, name, done, owner);
    remote->offset = offset;
    remote->to = to;
    remote->n = n;
    remote->got = 0;
    ask_for_piece(remote);
}

int gw_remote_frame(struct gw_remote *remote, const struct gw_frame *frame)
{
    if (remote->is_held || remote->phase != READING ||
        frame->count != remote->request)
        return 1; /* a second answer to the same request */
    if (remote->n == 0 || frame->window != remote->bounce_window ||
        frame->offset != 0 || frame->length != piece_to_read(remote) ||
        frame->clock != remote->offset + remote->got)
        return 0;
    memcpy(remote->to + remote->got, remote->bounce, frame->length);
    remote->got += frame->length;
    if (remote->got == remote->n) {
        finish(remote, GW_OK, "");
        return 1;
    }
    remote->request++;
    ask_for_piece(remote);
    return 1;
}

/* ---- writing ---- */

/* The bytes of the file at `at`, and how many of them are contiguous. */
static const uint8_t *
bytes_at(const struct gw_remote *remote, uint64_t at, uint64_t *n_p)
{
    size_t i = 0;
    while (at >= remote->parts[i].n)
        at -= remote->parts[i++].n;
    *n_p = remote->parts[i].n - at;
    return (const uint8_t *)remote->parts[i].bytes + at;
}

static void pump(struct gw_remote *remote);

static void on_sent(struct gw_send *send, enum gw_status status)
{
    struct gw_remote *remote = send->owner;
    remote->sending = 0;
    if (remote->coordinator->closed)
        return; /* the caller is closed, too */
    if (remote->phase == LEAVING) {
        finish(remote, remote->status, remote->text);
        return;
    }
    if (status != GW_OK)
        return; /* begins again when the link is back */
    uint64_t end = send->frame.clock + send->frame.length;
    if (remote->sent < end)
        remote->sent = end;
    pump(remote);
}

static void pump(struct gw_remote *remote)
{
    uint64_t window = remote->window_bytes, at = remote->sent, n;
    if (remote->sending || remote->window == GW_WINDOW_NONE ||
        at == remote->bytes || at == remote->written + window)
        return;
    const uint8_t *bytes = bytes_at(remote, at, &n);
    const uint64_t limits[] = {PIECE_BYTES, window - at % window,
                               remote->written + window - at};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (n > limits[i])
            n = limits[i];
    remote->sending = 1;
    if (remote->reached < at + n)
        remote->reached = at + n;
    remote->send = (struct gw_send){
        .frame = {.kind = GW_FRAME_FILE,
                  .clock = at,
                  .offset = at % window,
                  .window = remote->window,
                  .chunk = GW_CHUNK_NONE,
                  .count = remote->request,
                  .length = (uint32_t)n},
        .payload = bytes,
        .priority = PRIORITY,
        .done = on_sent,
        .owner = remote,
    };
    gw_peer_send(remote->coordinator, 0, &remote->send);
}

static void begin_to_write(struct gw_remote *remote)
{
    remote->sent = remote->reached = remote->written = 0;
    remote->window = GW_WINDOW_NONE;
    ask(remote, 0, remote->bytes);
}

void gw_remote_write(struct gw_remote *remote,
                     uint64_t clock,
                     const char *name,
                     const struct gw_file_part *parts,
                     size_t n_parts,
                     gw_remote_cb *done,
                     void *owner)
{
    begin(remote, WRITING, clock, name, done, owner);
    remote->parts = parts;
    remote->n_parts = n_parts;
    for (size_t i = 0; i < n_parts; i++)
        remote->bytes += parts[i].n;
    begin_to_write(remote);
}

/* ---- events of the coordinator ---- */

void gw_remote_reply(struct gw_remote *remote,
                     const struct gw_file_reply *reply)
{
    if (remote->is_held ||
        (remote->phase != READING && remote->phase != WRITING) ||
        reply->request != remote->request)
        return;
    if (reply->status != GW_OK) {
        finish(remote, reply->status, reply->text);
        return;
    }
    if (remote->phase == READING && remote->n > 0) {
        finish(remote, GW_EPROTO, "the coordinator sent no bytes of the file");
        return;
    }
    if (remote->phase == READING) {
        remote->bytes = reply->bytes;
        finish(remote, GW_OK, "");
        return;
    }
    if (reply->offset > remote->reached || reply->offset < remote->written ||
        reply->bytes == 0) {
        finish(remote, GW_EPROTO, "the coordinator wrote what was not sent");
        return;
    }
    remote->window = reply->window;
    remote->window_bytes = reply->bytes;
    remote->written = reply->offset;
    if (remote->sent < remote->written)
        remote->sent = remote->written;
    if (remote->written == remote->bytes)
        finish(remote, GW_OK, "");
    else
        pump(remote);
}

void gw_remote_link_up(struct gw_remote *remote)
{
    if (remote->phase == READING) {
        ask_for_piece(remote);
    } else if (remote->phase == WRITING) {
        remote->sent = remote->written;
        pump(remote);
    }
}

void gw_remote_hold(struct gw_remote *remote)
{
    remote->is_held = 1;
    remote->window = GW_WINDOW_NONE;
}

void gw_remote_renew(struct gw_remote *remote)
{
    remote->is_held = 0;
    remote->request++;
    if (remote->phase == READING)
        ask_for_piece(remote);
    else if (remote->phase == WRITING)
        begin_to_write(remote);
}

/* ---- opening and closing ---- */

enum gw_status gw_remote_open(struct gw_peer *coordinator,
                              struct gw_remote **remote_p,
                              struct gw_error *error)
{
    struct gw_remote *remote = calloc(1, sizeof *remote);
    uint8_t *bounce = malloc(BOUNCE_BYTES);
    if (!remote || !bounce ||
        gw_window_open(&coordinator->windows, GW_FRAME_FILE, bounce,
                       BOUNCE_BYTES, &remote->bounce_window) != GW_OK) {
        free(remote);
        free(bounce);
        return gw_fail(error, GW_ENOMEM, "no memory for a remote file");
    }
    remote->coordinator = coordinator;
    remote->bounce = bounce;
    *remote_p = remote;
    return GW_OK;
}

void gw_remote_close(struct gw_remote *remote)
{
    if (!remote)
        return;
    free(remote->bounce);
    free(remote);
}
