/*
 * Frames out. The most urgent sends are taken from the queue and handed to the
 * kernel together, headers and payloads gathered in place. A frame that was
 * taken stays ahead of later ones; a large payload is taken alone, so that a
 * more urgent frame waits for one chunk at most.
 */
#include "config.h"

#include "transport/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static void take(struct gw_tcp_link *link)
{
    struct gw_tcp_out *out = &link->out;
    size_t bytes = 0;
    while (out->n < GW_TCP_BATCH && bytes < GW_TCP_BATCH_BYTES) {
        struct gw_send *send = gw_link_next(&link->base);
        if (!send)
            return;
        gw_send_seal(send, out->header[out->n]);
        out->send[out->n++] = send;
        bytes += GW_FRAME_BYTES + send->frame.length;
    }
}

/* The parts of the batch that the kernel has not taken yet. */
static size_t gather(struct gw_tcp_out *out, struct iovec *io)
{
    size_t parts = 0, skip = out->sent_bytes;
    for (size_t i = 0; i < out->n; i++) {
        uint32_t length = out->send[i]->frame.length;
        if (skip < GW_FRAME_BYTES) {
            io[parts].iov_base = out->header[i] + skip;
            io[parts++].iov_len = GW_FRAME_BYTES - skip;
            skip = 0;
        } else {
            skip -= GW_FRAME_BYTES;
        }
        if (length > 0) {
            const uint8_t *payload = out->send[i]->payload;
            io[parts].iov_base = (void *)(uintptr_t)(payload + skip);
            io[parts++].iov_len = length - skip;
        }
        skip = 0;
    }
    return parts;
}

/* Gives the first send of the batch back; the caller may queue it again. */
static void finish_first(struct gw_tcp_out *out, enum gw_status status)
{
    struct gw_send *send = out->send[0];
    out->n--;
    memmove(out->send, out->send + 1, out->n * sizeof *out->send);
    memmove(out->header, out->header + 1, out->n * sizeof *out->header);
    send->done(send, status);
}

static void advance(struct gw_tcp_link *link, size_t put)
{
    struct gw_tcp_out *out = &link->out;
    out->sent_bytes += put;
    while (out->n > 0 && link->base.up) {
        size_t whole = GW_FRAME_BYTES + out->send[0]->frame.length;
        if (out->sent_bytes < whole)
            return;
        out->sent_bytes -= whole;
        finish_first(out, GW_OK);
    }
}

/* A peer that is gone may have sent a reason, which is read first. */
static void failed(struct gw_tcp_link *link, int number)
{
    link->out.over = number == EPIPE || number == ECONNRESET;
    if (!link->out.over)
        gw_tcp_fail(link, GW_ECLOSED, strerror(number));
}

int gw_tcp_write(struct gw_tcp_link *link)
{
    struct gw_tcp_out *out = &link->out;
    struct iovec io[2 * GW_TCP_BATCH];
    size_t turn = 0;
    while (link->base.up && !out->over) {
        if (out->n == 0)
            take(link);
        if (out->n == 0) {
            gw_tcp_flight_done(&link->flight);
            return 0;
        }
        if (turn >= GW_TCP_TURN_BYTES)
            return 1;
        struct msghdr message = {.msg_iov = io, .msg_iovlen = gather(out, io)};
        ssize_t put = sendmsg(link->fd, &message, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN) {
            out->blocked = 1;
            gw_tcp_flight_full(&link->flight, link->fd,
                               gw_loop_now(link->tcp->base.loop));
            return 0;
        }
        if (put < 0) {
            failed(link, errno);
            return 0;
        }
        link->base.sent_us = gw_loop_now(link->tcp->base.loop);
        turn += (size_t)put;
        gw_tcp_flight_wrote(&link->flight, (size_t)put);
        advance(link, (size_t)put);
    }
    return 0;
}

/* If a batch has begun its bytes are on their way, or the peer does not read.
   The next write meets an error again. */
int gw_tcp_pulse(struct gw_link *base, struct gw_send *beat)
{
    struct gw_tcp_link *link = gw_tcp_link_of(base);
    struct gw_tcp_out *out = &link->out;
    if (out->n > 0 || out->blocked)
        return 0;
    beat->frame.session = base->session;
    gw_send_seal(beat, out->header[0]);
    ssize_t put = send(link->fd, out->header[0], GW_FRAME_BYTES,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put <= 0)
        return 0;
    base->sent_us = gw_loop_now(link->tcp->base.loop);
    out->send[out->n++] = beat;
    out->sent_bytes = (size_t)put;
    if (out->sent_bytes == GW_FRAME_BYTES) {
        out->sent_bytes = 0;
        finish_first(out, GW_OK);
    }
    return 1;
}

void gw_tcp_give_back(struct gw_tcp_link *link)
{
    while (link->out.n > 0)
        finish_first(&link->out, GW_ECLOSED);
}
