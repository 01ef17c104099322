/*
 * Frames in. One readv takes the rest of the current payload straight into its
 * window and, behind it, at most the next header: never a byte of the next
 * payload, whose place is not known yet. The checksum follows the bytes while
 * they are in cache.
 */
#include "config.h"

#include "transport/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* Read at once, so that the checksum finds the bytes in cache. */
#define PIECE_BYTES ((size_t)256 << 10)

/* Read in one turn of the loop, so that other links and timers get theirs. */
#define TURN_BYTES ((size_t)4 << 20)

#define MESSAGE_ROOM_MIN ((size_t)4 << 10)

static int message_room(struct gw_tcp_in *in, size_t bytes)
{
    if (bytes <= in->message_room)
        return 1;
    size_t room =
        bytes > MESSAGE_ROOM_MIN ? GW_MESSAGE_BYTES_MAX : MESSAGE_ROOM_MIN;
    uint8_t *message = realloc(in->message, room);
    if (!message)
        return 0;
    in->message = message;
    in->message_room = room;
    return 1;
}

static void got_frame(struct gw_tcp_link *link)
{
    struct gw_tcp_in *in = &link->in;
    in->in_payload = 0;
    if (in->frame.length > 0 && !(in->frame.flags & GW_FLAG_NO_CRC) &&
        in->crc != in->frame.payload_crc) {
        gw_tcp_fail(link, GW_ECRC, "payload checksum does not match");
        return;
    }
    link->base.handler->frame(&link->base, &in->frame, in->place);
}

static void got_header(struct gw_tcp_link *link)
{
    struct gw_tcp_in *in = &link->in;
    const char *why = "not a frame header";
    void *place = NULL;
    enum gw_status status = gw_frame_decode(in->header, &in->frame);
    if (status == GW_OK)
        status = gw_link_place(&link->base, &in->frame, &place, &why);
    if (status == GW_OK && !place && in->frame.length > 0) {
        if (!message_room(in, in->frame.length)) {
            status = GW_ENOMEM;
            why = "no memory for a message";
        }
        place = in->message;
    }
    if (status != GW_OK) {
        gw_tcp_fail(link, status, why);
        return;
    }
    in->header_bytes = 0;
    in->place = place;
    in->place_bytes = 0;
    in->crc = 0;
    in->in_payload = 1;
    if (in->frame.length == 0)
        got_frame(link);
}

/* Where the next bytes go: the payload's rest, then a header. */
static int prepare(struct gw_tcp_in *in, struct iovec io[2])
{
    size_t missing = 0;
    if (in->in_payload) {
        int checked = !(in->frame.flags & GW_FLAG_NO_CRC);
        missing = in->frame.length - in->place_bytes;
        io[0].iov_base = in->place + in->place_bytes;
        io[0].iov_len =
            checked && missing > PIECE_BYTES ? PIECE_BYTES : missing;
        if (io[0].iov_len < missing)
            return 1;
    }
    io[missing > 0].iov_base = in->header + in->header_bytes;
    io[missing > 0].iov_len = GW_FRAME_BYTES - in->header_bytes;
    return 1 + (missing > 0);
}

static void consume(struct gw_tcp_link *link, size_t got)
{
    struct gw_tcp_in *in = &link->in;
    if (in->in_payload) {
        size_t missing = in->frame.length - in->place_bytes;
        size_t part = got < missing ? got : missing;
        if (!(in->frame.flags & GW_FLAG_NO_CRC))
            in->crc = gw_crc32c(in->crc, in->place + in->place_bytes, part);
        in->place_bytes += part;
        got -= part;
        if (part < missing)
            return;
        /* the header behind the payload is kept while the frame is handled */
        got_frame(link);
        if (link->state != GW_TCP_UP)
            return;
    }
    in->header_bytes += got;
    if (in->header_bytes == GW_FRAME_BYTES)
        got_header(link);
}

void gw_tcp_read(struct gw_tcp_link *link)
{
    size_t turn = 0;
    while (link->state == GW_TCP_UP && turn < TURN_BYTES) {
        struct iovec io[2];
        int parts = prepare(&link->in, io);
        ssize_t got = readv(link->fd, io, parts);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            gw_tcp_fail(link, GW_ECLOSED,
                        got == 0 ? "closed by the peer" : strerror(errno));
            return;
        }
        link->base.heard_us = gw_loop_now(link->tcp->base.loop);
        turn += (size_t)got;
        consume(link, (size_t)got);
    }
}
