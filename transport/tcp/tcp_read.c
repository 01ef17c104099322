/*
 * Frames in. One readv takes the rest of the current payload straight into its
 * window, behind it the next header, and a few kilobytes more: a small frame is
 * there with its header, and of a large payload only the beginning is copied,
 * because its place is not known yet. The checksum follows the bytes while they
 * are in cache.
 */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
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
        if (!gw_message_room(&in->message, &in->message_room,
                             in->frame.length)) {
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

/*
 * Places for the next bytes: the payload's rest, a header, and the bytes behind
 * it. Returns how many parts.
 */
static int prepare(struct gw_tcp_in *in, struct iovec io[3])
{
    int parts = 0, ahead = 1;
    if (in->in_payload) {
        int checked = !(in->frame.flags & GW_FLAG_NO_CRC);
        size_t missing = in->frame.length - in->place_bytes;
        size_t room = checked ? least(missing, GW_TCP_TURN_BYTES) : missing;
        io[parts++] = (struct iovec){in->place + in->place_bytes, room};
        if (room < missing)
            return parts;
        if (in->frame.length > sizeof in->ahead)
            ahead = 0; /* large frames follow each other: copy nothing */
    }
    io[parts++] = (struct iovec){in->header + in->header_bytes,
                                 GW_FRAME_BYTES - in->header_bytes};
    if (ahead)
        io[parts++] = (struct iovec){in->ahead, sizeof in->ahead};
    return parts;
}

/* `n` more bytes of the payload are in their place. */
static void got_payload(struct gw_tcp_link *link, size_t n)
{
    struct gw_tcp_in *in = &link->in;
    if (!(in->frame.flags & GW_FLAG_NO_CRC))
        in->crc = gw_crc32c(in->crc, in->place + in->place_bytes, n);
    in->place_bytes += n;
    if (in->place_bytes == in->frame.length)
        got_frame(link);
}

static void got_header_bytes(struct gw_tcp_link *link, size_t n)
{
    link->in.header_bytes += n;
    if (link->in.header_bytes == GW_FRAME_BYTES)
        got_header(link);
}

/* Handles small frames, and the beginning of a large one, that came in
   together. */
static void take_ahead(struct gw_tcp_link *link)
{
    struct gw_tcp_in *in = &link->in;
    while (link->base.up && in->ahead_at < in->ahead_bytes) {
        const uint8_t *from = in->ahead + in->ahead_at;
        size_t left = in->ahead_bytes - in->ahead_at;
        if (in->in_payload) {
            size_t n = least(left, in->frame.length - in->place_bytes);
            memcpy(in->place + in->place_bytes, from, n);
            in->ahead_at += n;
            got_payload(link, n);
        } else {
            size_t n = least(left, GW_FRAME_BYTES - in->header_bytes);
            memcpy(in->header + in->header_bytes, from, n);
            in->ahead_at += n;
            got_header_bytes(link, n);
        }
    }
}

static void consume(struct gw_tcp_link *link, size_t got)
{
    struct gw_tcp_in *in = &link->in;
    size_t payload = 0, header;
    if (in->in_payload)
        payload = least(got, in->frame.length - in->place_bytes);
    header = least(got - payload, GW_FRAME_BYTES - in->header_bytes);
    in->ahead_at = 0;
    in->ahead_bytes = got - payload - header;
    /* bytes behind the payload are kept while the frame is handled */
    if (payload > 0)
        got_payload(link, payload);
    if (link->base.up && header > 0)
        got_header_bytes(link, header);
    take_ahead(link);
}

/* Non-zero if a turn that has read so many bytes goes on. */
static int goes_on(const struct gw_tcp_link *link, size_t bytes)
{
    return bytes == 0 || (bytes < GW_TCP_TURN_BYTES &&
                          !gw_loop_turn_is_over(link->tcp->base.loop));
}

void gw_tcp_read(struct gw_tcp_link *link)
{
    size_t turn = 0;
    while (link->base.up && goes_on(link, turn)) {
        struct iovec io[3];
        size_t asked = 0;
        int parts = prepare(&link->in, io);
        for (int i = 0; i < parts; i++)
            asked += io[i].iov_len;
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
        if ((size_t)got < asked)
            return; /* the socket is empty */
    }
}
